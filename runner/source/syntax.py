"""What is wrong with a text that is not YAML, in words for people.

libyaml says what its grammar missed, at the place where it noticed; people look for what they
wrote and where it began.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a text. `line` and `column` count from 0."""

    line: int
    column: int


def explain_syntax(problem: str, noticed: Spot, began: Spot, text: str) -> SyntaxFault:
    """Return a parser's error as people understand it.

    Args:
        problem: libyaml's words.
        noticed: where it noticed.
        began: where what it was reading began.
        text: what was parsed.
    """
    if problem == "found unexpected end of stream":
        return _at(began, "this quote is never closed", "close it where the text ends")
    if problem.startswith("could not find expected ':'"):
        return _at(began, "this line has no `:` after its key", "a text of several lines needs `|` or `>`")
    if problem.endswith("cannot start any token"):
        return _refuse_character(noticed, text)
    return _at(noticed, f"this is not YAML: {problem}", _hint_for(problem, noticed, began, text))


def _hint_for(problem: str, noticed: Spot, began: Spot, text: str) -> str | None:
    before = _line(noticed, text)[: noticed.column]
    if problem.startswith("mapping values are not allowed"):
        return _QUOTES if ": " in before else "check this line's indentation"
    if problem.startswith("did not find expected ',' or"):
        bracket = _line(began, text)[began.column : began.column + 1]
        return f"close the `{bracket}` of line {began.line + 1}, or put a `,` between its entries"
    if problem in ("did not find expected key", "did not find expected '-' indicator"):
        return _ENDED if before.strip() else _INDENTATION
    return _ESCAPE if problem == "found unknown escape character" else None


def _refuse_character(spot: Spot, text: str) -> SyntaxFault:
    character = _line(spot, text)[spot.column : spot.column + 1]
    if character == "\t":
        return _at(spot, "a tab stands in the indentation", "YAML is indented with blanks: replace the tab")
    return _at(spot, f"a text cannot start with `{character}` here", "put it in quotes")


def _at(spot: Spot, message: str, hint: str | None) -> SyntaxFault:
    return SyntaxFault(message, spot.line + 1, spot.column + 1, hint)


def _line(spot: Spot, text: str) -> str:
    lines = text.splitlines()
    return lines[spot.line] if spot.line < len(lines) else ""
