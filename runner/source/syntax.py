"""What is wrong with a text that is not YAML, in words for people.

libyaml says what its grammar missed, at the place where it noticed; people look for what they
wrote and where it began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

_QUOTES = "put a text that contains `: ` in quotes"
_INDENTATION = "check this line's indentation: the entries of one list or mapping start in one column"
_ENDED = "the value before this has ended: put the whole text in quotes"
_ESCAPE = "write a backslash twice, or the text in 'single quotes'"


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """Why a text is not YAML. `line` and `column` count from 1."""

    message: str
    line: int
    column: int
    hint: str | None


def explain_syntax(error: yaml.MarkedYAMLError, text: str) -> SyntaxFault:
    """Return a parser's error as people understand it.

    Args:
        error: as PyYAML raised it.
        text: what was parsed.
    """
    noticed = error.problem_mark or error.context_mark
    began = error.context_mark or noticed
    if noticed is None or began is None:
        return SyntaxFault(f"this is not YAML: {error.problem}", 1, 1, None)
    problem = error.problem or ""
    if problem == "found unexpected end of stream":
        return _at(began, "this quote is never closed", "close it where the text ends")
    if problem.startswith("could not find expected ':'"):
        return _at(began, "this line has no `:` after its key", "a text of several lines needs `|` or `>`")
    if problem.endswith("cannot start any token"):
        return _refuse_character(noticed, text)
    return _at(noticed, f"this is not YAML: {problem}", _hint_for(problem, noticed, began, text))


def _hint_for(problem: str, noticed: yaml.Mark, began: yaml.Mark, text: str) -> str | None:
    before = _line(noticed, text)[: noticed.column]
    if problem.startswith("mapping values are not allowed"):
        return _QUOTES if ": " in before else "check this line's indentation"
    if problem.startswith("did not find expected ',' or"):
        bracket = _line(began, text)[began.column : began.column + 1]
        return f"close the `{bracket}` of line {began.line + 1}, or put a `,` between its entries"
    if problem in ("did not find expected key", "did not find expected '-' indicator"):
        return _ENDED if before.strip() else _INDENTATION
    return _ESCAPE if problem == "found unknown escape character" else None


def _refuse_character(mark: yaml.Mark, text: str) -> SyntaxFault:
    character = _line(mark, text)[mark.column : mark.column + 1]
    if character == "\t":
        return _at(mark, "a tab stands in the indentation", "YAML is indented with blanks: replace the tab")
    return _at(mark, f"a text cannot start with `{character}` here", "put it in quotes")


def _at(mark: yaml.Mark, message: str, hint: str | None) -> SyntaxFault:
    return SyntaxFault(message, mark.line + 1, mark.column + 1, hint)


def _line(mark: yaml.Mark, text: str) -> str:
    lines = text.splitlines()
    return lines[mark.line] if mark.line < len(lines) else ""
