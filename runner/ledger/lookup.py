"""What the ledger knows of some people: asked for by whoever plans a part of an audience."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sqlalchemy import Connection, Select, and_, func, inspect, select

from runner.ledger.deliveries import add_known, drop_sent
from runner.ledger.differences import read_answers
from runner.ledger.earlier import EarlierLaunch, EarlierMessage, find_differing
from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.model import Known
from runner.ledger.opt_outs import Suppressions
from runner.ledger.tables import deliveries, launches, opt_outs, results

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from runner.ledger.target_key import TargetKey

_GROUP = 1000
_Item = TypeVar("_Item")


def find_known(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str], people: Iterable[str]
) -> Known:
    """Return which of some people were texted, or may have been; as `read_known` says it of everybody.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
        people: their fingerprints.
    """
    known = Known({}, {})
    # By the whole primary key: there may be many deliveries, and few are asked about.
    query = (
        select(deliveries.c.message, deliveries.c.fingerprint, launches.c.state)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(
            deliveries.c.campaign_id == campaign_id,
            deliveries.c.message.in_(list(message_ids)),
            deliveries.c.released.is_(False),
        )
    )
    for group in _iterate_groups(people):
        for message, fingerprint, state in connection.execute(
            query.where(deliveries.c.fingerprint.in_(group))
        ):
            add_known(known, message_ids[message], fingerprint, state)
    return drop_sent(known)


def find_earlier(
    connection: Connection,
    campaign_id: int,
    message_ids: Mapping[str, str],
    wanted: Collection[str],
    people: Iterable[str],
    depleted: Iterable[int],
) -> dict[str, EarlierMessage]:
    """Return what the ledger knows of some people and messages; as `read_earlier` says it of everybody.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
        wanted: ids of messages, as they are now.
        people: their fingerprints.
        depleted: as `find_depleted` returns it.
    """
    found = find_differing(connection, campaign_id, message_ids, wanted)
    names = _names_of(message_ids, wanted)
    query = _select_reached(connection, campaign_id, names)
    reached: dict[int, EarlierLaunch] = {}
    asked = set()
    for group in _iterate_groups(people):
        asked.update(group)
        rows = connection.execute(query.where(deliveries.c.fingerprint.in_(group)))
        for message, fingerprint, launch_id, sent_at, reconciled_at, differs in rows:
            if launch_id not in reached:
                read_at = None if reconciled_at is None else datetime.fromisoformat(reconciled_at)
                reached[launch_id] = EarlierLaunch(datetime.fromisoformat(sent_at), read_at, bool(differs))
            found[message_ids[message]].launches[fingerprint] = reached[launch_id]
    # By the launches that reached them: to look through all results takes as long for some as for everybody.
    for message, participant in _iterate_answers(connection, campaign_id, names, {*reached, *depleted}):
        if participant in asked:
            found[message_ids[message]].answered.add(participant)
    return found


def find_depleted(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str], wanted: Collection[str]
) -> tuple[int, ...]:
    """Return the launches some of whose recipients are entered under another one: few, if any.

    These may have answered them all the same. Passes over the deliveries of the messages once.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
        wanted: ids of messages, as they are now.
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


def _select_reached(connection: Connection, campaign_id: int, names: Collection[str]) -> Select[Any]:
    read = read_answers(connection)
    return (
        select(
            deliveries.c.message,
            deliveries.c.fingerprint,
            launches.c.id,
            launches.c.outcome_at,
            read.at,
            read.differs,
        )
        .select_from(read.join(deliveries.join(launches, launches.c.id == deliveries.c.launch_id)))
        .where(
            deliveries.c.campaign_id == campaign_id,
            deliveries.c.message.in_(names),
            deliveries.c.released.is_(False),
            launches.c.state == "sent",
            launches.c.outcome_at.is_not(None),
        )
    )


def _iterate_answers(
    connection: Connection, campaign_id: int, names: list[str], reached: Iterable[int]
) -> Iterator[tuple[str, str]]:
    query = (
        select(launches.c.message, results.c.participant)
        .join(launches, launches.c.id == results.c.launch_id)
        .where(launches.c.campaign_id == campaign_id, launches.c.message.in_(names))
        .distinct()
    )
    for group in _iterate_groups(reached):
        rows = connection.execute(query.where(results.c.launch_id.in_(group)))
        yield from ((row.message, row.participant) for row in rows)


def find_suppressions(connection: Connection, key: TargetKey | None, phones: Iterable[str]) -> Suppressions:
    """Return which of some people are not to be texted; as `read_suppressions` says it of everybody.

    Args:
        connection: reads the ledger, which may be of an older version.
        key: as `read_target_key` returns it.
        phones: E.164.
    """
    if key is None or not inspect(connection).has_table(opt_outs.name):
        return Suppressions(None, FingerprintSet(), FingerprintSet())
    shelves: dict[Literal["confirmed", "doubtful"], set[str]] = {"confirmed": set(), "doubtful": set()}
    query = select(opt_outs.c.fingerprint, opt_outs.c.state).where(
        and_(opt_outs.c.target == key.target, opt_outs.c.state.in_(list(shelves)))
    )
    for group in _iterate_groups(map(key.fingerprint, phones)):
        for fingerprint, state in connection.execute(query.where(opt_outs.c.fingerprint.in_(group))):
            shelves[state].add(fingerprint)
    return Suppressions(
        key, FingerprintSet(sorted(shelves["confirmed"])), FingerprintSet(sorted(shelves["doubtful"]))
    )


def _iterate_groups(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    waiting = iter(items)
    while group := list(islice(waiting, _GROUP)):
        yield group
