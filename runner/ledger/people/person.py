"""Everything that a ledger has about one person on a target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, and_, select

from runner.ledger.record.unsettled import OPEN, UNEXPLAINED
from runner.ledger.tables import campaigns, deliveries, launches, opt_outs, results, sessions

if TYPE_CHECKING:
    from collections.abc import Collection

    from runner.ledger.files.suppressions import Source, State


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
