"""Other web pages and hostile texts, in a real browser."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.patient_server import PatientServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service

    Send = Callable[..., str]

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE, OTHER = "+14155550101", "+14155550102"
CHOICE = {"text": "Tea or coffee?", "responses": ["Tea", "Coffee"]}
DESKTOP, NARROW = (1280, 800), (390, 844)


def find_bubbles(page: Page) -> Locator:
    return page.locator(".bubble .text")


def test_hostile_texts_do_nothing(page: Page, send: Send, open_conversation: Callable[..., None]) -> None:
    """Markup in a tag, a question, a response or a reply is shown, and nothing of it runs, updates included."""
    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    send(PHONE, tag=evil, introduction=evil, questions=[{"text": evil, "responses": [evil, "no"]}] * 2)
    open_conversation(page)
    page.locator(".answers button").first.click()
    expect(find_bubbles(page)).to_have_count(4)
    reply = page.get_by_role("textbox", name=f"Reply as {PHONE}")
    reply.fill(evil)
    reply.press("Enter")
    expect(find_bubbles(page)).to_have_count(5)
    expect(find_bubbles(page).nth(4)).to_have_text(evil)
    page.goto("/")
    expect(page.locator(".launches h2")).to_have_text(re.compile("^<img src=x"))
    assert page.locator("main img, main script").count() == 0
    assert "owned" not in page.title()


@contextmanager
def serving_page(html: str) -> Iterator[str]:
    """Serve one page from another origin, and give its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            """Keep the tests' output clean."""

    with PatientServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_another_web_page_can_do_nothing(
    page: Page, address: ServiceAddress, send: Send, domain: Service, open_conversation: Callable[..., None]
) -> None:
    """A page of another origin cannot post a reply, nor frame the inbox, nor read it."""
    send(PHONE, questions=[CHOICE])
    open_conversation(page)
    html = f"""
      <iframe src="{address.url}/" name="inner"></iframe>
      <form method="post" action="{page.url}" target="_blank">
        <input name="text" value="Tea"><button>Go</button>
      </form>
      <p id="read"></p>
      <script>
        fetch("{address.url}/").then((a) => a.text()).catch((e) => "refused").then((t) => (read.textContent = t));
      </script>"""
    with serving_page(html) as elsewhere:
        page.goto(elsewhere)
        expect(page.locator("#read")).to_have_text("refused")
        inner = page.frame("inner")
        assert inner is not None
        inner.wait_for_url("chrome-error://chromewebdata/", wait_until="commit")
        with page.context.expect_page() as opened:
            page.get_by_role("button", name="Go").click()
        expect(opened.value.locator("h1")).to_have_text("That was not done")
    query = "SELECT count(*) FROM transcript WHERE kind = 'inbound'"
    assert domain.store.connection.execute(query).fetchone() == (0,)
