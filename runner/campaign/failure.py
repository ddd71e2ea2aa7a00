"""Says in words why a text cannot be rendered, and nothing of the recipient for whom it cannot.

What Python and Jinja2 say of a failure may quote the value that it failed with: somebody's name, or their
phone, in a job's log that is public. So a sentence of theirs is only passed on if it is one of those known
here. What such a sentence quotes must stand in the template itself, else there are other words in its place.
Anything else is told by its type. Thereby the same fault is the same sentence for a million recipients.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import jinja2
from jinja2 import nodes

from runner.campaign.bounds import BoundError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERAND = "operand"
_UNSAID = "‹a recipient's value›"
_TYPE = r"[\w.]+"
_KNOWN = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # Jinja2: Undefined._undefined_message, the sandbox, the compiler, and its filters.
        r"(?P<operand>.+) is undefined",
        rf"'?{_TYPE}'?(?: object)?'? has no (?:attribute|element) (?P<operand>.+)",
        rf"access to attribute (?P<operand>.+) of '{_TYPE}' object is unsafe",
        r"no (?:filter|test) named (?P<operand>.+?)(?: found)?",
        r"expected (?:length|leeway) >= \d+, got (?P<operand>.+)",
        r"unexpected keyword argument (?P<operand>.+)",
        r"the inline if-expression on line \d+ evaluated to false and no else section was defined",
        r"no (?:first|last|aggregated) item, sequence was empty",
        r"can only get item pairs from a mapping",
        r'you can only sort by either "key" or "value"',
        r"map requires a filter argument|missing parameter for attribute name",
        # CPython: what operators, calls and formats say of the types that they are given.
        rf"{_TYPE}\(\) got an unexpected keyword argument (?P<operand>.+)",
        rf"{_TYPE}\(\) (?:takes|expected) [\w ]+",
        rf"{_TYPE}\(\) missing \d+ required (?:positional|keyword-only) arguments?: [\w', ]+",
        r"range expected at (?:least|most) \d+ arguments?, got \d+|range\(\) arg 3 must not be zero",
        rf'can only concatenate {_TYPE} \(not "{_TYPE}"\) to {_TYPE}',
        rf"can't multiply sequence by non-int of type '{_TYPE}'",
        rf"unsupported operand type\(s\) for [^\w\s]+(?: or pow\(\))?: '{_TYPE}' and '{_TYPE}'",
        rf"'[<>]=?' not supported between instances of '{_TYPE}' and '{_TYPE}'",
        rf"bad operand type for (?:unary [+-]|abs\(\)): '{_TYPE}'",
        rf"'{_TYPE}' object is not (?:iterable|callable|subscriptable|reversible)",
        rf"'{_TYPE}' object cannot be interpreted as an integer",
        rf"object of type '{_TYPE}' has no len\(\)|unhashable type: '{_TYPE}'",
        rf"(?:{_TYPE}\(\) argument \d+ )?must be [a-z ]+, not {_TYPE}",
        rf"%[diouxXeEfFgGc] format: [a-z ]+, not {_TYPE}",
        r"not all arguments converted during string formatting|not enough arguments for format string",
        r"format requires a mapping|incomplete format|empty separator",
        rf"cannot unpack non-iterable {_TYPE} object",
        r"(?:not enough|too many) values to unpack \(expected \d+(?:, got \d+)?\)",
    )
)
"""Whole sentences, each with at most one operand: no other part of them is a value."""
_METHODS = frozenset(repr(name) for kind in (str, list, dict) for name in dir(kind))
"""What filters themselves ask their values for."""
_BY_TYPE: tuple[tuple[type[Exception], str], ...] = (
    (jinja2.TemplateNotFound, "an included file is no longer there"),
    (jinja2.TemplateError, "something is used in a way that it is not for"),
    (TypeError, "a value is of the wrong kind for what is done with it"),
    (LookupError, "something is looked up that is not there"),
    (ValueError, "a value is none that this can be done with"),
)
_OTHERWISE = "a filter is given what it is not for"
_NAMING: tuple[tuple[type[nodes.Node], tuple[str, ...]], ...] = (
    (nodes.Const, ("value",)),
    (nodes.Name, ("name",)),
    (nodes.NSRef, ("name", "attr")),
    (nodes.Getattr, ("attr",)),
    (nodes.Filter, ("name",)),
    (nodes.Test, ("name",)),
    (nodes.Keyword, ("key",)),
)


def find_literals(tree: nodes.Template) -> Iterator[str]:
    """Yield the names and values that a template itself holds, as errors quote them.

    Args:
        tree: the parsed template.
    """
    for node in tree.find_all(tuple(kind for kind, _ in _NAMING)):
        for field in next(fields for kind, fields in _NAMING if isinstance(node, kind)):
            value = getattr(node, field)
            yield repr(value)
            if isinstance(value, str):
                # Of `map(attribute="a.b")` a filter quotes the part that fails.
                yield from map(repr, value.split("."))


def describe_failure(error: Exception, literals: frozenset[str]) -> str:
    """Return why a text cannot be rendered, in words that hold no value of its recipient.

    Args:
        error: raised while it was rendered.
        literals: what its template holds, those that it includes among them (`find_literals`).
    """
    if isinstance(error, RecursionError):
        return "it includes itself without end"
    # The words of this program, and of arithmetic, name no value.
    if isinstance(error, (BoundError, MisuseError, ArithmeticError)):
        return write_sentence(error)
    said = write_sentence(error)
    for pattern in _KNOWN:
        found = pattern.fullmatch(said)
        if found is not None:
            return _leave_out_operand(found, literals)
    return next((words for kind, words in _BY_TYPE if isinstance(error, kind)), _OTHERWISE)


def _leave_out_operand(found: re.Match[str], literals: frozenset[str]) -> str:
    operand = found.groupdict().get(_OPERAND)
    if operand is None or operand in _METHODS or operand.removeprefix("-") in literals:
        return found.string
    start, end = found.span(_OPERAND)
    return f"{found.string[:start]}{_UNSAID}{found.string[end:]}"


def write_sentence(error: BaseException) -> str:
    """Return what an error says, as a part of a sentence. It may quote any value.

    Args:
        error: of Python, of Jinja2 or of this program.
    """
    text = str(getattr(error, "message", None) or error).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
