"""The ledger's values, without SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LaunchState = Literal["intent", "sent", "not_sent", "rejected", "unknown", "unexplained"]
"""`intent`: recorded before the POST, no outcome yet; `unknown`: it may have been accepted; `unexplained`:
the service lists it, and no record says whose it is."""
Fingerprint = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{20}$")]
SUPPRESSIONS_SUFFIX = ".suppressions.json"
APPROVALS_SUFFIX = ".approvals.json"
"""The ending of files of suppressions, after the target's name."""
DATE = "date:"
"""The beginning of occasions on record that are dates."""
ENDED = "COMPLETE"
"""The status of a session that has ended."""
QUEUED = "QUEUED"
"""The status of a session whose text waits for an earlier session of the same person to end."""


class SealedLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A line of a record file. Its seal is empty until it is written."""

    seal: str = ""


class AudienceFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Figures of an audience when a run sent to it: they name nobody.

    `people` are distinct phones, before exclusions; `excluded` distinct phones of the lists to exclude;
    `opted_out` the people on record who had opted out. `filled` has the people with a value, by column.
    """

    people: int
    excluded: int
    opted_out: int
    filled: tuple[tuple[str, int], ...] = ()


class Run(SealedLine, frozen=True):
    """One `apply` that was about to send.

    `id` is a digest of all other fields, the same in every record, so that merging needs no new ids;
    `plan_digest` is what `runner plan` prints. `commit` is of the campaigns' repository, and `dirty` whether
    campaign files differed from it; `run_url` and `triggered_by` are the CI job's page and user.
    `audience` is that of the campaign that it sent.
    """

    id: str
    started_at: str
    plan_digest: str
    commit: str | None = None
    dirty: bool = False
    run_url: str | None = None
    triggered_by: str | None = None
    audience: AudienceFigures | None = None


class _LaunchNotes(SealedLine, frozen=True, kw_only=True):
    """Optional fields of a launch on record: the experiment's arm, if it is known, and the run's id.

    If it `asks` something, its sessions stay open. `occasion` tells apart the times that a message goes to
    the same person: the wave; empty if it goes once.
    """

    occasion: str = ""
    arm: str | None = None
    asks: bool = False
    run: str | None = None


class LaunchEntry(_LaunchNotes, frozen=True):
    """The common fields of a launch on record, before it is sent and afterwards.

    `key` is a digest of campaign, message, payload and recipients, which are fingerprints, sorted.
    """

    message: str
    key: str
    tag: str
    payload_digest: str
    recipients: tuple[Fingerprint, ...]


class Intent(LaunchEntry, frozen=True):
    """A launch about to be sent; `definition` is the send body less `phone`, as JSON."""

    definition: str


class ReservedLaunch(LaunchEntry, frozen=True):
    """A launch that a run was about to send, for other machines.

    `definition_digest` is of the definition as the service lists it. `reserved_at` is UTC, ISO 8601.
    """

    definition_digest: str
    reserved_at: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """A group of launches that were reserved together, with their runs.

    `id` is a digest of its text; a ledger that has absorbed it has all its launches that can have been sent.
    """

    id: str
    launches: tuple[ReservedLaunch, ...]
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a launch (UTC, ISO 8601).

    Only `sent` launches have a `project_launch_guid`; `detail` explains other states, without secrets.
    """

    launch_id: int
    state: LaunchState
    at: str
    project_launch_guid: str | None = None
    detail: str | None = None


class LaunchRecord(LaunchEntry, frozen=True):
    """An accepted launch, as in the lockfile."""

    project_launch_guid: str
    sent_at: str


class SessionProgress(IntEnum):
    """The furthest that a session was seen before its end: one that ended while it was queued had no text."""

    UNSEEN = 0
    QUEUED = 1
    BEGUN = 2


class StoredSession(NamedTuple):
    """A session to be stored.

    `status` is the service's, in capitals, or empty. `stopped`: an opt-out ended or prevented it; `blocked`:
    it was prevented, and nothing was rendered. `replaced`: a later send of the same account ended it.
    """

    launch_id: int
    participant: str
    status: str
    stopped: bool
    blocked: bool = False
    replaced: bool = False

    @property
    def progress(self) -> SessionProgress:
        """The progress that its state tells of."""
        if self.status in ("", ENDED):
            return SessionProgress.UNSEEN
        return SessionProgress.QUEUED if self.status == QUEUED else SessionProgress.BEGUN


class StoredResult(NamedTuple):
    """A result to be stored: the service's fields without the phone number.

    `non_answer` is why it answers nothing; empty for an answer.
    """

    launch_id: int
    result_guid: str
    participant: str
    question_guid: str
    question_tag: str
    question_text: str
    question_display_order: int
    result_answer: str
    result_response: str
    created: str
    updated: str
    non_answer: str = ""


def on_occasion(fingerprint: str, occasion: str) -> str:
    """Return the key of a person's delivery on an occasion: the fingerprint alone if there is none."""
    return f"{fingerprint}@{occasion}" if occasion else fingerprint


def find_wave(occasion: str) -> str:
    """Return the wave that an occasion on record is; empty for a date, or none."""
    return "" if occasion.startswith(DATE) else occasion


def count_on(deliveries: Collection[str], occasion: str) -> int:
    """Return the number of deliveries, by their keys, on an occasion; of all if it is empty."""
    return sum(one.endswith(f"@{occasion}") for one in deliveries) if occasion else len(deliveries)


@dataclass(frozen=True, slots=True)
class CampaignLaunches:
    """The launches of a campaign that are asked about: those of one wave, if it has waves.

    `message_ids` maps former ids of messages to current ones.
    """

    campaign_id: int
    message_ids: Mapping[str, str] = field(default_factory=dict)
    wave: str = ""


@dataclass(frozen=True, slots=True)
class RecordedDeliveries:
    """The recorded deliveries of a campaign: their keys (`on_occasion`) by message id.

    `unresolved` ones have an unknown outcome, and time alone never frees them; those in `unexplained` are of
    launches that no record explains.
    """

    sent: dict[str, set[str]]
    unresolved: dict[str, set[str]]
    unexplained: dict[str, set[str]] = field(default_factory=dict)

    @property
    def messages(self) -> set[str]:
        """The ids of messages that people got, or may have got."""
        shelves = (self.sent, self.unresolved)
        return {message for shelf in shelves for message, people in shelf.items() if people}

    def is_empty(self) -> bool:
        """Return whether nobody is recorded as texted."""
        return not self.messages

    def count_texted(self, wave: str = "") -> dict[str, tuple[int, int]]:
        """Return the numbers of people who got each message in a wave, and who may have, by message id."""
        sent, unresolved = self.sent, self.unresolved
        return {
            name: (count_on(sent.get(name, ()), wave), count_on(unresolved.get(name, ()), wave))
            for name in self.messages
        }


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A launch that may or may not have been sent.

    `definition` is the send body less `phone`; None for another machine's, which has a `definition_digest`
    instead. `intent_at` is before sending (UTC, ISO 8601). `detail` is None if the process died first.
    """

    id: int
    message: str
    key: str
    tag: str
    definition: dict[str, Any] | None
    recipients: frozenset[str]
    intent_at: str
    detail: str | None
    definition_digest: str = ""
    occasion: str = ""


def format_moment(moment: datetime) -> str:
    """Return a moment in UTC, ISO 8601, to the microsecond: sortable text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_moment(text: str) -> datetime | None:
    """Return a time of the service in UTC, which it writes without a suffix; None if it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def write_moment(text: str, otherwise: str = "") -> str:
    """Return a time of the service as `format_moment` has it; `otherwise` if it cannot be read."""
    moment = parse_moment(text)
    return format_moment(moment) if moment else otherwise


def find_later_moment(at: str, latest: str | None) -> str:
    """Return a moment, or one just after `latest` if that is later: a clock set back undoes nothing."""
    if latest is None or latest < at:
        return at
    return format_moment(datetime.fromisoformat(latest) + timedelta(microseconds=1))
