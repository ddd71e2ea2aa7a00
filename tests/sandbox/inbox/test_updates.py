"""Open pages in a real browser: how they are kept current."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from runner.sandbox.clock import Clock, read_clock
from runner.sandbox.web.server import running_service
from tests.sandbox.inbox.conftest import wait_until_loaded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Locator, Page

    from runner.sandbox.service import Service

    Send = Callable[..., str]

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE, OTHER = "+14155550101", "+14155550102"
CHOICE = {"text": "Tea or coffee?", "responses": ["Tea", "Coffee"]}
DESKTOP, NARROW = (1280, 800), (390, 844)


def find_bubbles(page: Page) -> Locator:
    return page.locator(".bubble .text")


def wait_until_live(page: Page) -> None:
    expect(page.locator("#live")).to_have_text("Live")


def test_open_pages_are_kept_current(
    page: Page, send: Send, domain: Service, open_conversation: Callable[..., None]
) -> None:
    """Launches, phones and lines appear as they come, also those that another process writes."""
    page.goto("/")
    wait_until_live(page)
    send(PHONE, tag="drinks", questions=[CHOICE])
    expect(page.locator(".launches h2")).to_have_text(["drinks"])
    expect(page.locator("#phones .unread")).to_have_text("1 unread")
    open_conversation(page)
    wait_until_live(page)
    domain.receive(PHONE, "Tea", read_clock())
    expect(find_bubbles(page).last).to_have_text("Tea")


def test_update_leaves_the_reader_alone(
    page: Page, send: Send, open_conversation: Callable[..., None]
) -> None:
    """What is half written, what is focused and what is unfolded stays so when the page is updated."""
    send(PHONE, questions=[CHOICE])
    open_conversation(page)
    wait_until_live(page)
    page.locator(".stretch summary").first.click()
    reply = page.get_by_role("textbox", name=f"Reply as {PHONE}")
    reply.fill("half a sent")
    send(OTHER)
    expect(page.locator("#phones a.phone")).to_have_count(2)
    expect(reply).to_have_value("half a sent")
    expect(reply).to_be_focused()
    expect(page.locator("details.stretch")).to_have_attribute("open", "")
    page.locator("#phones a.phone", has_text=PHONE).focus()
    send("+14155550103")
    expect(page.locator("#phones a.phone")).to_have_count(3)
    expect(page.locator("#phones a.phone", has_text=PHONE)).to_be_focused()


def test_page_comes_back_with_the_service(browser: Browser, db: Path, kept_port: int) -> None:
    """A page whose service restarts says so, connects again and shows what it missed; its forms go on working."""
    with running_service(db, port=kept_port) as address:
        page = browser.new_page()
        page.goto(address.url)
        wait_until_live(page)
    with closing(page):
        expect(page.locator("#live")).to_have_text("Reconnecting")
        with running_service(db, port=kept_port):
            wait_until_live(page)
            page.request.post(
                f"{address.url}/api/send",
                params={"username": address.username, "api_key": address.api_key},
                data={"phone": [PHONE], "text": "Hello"},
            )
            expect(page.locator("#phones .unread")).to_have_text("1 unread")
            page.get_by_role("button", name="Mark all read").click()
            expect(page.locator("#phones .unread")).to_have_count(0)


def test_reader_keeps_their_place(
    page: Page, send: Send, domain: Service, open_conversation: Callable[..., None]
) -> None:
    """Where nothing has changed, an update leaves alone what is unfolded, scrolled and selected."""
    questions = [CHOICE, *({"text": f"Question {number}?"} for number in range(40))]
    send(PHONE, questions=questions)
    open_conversation(page)
    wait_until_live(page)
    page.locator(".stretch summary").first.click()
    body = page.locator("pre").first
    body.evaluate(
        "(each) => { each.scrollTop = 200; getSelection().selectAllChildren(each); each.isFirst = true; }"
    )
    send(OTHER, text="elsewhere")
    expect(page.locator("#phones a.phone")).to_have_count(2)
    domain.receive(PHONE, "1", read_clock())
    expect(find_bubbles(page)).to_have_count(3)
    assert body.evaluate("(each) => each.scrollTop") == 200
    assert body.evaluate("(each) => each.isFirst")
    assert "Tea or coffee?" in page.evaluate("getSelection().toString()")


def test_clock_goes_on_while_nothing_happens(page: Page, domain: Service) -> None:
    """The service's time on an idle page goes on, as far ahead as the service's clock is."""
    Clock(domain.store).advance(timedelta(days=2, hours=1))
    page.clock.install(time=read_clock())
    page.goto("/")
    shown = page.locator("#clock")
    before = read_shown_time(shown)
    page.clock.run_for("05:00")
    assert timedelta(minutes=4) < read_shown_time(shown) - before < timedelta(minutes=6)
    now = read_shown_time(shown)
    assert now - read_clock() > timedelta(days=2)
    expect(shown).to_have_text(f"{now:%H:%M} UTC, {now.day} {now:%b}")


def read_shown_time(shown: Locator) -> datetime:
    return datetime.fromisoformat(shown.get_attribute("datetime") or "")


def test_stuck_page_says_so(
    context: BrowserContext, send: Send, open_conversation: Callable[..., None]
) -> None:
    """Where six open pages take all of a browser's connections, a form ends with a word after a while."""
    send(PHONE, questions=[CHOICE])
    pages = [context.new_page() for _ in range(6)]
    pages[0].clock.install()
    open_conversation(pages[0])
    for page in pages[1:]:
        page.goto("/")
    for page in pages:
        wait_until_live(page)
    first = pages[0]
    first.get_by_role("button", name="HELP").click()
    first.clock.run_for("00:10")
    expect(first.get_by_role("alert")).to_contain_text("too many of its pages are open")
    expect(first.get_by_role("button", name="HELP")).to_be_enabled()


def test_state_of_the_connection_is_announced(page: Page) -> None:
    """Whether the page is live is a status, which screen readers tell."""
    page.goto("/")
    expect(page.get_by_role("status")).to_have_text("Live")


def test_session_that_ends_leads_to_the_login(
    browser: Browser, db: Path, own_address: str, kept_port: int
) -> None:
    """An open page whose session counts no more becomes the login when the service is back."""
    with closing(browser.new_page()) as page:
        with running_service(db, host=own_address, port=kept_port) as address:
            page.goto(f"{address.url}/phones")
            page.get_by_role("textbox", name="api_key").fill(address.api_key)
            page.get_by_role("button", name="Log in").click()
            wait_until_live(page)
            assert page.url == f"{address.url}/phones"
        with running_service(db, host=own_address, port=kept_port, api_key="another"):
            expect(page.locator("h1")).to_have_text("Log in")


def test_problem_goes_with_its_cause_and_the_draft_stays(browser: Browser, db: Path, kept_port: int) -> None:
    """A reply that finds no service says so until it is back; the draft can be sent again, after a reload too."""
    with running_service(db, port=kept_port) as address:
        page = browser.new_page()
        page.request.post(
            f"{address.url}/api/send",
            params={"username": address.username, "api_key": address.api_key},
            data={"phone": [PHONE], "text": "Hello"},
        )
        page.goto(f"{address.url}/phones")
        page.locator("#phones a.phone").click()
        wait_until_loaded(page, PHONE)
        wait_until_live(page)
    with closing(page):
        reply = page.get_by_role("textbox", name=f"Reply as {PHONE}")
        reply.fill("half a sent")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        # What says so covers nothing.
        page.get_by_role("button", name="Send").click(trial=True)
        with running_service(db, port=kept_port):
            wait_until_live(page)
            expect(page.locator("#problem")).to_be_hidden()
            page.reload()
            expect(reply).to_have_value("half a sent")
            page.get_by_role("button", name="Send").click()
            expect(find_bubbles(page).last).to_have_text("half a sent")
            page.reload()
            expect(reply).to_have_value("")


def test_draft_outlives_the_session(browser: Browser, db: Path, own_address: str) -> None:
    """A reply that is half written is there after the login that an ended session asks for; a log-out drops it."""
    with closing(browser.new_page()) as page, running_service(db, host=own_address) as address:
        page.request.post(
            f"{address.url}/api/send",
            params={"username": address.username, "api_key": address.api_key},
            data={"phone": [PHONE], "text": "Hello"},
        )

        def log_in() -> None:
            page.get_by_role("textbox", name="api_key").fill(address.api_key)
            page.get_by_role("button", name="Log in").click()

        page.goto(f"{address.url}/phones")
        log_in()
        page.locator("#phones a.phone").click()
        wait_until_loaded(page, PHONE)
        reply = page.get_by_role("textbox", name=f"Reply as {PHONE}")
        reply.fill("half a sent")
        page.context.clear_cookies()
        page.reload()
        log_in()
        expect(reply).to_have_value("half a sent")
        conversation = page.url
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("h1")).to_have_text("Log in")
        page.goto(conversation)
        log_in()
        expect(reply).to_have_value("")
