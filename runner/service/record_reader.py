"""Strict reading of the service's records from JSON (schemas/service.openapi.yaml)."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from dataclasses import fields
from functools import partial
from sys import intern
from typing import TYPE_CHECKING, Any, TypeVar

from runner.service.model import ResultRecord, StatRecord, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


AnyRecord = TypeVar("AnyRecord", StatRecord, ResultRecord)
_GUID = re.compile(r"[!-~]{1,200}")
_E164 = re.compile(r"\+[1-9][0-9]{1,14}")
"""ITU-T E.164: at most 15 digits."""
_MARKS = re.compile(r"[\s.()\[\]\-\u2010-\u2015\u2212]")
"""Characters between a number's digits: blanks, dots, brackets and dashes."""
_INTEGERS = range(-(2**31), 2**31)
"""Range of a ledger's integers."""
_OPTIONAL = frozenset({"Count", "Detail"})
"""The types of the fields that a record may leave out."""
_FIELDS = {
    kind.kind: [
        (field.name, field.metadata.get("wire", field.name), str(field.type)) for field in fields(kind)
    ]
    for kind in (StatRecord, ResultRecord)
}
"""Of each kind of record: its fields, their names on the wire, and their types."""


def _read_integer(value: Any) -> int:
    number = int(value)
    if number not in _INTEGERS:
        raise ValueError
    return number


def _read_count(value: Any) -> int | None:
    # An invalid count is unknown: the launch is real all the same.
    if isinstance(value, bool):
        return None
    try:
        number = _read_integer(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 0 else None


def _read_text(value: Any) -> str:
    return "" if value is None else str(value)


def _read_name(value: Any) -> str:
    if not (name := _read_text(value)):
        raise ValueError
    return name


def _read_words(value: Any) -> str:
    # A missing answer is not an empty one: it may be anything, an opt-out among them. So may a list of one.
    if not isinstance(value, str) and not math.isfinite(value):
        raise ValueError
    return str(value)


def read_guid(value: Any) -> str:
    """Return a guid, which goes into records, addresses and lockfiles unchanged.

    Raises:
        ValueError: it is not a valid guid.
    """
    if not isinstance(value, str) or not _GUID.fullmatch(value):
        raise ValueError
    return value


def _read_definition(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _read_phone(value: Any) -> str:
    # The service writes numbers with and without a leading +, or with 00 in its place.
    if isinstance(value, str) and _E164.fullmatch(value):
        return value
    if isinstance(value, float):
        raise TypeError
    written = _MARKS.sub("", _read_text(value))
    phone = f"+{written[1:] if written.startswith('+') else written.removeprefix('00')}"
    if not _E164.fullmatch(phone):
        raise ValueError
    return phone


def _read_author(value: Any) -> str:
    if isinstance(value, str) and _E164.fullmatch(value):
        return value
    if isinstance(value, float):
        raise TypeError
    written = unicodedata.normalize("NFKC", _read_text(value)).strip().removeprefix("tel:").strip()
    digits = "".join(str(unicodedata.decimal(char)) for char in written if char.isdecimal())
    if not digits:
        raise ValueError
    plain = _MARKS.sub("", written)
    start = "+" if plain.startswith("+") else "00"
    phone = f"+{digits if start == '+' else digits.removeprefix(start)}"
    is_whole = plain.startswith(start) and plain[len(start) :].isdecimal() and _E164.fullmatch(phone)
    return phone if is_whole else digits


def _read_recipients(sessions: Any) -> tuple[str, ...]:
    # A result without a person would let that person be texted again.
    return tuple(_read_phone(session["to"]) for session in sessions or ())


def _read_states(name: str, sessions: Any) -> tuple[str, ...]:
    # Few distinct words for many sessions: each is kept once.
    return tuple(intern(_read_text(session.get(name)).strip().upper()) for session in sessions or ())


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _read_integer,
    "Count": _read_count,
    "str": _read_text,
    "Detail": _read_text,
    "Name": _read_name,
    "Words": _read_words,
    "Guid": read_guid,
    "Author": _read_author,
    "dict[str, Any]": _read_definition,
    "tuple[Phone, ...]": _read_recipients,
    "Statuses": partial(_read_states, "status"),
    "Endings": partial(_read_states, "sub_status"),
}
"""Readers of fields from their wire form, by type."""


def read_item(kind: type[AnyRecord], item: Any, position: int) -> AnyRecord | Unreadable:
    """Return a record of a list."""
    values: dict[str, Any] = {}
    for own, name, type_ in _FIELDS[kind.kind]:
        try:
            values[own] = _READERS[type_](item.get(name) if type_ in _OPTIONAL else item[name])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            guid, launch = _find_guid(item, "result_guid"), _find_guid(item, "project_launch_guid")
            problem = f"a {kind.kind} record of the service has no usable {name}"
            return Unreadable(guid, launch, position, problem)
    return kind(**values)


def read_rest(kind: type[AnyRecord], item: Any) -> AnyRecord | None:
    """Return what can be read of an unreadable result, the rest empty; None if it is no result at all."""
    if kind is not ResultRecord or not isinstance(item, dict):
        return None
    values: dict[str, Any] = {}
    for own, name, type_ in _FIELDS[kind.kind]:
        try:
            values[own] = _READERS[type_](item.get(name))
        except (TypeError, ValueError, OverflowError):
            values[own] = ""
    # A reply is known and decided on by its name.
    values["result_guid"] = values["result_guid"] or _find_guid(item, "guid") or _make_name(values)
    return kind(**values)


def _make_name(values: Mapping[str, Any]) -> str:
    """Return a name for a result without one: always the same, and with nothing of its phone in it."""
    text = json.dumps([values[name] for name in sorted(values.keys() - {"participant_phone_number"})])
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"runner result").hexdigest()


def _find_guid(item: object, name: str) -> str:
    """Return a record's guid; empty if there is none."""
    try:
        return read_guid(item.get(name)) if isinstance(item, dict) else ""
    except ValueError:
        return ""
