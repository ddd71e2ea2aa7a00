"""Work on a whole ledger: a copy in another database, and the move of a target's records to a new key.

A fingerprint cannot be turned back into a phone, so all known phones are tried under the old key. People
whose phones are unknown cannot be moved, nor can dates that messages went by: of these, every minute of the
years around their texts is tried.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Connection,
    Insert,
    Table,
    bindparam,
    delete,
    exists,
    false,
    func,
    insert,
    select,
    update,
)

from runner.errors import LedgerError
from runner.ledger.bulk import BulkStatement, divide
from runner.ledger.database import exclude_others
from runner.ledger.model import DATE
from runner.ledger.people.opt_outs import NOBODY
from runner.ledger.record.deliveries import renew_launch_keys
from runner.ledger.record.unsettled import UNEXPLAINED
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import (
    campaigns,
    deliveries,
    info,
    launches,
    locks,
    metadata,
    of_target,
    opt_ins,
    opt_outs,
    results,
    sessions,
)
from runner.ledger.target_key import record_key
from runner.timing.window import MINUTES_A_DAY, format_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from sqlalchemy import ColumnElement, Select

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey


_GROUP = 5_000
# Locks are left out: they belong to runs with the other ledger.
_TABLES = [table for table in metadata.sorted_tables if table is not locks]


def copy_ledger(source: Ledger, ledger: Ledger) -> dict[str, int]:
    """Fill an empty ledger with all rows of another one as of one moment, all or nothing.

    Returns the number of rows of each table.
    """
    inserts = {table: BulkStatement(partial(_insert, table), list(table.c.keys())) for table in _TABLES}
    counts = dict.fromkeys((table.name for table in _TABLES), 0)
    with ledger.writing() as connection, closing(_iterate_rows(source)) as groups:
        exclude_others(connection)
        _require_empty(connection)
        connection.execute(delete(info))
        for table, rows in groups:
            counts[table.name] += inserts[table].run(connection, rows)
        _set_sequences(connection)
        # Reports' copies belong to the other ledger, whose results may differ from now on.
        renew_edition(connection)
    return counts


def _iterate_rows(source: Ledger) -> Generator[tuple[Table, list[dict[str, Any]]]]:
    # A generator, so that an error of the source is not taken for one of the new ledger.
    with source.reading() as connection:
        for table in _TABLES:
            query = select(table).execution_options(yield_per=_GROUP)
            with connection.execute(query) as found:
                for rows in found.mappings().partitions():
                    yield table, [dict(row) for row in rows]


def _insert(table: Table, _connection: Connection) -> Insert:
    return insert(table)


def _require_empty(connection: Connection) -> None:
    for table in _TABLES:
        if table is not info and connection.execute(select(table).limit(1)).first() is not None:
            raise LedgerError(
                "the ledger is not empty",
                hint="a copy fills an empty ledger: name a new one with --ledger or RUNNER_LEDGER",
            )


def _set_sequences(connection: Connection) -> None:
    """Let a server's sequences go on after the numbers in use."""
    if connection.dialect.name != "postgresql":
        return
    for table in _TABLES:
        if (column := table.autoincrement_column) is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            following = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(sequence, following, false())))


_PORTION = 1000
_NEAR_DAYS = 12 * 366
"""How far from its text a date is looked for."""


class Translation:
    """A translation of a target's fingerprints from its old key to a new one.

    `digest` is that of a payload's definition. A payload whose definition is not on record keeps its digest
    of the old key, which matches no text any more.

    Attributes:
        found: what people are under the new key, by their old fingerprints.
        dates: the same of the dates that messages went by.
        missing_dates: how many of these are not found.
    """

    def __init__(self, old: TargetKey, new: TargetKey, digest: Callable[[dict[str, Any]], str]) -> None:
        self.old = old
        self.new = new
        self._digest = digest
        self.found: dict[str, str] = {}
        self.dates: dict[str, str] = {}
        self.missing_dates = 0
        self._wanted: set[str] = set()

    @property
    def missing(self) -> int:
        """The number of people whose phones are not found yet."""
        return len(self._wanted)

    def gather(self, connection: Connection) -> None:
        """Collect the people that the ledger has under the old key."""
        for table, name, are_theirs in _list_places(self.old.target):
            query = select(table.c[name]).where(are_theirs).distinct().execution_options(yield_per=_PORTION)
            self._wanted.update(connection.execute(query).scalars())
        self._wanted.discard(NOBODY)
        self._find_dates(connection)

    def _find_dates(self, connection: Connection) -> None:
        """Find what the dates on record are under the new key."""
        own = of_target(select(launches.c.occasion, launches.c.intent_at), self.old.target)
        rows = connection.execute(own.where(launches.c.occasion.startswith(DATE))).all()
        wanted = {row.occasion for row in rows}
        days = sorted({date.fromisoformat(row.intent_at[:10]).toordinal() for row in rows})
        near = range(days[0] - _NEAR_DAYS, days[-1] + _NEAR_DAYS) if days else ()
        for day in sorted(near, key=lambda one: abs(one - days[-1])):
            for minute in range(MINUTES_A_DAY) if wanted else ():
                clock = f"{date.fromordinal(day)}T{format_clock(minute)}"
                for written in (clock, f"{clock}Z"):
                    if (old := self.old.name_occasion(written)) in wanted:
                        wanted.remove(old)
                        self.dates[old] = self.new.name_occasion(written)
        self.missing_dates = len(wanted)

    def offer(self, phones: Iterable[str]) -> None:
        """Try phones, E.164."""
        for phone in phones:
            old = self.old.fingerprint(phone)
            if old in self._wanted:
                self._wanted.remove(old)
                self.found[old] = self.new.fingerprint(phone)

    def write(self, connection: Connection) -> None:
        """Move the target's records to the new key."""
        places = [(*place, self.found) for place in _list_places(self.old.target)]
        own_ids = _select_own(self.old.target)
        places += [
            (table, "occasion", table.c.campaign_id.in_(own_ids), self.dates)
            for table in (launches, deliveries)
        ]
        for table, name, are_theirs, found in places:
            pairs = [{"b_old": old, "b_new": new} for old, new in sorted(found.items())]
            statement = update(table).where(are_theirs, table.c[name] == bindparam("b_old"))
            for group in divide(pairs, _PORTION):
                connection.execute(statement.values({name: bindparam("b_new")}), group)
        self._seal_payloads(connection)
        own = select(campaigns.c.id, campaigns.c.name).where(campaigns.c.target == self.old.target)
        for campaign_id, name in connection.execute(own).all():
            is_ours = (launches.c.campaign_id == campaign_id) & (launches.c.state != UNEXPLAINED)
            held = deliveries.alias()
            holds_people = exists().where(held.c.launch_id == launches.c.id, held.c.released.is_(False))
            renew_launch_keys(connection, name, is_ours, holds_people)
        record_key(connection, self.new)
        renew_edition(connection)

    def _seal_payloads(self, connection: Connection) -> None:
        columns = launches.c.id, launches.c.payload_digest, launches.c.definition
        own = of_target(select(*columns), self.old.target).where(launches.c.definition.is_not(None))
        rows = ((row, self._digest(json.loads(row.definition))) for row in connection.execute(own).all())
        sealed = [
            {"b_id": row.id, "b_digest": self.new.seal_payload(digest)}
            for row, digest in rows
            if self.old.matches_payload(row.payload_digest, digest)
        ]
        statement = update(launches).where(launches.c.id == bindparam("b_id"))
        for group in divide(sealed, _PORTION):
            connection.execute(statement.values(payload_digest=bindparam("b_digest")), group)


def list_tags_on_record(connection: Connection, target: str) -> set[str]:
    """Return the project tags of all launches of a target."""
    return set(connection.execute(of_target(select(launches.c.tag).distinct(), target)).scalars())


def _select_own(target: str) -> Select[tuple[int]]:
    return select(campaigns.c.id).where(campaigns.c.target == target)


def _list_places(target: str) -> Iterator[tuple[Table, str, ColumnElement[bool]]]:
    """Yield tables, columns and conditions of the rows that have a target's fingerprints."""
    own = _select_own(target)
    sent: Any = select(launches.c.id).where(launches.c.campaign_id.in_(own))
    yield deliveries, "fingerprint", deliveries.c.campaign_id.in_(own)
    yield results, "participant", results.c.launch_id.in_(sent)
    yield sessions, "participant", sessions.c.launch_id.in_(sent)
    yield opt_outs, "fingerprint", opt_outs.c.target == target
    yield opt_ins, "fingerprint", opt_ins.c.target == target
