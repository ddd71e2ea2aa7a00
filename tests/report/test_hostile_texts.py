"""Texts that would break a document, or make it do something, are shown as the texts they are."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runner.report.documents.formats import write_csv, write_json
from runner.report.documents.page import write_html, write_index, write_markdown
from runner.wording import escape_markdown, write_line
from tests.report.odd_reports import build_hostile

if TYPE_CHECKING:
    from markdown_it.token import Token

HOSTILE = [
    "<script>alert(1)</script>",
    "</td></tr></table><img src=x onerror=alert(1)>",
    "a|b || c \\| d",
    "`code` ``` ~~gone~~ **bold** _it_ $x$",
    "[link](https://evil.example) ![i](x) <https://evil.example>",
    "https://evil.example www.evil.example @somebody",
    "line\nbreak\r\n\r\n# heading\n- list",
    "=cmd|' /C calc'!A0",
    "+1",
    "-1+1|0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "{{ 7 * 7 }} {% raw %}",
    "&amp; &lt; &#64; &copy;",
    "\u202egnp.exe \u2067right\u2069 שלום עליכם مرحبا",
    "🎉 👩‍👩‍👧 naïve ≥ “quoted” 'single' \"double\"",
    "nul\x00 bell\x07 \x1b[31mred",
    "\\",
]
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


# Where a label is longer, a chart's shapes are elsewhere; and names for screen readers may have the text.
PLACES = (
    "d",
    "height",
    "transform",
    "viewbox",
    "width",
    "x",
    "y",
    "cx",
    "cy",
    "x1",
    "x2",
    "y1",
    "y2",
    "style",
)
SHIFTED = frozenset([*PLACES, "aria-label", "data-name"])


class Outline(HTMLParser):
    """Reads a page's elements with their attributes, and the texts that are set apart."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.isolated: list[str] = []
        self._is_isolated = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(pair for pair in attrs if pair[0] not in SHIFTED)))
        self._is_isolated = tag == "bdi"
        if self._is_isolated:
            self.isolated.append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_isolated = self._is_isolated and tag != "bdi"

    def handle_data(self, data: str) -> None:
        if self._is_isolated:
            self.isolated[-1] += data


@cache
def outline_page(text: str) -> Outline:
    return Outline(write_html(build_hostile(text)))


@cache
def outline_index(text: str) -> Outline:
    return Outline(write_index([build_hostile(text)] * 2, {text: text}))


def parse_markdown(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def list_shape(tokens: list[Token]) -> list[str]:
    """Return the types of all tokens but those that only carry text."""
    inner = [child.type for token in tokens for child in token.children or ()]
    return [token.type for token in tokens] + [kind for kind in inner if kind not in ("text", "text_special")]


def list_strings(tokens: list[Token]) -> list[str]:
    """Return what is shown, without the blanks of no width that keep links and mentions from being made."""
    inlines = (token for token in tokens if token.type == "inline")
    shown = ("".join(child.content for child in token.children or ()) for token in inlines)
    return [text.replace("\u200b", "") for text in shown]


@pytest.mark.parametrize("text", HOSTILE)
def test_html_shows_the_text(text: str) -> None:
    """The page has the elements that it has with a harmless text, and the text in its places."""
    page, harmless = outline_page(text), outline_page("harmless")
    assert page.elements == harmless.elements
    assert page.isolated.count(write_line(text)) == harmless.isolated.count("harmless")


@pytest.mark.parametrize("text", HOSTILE)
def test_the_index_shows_the_text(text: str) -> None:
    """The page across campaigns has the elements that it has with a harmless text, also in its links."""
    page, harmless = outline_index(text), outline_index("harmless")
    links = [dict(attributes).get("href") for tag, attributes in page.elements if tag == "a"]
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in harmless.elements]
    assert len(links) == 2
    assert page.isolated.count(write_line(text)) == harmless.isolated.count("harmless")


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_the_text(text: str) -> None:
    """The document has the shape that it has with a harmless text, and the text in its places."""
    tokens = parse_markdown(write_markdown(build_hostile(text)))
    harmless = parse_markdown(write_markdown(build_hostile("harmless")))
    assert list_shape(tokens) == list_shape(harmless)
    assert list_strings(tokens).count(write_line(text)) == list_strings(harmless).count("harmless")


@given(texts)
@settings(max_examples=30)
@example("a\\")
@example("1. a")
@example("](https://evil.example) !")
@example("---")
def test_markdown_escapes_every_text(text: str) -> None:
    """Any text reads the same in a heading and in a cell, and stays within it."""
    escaped = escape_markdown(text)
    tokens = parse_markdown(f"# {escaped} end\n\n| {escaped} end | b |\n|--|--|\n| {escaped} end | c |\n")
    shown = write_line(f"{text} end")
    assert list_strings(tokens) == [shown, shown, "b", shown, "c"]
    assert {child.type for token in tokens for child in token.children or ()} <= {"text", "text_special"}


@pytest.mark.parametrize("text", HOSTILE)
def test_csv_runs_no_hostile_text(text: str) -> None:
    """A text that a spreadsheet would run gets an apostrophe, and any other stays as it is."""
    rows = list(csv.reader(io.StringIO(write_csv(build_hostile(text)), newline=""), strict=True))
    shown = f"'{text}" if text.startswith(FORMULA_STARTS) else text
    assert {row[0] for row in rows[1:]} == {shown}


@pytest.mark.parametrize("text", HOSTILE)
def test_json_gives_the_text_back(text: str) -> None:
    """Programs get every text as it was."""
    document = json.loads(write_json(build_hostile(text)))
    assert document["campaign"] == document["messages"][0]["questions"][0]["text"] == text
