"""Open pages in a real browser: how they are kept current."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from runner.sandbox.clock import read_clock
from runner.sandbox.web.server import running_service
from tests.sandbox.inbox.conftest import wait_until_loaded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

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
    expect(page.locator("#phones a.phone")).to_have_count(1)
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
    reply = page.get_by_role("textbox", name=f"Reply as {PHONE}")
    reply.fill("half a sent")
    send(OTHER)
    expect(page.locator("#phones a.phone")).to_have_count(2)
    expect(reply).to_have_value("half a sent")
    expect(reply).to_be_focused()
    page.locator("#phones a.phone", has_text=PHONE).focus()
    send("+14155550103")
    expect(page.locator("#phones a.phone")).to_have_count(3)
    expect(page.locator("#phones a.phone", has_text=PHONE)).to_be_focused()


def test_page_comes_back_with_the_service(browser: Browser, db: Path, kept_port: int) -> None:
    """A page whose service restarts says so, connects again and shows what it missed, and goes on from there."""
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
            expect(page.locator("#phones a.phone")).to_have_count(1)


def test_problem_goes_with_its_cause(browser: Browser, db: Path, kept_port: int) -> None:
    """A reply that finds no service says so until it is back, and can be sent again."""
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
            expect(reply).to_have_value("half a sent")
            page.get_by_role("button", name="Send").click()
            expect(find_bubbles(page).last).to_have_text("half a sent")
            expect(reply).to_have_value("")
