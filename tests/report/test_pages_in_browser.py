"""What reports look like in a real browser: sound, readable, on every screen and on paper."""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pytest

from runner.report.documents.page import write_html, write_index
from tests.report.examples import EXAMPLES
from tests.report.odd_reports import build_hostile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


DESKTOP, PHONE = (1280, 900), (390, 844)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The examples, a report of names that are long words, and the page across campaigns, as files."""
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        **{name: write_html(make()) for name, make in EXAMPLES.items()},
        "long": write_html(build_hostile("Donaudampfschifffahrtsgesellschaft" * 4)),
        "index": write_index([make() for make in EXAMPLES.values()], {"pilot": "few.html"}),
    }
    files = {name: folder / f"{name}.html" for name in texts}
    for name, file in files.items():
        file.write_text(texts[name], encoding="utf-8")
    return files


@contextmanager
def opened(
    browser: Browser,
    file: Path,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[tuple[Page, list[str]]]:
    """Open a page, with what the browser complains about and asks for."""
    view = {"width": size[0], "height": size[1]}
    with closing(browser.new_context(viewport=view, color_scheme=scheme)) as context:  # type: ignore[arg-type]  # as it takes
        page = context.new_page()
        heard: list[str] = []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url))
        page.goto(file.as_uri())
        heard.remove(file.as_uri())
        yield page, heard


@pytest.mark.slow
@pytest.mark.parametrize("name", ["everything", "reminded", "many", "few", "unsent", "long", "index"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_page_is_sound(name: str, size: tuple[int, int], browser: Browser, pages: dict[str, Path]) -> None:
    """No page asks for anything, breaks its own policy, scrolls sideways, folded or not, or skips a heading.

    A chart has a name, its labels are 10 px or larger, and none is cut off or stands on another; no table
    is wider than the page.
    """
    with opened(browser, pages[name], size) as (page, heard):
        assert heard == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((each) => +each.tagName[1])")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        charts = page.locator("svg:not([aria-hidden])")
        assert page.locator("svg[role=img][aria-label]").count() == charts.count()
        assert page.evaluate(FIND_UNREADABLE) == []
        assert page.evaluate(FIND_WIDE) == []


@pytest.mark.parametrize("name", ["everything", "reminded", "index"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_stand_out(
    name: str,
    scheme: Literal["light", "dark"],
    browser: Browser,
    pages: dict[str, Path],
) -> None:
    """Every text, those of charts too, has the contrast to its ground of WCAG 2.2 (1.4.3, AA: 4.5 to 1)."""
    with opened(browser, pages[name], scheme=scheme) as (page, _):
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
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
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || element.closest(".unseen, desc, .legend .inside")) continue;
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [one, two] = [shine(ink), shine(ground(element))];
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (contrast < 4.5) faint.push(`${element.className} ${element.textContent.trim()} ${contrast.toFixed(2)}`);
  }
  return faint;
}
"""


FIND_UNREADABLE = """
() => {
  const wrong = [];
  for (const chart of document.querySelectorAll("svg.chart")) {
    const frame = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll("text")].filter((each) => each.textContent.trim());
    const boxes = texts.map((each) => each.getBoundingClientRect());
    texts.forEach((text, index) => {
      const box = boxes[index];
      const size = parseFloat(getComputedStyle(text).fontSize);
      if (size < 10) wrong.push(`small: ${text.textContent} ${size}`);
      if (box.left < frame.left - 1 || box.right > frame.right + 1) wrong.push(`cut: ${text.textContent}`);
      boxes.slice(index + 1).forEach((other, further) => {
        const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (across > 1 && down > 4) wrong.push(`${text.textContent} on ${texts[index + 1 + further].textContent}`);
      });
    });
  }
  return wrong;
}
"""


FIND_WIDE = """
() => [...document.querySelectorAll("table")].map((each) => each.parentElement)
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent.trim())
"""


def test_a_phone_shows_a_report_to_read(browser: Browser, pages: dict[str, Path]) -> None:
    """The main row and the score are on the first two screens; wide tables turn, and need no scrolling."""
    with opened(browser, pages["reminded"], PHONE) as (page, _):
        bar = page.locator(".stack").bounding_box()
        assert bar is not None
        assert bar["y"] < 2 * PHONE[1]
        assert page.locator(".legend .inside").first.is_visible()
        assert page.evaluate("document.documentElement.scrollHeight") < 4000


@pytest.mark.slow
def test_paper_is_light_and_shows_everything(browser: Browser, pages: dict[str, Path]) -> None:
    """Printed from a dark screen the ground is white, folded parts are open, and charts are not cut in two."""
    with opened(browser, pages["reminded"], scheme="dark") as (page, _):
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert page.locator("details table").first.is_visible()
        kept = "[...document.querySelectorAll('figure')].map((each) => getComputedStyle(each).breakInside)"
        assert set(page.evaluate(kept)) == {"avoid"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sheets"), [("unsent", 1), ("reminded", 2), ("everything", 4), ("many", 65)]
)
def test_paper_has_as_many_pages_as_are_read(
    name: str, sheets: int, browser: Browser, pages: dict[str, Path]
) -> None:
    """A survey and its reminder are two sheets of A4; of 60 messages each has one, after the tables."""
    with opened(browser, pages[name]) as (page, _):
        printed = page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == sheets


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["A4", "Letter"])
@pytest.mark.parametrize("name", ["everything", "many", "long"])
def test_paper_is_wide_enough(paper: str, name: str, browser: Browser, pages: dict[str, Path]) -> None:
    """On both papers every table fits between the margins."""
    width = {"A4": 794, "Letter": 816}[paper] - 2 * 57
    with opened(browser, pages[name], (width, 1000)) as (page, _):
        page.emulate_media(media="print")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate(FIND_WIDE) == []
