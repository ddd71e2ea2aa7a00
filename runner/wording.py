"""Counts with their nouns, and Markdown in which foreign text cannot act on the page or on people."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ZERO_WIDTH = "&#8203;"
# Parentheses are markup behind a bracket alone, and an exclamation mark before one: brackets are escaped.
# Lists and rules begin a line.
_MARKED = re.compile(r"[\\`*_{}\[\]#|~$^=]|!(?=\S)|^\+(?=\s|$)|^-(?=[\s-]|$)")
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
# Escapes and entities don't help: GitHub looks for these in the rendered text, where only code is left
# alone (github/cmark-gfm, issue 181). A zero-width blank behind the first character does.
_REFERENCES = re.compile(r"@(?=\w)|(?<=\\)#(?=\d)|(?i:GH-(?=\d)|www(?=\.))|:(?=//)|:(?=[a-z+_-][\w+-]*:)")
# International numbers, ten digits as written in North America, and plain digits.
_PHONE = re.compile(
    r"(?<![\w+])(?:\+\d(?:[\s().-]{0,2}\d){6,14}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}|\d{9,15})(?!\w)"
)
_SHOWN_FIRST, _SHOWN_LAST = 3, 2
_STORED_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:\.\d+)?(?:Z|\+00:00)")


_STEERING = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)
"""Characters that steer a terminal, or change the direction of a text; not line ends and tabs."""
_STYLE = r"\x1b\[(?:0|1|2|3[0-7])m"
_FOREIGN = re.compile(rf"{_STYLE}|{_STEERING.pattern}")
# A GitHub job obeys lines that begin with `::`, behind blanks of every width (in actions/runner:
# ActionCommand.cs); styles leave the output in a pipe. Anywhere in a line: its older form, those of Azure
# Pipelines and of GitLab.
_COMMAND = re.compile(
    rf"(?:^|(?<=\r))(?P<start>(?:{_STYLE}|[^\S\n]|[\u180e\u200b\u2060\ufeff])*:):"
    r"|(?<=##)\[|(?<=##vso)\[|(?<=section_start):|(?<=section_end):",
    re.MULTILINE | re.IGNORECASE,
)


def disarm(text: str) -> str:
    r"""Return output that cannot steer a terminal, or become a command to a CI platform.

    Whatever a command prints passes here, as the last step: line ends and the colours of this program stay.
    `::error` becomes `:\u003aerror`.
    """
    shown = _FOREIGN.sub(lambda one: one[0] if len(one[0]) > 1 else escape_steering(one[0]), text)
    return disarm_commands(shown)


def disarm_commands(text: str, escape: str = "\\u{:04x}") -> str:
    """Return a text in which the last character of each beginning of a command is written as its escape."""
    return _COMMAND.sub(lambda one: (one["start"] or "") + escape.format(ord(one[0][-1])), text)


def escape_steering(text: str) -> str:
    """Return a text with escapes for all characters that steer a terminal."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(text: str) -> str:
    """Return a text that cannot steer a terminal or start a line of its own."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


# Controls (line breaks, NUL), lone surrogates, and the marks that reverse the text after them.
_BLANKS = re.compile(r"[^\S\u202f]+")
_UNPRINTABLE = frozenset({"Cc", "Cs"})
_DIRECTION_MARKS = frozenset(
    map(chr, (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))),
)


def write_line(text: str) -> str:
    """Return a text on one line, without control characters and marks that change the writing direction.

    The narrow blank before a per cent sign stays: no line ends at it.
    """
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    blanks = (" " if unicodedata.category(char) in _UNPRINTABLE else char for char in text)
    shown = "".join(char for char in blanks if char not in _DIRECTION_MARKS)
    return " ".join(filter(None, _BLANKS.split(shown)))


def escape_markdown(text: str) -> str:
    """Return a text on one line, with its phone numbers masked, that Markdown shows as it is."""
    return escape_line(hide_phones(write_line(text)))


def escape_line(line: str) -> str:
    """Return a line that GitHub's Markdown shows as it is, in a paragraph, a heading or a table's cell.

    It cannot mark up, end an element, mention a person, refer to an issue, or become a link.
    """
    escaped = _NUMBERED.sub(r"\1\\\2", _MARKED.sub(r"\\\g<0>", line)).translate(_ENTITIES)
    return _REFERENCES.sub(rf"\g<0>{_ZERO_WIDTH}", escaped)


def escape_html(text: str) -> str:
    """Return a text as `escape_markdown` does, for HTML without Markdown: a `<summary>`."""
    # Quotes end nothing between tags, and `&#x27;` would look like a reference to an issue.
    escaped = html.escape(hide_phones(write_line(text)), quote=False)
    return re.sub(r"[@#](?=\w)", rf"\g<0>{_ZERO_WIDTH}", escaped)


def hide_phones(text: str) -> str:
    """Return a text with possible phone numbers masked except for their ends."""
    return _PHONE.sub(_mask, text)


def _mask(found: re.Match[str]) -> str:
    number = found[0]
    hidden = re.sub(r"\d", "•", number[_SHOWN_FIRST:-_SHOWN_LAST])
    return number[:_SHOWN_FIRST] + hidden + number[-_SHOWN_LAST:]


def count_words(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 launch`, `1,209 launches`. By default the plural adds an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def count_people(count: int) -> str:
    """Return a number of people: `1 person`, `1,024 people`."""
    return count_words(count, "person", "people")


def show_time(at: str, *, to_second: bool = False) -> str:
    """Return a stored time in UTC for people: `2026-11-23 18:31 UTC`; other texts as they are."""
    found = _STORED_TIME.fullmatch(at)
    return f"{found[1]} {found[2]}{(found[3] or '') if to_second else ''} UTC" if found else at


class Markdown(str):
    """A table cell that is Markdown already."""

    __slots__ = ()


def write_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str | int]],
    most: int | None = None,
    noun: str = "",
    figures: Sequence[bool] = (),
) -> str:
    """Return a Markdown table with escaped cells, except for those that are Markdown.

    Numbers get thousands separators. Rows beyond `most`, if given, are counted below it, with a noun if one
    is given. `figures` says which columns stand to the right.
    """
    rules = ["--:" if is_figure else "---" for is_figure in figures or [False] * len(header)]
    lines = [f"| {' | '.join(map(escape_markdown, header))} |", f"|{'|'.join(rules)}|"]
    lines += [f"| {' | '.join(map(_write_cell, row))} |" for row in rows[:most]]
    left = 0 if most is None else len(rows) - most
    more = count_words(left, f"more {noun}") if noun else f"{left:,} more"
    return "\n".join(lines) + "\n" + (f"\n… and {more}\n" if left > 0 else "")


def _write_cell(cell: str | int) -> str:
    if isinstance(cell, int):
        return f"{cell:,}"
    return cell if isinstance(cell, Markdown) else escape_markdown(cell)
