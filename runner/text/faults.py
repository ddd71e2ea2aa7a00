"""Faults of a text while it is rendered, in words without a value of its recipient."""

from __future__ import annotations

from functools import partial
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.utils import missing


class BoundError(Exception):
    """An error of a text that would exceed time or size. Never quotes values."""


class MisuseError(SecurityError):
    """An error of a filter or operator used in an invalid way. Never quotes values."""


class AbsentError(UndefinedError):
    """An error of a text that asks for what is not there: an entry of a value, a variable, or a result.

    Attributes:
        variable: the variable that has no value; None for anything else. Never quotes values.
    """

    def __init__(self, holder: object, name: object, _words: str | None = None) -> None:
        self.variable = name if holder is missing and isinstance(name, str) else None
        if name is None:
            words = "a result is missing, as of an `if` without `else`, or the first of an empty list"
        elif holder is missing:
            words = f"{name!r} has no value"
        else:
            what = "such entry" if isinstance(holder, (dict, list, tuple)) else "such method"
            words = f"{name_kind(holder)} has no {what}"
        super().__init__(words)


class Absent(StrictUndefined):
    """A missing value, whose error knows what was looked up in what."""

    __slots__ = ()

    def __init__(
        self, hint: str | None = None, obj: Any = missing, name: Any = None, _exc: Any = None
    ) -> None:
        super().__init__(hint, obj, name, partial(AbsentError, obj, name))  # type: ignore[arg-type]


UNSUITABLE = (
    *(TemplateError, ArithmeticError, LookupError, TypeError, ValueError),
    # Errors of Jinja2's own filters on unsuitable values.
    *(AttributeError, AssertionError),
)
"""Exceptions of operations on values that they are not for."""
OWN = (BoundError, MisuseError, UndefinedError, ArithmeticError, RecursionError)
"""Exceptions that already tell what is wrong."""


def name_kind(value: object) -> str:
    """Return what a value is, in the words of people who write texts."""
    if isinstance(value, bool) or value is None:
        return "true, false or nothing"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, dict):
        return "a mapping"
    return "a text" if isinstance(value, str) else "a list"
