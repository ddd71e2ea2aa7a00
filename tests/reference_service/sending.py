"""The body of a send, as the service reads it."""

from __future__ import annotations

import json
import re
from typing import Any

_NUMBER = re.compile(r"\+?[0-9]{7,15}")


class BadSendError(ValueError):
    """A send that the service refuses."""


def read_body(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a request, whatever type of content it names.

    Raises:
        BadSendError: it is none.
    """
    try:
        body = json.loads(content)
    except ValueError:
        raise BadSendError("the body is no JSON") from None
    if not isinstance(body, dict):
        raise BadSendError("the body is no JSON object")
    return body


def read_send(body: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the phones of a send, as `+` and digits, and its definition as it came.

    Raises:
        BadSendError: there is nobody to send to, or nothing to say.
    """
    definition = {name: value for name, value in body.items() if name != "phone"}
    _check(definition)
    return _read_phones(body.get("phone")), definition


def _read_phones(phone: object) -> list[str]:
    listed = phone if isinstance(phone, list) else [phone]
    phones = [re.sub(r"\s", "", str(item)) for item in listed if item is not None]
    if not phones or not all(map(_NUMBER.fullmatch, phones)):
        raise BadSendError("`phone` is no list of phone numbers")
    return [f"+{number.removeprefix('+')}" for number in phones]


def _check(definition: dict[str, Any]) -> None:
    text, questions = definition.get("text"), definition.get("questions")
    if not (text or questions):
        raise BadSendError("there is neither `text` nor `questions`")
    for name in ("text", "introduction", "conclusion", "tag"):
        if not isinstance(definition.get(name), str | None):
            raise BadSendError(f"`{name}` is no text")
    if not isinstance(questions, list | None):
        raise BadSendError("`questions` is no list")
    for question in questions or []:
        if not isinstance(question, dict) or not isinstance(question.get("text"), str):
            raise BadSendError("a question has no `text`")
        if not isinstance(question.get("responses"), list | None):
            raise BadSendError("the `responses` of a question are no list")
    if str(definition.get("method") or "SMS").upper() not in ("SMS", "VOICE"):
        raise BadSendError("`method` is neither SMS nor VOICE")
