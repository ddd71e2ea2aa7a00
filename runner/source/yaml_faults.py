"""Explanations of texts that a YAML parser refuses, by its marks and the characters there."""

from __future__ import annotations

import re

import yaml

_NO_STARTS = "\t@`%*&!|>"
"""Characters that have a meaning to YAML at the start of a value."""
_QUOTES_WITHIN = {
    '"': """a `"` within the text ends it: write `\\"` there, or the whole text in 'single quotes'""",
    "'": """a `'` within the text ends it: write it twice, or the whole text in "double quotes\"""",
}
_INDENT = re.compile(r"^ *(?:- +)*")
_GENERAL = "check the indentation and the blank behind each `key:`, and put text in quotes, or below a `|`"


def explain_syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[yaml.Mark, str, str]:
    """Return where a parser refused a text, why, and a hint.

    What it is follows from the characters at the parser's marks: each release words its errors anew.
    """
    noticed = error.problem_mark or error.context_mark or make_mark(text, 0)
    began = error.context_mark or noticed
    message = f"this is not YAML: {error.problem}"
    first, at = _character(began, text), _character(noticed, text)
    if first in "\"'" and not "".join(text.splitlines()[noticed.line :])[noticed.column :].strip():
        return began, "this quote is never closed", "close it where the text ends"
    if at == "\t":
        return noticed, "a tab stands in the indentation", "YAML is indented with blanks: replace the tab"
    for mark, character in ((began, first), (noticed, at)):
        if character in _NO_STARTS:
            return mark, f"text cannot start with `{character}` here", "put it in quotes"
    if (bare := _find_bare_key(began, noticed, text)) is not None:
        word = read_line(bare, text)[bare.column :].split()[0]
        return (
            bare,
            f"there is no `:` behind `{word}`",
            f"write `{word}:`, or indent what goes on with a text",
        )
    before = read_line(noticed, text)[: noticed.column].strip()
    return noticed, message, _advise(first, at, before)


def _find_bare_key(began: yaml.Mark, noticed: yaml.Mark, text: str) -> yaml.Mark | None:
    """Return where a key without its colon stands; None if that is not certain."""
    if began.line == noticed.line:
        # Or the parser took it for a text that goes on with the next key, at the same indentation.
        line = read_line(noticed, text)
        before = text.splitlines()[noticed.line - 1] if noticed.line else ""
        start = len(before) - len(_INDENT.sub("", before))
        if _character(noticed, text) != ":" or start != len(line) - len(line.lstrip()):
            return None
        began = yaml.Mark("", 0, noticed.line - 1, start, "", 0)
    key = read_line(began, text)[began.column :]
    return began if key[:1].isalnum() and ":" not in key else None


def _advise(first: str, at: str, before: str) -> str:
    if first in "[{":
        return f"close the `{first}`, put `,` between its entries, and text with `{first}` or ` #` in quotes"
    if first == '"' and at == "\\":
        return "write a backslash twice, or the text in 'single quotes'"
    if before[-1:] in _QUOTES_WITHIN:
        return _QUOTES_WITHIN[before[-1]]
    if at == ":" and ": " in before:
        return "put text that contains `: ` in quotes"
    return _GENERAL


def make_mark(text: str, index: int) -> yaml.Mark:
    """Return the mark of a character of a text."""
    line, column = text.count("\n", 0, index), index - text.rfind("\n", 0, index) - 1
    return yaml.Mark("", index, line, column, "", 0)


def _character(mark: yaml.Mark, text: str) -> str:
    return read_line(mark, text)[mark.column : mark.column + 1] or "\n"


def read_line(mark: yaml.Mark, text: str) -> str:
    """Return the line of a mark."""
    lines = text.splitlines()
    return lines[mark.line] if mark.line < len(lines) else ""
