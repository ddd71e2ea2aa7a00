"""Statements that move a ledger's fingerprints of one target to a new key."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from runner.ledger.fingerprint import launch_key
from runner.ledger.marks import mark_launches
from runner.ledger.renaming import find_first_name
from runner.ledger.result_feed import renew_edition
from runner.ledger.tables import (
    campaigns,
    deliveries,
    forgotten_people,
    launches,
    lockfile_marks,
    opt_outs,
    results,
    sessions,
    target_keys,
)
from runner.ledger.translation import Maker
from runner.ledger.unsettled import UNEXPLAINED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import ColumnElement, Row, Table

    from runner.ledger.translation import Translation

_GROUP = 1000


def want_ledger(connection: Connection, translation: Translation) -> None:
    """Take note of everybody on a target whom a ledger knows under another key than the new one.

    Args:
        connection: reads the ledger.
        translation: takes note of them.

    Raises:
        MissingKeyError: a key is not at hand.
    """
    for row, maker in _iterate_campaigns(connection, translation):
        where = f"the record of {row.name} in the ledger"
        for table, name, of_it in _list_places(row.id):
            query = select(table.c[name]).where(of_it).distinct().execution_options(yield_per=_GROUP)
            translation.want(maker, where, connection.execute(query).scalars())
    people = _find_people(connection, translation)
    if people is not None:
        query = select(opt_outs.c.fingerprint).where(opt_outs.c.target == translation.target).distinct()
        where = f"the opt-outs of {translation.target} in the ledger"
        translation.want(people, where, connection.execute(query).scalars())


def needs_rotation(connection: Connection, translation: Translation) -> bool:
    """Return whether anything of a target is under another key than the new one, were it nobody."""
    has_campaign = next(_iterate_campaigns(connection, translation), None) is not None
    return has_campaign or _find_people(connection, translation) is not None


def list_tags_on_record(connection: Connection, target: str) -> set[str]:
    """Return the project tags of all launches of a target."""
    query = select(launches.c.tag).join(campaigns, campaigns.c.id == launches.c.campaign_id)
    return set(connection.execute(query.where(campaigns.c.target == target).distinct()).scalars())


def find_makers(connection: Connection, target: str) -> dict[str, Maker]:
    """Return how fingerprints were made, by the names of a target's campaigns."""
    rows = connection.execute(select(campaigns).where(campaigns.c.target == target)).all()
    names = {row.id: find_first_name(connection, row.id) or row.name for row in rows}
    return {row.name: Maker(names[row.id], row.salt, row.key_fingerprint) for row in rows}


def rotate_ledger(connection: Connection, translation: Translation) -> int:
    """Move all of a target to the new key, and return how many campaigns were moved.

    Args:
        connection: commits after this.
        translation: knows everybody of whom `want_ledger` has taken note.
    """
    moved = 0
    for row, maker in list(_iterate_campaigns(connection, translation)):
        pairs = translation.list_pairs(maker)
        for table, name, of_it in _list_places(row.id):
            _replace(connection, table, name, of_it, pairs)
        _renew_launch_keys(connection, row.id, maker.campaign)
        _renew_marks(connection, row.id)
        is_it = campaigns.c.id == row.id
        named = {"salt": None, "key_fingerprint": translation.new.name}
        connection.execute(update(campaigns).where(is_it).values(**named))
        moved += 1
    maker_of_people = _find_people(connection, translation)
    if maker_of_people is not None:
        is_theirs = opt_outs.c.target == translation.target
        _replace(connection, opt_outs, "fingerprint", is_theirs, translation.list_pairs(maker_of_people))
        is_it = target_keys.c.target == translation.target
        named = {"salt": None, "key_fingerprint": translation.new_people.name}
        connection.execute(update(target_keys).where(is_it).values(**named))
    if moved:
        renew_edition(connection)
    return moved


def _iterate_campaigns(connection: Connection, translation: Translation) -> Iterator[tuple[Row[Any], Maker]]:
    query = select(campaigns).where(campaigns.c.target == translation.target).order_by(campaigns.c.name)
    for row in connection.execute(query).all():
        maker = Maker(find_first_name(connection, row.id) or row.name, row.salt, row.key_fingerprint)
        if not translation.is_moved(maker):
            yield row, maker


def _find_people(connection: Connection, translation: Translation) -> Maker | None:
    query = select(target_keys).where(target_keys.c.target == translation.target)
    row = connection.execute(query).first()
    maker = None if row is None else Maker("", row.salt, row.key_fingerprint)
    return None if maker is None or translation.is_moved(maker) else maker


def _list_places(campaign_id: int) -> list[tuple[Table, str, ColumnElement[bool]]]:
    """Return where fingerprints of a campaign stand: tables, columns, and which rows."""
    own = select(launches.c.id).where(launches.c.campaign_id == campaign_id)
    return [
        (deliveries, "fingerprint", deliveries.c.campaign_id == campaign_id),
        (forgotten_people, "fingerprint", forgotten_people.c.campaign_id == campaign_id),
        (results, "participant", results.c.launch_id.in_(own)),
        (sessions, "participant", sessions.c.launch_id.in_(own)),
    ]


def _replace(
    connection: Connection, table: Table, name: str, of_it: ColumnElement[bool], pairs: Mapping[str, str]
) -> None:
    column = table.c[name]
    statement = update(table).where(of_it, column == bindparam("b_old")).values({name: bindparam("b_new")})
    rows = [{"b_old": old, "b_new": new} for old, new in sorted(pairs.items())]
    for start in range(0, len(rows), _GROUP):
        connection.execute(statement, rows[start : start + _GROUP])


def _renew_launch_keys(connection: Connection, campaign_id: int, first_name: str) -> None:
    """Name launches by the people that they hold; those that hold nobody, by those who are free again."""
    held: defaultdict[int, list[str]] = defaultdict(list)
    freed: defaultdict[int, list[str]] = defaultdict(list)
    query = select(deliveries.c.launch_id, deliveries.c.fingerprint, deliveries.c.released)
    for row in connection.execute(query.where(deliveries.c.campaign_id == campaign_id)):
        (freed if row.released else held)[row.launch_id].append(row.fingerprint)
    own = select(launches.c.id, launches.c.message, launches.c.payload_digest)
    is_ours = (launches.c.campaign_id == campaign_id) & (launches.c.state != UNEXPLAINED)
    changed = [
        {"b_id": one.id, "b_key": launch_key(first_name, one.message, one.payload_digest, people)}
        for one in connection.execute(own.where(is_ours))
        if (people := held.get(one.id) or freed.get(one.id))
    ]
    statement = update(launches).where(launches.c.id == bindparam("b_id"))
    _run(connection, statement.values(launch_key=bindparam("b_key")), changed)


def _renew_marks(connection: Connection, campaign_id: int) -> None:
    is_its = lockfile_marks.c.campaign_id == campaign_id
    if connection.execute(select(func.count()).select_from(lockfile_marks).where(is_its)).scalar_one():
        connection.execute(delete(lockfile_marks).where(is_its))
        connection.execute(update(launches).where(launches.c.campaign_id == campaign_id).values(mark=None))
        mark_launches(connection, campaign_id)


def _run(connection: Connection, statement: Any, rows: Iterable[dict[str, Any]]) -> None:
    waiting = list(rows)
    for start in range(0, len(waiting), _GROUP):
        connection.execute(statement, waiting[start : start + _GROUP])
