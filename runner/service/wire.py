"""The service's records and names, read from their wire form (reference, section 2; wire facts)."""

from __future__ import annotations

import re
from dataclasses import fields
from sys import intern
from typing import TYPE_CHECKING, Any, TypeVar

from runner.errors import ServiceError
from runner.service.model import ResultRecord, StatRecord

if TYPE_CHECKING:
    from collections.abc import Callable

_GUID = re.compile(r"[!-~]{1,200}")
_E164 = re.compile(r"\+[1-9][0-9]{1,14}")
"""ITU-T E.164: at most 15 digits."""
_MARKS = re.compile(r"[\s.()\[\]\-\u2010-\u2015\u2212]")
"""What people put between a number's digits: blanks, dots, brackets and dashes."""
_BLOCKED = "BLOCKED"
_STOPPED = frozenset({"OPTED_OUT", _BLOCKED})
"""A `sub_status` that says that its participant opted out, then or before: the reference shows no value but
null, these are the sandbox's (README, "Decisions")."""
_INTEGERS = range(-(2**31), 2**31)
"""What an integer of a ledger can be."""
_Record = TypeVar("_Record", StatRecord, ResultRecord)


def read_record(kind: type[_Record], item: Any) -> _Record:
    """Return a record of the service.

    Args:
        kind: what it should be.
        item: as the service wrote it, in whatever form.

    Raises:
        ServiceError: a field that is needed is missing, or cannot be read. Its value is not told.
    """
    values: dict[str, Any] = {}
    for field, name, type_ in _FIELDS[kind.kind]:
        try:
            values[field] = _READERS[type_](item.get(name) if type_ in _OPTIONAL else item[name])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise ServiceError(f"a {kind.kind} record of the service has no usable {name}") from None
    return kind(**values)


def _read_integer(value: Any) -> int:
    number = int(value)
    if number not in _INTEGERS:
        raise ValueError
    return number


def _read_count(value: Any) -> int | None:
    # What is no count is not taken for one: that it is not known makes the launch no less real.
    if isinstance(value, bool):
        return None
    try:
        number = _read_integer(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 0 else None


def _read_text(value: Any) -> str:
    return "" if value is None else str(value)


def _read_words(value: Any) -> str:
    # One that is not told is not an empty one: it may be anything, an opt-out among them.
    if value is None:
        raise ValueError
    return str(value)


def read_guid(value: Any) -> str:
    """Return a guid, which goes into records, addresses and lockfiles as it is.

    Raises:
        ValueError: it cannot be one.
    """
    if not isinstance(value, str) or not _GUID.fullmatch(value):
        raise ValueError
    return value


def _read_definition(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _read_phone(value: Any) -> str:
    # Numbers are seen on the wire with and without their leading +.
    if isinstance(value, float):
        raise TypeError
    digits = _MARKS.sub("", _read_text(value)).removeprefix("+")
    # Half a surrogate pair, which JSON can hold, has no place in a text that is to be encoded.
    return f"+{digits}".encode(errors="replace").decode()


def _read_recipients(sessions: Any) -> tuple[str, ...]:
    phones = tuple(_read_phone(session["to"]) for session in sessions or ())
    # One that is taken for nobody's would be texted again.
    if not all(map(_E164.fullmatch, phones)):
        raise ValueError
    return phones


def _read_stopped(sessions: Any) -> tuple[str, ...]:
    return tuple(
        _read_phone(session["to"]) for session in sessions or () if str(session.get("sub_status")) in _STOPPED
    )


def _read_blocked(sessions: Any) -> tuple[str, ...]:
    return tuple(
        _read_phone(session["to"]) for session in sessions or () if session.get("sub_status") == _BLOCKED
    )


def _read_statuses(sessions: Any) -> tuple[str, ...]:
    # A few words for very many sessions: each is kept once.
    return tuple(intern(_read_text(session.get("status")).strip().upper()) for session in sessions or ())


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _read_integer,
    "Count": _read_count,
    "Place": _read_count,
    "str": _read_text,
    "Detail": _read_text,
    "Words": _read_words,
    "Guid": read_guid,
    "Phone": _read_phone,
    "dict[str, Any]": _read_definition,
    "tuple[Phone, ...]": _read_recipients,
    "Stopped": _read_stopped,
    "Blocked": _read_blocked,
    "Statuses": _read_statuses,
}
"""How a field is read from its wire form, by its type."""
_OPTIONAL = frozenset({"Count", "Place", "Detail"})
"""The types of the fields that a record may leave out."""

_FIELDS = {
    kind.kind: [
        (field.name, field.metadata.get("wire", field.name), str(field.type)) for field in fields(kind)
    ]
    for kind in (StatRecord, ResultRecord)
}
"""Of each kind of record: its fields, their names on the wire, and their types."""
