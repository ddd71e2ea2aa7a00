"""Blocks as HTML: parts of a page, and whole pages that need nothing else.

A page has no scripts and loads nothing; it fits screen, phone and paper. Bars in tables are backgrounds as
wide as their share, which grow with their column.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from runner.view.blocks import (
    Beside,
    Chart,
    Code,
    Items,
    Link,
    ListItem,
    Section,
    Sentence,
    TableBlock,
    Tiles,
)
from runner.view.markdown import write_markdown
from runner.wording import write_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.view.blocks import Block, Cell, Column

_UNITS = re.compile(r"(?<=\d) (?=%)|(?<=\d) (?=to [-+]?\d)|(?<=\d to) (?=[-+]?\d)")
"""Blanks inside of a percentage or an interval."""
_WIDE = 6
"""A table of so many columns has no room for bars on a phone."""
_NARROW = 4


class Shown:
    """A result that `print` and notebooks show as blocks."""

    __slots__ = ()

    def show(self) -> Iterable[Block]:
        """Return the result as blocks."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Return the result as Markdown, for `print`."""
        return write_markdown(self.show())

    def _repr_html_(self) -> str:
        """Return the result as HTML for notebooks."""
        return write_html(self.show())


def write_page(
    title: str, kicker: str, lead: Sequence[Block], blocks: Sequence[Block], footer: str = ""
) -> str:
    """Return a whole page, ending in a line break; the lead stands below its title, before the sections."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        "'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_escape(title)}: {kicker.lower()}</title>\n<style>\n{_read_style()}</style>\n</head>\n"
        f'<body>\n<header>\n<p class="kicker">{_escape(kicker)}</p>\n<h1>{_isolate(title)}</h1>\n'
        f"{write_html(lead)}</header>\n<main>\n{write_html(blocks)}</main>\n"
        + (f"<footer><p>{_escape(footer)}</p></footer>\n" if footer else "")
        + "</body>\n</html>\n"
    )


@cache
def _read_style() -> str:
    return files("runner.view").joinpath("page.css").read_text(encoding="utf-8")


def embed_page(page: str) -> str:
    """Return a whole HTML page in a frame, which isolates its styles and scripts, for notebooks."""
    style = "width: 100%; height: 40em; border: 0"
    return f'<iframe sandbox style="{style}" srcdoc="{escape(page)}"></iframe>'


def write_html(blocks: Iterable[Block], level: int = 2) -> str:
    """Return blocks as HTML; `level` is that of the headings of sections."""
    return "".join(_write(block, level) for block in blocks)


def _write(block: Block, level: int) -> str:  # noqa: C901, PLR0911  # one case for each kind
    match block:
        case Items(items=()) | Items(items=[]) | TableBlock(rows=()) | TableBlock(rows=[]):
            return ""
        case Section(title, blocks, is_folded):
            inner = write_html(blocks, level + 1)
            if is_folded:
                return f"<details>\n<summary>{_isolate(title)}</summary>\n{inner}</details>\n"
            tag = "section" if level == 2 else "article"  # noqa: PLR2004  # below the page's title
            head = f"<h{level}>{_isolate(title)}</h{level}>\n" if title else ""
            return f"<{tag}>\n{head}{inner}</{tag}>\n"
        case Sentence(text, style):
            return f"<p{_classify(style)}>{_isolate(text)}</p>\n"
        case Items(items, title):
            return _write_items(items, title)
        case TableBlock():
            return _write_table(block)
        case Code(text):
            return f"<pre>{escape(text)}</pre>\n"
        case Chart(svg, caption, legend):
            below = f"<figcaption>{_escape(caption)}</figcaption>" if caption else ""
            names = "".join(f'<li class="{kind}">{_escape(name)}</li> ' for kind, name in legend)
            return f"<figure>{svg}{below}</figure>\n" + (
                f'<ul class="legend">{names}</ul>\n' if names else ""
            )
        case Tiles(tiles):
            shown = "".join(
                f'<div><dt>{_escape(one.name)}</dt><dd>{_escape(one.figure)}</dd><dd class="note">'
                f"{_escape(one.note)}</dd></div>\n"
                for one in tiles
            )
            return f'<dl class="tiles">\n{shown}</dl>\n'
        case Beside(left, right):
            halves = "".join(f"<div>\n{write_html(half, level)}</div>\n" for half in (left, right))
            return f'<div class="pair">\n{halves}</div>\n'


def _write_items(items: Sequence[str | ListItem], title: str) -> str:
    written = f"<ul>\n{''.join(map(_write_item, items))}</ul>\n"
    head = f"<strong>{_escape(title)}</strong>\n"
    return f'<div class="notice" role="note">\n{head}{written}</div>\n' if title else written


def _write_item(item: str | ListItem) -> str:
    one = item if isinstance(item, ListItem) else ListItem(item)
    term = f"<strong>{_isolate(one.term)}</strong>: " if one.term else ""
    parts = f"\n<ul>\n{''.join(map(_write_item, one.parts))}</ul>\n" if one.parts else ""
    return f"<li>{term}{_isolate(one.text)}{parts}</li>\n"


def _write_table(table: TableBlock) -> str:
    heads, width = table.heads, len(table.columns)
    kind = "many" if width > _WIDE else "narrow" if width <= _NARROW and heads[-1].kind == "bar" else ""
    names = "".join(
        f'<th scope="col"{_classify(head.kind)}>'
        + ('<span class="unseen">Share as a bar</span>' if head.kind == "bar" else _isolate(head.name))
        + "</th>"
        for head in heads
    )
    rows = "".join(
        f"<tr>{''.join(_write_cell(*one) for one in enumerate(zip(heads, row, strict=True)))}</tr>\n"
        for row in table.rows
    )
    name = escape(write_line(table.caption or heads[0].name))
    caption = f"<caption>{_escape(table.caption)}</caption>\n" if table.caption else ""
    return (
        f'<div class="{f"scroll {kind}".strip()}" role="group" aria-label="{name}" tabindex="0">\n<table>\n'
        f"{caption}<thead><tr>{names}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
    )


def _write_cell(place: int, headed: tuple[Column, Cell]) -> str:
    head, cell = headed
    if head.kind == "bar":
        share = f"{round(float(cell), 4):g}" if isinstance(cell, Fraction) else None
        bar = f'<span class="share" style="--share:{share}" aria-hidden="true"></span>' if share else ""
        return f'<td class="bar">{bar}</td>'
    if isinstance(cell, Link):
        inner = f'<a href="{escape(cell.url)}">{_isolate(cell.text)}</a>'
    else:
        text = "not known" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)
        inner = _escape(text) if head.kind == "figure" else _isolate(text)
    if place == 0:
        return f'<th scope="row">{inner}</th>'
    return f"<td{_classify(head.kind)}>{inner}</td>"


def _classify(kind: str) -> str:
    return f' class="{kind}"' if kind not in {"", "text"} else ""


def _escape(text: str) -> str:
    """Return a text on one line for a place between tags; no line ends inside a percentage or interval."""
    glued = re.sub(r"(?<=\d)–(?=\d)", "\u2060–\u2060", _UNITS.sub("\u00a0", write_line(text)))
    return escape(glued, quote=False)


def _isolate(text: str) -> str:
    """Return a text of any origin as HTML, set apart, so that its writing direction stays its own."""
    return f"<bdi>{_escape(text)}</bdi>"
