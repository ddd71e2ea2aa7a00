"""Texts, bars and tables in Markdown (GitHub's flavour)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner.report.wording import NOT_DEFINED, write_line

if TYPE_CHECKING:
    from fractions import Fraction

    from runner.report.tables import Column, Table

BAR_WIDTH = 20
"""Characters of a bar that stands for everybody."""

MOST_ROWS = 40
"""Rows of a table at most."""

LONGEST_TEXT = 300
"""Characters of one text at most, before it is escaped."""

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_MARKED = re.compile(r"[\\`*_{}\[\]()#!|~$^=]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
# A colon or dot taken apart keeps GitHub from making links of what somebody wrote.
_LINK_STARTS = re.compile(r"(?i)(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")
_RULES = {"text": ":--", "figure": "--:", "bar": ":--", "link": ":--"}
_URL_CHARACTERS = ":/?#@!$&'*+,;=%~"


def escape_markdown(text: str) -> str:
    """Return a text on one line that Markdown shows as it is, in a paragraph, heading or table cell.

    A very long one ends in an ellipsis.
    """
    line = write_line(text)
    if len(line) > LONGEST_TEXT:
        line = line[: LONGEST_TEXT - 1].rstrip() + "…"
    escaped = _MARKED.sub(r"\\\g<0>", line).translate(_ENTITIES)
    return _LINK_STARTS.sub(_part_link, escaped)


def draw_bar(share: Fraction | None) -> str:
    """Return a share as a bar of block characters, to the eighth of a character."""
    eighths = 0 if share is None else round(share * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def draw_table(table: Table) -> list[str]:
    """Return a table's lines; below as many rows as there may be, a sentence says how many are left out."""
    lines = [
        f"| {' | '.join(escape_markdown(column.name) for column in table.columns)} |",
        f"|{'|'.join(_RULES[column.kind] for column in table.columns)}|",
    ]
    for row in table.rows[:MOST_ROWS]:
        cells = map(_write_cell, table.columns, row)
        lines.append(f"| {' | '.join(cells)} |")
    left_out = len(table.rows) - MOST_ROWS
    if left_out > 0:
        lines += ["", f"{left_out:,} more {'row is' if left_out == 1 else 'rows are'} left out here."]
    return lines


def _write_cell(column: Column, cell: str | Fraction | None) -> str:
    if column.kind == "link":
        return f"[open]({quote(str(cell), safe=_URL_CHARACTERS)})" if cell else NOT_DEFINED
    if not isinstance(cell, str):
        return draw_bar(cell)
    return escape_markdown(cell) if column.kind == "text" else cell


def _part_link(found: re.Match[str]) -> str:
    return f"{found[1]}&#58;" if found[1] else f"{found[3]}&#46;"
