"""People who were texted lately (`policy.frequency_cap`), or have an open survey (`policy.open_session`).

All campaigns on the target count.

A text to a person with an open survey waits at the service until that survey ends, and then leaves at any
hour. Surveys without later readings count as open.

And everything that a ledger has about one person.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Integer, Select, String, and_, bindparam, func, select

from runner.ledger.bulk import iterate_rows
from runner.ledger.fingerprint import FingerprintSet
from runner.ledger.people.open_sessions import OpenSessions, OpenShelf
from runner.ledger.record.unsettled import OPEN, UNEXPLAINED
from runner.ledger.tables import campaigns, deliveries, launch_stats, launches, opt_outs, results, sessions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import BindParameter

    from runner.ledger.files.suppressions import Source, State
    from runner.ledger.fingerprint import TargetKey


_GROUP = 1000
REACHED = ("intent", "sent", "unknown", "unexplained")
"""The states of launches that may have been sent; they all count against the cap."""
_SECONDS = len("2026-11-20T12:00:00")


@dataclass(frozen=True, slots=True)
class RecentDeliveries:
    """Recent deliveries on a target: the fingerprints of the people, each once for every message."""

    key: TargetKey
    people: FingerprintSet

    def count(self, phone: str) -> int:
        """Return the number of messages that a person was sent, or may have been; a survey is one message."""
        return self.people.count(self.key.fingerprint(phone))


def read_recent(
    connection: Connection, key: TargetKey, since: str, phones: Collection[str] | None = None
) -> RecentDeliveries:
    """Return the deliveries on a target since a moment (UTC, ISO 8601, to the second), at 16 bytes each.

    `phones` (E.164) limits the people; None means all.
    """
    # Compared as text, to the second: fractions and zones are written in different ways.
    is_recent = and_(launches.c.state.in_(REACHED), launches.c.intent_at >= since[:_SECONDS])
    query = select(deliveries.c.fingerprint).join(launches, launches.c.id == deliveries.c.launch_id)
    rows = _iterate_people(connection, query.where(is_recent), key, phones)
    return RecentDeliveries(key, FingerprintSet(row[0] for row in rows))


def _iterate_people(
    connection: Connection, query: Select[Any], key: TargetKey, phones: Collection[str] | None
) -> Iterator[Any]:
    """Yield rows of a target's deliveries to some people, by fingerprint; None means all.

    The query selects from deliveries and launches, the fingerprint first.
    """
    theirs = query.where(deliveries.c.released.is_(False))
    if phones is None:
        own = select(campaigns.c.id).where(campaigns.c.target == key.target)
        ordered = theirs.where(deliveries.c.campaign_id.in_(own)).order_by(deliveries.c.fingerprint)
        streamed = ordered.execution_options(yield_per=_GROUP)
        yield from iterate_rows(connection, streamed, deliveries.c.fingerprint, None)
        return
    asked, found = [key.fingerprint(phone) for phone in phones], list[Any]()
    own = select(campaigns.c.id).where(campaigns.c.target == key.target)
    for campaign_id in connection.execute(own).scalars().all():
        # By the whole primary key: few of possibly many deliveries are wanted.
        messages = list(iterate_messages(connection, campaign_id))
        place = and_(deliveries.c.campaign_id == campaign_id, deliveries.c.message.in_(messages))
        found += iterate_rows(connection, theirs.where(place), deliveries.c.fingerprint, asked)
    yield from sorted(found)


def iterate_messages(connection: Connection, campaign_id: int) -> Iterator[str]:
    """Yield the ids of a campaign's messages by skipping through the index: DISTINCT would read all."""
    first = select(func.min(deliveries.c.message)).where(deliveries.c.campaign_id == campaign_id)
    message = connection.execute(first).scalar()
    while message is not None:
        yield message
        message = connection.execute(first.where(deliveries.c.message > message)).scalar()


def read_open_sessions(
    connection: Connection,
    key: TargetKey,
    phones: Collection[str] | None = None,
    *,
    other_than: int | None = None,
) -> OpenSessions:
    """Return the people with an open survey on a target, at 16 bytes each.

    The connection must read one state of the ledger. `phones` (E.164) limits the people, None means all; the
    campaign `other_than` does not count.
    """
    if not has_open_launches(connection, key.target, other_than=other_than):
        return OpenSessions(key)
    may_hold = and_(launches.c.state.in_(REACHED), launches.c.is_open)
    are_holding = _are_holding(key.target, may_hold)
    if other_than is not None:
        are_holding &= campaigns.c.id != other_than
    asked = None if phones is None else [key.fingerprint(phone) for phone in phones]
    shelves = []
    theirs = select(campaigns.c.id, campaigns.c.name).where(are_holding).order_by(campaigns.c.name)
    for campaign_id, name in connection.execute(theirs).all():
        is_held = and_(
            may_hold,
            deliveries.c.has_ended.is_(None),
            deliveries.c.released.is_(False),
            deliveries.c.campaign_id == campaign_id,
        )
        people: list[Any]
        if asked is None:
            # Not for some people: the server would go through all open launches for each of them.
            held = _select_open(is_held & (launches.c.campaign_id == campaign_id))
            ordered = held.order_by(deliveries.c.fingerprint).execution_options(yield_per=_GROUP)
            people = list(iterate_rows(connection, ordered, deliveries.c.fingerprint, None))
        else:
            messages = list(iterate_messages(connection, campaign_id))
            held = _select_open(is_held & deliveries.c.message.in_(messages))
            people = sorted(iterate_rows(connection, held, deliveries.c.fingerprint, asked))
        is_open_now = FingerprintSet(person for person, is_read in people if is_read)
        unread = FingerprintSet(person for person, is_read in people if not is_read)
        shelves.append(OpenShelf(name, is_open_now, unread))
    return OpenSessions(key, tuple(shelves))


def has_open_launches(connection: Connection, target: str, *, other_than: int | None = None) -> bool:
    """Return whether a launch on a target, not of the campaign `other_than`, may have open sessions."""
    asked = {"b_target": target, "b_other": -1 if other_than is None else other_than}
    return connection.execute(_HOLDING, asked).first() is not None


def _are_holding(target: str | BindParameter[str], may_hold: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition for campaigns whose launches may have open sessions."""
    theirs = select(launches.c.id).where(launches.c.campaign_id == campaigns.c.id, may_hold)
    # OFFSET has PostgreSQL stop at a campaign's first one, rather than join all open launches.
    return and_(campaigns.c.target == target, theirs.correlate(campaigns).offset(0).exists())


# Built once: a send asks for each of its groups.
_HOLDING = (
    select(campaigns.c.id)
    .where(
        _are_holding(
            bindparam("b_target", type_=String), and_(launches.c.state.in_(REACHED), launches.c.is_open)
        ),
        campaigns.c.id != bindparam("b_other", type_=Integer),
    )
    .limit(1)
)


def _select_open(is_held: ColumnElement[bool]) -> Select[Any]:
    """Select fingerprints, each with whether its launch was read since it was sent."""
    return (
        select(deliveries.c.fingerprint, launch_stats.c.reconciled_at.is_not(None))
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(is_held)
    )


class RecordedText(NamedTuple):
    """A message that a person got, or may have got.

    Attributes:
        campaign: the campaign's name.
        message: the message's id.
        arm: of an experiment's message; None if it has no arms.
        is_certain: whether the service has accepted it.
        at: when it was accepted, or else tried: UTC, ISO 8601.
        project_launch_guid: the launch at the service; None if that is not known.
        definition: the texts that were sent, as in the send body; None if only a lockfile has the launch.
        session: the state of their session as last read; None if it was not.
    """

    campaign: str
    message: str
    arm: str | None
    is_certain: bool
    at: str
    project_launch_guid: str | None
    definition: dict[str, Any] | None
    session: str | None


class RecordedAnswer(NamedTuple):
    """An answer of a person, as last reconciled.

    Attributes:
        campaign: the campaign's name.
        message: the message's id.
        question_tag: the question's tag; empty if the service gave none.
        question_text: the question.
        answer: the response that was taken, else the reply's words.
        created: the service's time of it.
    """

    campaign: str
    message: str
    question_tag: str
    question_text: str
    answer: str
    created: str


class RecordedOptOut(NamedTuple):
    """A piece of evidence that a person opted out, and the decision on it.

    Attributes:
        source: where it comes from.
        state: whether it counts.
        at: when it was entered or last decided: UTC, ISO 8601.
    """

    source: Source
    state: State
    at: str


def read_texts(connection: Connection, target: str, fingerprints: Collection[str]) -> list[RecordedText]:
    """Return the messages that a person got or may have got on a target, the earliest first."""
    query = (
        select(
            campaigns.c.name,
            launches.c.message,
            launches.c.arm,
            launches.c.state,
            launches.c.intent_at,
            launches.c.outcome_at,
            launches.c.project_launch_guid,
            launches.c.definition,
            sessions.c.status,
        )
        .select_from(deliveries)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .outerjoin(
            sessions,
            and_(sessions.c.launch_id == launches.c.id, sessions.c.participant == deliveries.c.fingerprint),
        )
        .where(
            campaigns.c.target == target,
            deliveries.c.fingerprint.in_(fingerprints),
            deliveries.c.released.is_(False),
        )
    )
    found = [
        RecordedText(
            row.name,
            row.message,
            row.arm,
            row.state not in (*OPEN, UNEXPLAINED),
            row.outcome_at or row.intent_at,
            row.project_launch_guid,
            None if row.definition is None else json.loads(row.definition),
            row.status,
        )
        for row in connection.execute(query)
    ]
    return sorted(found, key=lambda one: (one.at, one.campaign, one.message))


def read_answers(connection: Connection, target: str, fingerprints: Collection[str]) -> list[RecordedAnswer]:
    """Return a person's answers on a target, in the order in which they came."""
    query = (
        select(
            campaigns.c.name,
            launches.c.message,
            results.c.question_tag,
            results.c.question_text,
            results.c.result_response,
            results.c.result_answer,
            results.c.created,
        )
        .join(launches, launches.c.id == results.c.launch_id)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(campaigns.c.target == target, results.c.participant.in_(fingerprints))
        .order_by(results.c.created, results.c.question_display_order)
    )
    return [
        RecordedAnswer(*row[:4], row.result_response or row.result_answer, row.created)
        for row in connection.execute(query)
    ]


def read_opt_outs(connection: Connection, target: str, fingerprints: Collection[str]) -> list[RecordedOptOut]:
    """Return the evidence that a person opted out of a target, the earliest first."""
    query = (
        select(opt_outs.c.source, opt_outs.c.state, opt_outs.c.at)
        .where(opt_outs.c.target == target, opt_outs.c.fingerprint.in_(fingerprints))
        .order_by(opt_outs.c.at, opt_outs.c.evidence)
    )
    return [RecordedOptOut(*row) for row in connection.execute(query)]
