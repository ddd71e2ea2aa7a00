"""Rotation of one target's records in the ledger to a new key; their files are written from it afterwards.

A fingerprint cannot be turned back into a phone, so all known phones are tried under the old key. People
whose phones are unknown cannot be moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select, update

from runner.ledger.bulk import divide
from runner.ledger.fingerprint import launch_key
from runner.ledger.people.opt_outs import NOBODY
from runner.ledger.record.deliveries import iterate_held
from runner.ledger.record.unsettled import UNEXPLAINED
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.tables import campaigns, deliveries, launches, opt_ins, opt_outs, results, sessions
from runner.ledger.target_key import record_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import ColumnElement, Connection, Table

    from runner.ledger.fingerprint import TargetKey

_GROUP = 1000


class Translation:
    """A translation of a target's fingerprints from its old key to a new one."""

    def __init__(self, old: TargetKey, new: TargetKey) -> None:
        self.old = old
        self.new = new
        self.found: dict[str, str] = {}
        self._wanted: set[str] = set()

    @property
    def missing(self) -> int:
        """The number of people whose phones are not found yet."""
        return len(self._wanted)

    def gather(self, connection: Connection) -> None:
        """Collect the people that the ledger has under the old key."""
        for table, name, are_theirs in _list_places(self.old.target):
            query = select(table.c[name]).where(are_theirs).distinct().execution_options(yield_per=_GROUP)
            self._wanted.update(connection.execute(query).scalars())
        self._wanted.discard(NOBODY)

    def offer(self, phones: Iterable[str]) -> None:
        """Try phones, E.164."""
        for phone in phones:
            old = self.old.fingerprint(phone)
            if old in self._wanted:
                self._wanted.remove(old)
                self.found[old] = self.new.fingerprint(phone)

    def write(self, connection: Connection) -> None:
        """Move the target's records to the new key."""
        pairs = [{"b_old": old, "b_new": new} for old, new in sorted(self.found.items())]
        for table, name, are_theirs in _list_places(self.old.target):
            statement = update(table).where(are_theirs, table.c[name] == bindparam("b_old"))
            for group in divide(pairs, _GROUP):
                connection.execute(statement.values({name: bindparam("b_new")}), group)
        own = select(campaigns.c.id, campaigns.c.name).where(campaigns.c.target == self.old.target)
        for campaign_id, name in connection.execute(own).all():
            is_ours = (launches.c.campaign_id == campaign_id) & (launches.c.state != UNEXPLAINED)
            renewed = [
                {"b_id": row.id, "b_key": launch_key(name, row.message, row.payload_digest, people)}
                for row, people in iterate_held(connection, is_ours)
                if people
            ]
            statement = update(launches).where(launches.c.id == bindparam("b_id"))
            for group in divide(renewed, _GROUP):
                connection.execute(statement.values(launch_key=bindparam("b_key")), group)
        record_key(connection, self.new)
        renew_edition(connection)


def list_tags_on_record(connection: Connection, target: str) -> set[str]:
    """Return the project tags of all launches of a target."""
    query = select(launches.c.tag).join(campaigns, campaigns.c.id == launches.c.campaign_id)
    return set(connection.execute(query.where(campaigns.c.target == target).distinct()).scalars())


def _list_places(target: str) -> Iterator[tuple[Table, str, ColumnElement[bool]]]:
    """Yield tables, columns and conditions of the rows that have a target's fingerprints."""
    own = select(campaigns.c.id).where(campaigns.c.target == target)
    sent: Any = select(launches.c.id).where(launches.c.campaign_id.in_(own))
    yield deliveries, "fingerprint", deliveries.c.campaign_id.in_(own)
    yield results, "participant", results.c.launch_id.in_(sent)
    yield sessions, "participant", sessions.c.launch_id.in_(sent)
    yield opt_outs, "fingerprint", opt_outs.c.target == target
    yield opt_ins, "fingerprint", opt_ins.c.target == target
