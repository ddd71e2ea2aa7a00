"""Waits for leases that tasks of an `apply` on a cluster hold: until the last has ended, nobody settles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select, update

from runner.ledger.cluster_tables import cluster_terms, partition_leases
from runner.ledger.server_clock import SERVER_NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlalchemy import ColumnElement, Connection

    from runner.ledger.database import Ledger

_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class LiveLeases:
    """Leases that have not ended.

    Attributes:
        count: how many.
        holder: who holds the one that lasts longest, in words.
        left_s: until that one ends, in seconds; it may be renewed.
    """

    count: int
    holder: str
    left_s: float


def wait_for_leases(
    ledger: Ledger,
    target: str,
    names: Collection[str],
    sleep: Callable[[float], object],
    tell: Callable[[LiveLeases], object],
) -> None:
    """Wait until no task of an earlier run may send a campaign.

    The caller holds the campaign's lock, in a term of its own: none of these leases can be renewed any more.

    Args:
        ledger: open, with its tables.
        target: the target's name.
        names: the campaign's name and those that it had before.
        sleep: waits for so many seconds; may raise to give up.
        tell: is told once that there is something to wait for.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    if ledger.file is not None:
        return
    is_theirs = partition_leases.c.run_id.in_(
        select(cluster_terms.c.run_id).where(
            cluster_terms.c.target == target, cluster_terms.c.campaign.in_(list(names))
        )
    )
    has_told = False
    while (live := _end_leases(ledger, is_theirs)) is not None:
        if not has_told:
            tell(live)
            has_told = True
        sleep(min(_POLL_S, live.left_s))


def find_live_leases(ledger: Ledger, run_id: str) -> LiveLeases | None:
    """Return the leases of a run that tasks hold; None if there are none, nor will be in this round.

    Those that have ended are taken from their holders for good.
    """
    return _end_leases(ledger, partition_leases.c.run_id == run_id)


def _end_leases(ledger: Ledger, is_theirs: ColumnElement[bool]) -> LiveLeases | None:
    columns = partition_leases.c
    with ledger.writing() as connection:
        # A transaction with intents that found its lease good is waited for here, and seen after.
        ended = update(partition_leases).where(
            is_theirs, columns.holder.is_not(None), columns.expires_at <= SERVER_NOW
        )
        connection.execute(ended.values(holder=None, lease_term=columns.lease_term + 1))
        return _read_live(connection, is_theirs)


def _read_live(connection: Connection, is_theirs: ColumnElement[bool]) -> LiveLeases | None:
    columns = partition_leases.c
    left = columns.expires_at - SERVER_NOW
    query = (
        select(func.count().over(), columns.holder, left)
        .where(is_theirs, columns.holder.is_not(None))
        .order_by(columns.expires_at.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else LiveLeases(row[0], row[1], max(0.0, row[2]))


def count_recipients_done(connection: Connection, run_id: str) -> int:
    """Return how many recipients a run is done with, as far as is told: for progress."""
    query = select(func.coalesce(func.sum(partition_leases.c.recipients), 0)).where(
        partition_leases.c.run_id == run_id
    )
    return int(connection.execute(query).scalar_one())
