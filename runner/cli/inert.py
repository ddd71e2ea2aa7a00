"""Texts of others in Markdown that a forge shows: as they are, with no power over the page or over people."""

from __future__ import annotations

import html
import re

_ZERO_WIDTH = "&#8203;"
_MARKED = re.compile(r"[\\`*_{}\[\]()#!|~$^=+]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
# Escapes and entities don't help against these: GitHub looks for them in the text that comes out, where only
# code is left alone (github/cmark-gfm, issue 181). A blank of no width behind their first character does.
_REFERENCES = re.compile(r"@(?=\w)|(?<=\\)#(?=\d)|(?i:GH-(?=\d)|www(?=\.))|:(?=//)|:(?=[a-z+_-][\w+-]*:)")
# An international number; ten digits as North America writes them; and any that is nothing but digits.
_PHONE = re.compile(
    r"(?<![\w+])(?:\+\d(?:[\s().-]{0,2}\d){6,14}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}|\d{9,15})(?!\w)"
)
_SHOWN_FIRST, _SHOWN_LAST = 3, 2


def printable(text: str) -> str:
    """Return a text that cannot steer a terminal or start a line of its own."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def inert(text: str) -> str:
    """Return a text on one line that a forge's Markdown shows as it is, in a paragraph or a table's cell.

    It cannot mark up, end an element, mention a person, refer to an issue, or become a link; phone numbers in
    it are masked.
    """
    escaped = _MARKED.sub(r"\\\g<0>", hide_phones(printable(text))).translate(_ENTITIES)
    return _REFERENCES.sub(rf"\g<0>{_ZERO_WIDTH}", escaped)


def inert_html(text: str) -> str:
    """Return the same for a place where HTML is read, and no Markdown: a `<summary>`."""
    # Quotes end nothing between tags, and `&#x27;` would look like a reference to an issue.
    escaped = html.escape(hide_phones(printable(text)), quote=False)
    return re.sub(r"[@#](?=\w)", rf"\g<0>{_ZERO_WIDTH}", escaped)


def hide_phones(text: str) -> str:
    """Return a text with what looks like phone numbers masked: all but their ends."""
    return _PHONE.sub(_mask, text)


def _mask(found: re.Match[str]) -> str:
    number = found[0]
    hidden = re.sub(r"\d", "•", number[_SHOWN_FIRST:-_SHOWN_LAST])
    return number[:_SHOWN_FIRST] + hidden + number[-_SHOWN_LAST:]
