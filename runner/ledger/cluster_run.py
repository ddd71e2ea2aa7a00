"""What the processes of one `apply` on a cluster share: one row of the ledger for each of its campaigns.

The row says which round of the run is open, and until when the client is sure to live; it hands out moments
to send at, so that all tasks together keep one rate; it holds the pause that the service has asked one of
them for, the failures in a row of all of them, and whether they are to stop, and why. Nothing of it keeps
people from being texted twice: for that there are the leases (`partition_lease`). PostgreSQL alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select, update

from runner.ledger.cluster_tables import cluster_runs, cluster_terms, partition_leases
from runner.ledger.server_clock import SERVER_NOW, set_locally
from runner.ledger.tables import locks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Update


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The answer that ends a run: every further send would get it too.

    Attributes:
        status: its HTTP status, if there was one.
        detail: what it says, for people.
    """

    status: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class RunState:
    """How a run on a cluster stands.

    Attributes:
        round: the one whose tasks may take leases.
        is_stopped: whether its tasks are to end.
        is_abandoned: whether the client's own lease has run out.
        final: the answer that ended it, if one did.
        failures: launches that failed in a row, over all tasks.
        paused_s: for how long nothing may be sent, from now on, in seconds.
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
    """Enter a run; what earlier runs of the campaign have left is dropped.

    To be called by who holds the campaign's lock, once no lease of an earlier run is live.

    Args:
        connection: commits after this.
        run_id: random.
        target: the target's name.
        terms: the term in which the lock of each of the campaign's names is held.
        lease_s: for how long the client is taken to live.
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
    """Drop a run, none of whose leases is live: tasks of it that come late find nothing to hold on to."""
    for table in (partition_leases, cluster_terms):
        connection.execute(delete(table).where(table.c.run_id == run_id))
    connection.execute(delete(cluster_runs).where(cluster_runs.c.id == run_id))


def open_round(connection: Connection, run_id: str, number: int) -> None:
    """Let the tasks of a round take leases, and those of other rounds no more; of round 0 there are none."""
    connection.execute(_update(run_id).values(round=number))


def keep_client_alive(connection: Connection, run_id: str, lease_s: float) -> None:
    """Take the client to live for so many seconds from now on."""
    connection.execute(_update(run_id).values(coordinator_until=SERVER_NOW + lease_s))


def stop_cluster_run(connection: Connection, run_id: str, final: FinalAnswer | None = None) -> None:
    """Have all tasks of a run end.

    Args:
        connection: commits after this.
        run_id: the run.
        final: the answer that ends it, if one does; the first one stays.
    """
    connection.execute(_update(run_id).values(stopped=True))
    if final is not None:
        is_first = cluster_runs.c.final_detail.is_(None)
        values = {"final_status": final.status, "final_detail": final.detail}
        connection.execute(_update(run_id).where(is_first).values(values))


def read_run_state(connection: Connection, run_id: str) -> RunState | None:
    """Return how a run stands; None if it is over."""
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
    """Take the next moments to send at, one after the other.

    Args:
        connection: commits after this; need not be durable.
        run_id: the run.
        count: how many moments.
        interval_s: how far they are from each other, in seconds.

    Returns:
        In how many seconds the first of them is; None if the run is over.
    """
    _commit_lazily(connection)
    columns = cluster_runs.c
    first = func.greatest(columns.next_slot, columns.paused_until, SERVER_NOW)
    taken = _update(run_id).values(next_slot=first + count * interval_s)
    next_slot = columns.next_slot - SERVER_NOW
    left_s = connection.execute(taken.returning(next_slot)).scalar()
    return None if left_s is None else max(0.0, left_s - count * interval_s)


def pause_cluster_run(connection: Connection, run_id: str, seconds: float) -> None:
    """Let no task send for a while; a longer pause that is under way stays."""
    until = func.greatest(cluster_runs.c.paused_until, SERVER_NOW + seconds)
    connection.execute(_update(run_id).values(paused_until=until))


def count_failure(connection: Connection, run_id: str, *, has_succeeded: bool) -> int:
    """Count one more failure in a row, and return how many there are.

    Args:
        connection: commits after this; need not be durable.
        run_id: the run.
        has_succeeded: whether a launch of the same task has succeeded since its failure before.
    """
    _commit_lazily(connection)
    counted = _update(run_id).values(failures=1 if has_succeeded else cluster_runs.c.failures + 1)
    counted = counted.returning(cluster_runs.c.failures)
    return connection.execute(counted).scalar() or 0


def end_failures(connection: Connection, run_id: str) -> None:
    """Take note that a launch has succeeded: the next failure is the first of a row."""
    _commit_lazily(connection)
    connection.execute(_update(run_id).where(cluster_runs.c.failures > 0).values(failures=0))


def are_terms_current(connection: Connection, run_id: str) -> bool:
    """Return whether the client of a run still holds its lock, as far as other runs have not taken it.

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
    # What a crash of the server takes back of it are moments to send at that nobody uses then.
    set_locally(connection, "synchronous_commit", "off")
