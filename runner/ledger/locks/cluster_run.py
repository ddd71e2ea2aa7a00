"""State shared by the processes of one `apply` on a cluster: one row for each campaign. PostgreSQL only.

The row has the open round, the end of the client's lease, the next moment to send at (for one common rate),
the pause requested by the service, the failures in a row of all tasks, and the stop with its reason. Leases
(`partition_lease`), not this row, keep people from being texted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Double, cast, delete, extract, func, insert, select, true, update

from runner.ledger.tables import cluster_runs, cluster_terms, locks, partition_leases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Update

# Not the transaction's start: it may have waited for locks since.
SERVER_NOW = cast(extract("epoch", func.clock_timestamp()), Double)
"""Seconds since 1970 on PostgreSQL's clock, at the evaluation of a row."""


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The answer that ends a run, as every further send would get it: HTTP status, if any, and text."""

    status: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run on a cluster.

    `round` is the one whose tasks may take leases. `is_abandoned`: the client's own lease has ended.
    `failures` are in a row, over all tasks. `paused_s` are seconds from now.
    """

    round: int
    is_stopped: bool
    is_abandoned: bool
    final: FinalAnswer | None
    failures: int
    paused_s: float


def begin_cluster_run(
    connection: Connection, run_id: str, target: str, terms: Mapping[str, int], lease_s: float
) -> None:
    """Enter a run, and drop the rows of the campaign's earlier runs.

    The caller holds the campaign's lock, and no lease of an earlier run is live. `terms` has the lock's term
    for each of the campaign's names; `lease_s` is the client's lease in seconds.
    """
    earlier = select(cluster_terms.c.run_id).where(
        cluster_terms.c.target == target, cluster_terms.c.campaign.in_(list(terms))
    )
    for found in set(connection.execute(earlier).scalars()):
        drop_cluster_run(connection, found)
    connection.execute(
        insert(cluster_runs).values(
            id=run_id,
            round=0,
            coordinator_until=SERVER_NOW + lease_s,
            next_slot=0.0,
            paused_until=0.0,
            failures=0,
            stopped=False,
        )
    )
    connection.execute(
        insert(cluster_terms),
        [
            {"run_id": run_id, "target": target, "campaign": name, "term": term}
            for name, term in terms.items()
        ],
    )


def drop_cluster_run(connection: Connection, run_id: str) -> None:
    """Drop a run without live leases: its late tasks find nothing to take."""
    for table in (partition_leases, cluster_terms):
        connection.execute(delete(table).where(table.c.run_id == run_id))
    connection.execute(delete(cluster_runs).where(cluster_runs.c.id == run_id))


def open_round(connection: Connection, run_id: str, number: int) -> None:
    """Let only the tasks of one round take leases; of round 0 there are none."""
    connection.execute(_update(run_id).values(round=number))


def keep_client_alive(connection: Connection, run_id: str, lease_s: float) -> None:
    """Extend the client's lease to so many seconds from now."""
    connection.execute(_update(run_id).values(coordinator_until=SERVER_NOW + lease_s))


def stop_cluster_run(connection: Connection, run_id: str, final: FinalAnswer | None = None) -> None:
    """Stop all tasks of a run; the first final answer, if any, stays."""
    connection.execute(_update(run_id).values(stopped=True))
    if final is not None:
        is_first = cluster_runs.c.final_detail.is_(None)
        values = {"final_status": final.status, "final_detail": final.detail}
        connection.execute(_update(run_id).where(is_first).values(values))


def read_run_state(connection: Connection, run_id: str) -> RunState | None:
    """Return the state of a run; None if it is over."""
    columns = cluster_runs.c
    query = select(
        columns.round,
        columns.stopped,
        columns.coordinator_until < SERVER_NOW,
        columns.final_status,
        columns.final_detail,
        columns.failures,
        func.greatest(columns.paused_until - SERVER_NOW, 0.0),
    ).where(columns.id == run_id)
    row = connection.execute(query).first()
    if row is None:
        return None
    number, is_stopped, is_abandoned, status, detail, failures, paused_s = row
    final = None if detail is None else FinalAnswer(status, detail)
    return RunState(number, is_stopped, is_abandoned, final, failures, paused_s)


def take_slots(connection: Connection, run_id: str, count: int, interval_s: float) -> float | None:
    """Take `count` moments to send at, `interval_s` seconds apart; the commit need not be durable.

    Returns the seconds until the first of them; None if the run is over.
    """
    _commit_lazily(connection)
    columns = cluster_runs.c
    first = func.greatest(columns.next_slot, columns.paused_until, SERVER_NOW)
    taken = _update(run_id).values(next_slot=first + count * interval_s)
    next_slot = columns.next_slot - SERVER_NOW
    left_s = connection.execute(taken.returning(next_slot)).scalar()
    return None if left_s is None else max(0.0, left_s - count * interval_s)


def pause_cluster_run(connection: Connection, run_id: str, seconds: float) -> None:
    """Pause sending by all tasks; a longer pause in progress stays."""
    until = func.greatest(cluster_runs.c.paused_until, SERVER_NOW + seconds)
    connection.execute(_update(run_id).values(paused_until=until))


def count_failure(connection: Connection, run_id: str, *, has_succeeded: bool) -> int:
    """Count one more failure in a row, and return their number; the commit need not be durable.

    `has_succeeded` is true if a launch of the same task succeeded after its last failure.
    """
    _commit_lazily(connection)
    counted = _update(run_id).values(failures=1 if has_succeeded else cluster_runs.c.failures + 1)
    counted = counted.returning(cluster_runs.c.failures)
    return connection.execute(counted).scalar() or 0


def end_failures(connection: Connection, run_id: str) -> None:
    """Record that a launch has succeeded: the next failure is the first of a row."""
    _commit_lazily(connection)
    connection.execute(_update(run_id).where(cluster_runs.c.failures > 0).values(failures=0))


def are_terms_current(connection: Connection, run_id: str) -> bool:
    """Return whether no other run has taken the client's lock.

    Until the transaction of `connection` ends no other run gets the lock.
    """
    query = (
        select(cluster_terms.c.term, locks.c.term.label("current"))
        .join(
            locks,
            (locks.c.target == cluster_terms.c.target) & (locks.c.campaign == cluster_terms.c.campaign),
        )
        .where(cluster_terms.c.run_id == run_id)
        .with_for_update(read=True, of=locks)
    )
    rows = connection.execute(query).all()
    return bool(rows) and all(row.term == row.current for row in rows)


def _update(run_id: str) -> Update:
    return update(cluster_runs).where(cluster_runs.c.id == run_id)


def _commit_lazily(connection: Connection) -> None:
    # A crash of the server loses only moments to send at, which nobody uses then.
    set_locally(connection, "synchronous_commit", "off")


def set_locally(connection: Connection, name: str, value: str) -> None:
    """Change a setting of the session until its transaction ends."""
    connection.execute(select(func.set_config(name, value, true())))
