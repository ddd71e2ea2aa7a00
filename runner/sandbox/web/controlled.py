"""Reads what control requests carry, and says in words what is wrong with it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from runner.sandbox.durations import TooLongError, parse_duration
from runner.sandbox.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import timedelta

    from starlette.requests import Request

_MAX_BYTES = 64 * 1024
_COUNT = re.compile(r"[0-9]{1,12}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?", re.ASCII)


async def read_object(request: Request, known: Collection[str]) -> dict[str, Any]:
    """Read a request's body as a JSON object; nothing at all is an empty one.

    Args:
        request: whose body is read.
        known: the keys that it may have.

    Raises:
        RefusalError: 400, it is no JSON object or has other keys; 413, it is larger than 64 KiB.
    """
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _MAX_BYTES:
            raise RefusalError(413, "body_too_large", f"The body is larger than {_MAX_BYTES} bytes.")
    try:
        body = json.loads(raw or b"{}")
    except (ValueError, RecursionError):
        raise RefusalError(400, "invalid_body", "The body is no JSON.") from None
    if not isinstance(body, dict):
        raise RefusalError(400, "invalid_body", "The body must be a JSON object.")
    require_known(body, known)
    return body


def require_known(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse names that mean nothing: a misspelt one would otherwise be waited for in vain."""
    unknown = [name for name in given if name not in known]
    if unknown:
        shown = ", ".join(sorted(set(known) - {"username", "api_key"}))
        message = "There is a key or parameter that means nothing here."
        raise RefusalError(400, "unknown_name", message, [f"known are {shown}"])


def read_text(body: dict[str, Any], name: str) -> str:
    """Give a text of the body.

    Raises:
        RefusalError: 400, it is missing, empty or no text.
    """
    value = body.get(name)
    # A lone surrogate is JSON, but no text that could be stored.
    if not isinstance(value, str) or not value or any("\ud800" <= char <= "\udfff" for char in value):
        raise RefusalError(400, "invalid_body", f"{name}: must be a text.")
    return value


def read_count(written: str, name: str) -> int:
    """Read a whole number of a query.

    Raises:
        RefusalError: 400, it isn't one.
    """
    if not _COUNT.fullmatch(written):
        raise RefusalError(400, "invalid_parameter", f"{name}: must be a whole number.")
    return int(written)


def read_duration(written: str, name: str) -> timedelta:
    """Read a length of time: a number of seconds, or as in `50ms` or `2d`, with or without a `+`.

    Raises:
        RefusalError: 400, it isn't one.
    """
    text = written.removeprefix("+")
    try:
        return parse_duration(f"{text}s" if _SECONDS.fullmatch(text) else text)
    except TooLongError:
        raise RefusalError(400, "invalid_duration", f"{name}: is longer than 100 years.") from None
    except ValueError:
        message = f"{name}: must be a length of time, as in 30, 90s, 1h30m or 2d."
        raise RefusalError(400, "invalid_duration", message) from None
