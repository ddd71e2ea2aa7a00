"""Values as people would write them in YAML on one line, for hints and for the reference of a format."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")
_NOT_A_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|0[box].*|true|false|null|yes|no|on|off|y|n", re.IGNORECASE
)
"""What one reader of YAML or another takes for a date, a number, a truth value or nothing."""


def write_flow(value: Any) -> str:
    """Return a value in YAML's flow style, in quotes where some reader would take a text for something else.

    Args:
        value: what JSON can hold.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write_flow(key)}: {write_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _reads_as_other(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _reads_as_other(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return _NOT_A_TEXT.fullmatch(text) is not None
    return True
