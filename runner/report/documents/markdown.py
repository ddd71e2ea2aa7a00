"""The report as Markdown (GitHub's flavour): for pull requests, job summaries and wikis.

GitHub refuses comments of more than 65,536 characters. So tables and the document have a limited length, each
with a sentence on what is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner.report.documents.html import build_environment
from runner.report.documents.wording import (
    NOT_DEFINED,
    count_nouns,
    list_warnings,
    write_footer,
    write_line,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from runner.report.documents.tables import Column, ReportTable
    from runner.report.model import CampaignReport

LONGEST = 65_000
"""Characters of a document at most: GitHub's limit, less some for text around it."""

_MOST_WARNINGS = 20

BAR_WIDTH = 20
"""Characters of a bar of 100 %."""

MOST_ROWS = 40
"""Rows of a table at most."""

LONGEST_TEXT = 300
"""Characters of one text at most, before it is escaped."""

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# Parentheses are markup behind a bracket alone, and an exclamation mark before one: brackets are escaped,
# and none is written beside a text.
_MARKED = re.compile(r"[\\`*_{}\[\]#|~$^=]|!(?=\S)")
_NUMBERED = re.compile(r"^(\d+)\)")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
# An escaped colon or dot keeps GitHub from making links of participants' texts.
_LINK_STARTS = re.compile(r"(?i)(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")
_RULES = {"text": ":--", "figure": "--:", "bar": ":--", "link": ":--"}
_URL_CHARACTERS = ":/?#@!$&'*+,;=%~"


def write_markdown(report: CampaignReport) -> str:
    """Return the report as Markdown, with texts of campaigns and participants escaped."""
    environment = build_environment()
    environment.filters.update(md=escape_markdown, table=draw_table)
    written = environment.get_template("report.md.j2").render(
        report=report,
        warnings=list(list_warnings(report)),
        most_warnings=_MOST_WARNINGS,
        left_out=_say_left_out,
    )
    footer = f"---\n\n{escape_markdown(write_footer(report))}"
    parts = re.split(r"\n\n+", written.strip())
    room = LONGEST - len(footer) - 100
    kept: list[str] = []
    for part in parts:
        room -= len(part) + 2
        if room < 0:
            # Everything after the first omission is left out, so that there are no gaps in between.
            left_out = _say_left_out(len(parts) - len(kept), "part")
            kept.append(f"> {left_out} left out of this document, which is long.")
            break
        kept.append(part)
    return "\n\n".join([*kept, footer]) + "\n"


def _say_left_out(count: int, noun: str) -> str:
    return f"{count_nouns(count, 'more ' + noun)} {'is' if count == 1 else 'are'}"


def escape_markdown(text: str) -> str:
    """Return a text as one line of Markdown that shows it literally, in a paragraph, heading or table cell.

    A very long text ends in an ellipsis.
    """
    line = write_line(text)
    if len(line) > LONGEST_TEXT:
        line = line[: LONGEST_TEXT - 1].rstrip() + "…"
    escaped = _NUMBERED.sub(r"\1\\)", _MARKED.sub(r"\\\g<0>", line)).translate(_ENTITIES)
    return _LINK_STARTS.sub(_part_link, escaped)


def draw_bar(share: Fraction | None) -> str:
    """Return a share as a bar of block characters, to the eighth of a character."""
    eighths = 0 if share is None else round(share * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def draw_table(table: ReportTable) -> str:
    """Return a table; below the most rows allowed, a sentence gives the number left out."""
    lines = [
        f"| {' | '.join(escape_markdown(column.name) for column in table.columns)} |",
        f"|{'|'.join(_RULES[column.kind] for column in table.columns)}|",
        *(f"| {' | '.join(map(_write_cell, table.columns, row))} |" for row in table.rows[:MOST_ROWS]),
    ]
    left_out = len(table.rows) - MOST_ROWS
    if left_out > 0:
        lines += ["", f"{_say_left_out(left_out, 'row')} left out here."]
    return "\n".join(lines)


def _write_cell(column: Column, cell: str | Fraction | None) -> str:
    if column.kind == "link":
        return f"[open]({quote(str(cell), safe=_URL_CHARACTERS)})" if cell else NOT_DEFINED
    if not isinstance(cell, str):
        return draw_bar(cell)
    return escape_markdown(cell) if column.kind == "text" else cell


def _part_link(found: re.Match[str]) -> str:
    return f"{found[1]}&#58;" if found[1] else f"{found[3]}&#46;"
