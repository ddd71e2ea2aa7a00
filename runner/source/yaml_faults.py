"""Explanations of texts that a YAML parser refuses, by its marks and the characters there."""

from __future__ import annotations

import re

import yaml

SyntaxFault = tuple[yaml.Mark, str, str | None]
"""Where a text is wrong, what it is, and a hint."""
_FLOW = re.compile(
    r"""(?s)"(?:\\.|[^"\\])*+"|'[^']*+'|(?:^|(?<=\s))\#[^\n]*|(?P<opening>[\[{])|(?P<closing>[\]}])"""
)
"""Brackets, and what may hold other ones."""
_INDICATORS = "*&!|>%@`\"'\t"
_NO_STARTS = "\t@`%"
"""Characters that no value starts with."""
_QUOTES = "put text that contains `: ` in quotes"
_INDENTATION = "check this line's indentation: the entries of one list or mapping start in one column"
_ENDED = "the value before this has ended: put the whole text in quotes"
_QUOTES_WITHIN = {
    '"': """a `"` within the text ends it: write `\\"` there, or the whole text in 'single quotes'""",
    "'": """a `'` within the text ends it: write it twice, or the whole text in "double quotes\"""",
}
_SEVERAL_LINES = "text of several lines needs `|` or `>`"
_ESCAPE = "write a backslash twice, or the text in 'single quotes'"
_GLUED_KEY = re.compile(r"([ -]*)([a-z_]+):(?!//)(\S.*)")


def _advise_on_end(began: yaml.Mark, noticed: yaml.Mark, text: str) -> str | None:
    """Return what to do about a value that began at one place, and does not go on at another."""
    first = _character(began, text)
    if began is noticed or first == "!":
        return None
    if first not in "[{":
        line = read_line(noticed, text)
        before, rest = line[: noticed.column].strip(), line[noticed.column :].rstrip()
        if before and rest.endswith(before[-1]):
            return _QUOTES_WITHIN.get(before[-1], _ENDED)
        return _ENDED if before else _INDENTATION
    if any(re.search(r"\s#", line) for line in text.splitlines()[began.line : noticed.line + 1]):
        return "` #` begins a comment, up to the end of its line: put the text with it in quotes"
    return f"close the `{first}` of line {began.line + 1}, or put a `,` between its entries"


def explain_syntax(error: yaml.MarkedYAMLError, text: str) -> SyntaxFault:
    """Return why a parser refused a text.

    What it is follows from its type and the characters at its marks: each release words its errors anew.
    """
    noticed = error.problem_mark or error.context_mark or make_mark(text, 0)
    began = error.context_mark or noticed
    message = f"this is not YAML: {error.problem}"
    if not isinstance(error, yaml.scanner.ScannerError):
        return noticed, message, _advise_on_end(began, noticed, text)
    place, words, hint = _find_glued(began, noticed, text) or _explain_scan(began, noticed, text)
    return place, words or message, hint


def _explain_scan(began: yaml.Mark, noticed: yaml.Mark, text: str) -> tuple[yaml.Mark, str, str | None]:
    """Return the place of characters that are no YAML, what they are (empty if that is open), and a hint."""
    before, at = read_line(noticed, text)[: noticed.column], _character(noticed, text)
    first = _character(began, text)
    if first in "\"'" and not "".join(text.splitlines()[noticed.line :])[noticed.column :].strip():
        return began, "this quote is never closed", "close it where the text ends"
    if (
        began is not noticed
        and first not in _INDICATORS
        and ":" not in read_line(began, text)[began.column :]
    ):
        return began, "this line has no `:` after its key", _SEVERAL_LINES
    if at == ":" or (first == '"' and at == "\\"):
        colon = _QUOTES if ": " in before else "check this line's indentation"
        return noticed, "", colon if at == ":" else _ESCAPE
    if first in "*&|>" and began is not noticed:
        return began, *_explain_character(first)
    if at in _NO_STARTS or (at in "-?" and before.rstrip().endswith(":")):
        return noticed, *_explain_character(at)
    return noticed, "", None


def _find_glued(began: yaml.Mark, noticed: yaml.Mark, text: str) -> tuple[yaml.Mark, str, str] | None:
    """Return where a key lacks the blank after its colon, so that YAML takes it for a text, and the words."""
    numbers = (began.line, noticed.line - 1) if _character(noticed, text) == ":" else (began.line,)
    lines = text.splitlines()
    for number in numbers:
        found = _GLUED_KEY.match(lines[number]) if 0 <= number < len(lines) else None
        if found:
            words, hint = f"a blank is missing after `{found[2]}:`", f"write `{found[2]}: {found[3]}`"
            return yaml.Mark("", 0, number, len(found[1]), "", 0), words, hint
    return None


def find_too_deep(text: str, end: int, most: int) -> yaml.Mark | None:
    """Return the bracket before `end` that opens more levels than `most`; None if there is none."""
    depth = 0
    for part in _FLOW.finditer(text, 0, end):
        depth += (part["opening"] is not None) - (part["closing"] is not None)
        if depth > most:
            return make_mark(text, part.start())
    return None


def make_mark(text: str, index: int) -> yaml.Mark:
    """Return the mark of a character of a text."""
    line, column = text.count("\n", 0, index), index - text.rfind("\n", 0, index) - 1
    return yaml.Mark("", index, line, column, "", 0)


def _explain_character(character: str) -> tuple[str, str]:
    if character == "\t":
        return "a tab stands in the indentation", "YAML is indented with blanks: replace the tab"
    return f"text cannot start with `{character}` here", "put it in quotes"


def _character(mark: yaml.Mark, text: str) -> str:
    return read_line(mark, text)[mark.column : mark.column + 1] or "\n"


def read_line(mark: yaml.Mark, text: str) -> str:
    """Return the line of a mark."""
    lines = text.splitlines()
    return lines[mark.line] if mark.line < len(lines) else ""
