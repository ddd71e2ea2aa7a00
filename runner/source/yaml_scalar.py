"""What a plain scalar means: YAML 1.2's core schema, narrowed to what a reader sees.

A plain scalar is a number only if writing that number gives the same characters again
(YAML 1.2.2, section 10.3.2, has the wider rule).
"""

from __future__ import annotations

import re
from typing import Any

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+", re.ASCII)


def read_plain(text: str) -> str | int | float | bool | None:
    """Return the value that the plain scalar `text` stands for."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in "-0123456789":
        if _INTEGER.fullmatch(text) and text != "-0":
            return int(text)
        if _DECIMAL.fullmatch(text) and repr(float(text)) == text:
            return float(text)
    return text


def write_scalar(value: Any) -> str:
    """Return a value as messages show it: `true` rather than Python's `True`."""
    if value is None:
        return "(nothing)"
    return str(value).lower() if isinstance(value, bool) else str(value)
