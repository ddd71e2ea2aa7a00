"""Structured logs: what a command says on standard error, as one JSON object a line.

Standard output is the same in either format.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from runner.cli.encoding import fit_json

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

FORMATS = ("text", "json")
_chosen = [FORMATS[0]]
_about: list[Callable[[], dict[str, str]]] = []


def choose_format(name: str, describe: Callable[[], dict[str, str]] | None = None) -> None:
    """Choose the format of this process's logs; `describe` returns fields that each record gets."""
    _chosen[:] = [name]
    _about[:] = [describe] if describe is not None else []
    if is_json():
        _listen_to_libraries()


def is_json() -> bool:
    """Return whether logs are JSON."""
    return _chosen[0] == "json"


def log_record(level: str, message: str, **fields: Any) -> None:
    """Write one record to standard error; fields that are None are left out."""
    sys.stderr.write(format_record(level, message, **fields))
    sys.stderr.flush()


def format_record(level: str, message: str, **fields: Any) -> str:
    """Return one record as a line, phones masked; a hint has none but the example."""
    # Imported here: only these logs need them.
    import json

    from runner.wording import hide_phones

    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    record: dict[str, Any] = {"level": level, "message": message}
    for describe in _about:
        record |= describe()
    record |= {name: value for name, value in fields.items() if value is not None}
    shown = {
        name: hide_phones(value) if isinstance(value, str) and name != "hint" else value
        for name, value in record.items()
    }
    timestamp = f"{stamp}.{nanoseconds // 1000:06d}Z"
    return fit_json(json.dumps({"timestamp": timestamp, **shown}, ensure_ascii=False), sys.stderr) + "\n"


@cache
def _listen_to_libraries() -> None:
    """Have warnings of libraries become records, without their words, which may hold a URL with its key."""
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log_record(record.levelname.lower(), "a library has something to say", logger=record.name)

    logging.getLogger().addHandler(Handler(logging.WARNING))
    logging.captureWarnings(capture=True)
