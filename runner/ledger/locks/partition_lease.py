"""Leases of the partitions of a cluster run, by the database's clock.

A task takes the lease of its partition before it sends, and renews it well before its end. It can take a free
or ended lease, and only while the run's client holds the campaign's lock (checked in the same transaction).
Leases tell tasks of one run apart, terms tell runs apart.

- Intents: their transaction checks the lease's row for the task's own number and its end, and locks it and
the rows of the lock's terms until it has committed. Takers of the lease or lock wait for that, and see the
intents. The server ends a session that idles in such a transaction within a lease.

- Requests: before each one the task checks a local clock that cannot be set and counts the machine's sleep.
The lease is good until `lease_s` after the last successful renewal was *requested*, less `margin_s`. So two
machines' clocks are never compared; they must only run at the same rate, to `margin_s` in `lease_s`, and
nobody may set the database's clock forward by more than `margin_s`.

- Settling: the client, or the next run, settles only when every lease of the run has ended. A task without
its lease can neither renew it nor record intents.

One race remains: a task can stall between its last check of the clock and the first byte of the request, and
go on after the run was settled. The clock is checked on an open connection, right before the first byte, so
the machine would have to stall within some microseconds, for longer than `margin_s` + the settle window: the
intent is on record, and is free to be sent again only after two full lists of the service, a settle window
apart, have both lacked it. With a margin of 5 s and a window of 60 s that is a stall of more than 65 s. Set
either higher where machines are moved while they run.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sqlalchemy import Connection, func, select, update

from runner.errors import RunLockedError
from runner.ledger.database import insert_into
from runner.ledger.locks.cluster_run import SERVER_NOW, are_terms_current, set_locally
from runner.ledger.tables import cluster_runs, cluster_terms, partition_leases

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sqlalchemy import ColumnElement, Update
    from sqlalchemy.sql.dml import ReturningInsert

    from runner.ledger.database import Ledger


LEASE_S = 30.0
_POLL_S = 0.25


class LeaseLostError(RunLockedError):
    """A task may no longer send its partition: another one may, or the run's term is over."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """The length of a lease, its safety margin for requests, and the age of its renewal, in seconds."""

    lease_s: float
    margin_s: float
    renew_s: float

    @classmethod
    def lasting(cls, lease_s: float) -> Self:
        """Return terms in proportion: 30 s are renewed every 7.5 s, with a margin of 5 s."""
        return cls(lease_s, lease_s / 6, lease_s / 4)


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """A task's claim to a partition; `holder` and `what` describe task and partition in words."""

    run_id: str
    round: int
    partition: int
    holder: str
    what: str


class PartitionLease:
    """The lease of one partition, held by this task: a `RunLock`, from `acquire_lease`.

    `number` counts the partition's holders; `asked_at` is on `clock` (`read_clock`).
    """

    def __init__(
        self,
        ledger: Ledger,
        claim: LeaseClaim,
        number: int,
        terms: LeaseTerms,
        asked_at: float,
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._number = number
        self.terms = terms
        self._clock = clock
        self._turn = threading.Lock()
        self._asked_at = asked_at
        self._is_lost = False

    @property
    def is_due(self) -> bool:
        """True if it is time to renew it."""
        return self._clock() - self._asked_at >= self.terms.renew_s

    def require_held(self, connection: Connection) -> None:
        """Ensure that nobody else can send the partition; for each transaction with intents.

        Until it ends nobody else gets the lease, or the campaign's lock.

        Raises:
            LeaseLostError: the lease has ended, or the run's term has.
        """
        _limit_idling(connection, self.terms)
        if not are_terms_current(connection, self._claim.run_id):
            raise self._lose()
        left = select(partition_leases.c.expires_at - SERVER_NOW).where(*self._own())
        left_s = connection.execute(left.with_for_update(read=True)).scalar()
        if left_s is None or left_s <= 0:
            raise self._lose()

    def require_seen(self) -> None:
        """Ensure that nobody else can send the partition now, nor within the margin; from any thread.

        Raises:
            LeaseLostError: the lease has ended, or could not be renewed in time.
        """
        if self._is_lost or self._clock() >= self._asked_at + self.terms.lease_s - self.terms.margin_s:
            raise self._lose()

    def renew(self, recipients: int) -> None:
        """Renew the lease; `recipients` counts those done since the last time, for progress.

        Raises:
            LeaseLostError: it has ended, or the run's term has.
            LedgerError: the ledger cannot be written; the lease lasts to its end.
        """
        with self._turn:
            asked_at = self._clock()
            with self._ledger.writing() as connection:
                _limit_idling(connection, self.terms)
                is_current = are_terms_current(connection, self._claim.run_id)
                renewed = self._update(partition_leases.c.expires_at > SERVER_NOW).values(
                    expires_at=SERVER_NOW + self.terms.lease_s,
                    recipients=partition_leases.c.recipients + recipients,
                )
                is_renewed = is_current and connection.execute(renewed).rowcount == 1
            if not is_renewed:
                raise self._lose()
            self._asked_at = asked_at

    def release(self, recipients: int) -> None:
        """End the lease, if this task still has it; `recipients` as for `renew`.

        Raises:
            LedgerError: the ledger cannot be written; the lease ends by itself.
        """
        with self._turn, self._ledger.writing() as connection:
            self._is_lost = True
            done = partition_leases.c.recipients + recipients
            connection.execute(self._update().values(holder=None, expires_at=0.0, recipients=done))

    def _own(self) -> tuple[ColumnElement[bool], ...]:
        columns, claim = partition_leases.c, self._claim
        return (
            columns.run_id == claim.run_id,
            columns.partition == claim.partition,
            columns.lease_term == self._number,
        )

    def _update(self, *conditions: ColumnElement[bool]) -> Update:
        return update(partition_leases).where(*self._own(), *conditions)

    def _lose(self) -> LeaseLostError:
        self._is_lost = True
        return LeaseLostError(
            f"this task has lost its lease of {self._claim.what}; it sends nothing more",
            hint="run the same command again when that run has ended",
        )


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    """The refusal of a lease that another task holds for `left_s` more seconds."""

    left_s: float


def acquire_lease(
    ledger: Ledger, claim: LeaseClaim, terms: LeaseTerms, clock: Callable[[], float]
) -> PartitionLease | LeaseTaken | None:
    """Take the lease of a partition if it is free, without waiting.

    Returns None if the round or the run's term is over, or the run was stopped.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    asked_at = clock()
    with ledger.writing() as connection:
        _limit_idling(connection, terms)
        if not _is_wanted(connection, claim) or not are_terms_current(connection, claim.run_id):
            return None
        number = connection.execute(_compose_taking(connection, claim, terms)).scalar()
        if number is not None:
            return PartitionLease(ledger, claim, number, terms, asked_at, clock)
        columns = partition_leases.c
        left = select(columns.expires_at - SERVER_NOW).where(
            columns.run_id == claim.run_id, columns.partition == claim.partition
        )
        return LeaseTaken(max(0.0, connection.execute(left).scalar_one()))


def _limit_idling(connection: Connection, terms: LeaseTerms) -> None:
    """Let the server end this session if it idles in a transaction for as long as a lease."""
    limit_ms = str(math.ceil(terms.lease_s * 1000))
    set_locally(connection, "idle_in_transaction_session_timeout", limit_ms)


def _is_wanted(connection: Connection, claim: LeaseClaim) -> bool:
    """Return whether tasks of the round may take leases; unchanged until the transaction ends."""
    columns = cluster_runs.c
    is_wanted = (columns.round == claim.round) & ~columns.stopped & (columns.coordinator_until > SERVER_NOW)
    query = select(is_wanted).where(columns.id == claim.run_id).with_for_update(read=True)
    return bool(connection.execute(query).scalar())


def _compose_taking(connection: Connection, claim: LeaseClaim, terms: LeaseTerms) -> ReturningInsert[int]:
    columns = partition_leases.c
    until = SERVER_NOW + terms.lease_s
    entered = insert_into(connection, partition_leases).values(
        run_id=claim.run_id,
        partition=claim.partition,
        lease_term=1,
        holder=claim.holder,
        expires_at=until,
        recipients=0,
    )
    return entered.on_conflict_do_update(
        index_elements=[columns.run_id, columns.partition],
        set_={"lease_term": columns.lease_term + 1, "holder": claim.holder, "expires_at": until},
        where=columns.holder.is_(None) | (columns.expires_at <= SERVER_NOW),
    ).returning(columns.lease_term)


@dataclass(frozen=True, slots=True)
class LiveLeases:
    """The number of leases that have not ended, and the last to end, in `left_s` seconds unless renewed."""

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

    The caller holds the campaign's lock in its own term, so none of these leases can be renewed. `names`
    includes former ones; `sleep` may raise to give up; `tell` is called once if there is something to wait
    for.

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
    """Return the live leases of a run; None if there are none, nor will be in this round.

    Ended leases are taken from their holders for good.
    """
    return _end_leases(ledger, partition_leases.c.run_id == run_id)


def _end_leases(ledger: Ledger, is_theirs: ColumnElement[bool]) -> LiveLeases | None:
    columns = partition_leases.c
    with ledger.writing() as connection:
        # This waits for transactions with intents that found their lease good, and then sees them.
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
    """Return the number of recipients that a run has reported as done, for progress."""
    query = select(func.coalesce(func.sum(partition_leases.c.recipients), 0)).where(
        partition_leases.c.run_id == run_id
    )
    return int(connection.execute(query).scalar_one())
