"""Earlier messages that follow-ups depend on: their recipients, times and answers.

They are read for everybody at once, or for some people, as in one part of an audience.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, select

from runner.ledger.bulk import iterate_rows
from runner.ledger.results.differences import DIFFERS, KNOWN_AT, read_differences
from runner.ledger.tables import deliveries, launch_stats, launches, results

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from runner.ledger.report_model import OpenDifferences


@dataclass(frozen=True, slots=True)
class EarlierLaunch:
    """A launch that the service accepted.

    All answers are known as of `reconciled_at`, None if it was never reconciled. `differs` marks an open
    difference in the service's data.
    """

    sent_at: datetime
    reconciled_at: datetime | None
    differs: bool = False


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """The launches of a message by recipient's fingerprint, and the people who have answered.

    `differences` are those in the service's data, if any.
    """

    launches: dict[str, EarlierLaunch] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    differences: OpenDifferences | None = None


def read_earlier(
    connection: Connection,
    campaign_id: int,
    message_ids: Mapping[str, str],
    wanted: Collection[str],
    people: Iterable[str] | None = None,
    depleted: Iterable[int] = (),
) -> dict[str, EarlierMessage]:
    """Return some earlier messages of a campaign.

    `people` limits the fingerprints, with the launches that `find_depleted` found; None means all.
    """
    if not wanted:
        return {}
    differences = read_differences(connection, campaign_id, message_ids)
    found = {message: EarlierMessage(differences=differences.get(message)) for message in wanted}
    names = _names_of(message_ids, wanted)
    asked = None if people is None else set(people)
    reached: dict[int, EarlierLaunch] = {}
    for message, fingerprint, launch_id, sent_at, read_at, differs in _iterate_reached(
        connection, campaign_id, names, asked
    ):
        if launch_id not in reached:
            known_at = None if read_at is None else datetime.fromisoformat(read_at)
            reached[launch_id] = EarlierLaunch(datetime.fromisoformat(sent_at), known_at, bool(differs))
        found[message_ids[message]].launches[fingerprint] = reached[launch_id]
    # By launch for some people: going through all results would take as long as for everybody.
    launch_ids = None if asked is None else {*reached, *depleted}
    for message, participant in _iterate_answers(connection, campaign_id, names, launch_ids):
        if asked is None or participant in asked:
            found[message_ids[message]].answered.add(participant)
    return found


def find_depleted(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str], wanted: Collection[str]
) -> tuple[int, ...]:
    """Return the few launches some of whose recipients are entered under another launch.

    They may have answered these all the same. Scans the deliveries of the messages once.
    """
    names = _names_of(message_ids, wanted)
    held = (
        select(deliveries.c.launch_id, func.count().label("recipients"))
        .where(
            deliveries.c.campaign_id == campaign_id,
            deliveries.c.message.in_(names),
            deliveries.c.released.is_(False),
        )
        .group_by(deliveries.c.launch_id)
        .subquery()
    )
    query = (
        select(launches.c.id)
        .outerjoin(held, held.c.launch_id == launches.c.id)
        .where(
            launches.c.campaign_id == campaign_id,
            launches.c.message.in_(names),
            launches.c.state == "sent",
            launches.c.recipients != func.coalesce(held.c.recipients, 0),
        )
    )
    return tuple(connection.execute(query).scalars())


def _names_of(message_ids: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    return [name for name, current in message_ids.items() if current in wanted]


def _iterate_reached(
    connection: Connection, campaign_id: int, names: Collection[str], asked: Collection[str] | None
) -> Iterator[Any]:
    query = (
        select(
            deliveries.c.message,
            deliveries.c.fingerprint,
            launches.c.id,
            launches.c.outcome_at,
            KNOWN_AT,
            DIFFERS,
        )
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(
            deliveries.c.campaign_id == campaign_id,
            deliveries.c.message.in_(names),
            deliveries.c.released.is_(False),
            launches.c.state == "sent",
            launches.c.outcome_at.is_not(None),
        )
    )
    yield from iterate_rows(connection, query, deliveries.c.fingerprint, asked)


def _iterate_answers(
    connection: Connection, campaign_id: int, names: Collection[str], launch_ids: Collection[int] | None
) -> Iterator[Any]:
    query = (
        select(launches.c.message, results.c.participant)
        .join(launches, launches.c.id == results.c.launch_id)
        .where(
            launches.c.campaign_id == campaign_id, launches.c.message.in_(names), results.c.non_answer == ""
        )
        .distinct()
    )
    yield from iterate_rows(connection, query, results.c.launch_id, launch_ids)
