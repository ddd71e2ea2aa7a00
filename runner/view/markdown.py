"""Blocks as Markdown (GitHub's flavour): for pull requests, job summaries and wikis."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner.view.blocks import (
    Bar,
    Beside,
    Code,
    Estimate,
    Items,
    Line,
    Link,
    Section,
    Sentence,
    TableBlock,
    describe,
    is_empty,
)
from runner.wording import Markdown, count_words, escape_html, escape_markdown, escape_steering, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from runner.view.blocks import Block, Cell, Column, ListItem

BAR_WIDTH = 20
"""Characters of a bar of 100 %."""
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_URL_CHARACTERS = ":/?#@!$&'*+,;=%~"


def write_markdown(
    blocks: Iterable[Block], level: int = 2, most_rows: int | None = None, longest: int | None = None
) -> str:
    """Return blocks as Markdown, parts apart by empty lines, ending in a line break.

    Args:
        blocks: to write.
        level: of the headings of sections.
        most_rows: of a table, at most.
        longest: document, in characters; a sentence says how much is left out.
    """
    parts = [part.rstrip("\n") for block in blocks for part in _list_parts(block, level, most_rows)]
    if longest is not None:
        parts = list(_fit(parts, longest))
    return "\n\n".join(parts) + "\n"


def _fit(parts: list[str], room: int) -> Iterator[str]:
    """Yield the parts that have room: after the first one that has none all are left out, without gaps."""
    for number, part in enumerate(parts):
        room -= len(part) + 2
        if room < 0:
            more = count_words(len(parts) - number, "more part is", "more parts are")
            yield f"> {more} left out of this document, which is long."
            return
        yield part


def _list_parts(block: Block, level: int, most: int | None) -> Iterator[str]:
    if is_empty(block):
        return
    match block:
        case Section(title, blocks, is_folded=True):
            # The blank lines let Markdown begin and end inside of HTML (CommonMark 0.31, 4.6).
            inner = write_markdown(blocks, level + 1, most)
            yield f"<details><summary>{escape_html(title)}</summary>\n\n{inner}\n</details>"
        case Section(title="", blocks=blocks) | Beside(blocks):
            for one in blocks:
                yield from _list_parts(one, level, most)
        case Section(title, blocks):
            yield f"{'#' * level} {escape_markdown(title)}"
            yield from _list_parts(Beside(blocks), level + 1, most)
        case Sentence(text, style):
            written = escape_markdown(text)
            written = f"**{written}**" if style in {"strong", "notice"} else written
            yield f"> {written}" if style == "notice" else written
        case Items(title=title):
            lines = [line for one in block.entries for line in _write_item(one)]
            head = [f"> [!WARNING]\n> {escape_markdown(title)}:\n>"] if title else []
            yield "\n".join([*head, *(f"> {line}" if title else line for line in lines)])
        case TableBlock():
            yield _write_table(block, most)
        case Code(text):
            # Longer than any that a text could close it with (CommonMark 0.31, 4.5).
            fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
            yield f"{fence}\n{escape_steering(text)}\n{fence}"
        case _:
            yield from _list_parts(Beside(describe(block)), level, most)


def _write_item(one: ListItem) -> Iterator[str]:
    term = _link(one.term, one.url) if one.url else escape_markdown(one.term)
    yield f"- **{term}**: {escape_markdown(one.text)}" if term else f"- {escape_markdown(one.text)}"
    yield from (f"  - {escape_markdown(part)}" for part in one.parts)


def _write_table(table: TableBlock, most: int | None) -> str:
    heads = table.heads
    rows = [[_write_cell(*pair) for pair in zip(heads, row, strict=True)] for row in table.rows]
    names, figures = [head.name for head in heads], [head.kind == "figure" for head in heads]
    return write_table(names, rows, most, "row", figures)


def _write_cell(head: Column, cell: Cell) -> str | int:
    match cell:
        case Link(text, url):
            # GitHub gives headings anchors of its own.
            return text if url.startswith("#") else Markdown(_link(text, url))
        case Bar(share):
            return Markdown(draw_bar(share))
        case Estimate(words=text) | Line(words=text):
            return Markdown(text)
        case None:
            return "not known"
        case str() if head.kind == "figure":
            return Markdown(cell)
        case _:
            return cell


def _link(text: str, url: str) -> str:
    return f"[{escape_markdown(text)}]({quote(url, safe=_URL_CHARACTERS)})"


def draw_bar(share: Fraction | None) -> str:
    """Return a share as a bar of block characters, to the eighth of a character."""
    eighths = 0 if share is None else round(share * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
