"""The inbox in a real browser, as its reader uses it."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Locator, Page

    from runner.sandbox.model import ServiceAddress

    Send = Callable[..., str]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE, OTHER = "+14155550101", "+14155550102"
CHOICE = {"text": "Tea or coffee?", "responses": ["Tea", "Coffee"]}
DESKTOP, NARROW = (1280, 800), (390, 844)


def find_bubbles(page: Page) -> Locator:
    return page.locator(".bubble .text")


@pytest.mark.slow
def test_answer_takes_one_tap(page: Page, send: Send, open_conversation: Callable[..., None]) -> None:
    """A tap on a response answers, and what the service says then appears without a reload."""
    send(PHONE, questions=[CHOICE, {"text": "Why?"}], conclusion="Thanks!")
    open_conversation(page)
    page.evaluate("window.isFirst = true")
    page.get_by_role("button", name="2 Coffee").click()
    expect(find_bubbles(page)).to_have_text(["Tea or coffee?\n1. Tea\n2. Coffee", "2", "Why?"])
    expect(page.locator(".answers")).to_have_count(0)
    expect(page.locator("#announcer")).to_contain_text("The service sent: Why?")
    reply = page.get_by_role("textbox", name=f"Reply as {PHONE}")
    expect(reply).to_be_focused()
    reply.fill("I like it")
    reply.press("Enter")
    expect(find_bubbles(page).last).to_have_text("Thanks!")
    expect(reply).to_have_value("")
    assert page.evaluate("window.isFirst")


@pytest.mark.slow
def test_command_words_have_buttons(page: Page, send: Send, open_conversation: Callable[..., None]) -> None:
    """STOP, START and HELP are said with a tap, and the page shows what they did."""
    send(PHONE, questions=[CHOICE])
    open_conversation(page)
    state = page.locator("#thread-head .chip").first
    page.get_by_role("button", name="HELP").click()
    expect(page.locator(".notice .bubble")).to_have_count(1)
    page.get_by_role("button", name="STOP").click()
    expect(state).to_have_text("opted out")
    page.get_by_role("button", name="START").click()
    expect(state).to_have_text("nothing is asked")


@pytest.mark.slow
def test_everything_works_without_scripts(browser: Browser, address: ServiceAddress, send: Send) -> None:
    """With scripts off, links, forms and a link to refresh do all of it."""
    with closing(browser.new_context(base_url=address.url, java_script_enabled=False)) as context:
        page = context.new_page()
        page.goto("/")
        send(PHONE, tag="drinks", questions=[CHOICE])
        page.get_by_role("link", name="Refresh").click()
        page.get_by_role("link", name="drinks").click()
        page.locator(".sessions a").click()
        page.get_by_role("button", name="1 Tea").click()
        expect(find_bubbles(page).last).to_have_text("1")
        page.get_by_role("textbox", name=f"Reply as {PHONE}").fill("and cake")
        page.get_by_role("button", name="Send").click()
        expect(find_bubbles(page).last).to_have_text("and cake")


@pytest.mark.slow
def test_keyboard_reaches_everything(page: Page, send: Send, open_conversation: Callable[..., None]) -> None:
    """The first stop skips to the content; from there the tab key reaches answers, reply and commands."""
    send(PHONE, questions=[CHOICE])
    open_conversation(page)
    page.reload()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#main$"))
    names = []
    for _ in range(9):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        names.append(focused.get_attribute("aria-label") or focused.inner_text().replace("\n", " "))
    assert names[0] == "Conversation"
    assert names[2:] == ["1 Tea", "2 Coffee", f"Reply as {PHONE}", "Send", "STOP", "START", "HELP"]


@pytest.mark.slow
def test_clock_moves_from_any_page(page: Page, send: Send) -> None:
    """The clock's menu moves it where one stands; the controls say what it did and lead back, without a reload."""
    send(PHONE, tag="drinks", questions=[CHOICE])
    page.goto("/")
    page.locator("details.clock summary").click()
    page.get_by_role("button", name="+1 d").click()
    expect(page.locator(".ahead")).to_have_text("1d ahead")
    page.get_by_role("button", name="+1 h").click()
    expect(page.locator(".ahead")).to_have_text("1d1h ahead")
    page.get_by_role("link", name=f"Conversation with {PHONE}").click()
    expect(page.locator("h1")).to_have_text(PHONE)
    page.goto("/controls")
    page.locator("#controls").get_by_role("button", name="+1 h").click()
    expect(page.locator("#outcome")).to_contain_text("1d2h ahead of this machine")
    page.locator("#controls").get_by_role("button", name="Next due").click()
    expect(page.locator("#outcome")).to_contain_text("6d23h59m")
