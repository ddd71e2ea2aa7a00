"""Blocks as HTML: parts of a page, and whole pages that need nothing else.

A page has no scripts and loads nothing; it fits screen, phone and paper. Bars and dots in tables are placed
by their share of their column, and so grow with it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from runner.view.blocks import (
    Bar,
    Beside,
    Chart,
    Code,
    Estimate,
    Items,
    Line,
    Link,
    Section,
    Sentence,
    Stack,
    TableBlock,
    Tiles,
    is_empty,
)
from runner.view.charts import draw_spark
from runner.view.markdown import write_markdown
from runner.wording import write_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.view.blocks import Axis, Block, Cell, Column, ListItem, Tile

_RANGE = re.compile(r"(?<=\d) (?=to [-−+]?\d)|(?<=\d to) (?=[-−+]?\d)")
"""Blanks inside of an interval."""
_MANY = 4
"""A table of more columns turns on a phone: each row becomes a list."""
_INSIDE = Fraction(6, 100)
"""A smaller part of a stack has no room for its share."""
_CHARACTERS = 110
"""Characters that the names of a stack have room for on a desktop, from its start to its end."""
_MOST_TICKS = 4
"""Values that have room above a column on paper; of more, every second one is written."""
_LONGEST_LABEL = 44
"""Characters of a label beside a bar, before it takes more lines."""


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
    if is_empty(block):
        return ""
    match block:
        case Section():
            return _write_section(block, level)
        case Sentence(text, style):
            return f"<p{_classify(style)}>{_isolate(text)}</p>\n"
        case Items():
            return _write_items(block)
        case TableBlock():
            return _write_table(block)
        case Code(text):
            return f'<pre dir="auto">{escape(text)}</pre>\n'
        case Chart(svg, table):
            return f"<figure><figcaption>{_escape(table.caption)}</figcaption>{svg}</figure>\n"
        case Stack():
            return _write_stack(block)
        case Tiles(tiles):
            return f'<dl class="tiles">\n{"".join(map(_write_tile, tiles))}</dl>\n'
        case Beside(blocks):
            if not blocks:
                return ""
            parts = "".join(f"<div>\n{write_html([one], level)}</div>\n" for one in blocks)
            return f'<div class="beside">\n{parts}</div>\n'


def _write_section(section: Section, level: int) -> str:
    inner = write_html(section.blocks, level + 1)
    begun = f' id="{escape(section.anchor)}"' if section.anchor else ""
    begun += ' class="page"' if section.is_page else ""
    if section.is_folded:
        title = f"<h{level}>{_isolate(section.title)}</h{level}>"
        return f"<details{begun}>\n<summary>{title}</summary>\n{inner}</details>\n"
    tag = "section" if level == 2 else "article"  # noqa: PLR2004  # below the page's title
    head = f"<h{level}>{_isolate(section.title)}</h{level}>\n" if section.title else ""
    return f"<{tag}{begun}>\n{head}{inner}</{tag}>\n"


def _write_tile(tile: Tile) -> str:
    change = f'<dd class="change">{_escape(tile.change)}</dd>' if tile.change else ""
    note = f'<dd class="note">{_escape(tile.note)}</dd>' if tile.note else ""
    return f"<div><dt>{_escape(tile.name)}</dt><dd>{_escape(tile.figure)}</dd>{change}{note}</div>\n"


def _write_stack(stack: Stack) -> str:
    """Return a bar and the names of its parts, which stand below them where all have room.

    A share stands in its part; where that has no room, and on a phone, it stands with the name.
    """
    shown = [part for part in stack.parts if part.count]
    is_direct = all(len(f"{part.name} {part.count:,}") + 2 <= part.share * _CHARACTERS for part in shown)
    bar = "".join(
        f'<span class="{part.tone}" style="flex-grow:{part.count}">'
        f"{f'<b>{_escape(part.text)}</b>' if part.share >= _INSIDE else ''}</span>"
        for part in shown
    )
    names = "".join(
        f'<li class="{part.tone}"><bdi>{_escape(part.name)}</bdi>'
        f" <b{_classify('inside' if part.share >= _INSIDE else '')}>{_escape(part.text)}</b>"
        f" <span>{part.count:,}</span></li>\n"
        for part in (shown if is_direct else stack.parts)
    )
    columns = " ".join(f"{part.count}fr" for part in shown)
    legend = f'class="legend direct" style="--columns:{columns}"' if is_direct else 'class="legend"'
    drawn = f'<div class="stack" aria-hidden="true">{bar}</div>'
    return f"<figure>\n{drawn}\n<ul {legend}>\n{names}</ul>\n</figure>\n"


def _write_items(items: Items) -> str:
    written = f"<ul>\n{''.join(map(_write_item, items.entries))}</ul>\n"
    head = f"<strong>{_escape(items.title)}</strong>\n"
    return f'<div class="notice" role="note">\n{head}{written}</div>\n' if items.title else written


def _write_item(one: ListItem) -> str:
    term = f"<strong>{_isolate(one.term)}</strong>: " if one.term else ""
    parts = f"\n<ul>\n{''.join(map(_write_item, Items(one.parts).entries))}</ul>\n" if one.parts else ""
    return f"<li>{term}{_isolate(one.text)}{parts}</li>\n"


def _write_table(table: TableBlock) -> str:
    heads = table.heads
    kind = "drawn" if table.is_chart else "many" if len(heads) > _MANY else ""
    names = "".join(f'<th scope="col"{_classify(head.kind)}>{_write_head(head)}</th>' for head in heads)
    shares = [cell.share for row in table.rows for cell in row if isinstance(cell, Bar) and cell.share]
    longest = max(shares, default=Fraction(1))
    rows = "".join(_write_row(heads, row, longest) for row in table.rows)
    label = min(max(map(_measure, table.rows)), _LONGEST_LABEL)
    size = f' style="--label:{label}ch"' if table.is_chart else ""
    name = escape(write_line(table.caption or heads[0].name))
    caption = f"<caption>{_escape(table.caption)}</caption>\n" if table.caption else ""
    head = f"<thead><tr>{names}</tr></thead>\n"
    # Drawings fit every screen; other tables may need to scroll, also by keyboard.
    held = f"scroll {kind}".strip() + f'" role="group" aria-label="{name}" tabindex="0'
    box = f'<div class="{kind if table.is_chart else held}">\n'
    return f"{box}<table{size}>\n{caption}{head}<tbody>\n{rows}</tbody>\n</table>\n</div>\n"


def _write_head(head: Column) -> str:
    if head.kind == "bar":
        return '<span class="unseen">Share as a bar</span>'
    if head.axis is None:
        return _isolate(head.name)
    axis = head.axis
    shown = axis.ticks[:: 2 if len(axis.ticks) > _MOST_TICKS else 1]
    ticks = "".join(f'<span style="--at:{_place(axis, at)}">{_escape(text)}</span>' for at, text in shown)
    return f'{_isolate(head.name)}<span class="ticks" aria-hidden="true">{ticks}</span>'


def _measure(row: Sequence[Cell]) -> int:
    return len(row[0].text if isinstance(row[0], Link) else str(row[0]))


def _write_row(heads: Sequence[Column], row: Sequence[Cell], longest: Fraction) -> str:
    first, *others = zip(heads, row, strict=True)
    cells = "".join(
        f'<td{_classify(head.kind)} data-name="{escape(write_line(head.name))}">'
        f"{_write_cell(head, cell, longest)}</td>"
        for head, cell in others
    )
    return f'<tr><th scope="row">{_write_cell(*first, longest)}</th>{cells}</tr>\n'


def _write_cell(head: Column, cell: Cell, longest: Fraction) -> str:
    match cell:
        case Bar(share, tone):
            style = f"--share:{_fit((share or 0) / longest)}"
            return f'<span class="{f"share {tone}".strip()}" style="{style}"></span>' if share else ""
        case Estimate():
            return _draw_estimate(cell, head.axis)
        case Line():
            return draw_spark(cell)
        case Link(text, url):
            return f'<a href="{escape(url)}">{_isolate(text)}</a>'
        case _:
            text = "not known" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell
            return _escape(text) if head.kind == "figure" else _isolate(text)


def _draw_estimate(estimate: Estimate, axis: Axis | None) -> str:
    note = f' <span class="unseen">{_escape(estimate.note)}</span>' if estimate.note else ""
    text = f'<span class="said">{_escape(estimate.text)}{note}</span>'
    if axis is None or estimate.value is None:
        return text
    low, high = estimate.interval or (estimate.value, estimate.value)
    marks = {
        "between": f"--at:{_place(axis, low)};--to:{_place(axis, high)}",
        "dot": f"--at:{_place(axis, estimate.value)}",
    }
    if axis.everybody is not None:
        marks = {"everybody": f"--at:{_place(axis, axis.everybody)}", **marks}
    drawn = "".join(f'<i class="{kind}" style="{place}"></i>' for kind, place in marks.items())
    return f'<span class="track" aria-hidden="true">{drawn}</span>{text}'


def _place(axis: Axis, value: float) -> str:
    return _fit((min(max(value, axis.low), axis.high) - axis.low) / (axis.high - axis.low))


def _fit(number: float | Fraction) -> str:
    return f"{round(float(number), 4) + 0.0:g}"


def _classify(kind: str) -> str:
    return f' class="{kind}"' if kind not in {"", "text"} else ""


def _escape(text: str) -> str:
    """Return a text on one line for a place between tags; no line ends inside a percentage or interval."""
    glued = _RANGE.sub("\u00a0", re.sub(r"(?<=\d) (?=%)", "\u202f", write_line(text)))
    glued = re.sub(r"(?<=\d)–(?=\d)", "\u2060–\u2060", glued)
    return escape(glued, quote=False)


def _isolate(text: str) -> str:
    """Return a text of any origin as HTML, set apart, so that its writing direction stays its own."""
    return f"<bdi>{_escape(text)}</bdi>"
