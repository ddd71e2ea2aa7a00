"""The service's records as a client keeps them, read from JSON (schemas/service.openapi.yaml)."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from dataclasses import dataclass, field, fields
from functools import partial
from sys import intern
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from runner.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

PAGE = 100
"""Records asked for at a time; no maximum is documented, so a page may come back smaller."""

Record = TypeVar("Record")

Guid: TypeAlias = str
"""The service's name for a thing: short visible ASCII."""
Name: TypeAlias = str
"""A name in any characters, at least one."""
Phone: TypeAlias = str
"""A phone number with its leading `+`, and nothing else between its digits."""

Author: TypeAlias = str
"""The phone of a result: a `Phone` if it is written with its country code, else its digits alone, which may
lack that code."""

Count: TypeAlias = int | None
"""A count of the service's; None if it says none, or none that can be read."""

Place: TypeAlias = int | None
"""A place in an order; None likewise."""

Words: TypeAlias = str
"""A text that was told, if only an empty one."""

Detail: TypeAlias = str
"""A text that nothing depends on; empty if the service says none."""

Statuses: TypeAlias = tuple[str, ...]
"""The states of sessions, in capitals; empty where the service says none."""

Stopped: TypeAlias = tuple[Phone, ...]
"""The phones of those whose sessions an opt-out has ended, or kept from beginning."""

Blocked: TypeAlias = tuple[Phone, ...]
"""The phones of those whose sessions an earlier opt-out has kept from beginning."""


@dataclass(frozen=True, slots=True)
class SendReply:
    """The outcome of one POST.

    Attributes:
        outcome: `sent`; `not_sent`, nothing left this machine; `rejected`, the request is wrong; or
            `unknown`, it may have been accepted.
        project_launch_guid: of a `sent` launch.
        detail: the reason for another outcome, for people; without credentials and plain phone numbers.
        is_final_for_run: True if every further send would fail likewise.
        may_retry: True if the launch was certainly not accepted and the reason may pass.
        is_busy: True for 429 and 503.
        retry_after_s: seconds to pause, if the service names them.
    """

    outcome: Literal["sent", "not_sent", "rejected", "unknown"]
    project_launch_guid: str | None = None
    detail: str | None = None
    status: int | None = None
    is_final_for_run: bool = False
    may_retry: bool = False
    is_busy: bool = False
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class StatRecord:
    """One launch: its counts, its definition and its recipients.

    A count is None if it is missing or invalid.

    Attributes:
        project_definition: the send body less the phones.
        recipients: `sessions[].to`, E.164; empty until the service lists them.
        stopped: recipients who opted out, according to `sessions[].sub_status`.
        blocked: those of `stopped` who had opted out before, so that nothing reached them.
        statuses: of the sessions, in the order of `recipients`.
    """

    kind: ClassVar[str] = "stat"

    project_launch_guid: Guid
    project_launch_start: str
    num_active_sessions: Count
    num_complete_sessions: Count
    num_messages: Count
    num_questions: Count
    num_queued_sessions: Count
    num_renders: Count
    num_results: Count
    project_tag: str
    project_definition: dict[str, Any] = field(repr=False)
    recipients: tuple[Phone, ...] = field(repr=False, metadata={"wire": "sessions"})
    stopped: Stopped = field(default=(), repr=False, metadata={"wire": "sessions"})
    blocked: Blocked = field(default=(), repr=False, metadata={"wire": "sessions"})
    statuses: Statuses = field(default=(), repr=False, metadata={"wire": "sessions"})

    @property
    def is_whole(self) -> bool:
        """True if `recipients` is complete, judging by the counts."""
        counts = (self.num_active_sessions, self.num_complete_sessions, self.num_queued_sessions)
        return bool(self.recipients) and len(self.recipients) >= sum(count or 0 for count in counts)

    @property
    def missing_counts(self) -> list[str]:
        """The names of the unknown counts."""
        return [name for name in COUNTS if getattr(self, name) is None]


COUNTS = tuple(one.name for one in fields(StatRecord) if one.type == "Count")
"""The names of a launch's counts."""


@dataclass(frozen=True, slots=True)
class PlanUsage:
    """The allowance of the service's plan in renders, and its cost as decimal text."""

    renders_used: int
    renders_max: int
    name: str = ""
    price_usd: str | None = None

    @property
    def is_used_up(self) -> bool:
        """True if the plan has no render left."""
        return self.renders_used >= self.renders_max


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """One result; only the person and the answer are required.

    `participant_guid` and `project_launch_participant_guid` name its author where the phone does not.
    """

    kind: ClassVar[str] = "result"

    result_guid: Name
    project_launch_guid: Guid
    participant_phone_number: Author
    question_guid: Detail
    question_tag: Detail
    question_text: Detail
    question_display_order: Place
    result_answer: Detail
    result_response: Words
    created: Detail
    updated: Detail
    participant_guid: Detail = ""
    project_launch_participant_guid: Detail = ""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be read.

    Attributes:
        guid: a result's result_guid; empty if that cannot be read either.
        project_launch_guid: the identifier that the service has given the launch; empty likewise.
        position: place in the service's list, from 0.
        problem: what it lacks, for people.
    """

    guid: str
    project_launch_guid: str
    position: int
    problem: str


@dataclass(frozen=True, slots=True)
class Page(Generic[Record]):
    """One page of a list, in the service's order; `total_count` is the whole list's, if given.

    `partial` is what can be read of unreadable results: perhaps no launch, no person, or no answer.
    """

    records: tuple[Record, ...]
    unreadable: tuple[Unreadable, ...]
    total_count: int | None
    partial: tuple[Record, ...] = ()

    @property
    def size(self) -> int:
        """The number of records that the service gave."""
        return len(self.records) + len(self.unreadable)

    def repeats(self, other: Page[Record] | None) -> bool:
        """Return True if another page has the same records: the list has not moved on."""
        return other is not None and bool(self.records) and self.records == other.records


AnyRecord = TypeVar("AnyRecord", StatRecord, ResultRecord)
_GUID = re.compile(r"[!-~]{1,200}")
_E164 = re.compile(r"\+[1-9][0-9]{1,14}")
"""ITU-T E.164: at most 15 digits."""
_MARKS = re.compile(r"[\s.()\[\]\-\u2010-\u2015\u2212]")
"""Characters between a number's digits: blanks, dots, brackets and dashes."""
_BLOCKED = "BLOCKED"
_STOPPED = ("OPTED_OUT", _BLOCKED)
"""A `sub_status` that says that its participant opted out, then or before. Only null is known of other
services; these are the sandbox's (docs/reference/sandbox.md)."""
_INTEGERS = range(-(2**31), 2**31)
"""Range of a ledger's integers."""
_OPTIONAL = frozenset({"Count", "Place", "Detail"})
"""The types of the fields that a record may leave out."""
_FIELDS = {
    kind.kind: [
        (field.name, field.metadata.get("wire", field.name), str(field.type)) for field in fields(kind)
    ]
    for kind in (StatRecord, ResultRecord)
}
"""Of each kind of record: its fields, their names on the wire, and their types."""


def read_record(kind: type[AnyRecord], item: Any) -> AnyRecord:
    """Return a record of the given kind.

    Raises:
        ServiceError: a required field is missing or unreadable. The message leaves out its value.
    """
    values: dict[str, Any] = {}
    for own, name, type_ in _FIELDS[kind.kind]:
        try:
            values[own] = _READERS[type_](item.get(name) if type_ in _OPTIONAL else item[name])
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise ServiceError(f"a {kind.kind} record of the service has no usable {name}") from None
    return kind(**values)


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
    if isinstance(value, float):
        raise TypeError
    written = _MARKS.sub("", _read_text(value))
    digits = written[1:] if written.startswith("+") else written.removeprefix("00")
    # JSON can hold half a surrogate pair, which cannot be encoded.
    return f"+{digits}".encode(errors="replace").decode()


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
    phones = tuple(_read_phone(session["to"]) for session in sessions or ())
    # A result without a person would let that person be texted again.
    if not all(map(_E164.fullmatch, phones)):
        raise ValueError
    return phones


def _read_ended(sub_statuses: Collection[str], sessions: Any) -> tuple[str, ...]:
    return tuple(
        _read_phone(session["to"])
        for session in sessions or ()
        if str(session.get("sub_status")) in sub_statuses
    )


def _read_statuses(sessions: Any) -> tuple[str, ...]:
    # Few distinct words for many sessions: each is kept once.
    return tuple(intern(_read_text(session.get("status")).strip().upper()) for session in sessions or ())


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _read_integer,
    "Count": _read_count,
    "Place": _read_count,
    "str": _read_text,
    "Detail": _read_text,
    "Name": _read_name,
    "Words": _read_words,
    "Guid": read_guid,
    "Author": _read_author,
    "dict[str, Any]": _read_definition,
    "tuple[Phone, ...]": _read_recipients,
    "Stopped": partial(_read_ended, _STOPPED),
    "Blocked": partial(_read_ended, (_BLOCKED,)),
    "Statuses": _read_statuses,
}
"""Readers of fields from their wire form, by type."""


def read_item(kind: type[AnyRecord], item: object, position: int) -> AnyRecord | Unreadable:
    """Return a record of a list."""
    try:
        return read_record(kind, item)
    except ServiceError as error:
        guid, launch = _find_guid(item, "result_guid"), _find_guid(item, "project_launch_guid")
        return Unreadable(guid, launch, position, error.message)


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
