"""Blocks as Markdown (GitHub's flavour): for pull requests, job summaries and wikis."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner.view.blocks import (
    Bar,
    Code,
    Estimate,
    Items,
    Line,
    Link,
    Section,
    Sentence,
    TableBlock,
    list_plain,
    write_cell,
)
from runner.wording import Markdown, count_words, escape_html, escape_markdown, escape_steering, write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.view.blocks import Block, Cell, Column, ListItem, PlainBlock

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
    parts = [part.rstrip("\n") for part in _list_parts(blocks, level, most_rows)]
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


def _list_parts(blocks: Iterable[Block], level: int, most: int | None) -> Iterator[str]:
    for block in list_plain(blocks):
        if isinstance(block, Section) and not block.is_folded:
            yield f"{'#' * level} {escape_markdown(block.title)}"
            yield from _list_parts(block.blocks, level + 1, most)
        else:
            yield _write(block, level, most)


def _write(block: PlainBlock, level: int, most: int | None) -> str:
    match block:
        case Section(title, blocks):
            # The blank lines let Markdown begin and end inside of HTML (CommonMark 0.31, 4.6).
            inner = write_markdown(blocks, level + 1, most)
            return f"<details><summary>{escape_html(title)}</summary>\n\n{inner}\n</details>"
        case Sentence(text, style):
            written = escape_markdown(text)
            written = f"**{written}**" if style in {"strong", "notice"} else written
            return f"> {written}" if style == "notice" else written
        case Items(title=title):
            lines = [line for one in block.entries for line in _write_item(one)]
            head = [f"> [!WARNING]\n> {escape_markdown(title)}:\n>"] if title else []
            return "\n".join([*head, *(f"> {line}" if title else line for line in lines)])
        case TableBlock():
            return _write_table(block, most)
        case Code(text):
            # Longer than any that a text could close it with (CommonMark 0.31, 4.5).
            fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
            return f"{fence}\n{escape_steering(text)}\n{fence}"


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
    if isinstance(cell, Link) and not cell.url.startswith("#"):
        # GitHub gives headings anchors of its own.
        return Markdown(_link(cell.text, cell.url))
    written = write_cell(cell)
    is_ours = isinstance(cell, Bar | Estimate | Line) or (head.kind == "figure" and isinstance(cell, str))
    return Markdown(written) if is_ours else written


def _link(text: str, url: str) -> str:
    return f"[{escape_markdown(text)}]({quote(url, safe=_URL_CHARACTERS)})"
