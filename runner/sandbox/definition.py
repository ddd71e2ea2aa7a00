"""Validation of the body of a send, which reports all problems at once."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any

from runner.sandbox.model import Definition, Method, ServiceQuestion
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.webhooks.receiver import has_scheme, parse_receiver

# Usual punctuation between digits, with typographic dashes and no-break blanks.
_PHONE_PUNCTUATION = re.compile(r"[\s().\-/‐-―]+")
_DEPTH_MAX = 100
_PROBLEMS_MAX = 100
_PHONE = re.compile(r"\+?([0-9]{7,15})")


@dataclass(frozen=True, slots=True)
class SendRequest:
    """A checked send: the project, and the phones in E.164, each once, in the order of the body."""

    definition: Definition
    phones: tuple[str, ...] = field(repr=False)


def read_send(raw: bytes) -> SendRequest:
    """Read the body of `POST /api/send`, also in the further forms that public clients send.

    It is JSON whatever its content type. Unknown fields are kept in the definition and change nothing.

    Raises:
        RefusalError: 400, with every problem of the body.
    """
    body = _parse_object(raw)
    problems: list[str] = []
    phones = _read_phones(body.get("phone"), problems)
    definition = _read_definition(body, problems)
    if problems:
        message = "The send request is not valid; nobody was texted."
        raise RefusalError(400, "invalid_send", message, problems[:_PROBLEMS_MAX])
    return SendRequest(definition, phones)


@lru_cache(maxsize=256)
def load_definition(document: str) -> Definition:
    """Return a stored project definition, which was checked when it was sent."""
    return _read_definition(json.loads(document), [])


def normalise_phone(written: str) -> str | None:
    """Return a phone number in E.164; None unless it is 7 to 15 digits with usual punctuation."""
    match = _PHONE.fullmatch(_PHONE_PUNCTUATION.sub("", written))
    return None if match is None else f"+{match[1]}"


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        # Decoded here, since the parser takes invalid bytes.
        written = raw.decode(json.detect_encoding(raw))
        body = json.loads(written, parse_float=_read_float, parse_constant=_read_float)
        if "\\u" in written:
            # An escaped half of a surrogate pair is valid JSON, but can be neither stored nor sent.
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RefusalError(400, "invalid_json", explain_json(error)) from None
    if not isinstance(body, dict):
        raise RefusalError(400, "invalid_json", "The body must be a JSON object.")
    if _is_deeper(body, _DEPTH_MAX):
        raise RefusalError(400, "invalid_json", f"The body is nested more than {_DEPTH_MAX} levels deep.")
    return body


def explain_json(error: Exception) -> str:
    """Return a sentence about a body that is not JSON, with the place if the parser says one."""
    # The parser's own message would repeat parts of the body.
    place = f": line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
    return f"The body is not valid JSON{place}."


def _is_deeper(body: dict[str, Any], levels: int) -> bool:
    """Return whether objects and arrays nest deeper: JSON that can be read may be too deep to write."""
    containers: list[Any] = [body]
    for _ in range(levels):
        inside = (each.values() if isinstance(each, dict) else each for each in containers)
        containers = [value for values in inside for value in values if isinstance(value, (dict, list))]
        if not containers:
            return False
    return True


def _read_float(written: str) -> float:
    """Return a number; refuse NaN and numbers beyond a double, which JSON cannot represent."""
    value = float(written)
    if not isfinite(value):
        raise ValueError(written)
    return value


def _read_phones(value: object, problems: list[str]) -> tuple[str, ...]:
    # Some public clients send one phone without an array around it.
    written = [value] if isinstance(value, str) else value
    if written is None:
        problems.append("phone: is required")
        return ()
    if not isinstance(written, list):
        problems.append("phone: must be an array of strings")
        return ()
    if not written:
        problems.append("phone: must hold at least one number")
    # Each phone once, in order: one session a participant.
    phones: dict[str, None] = {}
    for index, phone in enumerate(written):
        if not isinstance(phone, str):
            problems.append(f"phone[{index}]: must be a string")
        elif (normalised := normalise_phone(phone)) is None:
            problems.append(f"phone[{index}]: is no phone number of 7 to 15 digits")
        else:
            phones[normalised] = None
    return tuple(phones)


def _read_definition(body: dict[str, Any], problems: list[str]) -> Definition:
    # Empty questions, or an empty text beside questions, count as absent: stats return surveys with one.
    has_questions = body.get("questions") not in (None, [])
    text = _read_text(body, "text", problems, may_be_empty=has_questions)
    questions = _read_questions(body.get("questions"), problems)
    if has_questions and body.get("text") not in (None, ""):
        problems.append("text: must be left out where there are questions")
    elif not has_questions and body.get("text") is None:
        problems.append(
            "text: is required, unless there are questions"
            if body.get("questions") is None
            else "questions: must hold at least one question"
        )
    return Definition(
        document=json.dumps({name: value for name, value in body.items() if name != "phone"}),
        text=text or None,
        questions=questions,
        introduction=_read_text(body, "introduction", problems),
        conclusion=_read_text(body, "conclusion", problems),
        tag=_read_text(body, "tag", problems) or "",
        method=_read_method(body.get("method"), problems),
        completes_existing=_read_flag(body, "complete_existing_sessions", problems),
    )


def _read_questions(value: object, problems: list[str]) -> tuple[ServiceQuestion, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.append("questions: must be an array of objects")
        return ()
    return tuple(_read_question(item, f"questions[{index}]", problems) for index, item in enumerate(value))


def _read_question(item: object, path: str, problems: list[str]) -> ServiceQuestion:
    if not isinstance(item, dict):
        problems.append(f"{path}: must be an object")
        return ServiceQuestion("")
    text = _read_text(item, "text", problems, path, may_be_empty=False)
    if item.get("text") is None:
        problems.append(f"{path}.text: is required")
    return ServiceQuestion(
        text=text or "",
        tag=_read_text(item, "tag", problems, path) or "",
        responses=_read_responses(item.get("responses"), f"{path}.responses", problems),
        conclude_on=_read_text(item, "conclude_on", problems, path),
        webhook=_read_webhook(item, path, problems),
    )


def _read_responses(value: object, path: str, problems: list[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.append(f"{path}: must be an array of strings")
        return ()
    if not value:
        problems.append(f"{path}: must hold at least one response; leave it out for a freeform question")
    for index, response in enumerate(value):
        if not isinstance(response, str):
            problems.append(f"{path}[{index}]: must be a string")
        elif not response.strip():
            problems.append(f"{path}[{index}]: must not be empty")
    return tuple(response for response in value if isinstance(response, str))


def _read_webhook(item: dict[str, Any], path: str, problems: list[str]) -> str | None:
    webhook = _read_text(item, "webhook", problems, path)
    if not webhook:
        return None
    if has_scheme(webhook) and parse_receiver(webhook) is None:
        problems.append(f"{path}.webhook: must be an http or https URL")
        return None
    return webhook


def _read_text(
    fields: dict[str, Any], name: str, problems: list[str], path: str = "", *, may_be_empty: bool = True
) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    where = f"{path}.{name}" if path else name
    if not isinstance(value, str):
        problems.append(f"{where}: must be a string")
        return None
    if not may_be_empty and not value.strip():
        problems.append(f"{where}: must not be empty")
    return value


def _read_method(value: object, problems: list[str]) -> Method:
    if value is None:
        return Method.SMS
    try:
        return Method(str(value).upper())
    except ValueError:
        problems.append("method: must be SMS or VOICE")
        return Method.SMS


def _read_flag(body: dict[str, Any], name: str, problems: list[str]) -> bool:
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    problems.append(f"{name}: must be true or false")
    return False
