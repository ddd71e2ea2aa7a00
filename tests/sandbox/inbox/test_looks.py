"""What pages look like in a real browser: sound, readable and large enough."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.sandbox.inbox.conftest import wait_until_loaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

    from runner.sandbox.model import ServiceAddress

    Send = Callable[..., str]

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE, OTHER = "+14155550101", "+14155550102"
CHOICE = {"text": "Tea or coffee?", "responses": ["Tea", "Coffee"]}
DESKTOP, NARROW = (1280, 800), (390, 844)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "phone"])
def test_pages_are_sound(
    scheme: str, size: tuple[int, int], browser: Browser, address: ServiceAddress, send: Send
) -> None:
    """No page asks for anything elsewhere, breaks its own policy, scrolls sideways or lacks names and headings."""
    send(PHONE, OTHER, tag="x" * 200, introduction="y" * 300, questions=[CHOICE])
    send(PHONE, text="later")
    with closing(
        browser.new_context(
            base_url=address.url,
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": size[0], "height": size[1]},
        )
    ) as context:
        page = context.new_page()
        complaints: list[str] = []
        asked: list[str] = []

        def hear(message: ConsoleMessage) -> None:
            # A page about what is missing is an answer with status 404, which the browser mentions.
            if "404" not in message.text:
                complaints.append(message.text)

        def see(request: Request) -> None:
            asked.append(request.url)

        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", see)
        page.goto("/")
        launch = page.locator(".launches a").last.get_attribute("href")
        page.goto("/phones")
        phone = page.locator("#phones a.phone").first.get_attribute("href")
        for path in (
            "/",
            "/phones",
            launch,
            phone,
            "/controls",
            "/phones/none",
        ):
            page.goto(path or "")
            assert page.locator("main:visible").count() == 1
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert page.evaluate(COUNT_UNNAMED) == 0
            assert page.locator("h1").count() == 1
        assert complaints == []
        assert all(url.startswith(address.url) for url in asked)


COUNT_UNNAMED = """
[...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea")].filter(
  (each) => !(each.ariaLabel || each.labels?.length || each.textContent.trim())
).length
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out(
    scheme: str, browser: Browser, address: ServiceAddress, send: Send, open_conversation: Callable[..., None]
) -> None:
    """Texts have the contrast to their ground that WCAG 2.2 asks for (1.4.3, AA: 4.5), edges of fields too (1.4.11: 3)."""
    send(PHONE, tag="drinks", questions=[CHOICE])
    chosen = "dark" if scheme == "dark" else "light"
    with closing(browser.new_context(base_url=address.url, color_scheme=chosen)) as context:  # type: ignore[arg-type]  # one of two
        page = context.new_page()
        open_conversation(page)
        page.get_by_role("button", name="1 Tea").click()
        page.get_by_role("button", name="STOP").click()
        expect(page.locator(".notice")).to_have_count(1)
        assert page.evaluate(FIND_FAINT) == []
        for path in ("/", "/controls"):
            page.goto(path)
            assert page.evaluate(FIND_FAINT) == []


FIND_FAINT = """
() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const shine = (colour) => parse(colour).slice(0, 3)
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if ((parse(colour)[3] ?? 1) === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  const compare = (element, colour, behind, least) => {
    const [one, two] = [shine(colour), shine(ground(behind))];
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < least) faint.push(`${element.outerHTML} ${contrast.toFixed(2)}`);
  };
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (element.matches("input:not([type=checkbox]), select, textarea")) {
      compare(element, getComputedStyle(element).borderTopColor, element.parentElement, 3);
    }
    if (!hasText || element.closest(".offscreen, .skip, svg")) continue;
    compare(element, getComputedStyle(element).color, element, 4.5);
  }
  return faint;
}
"""


def test_targets_are_large_enough(
    browser: Browser, address: ServiceAddress, send: Send, open_conversation: Callable[..., None]
) -> None:
    """What can be tapped is 24 px high or more, links within a sentence aside (WCAG 2.2, 2.5.8)."""
    launch = send(PHONE, OTHER, tag="drinks", questions=[CHOICE])
    view = {"width": NARROW[0], "height": NARROW[1]}
    with closing(browser.new_context(base_url=address.url, viewport=view)) as context:  # type: ignore[arg-type]  # as it takes
        page = context.new_page()
        open_conversation(page)
        assert page.evaluate(FIND_SMALL) == []
        for path in (
            "/",
            f"/launches/{launch}",
            "/phones",
            "/controls",
        ):
            page.goto(path)
            assert page.evaluate(FIND_SMALL) == []


FIND_SMALL = """
[...document.querySelectorAll("a, button, summary, input:not([type=hidden]), textarea")]
  .filter((each) => each.checkVisibility() && !each.closest(".offscreen, .skip, .hint, .empty"))
  // A label takes taps for its box.
  .filter((each) => each.type !== "checkbox" || each.closest("label").getBoundingClientRect().height < 24)
  .filter((each) => each.getBoundingClientRect().height < 24)
  .map((each) => each.outerHTML)
"""


def test_only_panes_scroll(page: Page, send_many: Callable[[int], None]) -> None:
    """With one phone or many, the document is as high as the window: nothing scrolls into a blank page."""
    for count in (1, 40):
        send_many(count)
        for size in (DESKTOP, NARROW):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            for path in ("/", "/phones", "/controls"):
                page.goto(path)
                assert page.evaluate("document.documentElement.scrollHeight") == size[1], path
                assert page.evaluate(FIND_CUT) == []


FIND_CUT = """
[...document.querySelectorAll("input[placeholder]")].filter((each) => {
  const written = each.value;
  each.value = each.placeholder;
  const isCut = each.scrollWidth > each.clientWidth;
  each.value = written;
  return isCut;
}).map((each) => each.outerHTML)
"""


@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "phone"])
def test_long_answers_leave_room_for_the_conversation(size: tuple[int, int], page: Page, send: Send) -> None:
    """However long and many the choices are, the conversation keeps half of the screen's height or more."""
    responses = [f"{number} is what I would rather have than anything else, please" for number in range(12)]
    send(PHONE, questions=[{"text": "What?", "responses": responses}])
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto("/phones")
    page.locator("#phones a.phone").click()
    wait_until_loaded(page, PHONE)
    height = page.locator(".scroller").evaluate("(each) => each.clientHeight")
    assert height >= size[1] / 2
