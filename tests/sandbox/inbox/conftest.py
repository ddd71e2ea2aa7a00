"""A browser, and what one would ask, of a real service on a real socket."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
import requests
from playwright.sync_api import expect, sync_playwright

from runner.sandbox.clock import read_clock
from runner.sandbox.definition import read_send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext
    from playwright.sync_api import Page as Tab

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE_MS = 60_000


@pytest.fixture
def send(address: ServiceAddress) -> Callable[..., str]:
    """Launch a project on the wire and give its guid: `send("+1…", "+1…", text=…, questions=…)`."""

    def launch(*phones: str, **project: Any) -> str:
        response = requests.post(
            f"{address.url}/api/send",
            params={"username": address.username, "api_key": address.api_key},
            json={"phone": phones, **(project or {"text": "Hello"})},
            timeout=60,
        )
        assert response.status_code == 200
        return str(response.json()["project_launch_guid"])

    return launch


@pytest.fixture
def send_many(domain: Service) -> Callable[[int], None]:
    """Make launches number 1 to `count`, each to a phone of its own, faster than on the wire."""

    def launch(count: int) -> None:
        with domain.store.write():
            for number in range(1, count + 1):
                body = f'{{"phone": ["+1415556{number:04d}"], "text": "Text {number}."}}'
                sent = read_send(body.encode())
                domain.send(sent.definition, sent.phones, read_clock())

    return launch


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it came."""

    status: int
    html: str
    headers: Any

    @property
    def text(self) -> str:
        """What stands on it: no tags, and blanks in a row as one."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.html)).split())

    def find(self, pattern: str) -> list[str]:
        """Give what a pattern's group holds, wherever it matches the source."""
        return [unescape(found) for found in re.findall(pattern, self.html, re.DOTALL)]


@pytest.fixture
def visit(address: ServiceAddress) -> Callable[..., Page]:
    """Fetch a page as a browser does whose user typed the address."""

    def fetch(path: str, **headers: str) -> Page:
        sent = {"Sec-Fetch-Site": "none"} | {name.replace("_", "-"): value for name, value in headers.items()}
        response = requests.get(address.url + path, headers=sent, timeout=60)
        return Page(response.status_code, response.text, response.headers)

    return fetch


@pytest.fixture
def path_of(visit: Callable[..., Page]) -> Callable[[str], str]:
    """Give the address of the conversation with a phone number."""

    def find(number: str) -> str:
        link = rf'href="(/phones/[0-9a-f-]+)"[^>]*>\s*<span class="number">{re.escape(number)}<'
        return visit("/phones").find(link)[0]

    return find


@pytest.fixture
def open_phone(visit: Callable[..., Page], path_of: Callable[[str], str]) -> Callable[[str], Page]:
    """Open the conversation with a phone number."""
    return lambda number: visit(path_of(number))


@pytest.fixture
def post(address: ServiceAddress) -> Callable[..., Page]:
    """Send a form as the page's own forms do; headers may be told otherwise."""

    def submit(path: str, headers: dict[str, str] | None = None, **fields: str) -> Page:
        response = requests.post(
            address.url + path,
            data=fields,
            headers={"Sec-Fetch-Site": "same-origin", **(headers or {})},
            allow_redirects=False,
            timeout=60,
        )
        return Page(response.status_code, response.text, response.headers)

    return submit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser of this machine; none is downloaded.

    It lasts for one module: while Playwright runs, its event loop is the one of this thread.
    """
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        missing = "these tests need Chromium (Debian: apt-get install chromium)"
        pytest.fail(missing) if "REQUIRE_BROWSER" in os.environ else pytest.skip(missing)
    # What is waited for comes at once, unless the machine is busy: then five seconds are few.
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=executable,
            timeout=_PATIENCE_MS,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        with closing(running):
            yield running


@pytest.fixture
def context(browser: Browser, address: ServiceAddress) -> Iterator[BrowserContext]:
    """A fresh window onto the inbox."""
    with closing(browser.new_context(base_url=address.url)) as fresh:
        fresh.set_default_timeout(_PATIENCE_MS)
        yield fresh


@pytest.fixture
def page(context: BrowserContext) -> Tab:
    return context.new_page()


@pytest.fixture
def open_conversation() -> Callable[..., None]:
    """Open the conversation with a phone number as its reader does, in a window of the browser."""

    def find(page: Tab, number: str = "+14155550101") -> None:
        page.goto("/phones")
        page.locator("#phones a.phone", has_text=number).click()
        wait_until_loaded(page, number)

    return find


def wait_until_loaded(page: Tab, heading: str) -> None:
    """Wait for the page with this heading, and for its script: without it a form leads to another page."""
    expect(page.locator("h1")).to_have_text(heading)
    page.wait_for_load_state()
