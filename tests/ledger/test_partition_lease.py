"""Leases of partitions: of all processes of a run one may send a partition, whatever becomes of its holder."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from runner.errors import LedgerError
from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock
from runner.ledger.locks.cluster_run import (
    FinalAnswer,
    begin_cluster_run,
    count_failure,
    drop_cluster_run,
    end_failures,
    open_round,
    pause_cluster_run,
    read_run_state,
    stop_cluster_run,
    take_slots,
)
from runner.ledger.locks.partition_lease import (
    LeaseClaim,
    LeaseLostError,
    LeaseTaken,
    LeaseTerms,
    LiveLeases,
    PartitionLease,
    acquire_lease,
    count_recipients_done,
    find_live_leases,
)
from runner.ledger.tables import cluster_runs, partition_leases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection


RUN = "0123456789abcdef"
CLAIM = LeaseClaim(RUN, 1, 3, "process 7 on node-1", "partition 3 of pulse")
TERMS = LeaseTerms.lasting(30)
CLIENT = LockHolder("ci-1", 41, None, "2026-11-20T12:00:00.000000Z")
LOST = "this task has lost its lease of partition 3 of pulse; it sends nothing more"


class Clock:
    """Seconds on a task's own clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A task's own clock, which stands still."""
    return Clock()


@pytest.fixture
def shared(postgres_ledger: str) -> Iterator[Ledger]:
    """A ledger on a server, in which the first round of a run is open; its client holds the lock."""
    with Ledger(postgres_ledger) as ledger, ExitStack() as stack:
        lock = stack.enter_context(hold_campaign_lock(ledger, "live", ["pulse", "old"], CLIENT))
        with ledger.writing() as connection:
            begin_cluster_run(connection, RUN, "live", lock.terms, 30)
            open_round(connection, RUN, 1)
        yield ledger


def take(ledger: Ledger, clock: Clock, claim: LeaseClaim = CLAIM) -> PartitionLease:
    """Take a lease that is free."""
    lease = acquire_lease(ledger, claim, TERMS, clock)
    assert isinstance(lease, PartitionLease)
    return lease


def require_held(ledger: Ledger, lease: PartitionLease) -> None:
    """Ask a lease whether intents may be recorded."""
    with ledger.writing() as connection:
        lease.require_held(connection)


def let_leases_end(ledger: Ledger) -> None:
    """Put the ends of all leases into the past, as time would."""
    with ledger.writing() as connection:
        connection.execute(update(partition_leases).values(expires_at=1.0))


def take_over(ledger: Ledger) -> None:
    """Begin another run of the campaign, whose client got the lock because the first one's has died."""
    with ledger.writing() as connection:
        connection.exec_driver_sql("UPDATE locks SET term = term + 1 WHERE campaign = 'old'")


def test_of_two_tasks_of_a_partition_one_sends(shared: Ledger, clock: Clock) -> None:
    """While the lease of one goes on, the other is told how long it has to wait; another partition is free."""
    lease = take(shared, clock)
    found = acquire_lease(shared, CLAIM, TERMS, clock)
    assert isinstance(found, LeaseTaken)
    assert 0 < found.left_s <= 30
    require_held(shared, lease)
    lease.require_seen()
    take(shared, clock, replace(CLAIM, partition=4))


def test_a_released_lease_is_free_at_once(shared: Ledger, clock: Clock) -> None:
    """A task that has come to its end leaves the partition to others; itself it sends nothing more."""
    lease = take(shared, clock)
    lease.release(5)
    with pytest.raises(LeaseLostError):
        lease.require_seen()
    take(shared, clock).release(2)
    with shared.reading() as connection:
        assert count_recipients_done(connection, RUN) == 7


def test_a_lease_that_has_ended_is_lost_for_good(shared: Ledger, clock: Clock) -> None:
    """Whoever comes back after the end of its lease can neither renew it nor record intents, taken or not."""
    lease = take(shared, clock)
    let_leases_end(shared)
    uses: list[Callable[[], None]] = [
        lambda: require_held(shared, lease),
        lambda: lease.renew(0),
        lease.require_seen,
    ]
    for use in uses:
        with pytest.raises(LeaseLostError) as caught:
            use()
        assert caught.value.message == LOST
        assert caught.value.hint == "run the same command again when that run has ended"
    other = take(shared, clock)
    require_held(shared, other)
    with pytest.raises(LeaseLostError):
        lease.renew(0)
    lease.release(0)
    require_held(shared, other)


def test_requests_leave_within_the_lease_less_its_margin(shared: Ledger, clock: Clock) -> None:
    """The task goes by its own clock, from before it asked: no request leaves in the last sixth of a lease."""
    lease = take(shared, clock)
    clock.now += 24.9
    lease.require_seen()
    clock.now += 0.1
    with pytest.raises(LeaseLostError):
        lease.require_seen()


def test_a_renewal_prolongs_from_before_it_was_asked(shared: Ledger, clock: Clock) -> None:
    """A renewed lease is good for as long again, counted from when the renewal was asked for."""
    lease = take(shared, clock)
    clock.now += 7.5
    lease.renew(3)
    clock.now += 24.9
    lease.require_seen()


def test_a_task_of_a_run_that_is_over_is_fenced_off(shared: Ledger, clock: Clock) -> None:
    """Once another run has the lock, under any of the names, tasks take, renew and use no lease any more."""
    lease = take(shared, clock)
    take_over(shared)
    assert acquire_lease(shared, replace(CLAIM, partition=5), TERMS, clock) is None
    with pytest.raises(LeaseLostError):
        require_held(shared, lease)
    with pytest.raises(LeaseLostError):
        lease.renew(0)


@pytest.mark.parametrize(
    "end",
    [
        lambda connection: open_round(connection, RUN, 2),
        lambda connection: stop_cluster_run(connection, RUN),
        lambda connection: connection.execute(update(cluster_runs).values(coordinator_until=1.0)),
        lambda connection: drop_cluster_run(connection, RUN),
    ],
    ids=["another round", "stopped", "client gone", "dropped"],
)
def test_late_tasks_find_nothing_to_hold_on_to(
    shared: Ledger, clock: Clock, end: Callable[[Connection], None]
) -> None:
    """A task that starts when its round, its run or its client is gone gets no lease."""
    with shared.writing() as connection:
        end(connection)
    assert acquire_lease(shared, CLAIM, TERMS, clock) is None


def test_the_next_run_waits_for_the_leases_of_the_one_before(postgres_ledger: str, clock: Clock) -> None:
    """Whoever gets a campaign's lock has it only when no task of an earlier run may send; it says who may."""
    told: list[LiveLeases] = []
    with Ledger(postgres_ledger) as ledger, Ledger(postgres_ledger) as other:
        with hold_campaign_lock(ledger, "live", ["pulse"], CLIENT) as lock, ledger.writing() as connection:
            begin_cluster_run(connection, RUN, "live", lock.terms, 30)
            open_round(connection, RUN, 1)
            # The client dies here, and its lock with it.
        lease = take(ledger, clock)

        def sleep(_seconds: float) -> None:
            with pytest.raises(LeaseLostError):
                lease.renew(0)
            let_leases_end(ledger)

        names = ["pulse", "new"]
        with hold_campaign_lock(other, "live", names, CLIENT, sleep=sleep, tell=told.append):
            assert find_live_leases(ledger, RUN) is None
            with pytest.raises(LeaseLostError):
                require_held(ledger, lease)
    assert [(live.count, live.holder) for live in told] == [(1, "process 7 on node-1")]


def test_who_waits_for_leases_waits_for_intents_that_are_being_recorded(shared: Ledger, clock: Clock) -> None:
    """A lease that ends amid the transaction with intents counts as live until that has committed."""
    lease = take(shared, clock)
    with shared.writing() as connection:
        lease.require_held(connection)
        for statement in ("UPDATE partition_leases SET holder = NULL", "UPDATE locks SET term = term + 1"):
            with pytest.raises(LedgerError) as caught:
                write_impatiently(shared, statement)
            assert "lock timeout" in caught.value.message
    write_impatiently(shared, "UPDATE partition_leases SET holder = NULL")


def write_impatiently(ledger: Ledger, statement: str) -> None:
    """Run a statement that gives up at once if it has to wait for another transaction."""
    with ledger.writing() as connection:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '50ms'")
        connection.exec_driver_sql(statement)


def test_a_holder_that_stands_still_amid_a_transaction_is_thrown_out(shared: Ledger, clock: Clock) -> None:
    """The server ends a session that stands still while it keeps others from the lease, or the lock."""
    lease = take(shared, clock)
    # The lease itself outlasts a busy machine: what ends in a moment is a session that stands still.
    lease.terms = LeaseTerms.lasting(0.2)
    with pytest.raises(LedgerError) as caught:
        stand_still(shared, lease)
    assert "idle-in-transaction timeout" in caught.value.message


def stand_still(ledger: Ledger, lease: PartitionLease) -> None:
    """Begin to record intents, and go on when another run has got the lock."""
    with ledger.writing() as connection:
        lease.require_held(connection)
        with ledger.writing() as other:
            other.exec_driver_sql("UPDATE locks SET term = term + 1")
        connection.exec_driver_sql("SELECT 1")


def test_a_run_tells_its_tasks_how_it_stands(shared: Ledger) -> None:
    """Pauses, failures in a row and the answer that ends the run are one for all; the first answer stays."""
    with shared.writing() as connection:
        pause_cluster_run(connection, RUN, 600)
        pause_cluster_run(connection, RUN, 5)
        assert [count_failure(connection, RUN, has_succeeded=False) for _ in range(3)] == [1, 2, 3]
        assert count_failure(connection, RUN, has_succeeded=True) == 1
        stop_cluster_run(connection, RUN, FinalAnswer(403, "HTTP 403"))
        stop_cluster_run(connection, RUN, FinalAnswer(401, "HTTP 401"))
    with shared.reading() as connection:
        state = read_run_state(connection, RUN)
    assert state is not None
    assert 500 < state.paused_s <= 600
    assert (state.failures, state.is_stopped, state.is_abandoned) == (1, True, False)
    assert state.final == FinalAnswer(403, "HTTP 403")
    with shared.writing() as connection:
        end_failures(connection, RUN)
    with shared.reading() as connection:
        state = read_run_state(connection, RUN)
        assert state is not None
        assert state.failures == 0
        assert read_run_state(connection, "another") is None


def test_moments_to_send_at_are_handed_out_once(shared: Ledger) -> None:
    """However tasks take them, the moments of a run follow each other by one interval, after its pause."""
    with shared.writing() as connection:
        pause_cluster_run(connection, RUN, 10_000)
        firsts = [take_slots(connection, RUN, count, 1000.0) for count in (1, 5, 2, 1)]
        assert take_slots(connection, "another", 1, 1000.0) is None
    known = [first for first in firsts if first is not None]
    assert [round(first / 1000) for first in known] == [10, 11, 16, 18]
