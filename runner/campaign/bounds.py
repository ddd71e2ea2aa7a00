"""Bounds on the values of campaign texts: what could grow is measured before it does."""

from __future__ import annotations

import re
from collections.abc import MappingView
from itertools import chain
from typing import TYPE_CHECKING, Any

from jinja2 import Undefined, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jinja2 import Environment

MAX_LENGTH = 10_000
"""Characters that a text, or any value on the way to it, may have."""
_MAX_BITS = 64
"""Of a whole number: beyond it, numbers can be chosen that share a hash, and a set of them takes forever."""
COLLECTIONS = (list, tuple, dict, range, MappingView)
"""Kinds of values that hold others, and know how many."""
_WIDE_SPEC = re.compile(r"%[^a-zA-Z%]*(?:\*|\d{3})")
_MAX_EXPONENT = 64


class BoundError(Exception):
    """A text would not end in bounded time or size. Says nothing of the values that it was given."""


class MisuseError(SecurityError):
    """A filter or operator is used as no text may. Says nothing of the values that it was given."""


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float)) or value is None


def measure(value: Any) -> int:
    """Return the characters that printing a value would take, roughly; what a filter's work on it grows with.

    Raises:
        BoundError: there is a number of more than 64 bits in it.
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise BoundError("a number of more than 19 digits is not available in campaign texts")
        return value.bit_length() // 3 + 1
    if value is None or isinstance(value, (float, Undefined)):
        return 1
    if isinstance(value, range):
        return len(value) * max(map(measure, (*value[:1], *value[-1:])), default=0)
    items = chain.from_iterable(value.items()) if isinstance(value, dict) else value
    return sum(measure(item) + 1 for item in items) if isinstance(value, COLLECTIONS) else 1


def _require_size(size: int) -> None:
    if size > MAX_LENGTH:
        raise BoundError(f"a value grows beyond {MAX_LENGTH:,} characters")


def require_flat(value: Any) -> Any:
    """Measure an operator's or literal's value; lists hold texts and numbers alone."""
    if isinstance(value, (list, tuple)) and not all(_is_scalar(item) for item in value):
        raise BoundError("a list in a list is not available in campaign texts")
    if isinstance(value, dict) and not all(_is_scalar(item) for item in value.values()):
        raise BoundError("a list or mapping in a mapping is not available in campaign texts")
    _require_size(measure(value))
    return value


def require_printable(value: Any) -> Any:
    """Let only texts and numbers be printed: `['a', 'b']` or `True` on a phone is a mistake."""
    if isinstance(value, str):  # first, as nearly all are: this is asked for each value of each text
        return value
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, bool):
        raise MisuseError('true and false cannot be printed: write {{ "a" if x else "b" }}')
    if value is None or not _is_scalar(value):
        raise MisuseError('only texts and numbers can be printed: a list wants `| join(", ")`')
    return value


def join_values(values: Iterable[Any], separator: str = "") -> str:
    """Join texts and numbers; the filter `join`."""
    if not isinstance(separator, str):
        raise MisuseError('`join` wants a text to put between: join(", ")')
    texts = [str(require_printable(value)) for value in values]
    _require_size(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def replace_text(text: str, old: str, new: str) -> str:
    """Replace a part of a text; the filter `replace`."""
    text = str(require_printable(text))
    _require_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def round_number(value: float, precision: int = 0) -> float:
    """Round a number, to at most ten places; the filter `round`."""
    try:
        number = float(value)
    except ValueError:  # its words would quote the value, which may be anyone's phone
        raise MisuseError("only numbers can be rounded") from None
    return round(number, max(-10, min(10, precision)))


def format_text(pattern: str, *values: Any) -> str:
    """Format texts and numbers as printf does, in fields of at most two digits; the filter `format`."""
    if _WIDE_SPEC.search(pattern):
        raise BoundError("a format as wide as this is not available in campaign texts")
    _require_size(measure(pattern) + measure(values))
    return pattern % tuple(require_printable(value) for value in values)


def write_text(value: Any) -> str:
    """Write a text or number as a text; the filter `string`."""
    return str(require_printable(value))


def require_short(value: Any) -> Any:
    """Return what a filter has made, unless it is too long a text."""
    if isinstance(value, str):
        _require_size(len(value))
    return value


@pass_environment
def add_numbers(
    environment: Environment, values: Any, attribute: str | int | None = None, start: float = 0
) -> Any:
    """Add numbers; the filter `sum`."""
    if not isinstance(start, (int, float)):
        raise MisuseError("`sum` adds numbers alone")
    return FILTERS["sum"](environment, values, attribute, start)


def _check_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _require_size(measure(left) + measure(right))
    elif isinstance(right, int):
        _require_size(measure(left) * max(right, 0))
    elif isinstance(left, int):
        _require_size(measure(right) * max(left, 0))


def _check_power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _require_size(measure(left) * max(right, 1))
    if abs(right) > _MAX_EXPONENT:
        raise BoundError(f"a power beyond {_MAX_EXPONENT} is not available in campaign texts")


def _check_sum(left: Any, right: Any) -> None:
    _require_size(measure(left) + measure(right))


def _check_remainder(left: Any, _right: Any) -> None:
    if isinstance(left, str):
        raise MisuseError("text % values is not available: write `text | format(values)`")


OPERATOR_CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "+": _check_sum,
    "*": _check_product,
    "**": _check_power,
    "%": _check_remainder,
}
"""By operator: refuses operands whose result would be too large."""
