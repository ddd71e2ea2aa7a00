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
        name: what was looked up, which may be a recipient's value; None for a result.
    """

    def __init__(self, holder: object, name: object, words: str) -> None:
        super().__init__(words)
        self._holder = holder
        self.name = name

    @property
    def is_variable(self) -> bool:
        """True if a variable was looked up, not an entry of a value."""
        return self._holder is missing and isinstance(self.name, str)

    def describe(self, shown: str) -> str:
        """Return the reason; `shown` stands for the name."""
        if self.name is None:
            return "a result is missing, as of an `if` without `else`, or the first of an empty list"
        if self._holder is missing:
            return f"{shown} has no value"
        what = "entry" if isinstance(self._holder, (dict, list, tuple)) else "method"
        return f"{name_kind(self._holder)} has no {what} {shown}"


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
