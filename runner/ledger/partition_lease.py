"""Who may send a partition of a run on a cluster: a lease, by the database's clock.

A task takes the lease of its partition before it sends, and renews it well before its end. It gets a lease
that nobody holds, or that has ended by the database's clock, and only while the run's client still holds the
lock of the campaign: the term of that is looked at in the same transaction. Leases tell tasks of one run
apart, of which a scheduler may have started two for the same partition; terms tell runs apart.

- Intents: the transaction that records them finds the lease's row with the task's own number, not ended, and
  keeps it, and the rows of the lock's terms, until it has committed. Whoever takes the lease, or the lock,
  waits for that, and sees the intents. A session that stands still amid such a transaction is ended by the
  server within a lease.
- Requests: before each one the task looks at a clock of its own that nobody sets and that counts the
  machine's sleep. The lease is good until `lease_s` after the last renewal that succeeded was *asked for*,
  less `margin_s`. So two machines' clocks are never compared: what is trusted is that they run at the same
  rate, to `margin_s` in `lease_s`, and that nobody puts the database's clock forward by more than `margin_s`.
- Settling: the client, or the next run, settles only when every lease of the run has ended. Who has lost its
  lease can neither renew it nor record intents, so what is unknown then stays what it is.

The race that remains: a task can be stopped between its last look at the clock and the request's way into the
network. If it goes on when its lease has ended and the run has been settled, its request comes after the
service was asked for it. No lease can close that which the service doesn't know of. How wide it is: the clock
is looked at when the connection stands, right before the first byte. Between that look and the write to the
socket there are some microseconds of this program, in which the machine would have to stand still for
longer than `margin_s` + what is left until settling releases the launch. That is at least the settle window:
the intent is on record, so the launch counts as one of unknown outcome, and is free to be sent again only
after two full lists of the service, a settle window apart, have both lacked it. A margin of 5 s and a window
of 60 s thus want a machine that stands still, at this very place, for more than 65 s. Set the margin, or the
window, higher where machines are moved while they run.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sqlalchemy import Connection, select, update

from runner.errors import RunLockedError
from runner.ledger.cluster_run import are_terms_current
from runner.ledger.cluster_tables import cluster_runs, partition_leases
from runner.ledger.database import insert_into
from runner.ledger.server_clock import SERVER_NOW, set_locally

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ColumnElement, Update
    from sqlalchemy.sql.dml import ReturningInsert

    from runner.ledger.database import Ledger

LEASE_S = 30.0


class LeaseLostError(RunLockedError):
    """A task may send its partition no more: another one may, or the run's term is over."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a lease lasts; in seconds.

    Attributes:
        lease_s: from its renewal to its end.
        margin_s: how long it must go on for a request to leave.
        renew_s: after which it is renewed.
    """

    lease_s: float
    margin_s: float
    renew_s: float

    @classmethod
    def lasting(cls, lease_s: float) -> Self:
        """Return terms in proportion: half a minute is renewed every 7.5 s, with 5 s to spare."""
        return cls(lease_s, lease_s / 6, lease_s / 4)


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """What a task wants a lease of.

    Attributes:
        run_id: the run.
        round: of the run.
        partition: its number.
        holder: who the task is, in words.
        what: the partition in words, for errors.
    """

    run_id: str
    round: int
    partition: int
    holder: str
    what: str


class PartitionLease:
    """The lease of one partition, held by this task: a `RunLock`. `acquire_lease` makes it.

    Args:
        ledger: open; on PostgreSQL.
        claim: what it is of.
        number: of this holder among those of the partition.
        terms: how long it lasts.
        asked_at: when it was asked for, on `clock`.
        clock: seconds on a clock that nobody sets, and that counts the machine's sleep (`read_clock`).
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
        """Whether it is time to renew it."""
        return self._clock() - self._asked_at >= self.terms.renew_s

    def require_held(self, connection: Connection) -> None:
        """Make sure that nobody else can send the partition. To be called by each transaction with intents.

        Args:
            connection: of that transaction. Until it ends nobody else gets the lease, or the campaign's lock.

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
        """Make sure that nobody else can send the partition now, nor within the margin; from any thread.

        Raises:
            LeaseLostError: the lease has ended, or could not be renewed in time.
        """
        if self._is_lost or self._clock() >= self._asked_at + self.terms.lease_s - self.terms.margin_s:
            raise self._lose()

    def renew(self, recipients: int) -> None:
        """Have the lease go on.

        Args:
            recipients: those that are done with since the last time, for progress.

        Raises:
            LeaseLostError: it has ended, or the run's term has.
            LedgerError: the ledger cannot be written; it goes on to its end.
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
        """Let others have the partition, if this task still does.

        Args:
            recipients: as for `renew`.

        Raises:
            LedgerError: the ledger cannot be written; the lease ends all the same.
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
    """The lease is another task's.

    Attributes:
        left_s: until it ends, in seconds.
    """

    left_s: float


def acquire_lease(
    ledger: Ledger, claim: LeaseClaim, terms: LeaseTerms, clock: Callable[[], float]
) -> PartitionLease | LeaseTaken | None:
    """Take the lease of a partition, if nobody holds it; don't wait.

    Args:
        ledger: open; on PostgreSQL.
        claim: what is wanted.
        terms: how long it is to last.
        clock: `read_clock`.

    Returns:
        The lease; that it is another task's; or None if there is nothing to hold: the round, or the run's
        term, is over, or the run has been stopped.

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
    """See that a process which is stopped amid a transaction keeps others out for no longer than a lease."""
    limit_ms = str(math.ceil(terms.lease_s * 1000))
    set_locally(connection, "idle_in_transaction_session_timeout", limit_ms)


def _is_wanted(connection: Connection, claim: LeaseClaim) -> bool:
    """Return whether tasks of the round may take leases; it stays so until the transaction ends."""
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
