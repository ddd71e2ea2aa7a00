"""Texts that would break a document, or make it do something, are shown as the texts they are."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runner.ledger.model import MessageTotals, ResultRow
from runner.report.csv_table import write_csv
from runner.report.facts import CampaignFacts, MessageOutline, QuestionOutline
from runner.report.html import write_html
from runner.report.json_document import write_json
from runner.report.markdown import escape_markdown, write_markdown
from runner.report.metrics import summarise
from runner.report.wording import write_line

if TYPE_CHECKING:
    from markdown_it.token import Token

    from runner.report.model import CampaignReport

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


def build_report(text: str) -> CampaignReport:
    """Return a report in which a text stands wherever one can stand."""
    question = QuestionOutline(text, text, (text, "other"))
    outline = MessageOutline(text, text, (question,))
    totals = MessageTotals(text, launches=1, sent=3, complete=2, reconciled_at="2026-11-20T12:34:56Z")
    created = "2026-11-20T10:00:00"
    rows = [
        ResultRow(text, "p1", text, text, 1, "1", text, created, "a"),
        ResultRow(text, "p2", text + "?", text, 1, "2", text, created, "b"),
    ]
    return summarise(CampaignFacts(text, text, ((outline, totals),)), rows)


class Outline(HTMLParser):
    """Reads a page's elements with their attributes, and its table cells' text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.isolated: list[str] = []
        self._is_isolated = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))
        self._is_isolated = tag == "bdi"
        if self._is_isolated:
            self.isolated.append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_isolated = self._is_isolated and tag != "bdi"

    def handle_data(self, data: str) -> None:
        if self._is_isolated:
            self.isolated[-1] += data


def parse_markdown(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def list_shape(tokens: list[Token]) -> list[str]:
    """Return the types of all tokens but those that only carry text."""
    inner = [child.type for token in tokens for child in token.children or ()]
    return [token.type for token in tokens] + [kind for kind in inner if kind not in ("text", "text_special")]


def list_strings(tokens: list[Token]) -> list[str]:
    inlines = (token for token in tokens if token.type == "inline")
    return ["".join(child.content for child in token.children or ()) for token in inlines]


@pytest.mark.parametrize("text", HOSTILE)
def test_html_shows_the_text(text: str) -> None:
    """The page has the elements that it has with a harmless text, and the text in its places."""
    page, harmless = Outline(write_html(build_report(text))), Outline(write_html(build_report("harmless")))
    assert page.elements == harmless.elements
    assert page.isolated.count(write_line(text)) == harmless.isolated.count("harmless")


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_the_text(text: str) -> None:
    """The document has the shape that it has with a harmless text, and the text in its places."""
    tokens = parse_markdown(write_markdown(build_report(text)))
    harmless = parse_markdown(write_markdown(build_report("harmless")))
    assert list_shape(tokens) == list_shape(harmless)
    assert list_strings(tokens).count(write_line(text)) == list_strings(harmless).count("harmless")


@given(texts)
@example("a\\")
@example("1. a")
@example("---")
def test_markdown_escapes_every_text(text: str) -> None:
    """Any text reads the same in a heading and in a cell, and stays within it."""
    escaped = escape_markdown(text)
    tokens = parse_markdown(f"# {escaped} end\n\n| {escaped} end | b |\n|--|--|\n| {escaped} end | c |\n")
    shown = " ".join(f"{write_line(text)} end".split())
    assert list_strings(tokens) == [shown, shown, "b", shown, "c"]
    assert {child.type for token in tokens for child in token.children or ()} <= {"text", "text_special"}


@pytest.mark.parametrize("text", HOSTILE)
def test_csv_runs_no_hostile_text(text: str) -> None:
    """A text that a spreadsheet would run gets an apostrophe, and any other stays as it is."""
    rows = list(csv.reader(io.StringIO(write_csv(build_report(text)), newline=""), strict=True))
    shown = f"'{text}" if text.startswith(FORMULA_STARTS) else text
    assert {row[0] for row in rows[1:]} == {shown}


@given(texts)
def test_csv_gives_every_text_back(text: str) -> None:
    """A reader gets every text back, but for an apostrophe before those that a spreadsheet would run."""
    rows = list(csv.reader(io.StringIO(write_csv(build_report(text)), newline=""), strict=True))
    assert {len(row) for row in rows} == {11}
    assert {row[0].removeprefix("'") for row in rows[1:]} == {text.removeprefix("'")}
    assert not [cell for row in rows for cell in row[:8] if cell.startswith(FORMULA_STARTS)]


@pytest.mark.parametrize("text", HOSTILE)
def test_json_gives_the_text_back(text: str) -> None:
    """Programs get every text as it was."""
    document = json.loads(write_json(build_report(text)))
    assert document["campaign"] == document["messages"][0]["questions"][0]["text"] == text


@given(texts)
def test_one_line_is_one_line(text: str) -> None:
    """A text on one line has no line break, no control character and no mark that turns the text after it."""
    line = write_line(text)
    assert len(line.splitlines()) <= 1
    assert not set(line) & set(map(chr, (*range(32), *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
    assert write_line(line) == line
