"""Sending of a plan on a cluster: the task of a worker, for one partition, and the client that coordinates.

A task may run again, or twice at once. It holds its partition's lease (`ledger.locks.partition_lease`) from
before it reads recorded recipients until its last answer is recorded. Secrets come from the worker's
environment; the task returns only numbers.

The client starts rounds, keeps its own lease alive, and ends the run; tasks end by themselves when that lease
runs out. Only the client settles, when no lease is live, and only it holds the campaign's lock; if that is
lost, it ends the tasks.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Self

from runner.cluster.dask_engine import watch_worker
from runner.cluster.heartbeat import BEAT_S, Heartbeat, SharedBreaker, SharedPace
from runner.cluster.plan_set import read_launches
from runner.cluster.shared_limit import SharedLimit
from runner.cluster.worker_access import (
    find_patience,
    open_campaign_key,
    open_worker_ledger,
    open_worker_service,
)
from runner.delivery.campaign_ref import CampaignRef
from runner.delivery.delivery_summary import PartReport
from runner.delivery.guids import Claims
from runner.delivery.intent_log import EligibilityCheck
from runner.delivery.order import MessageOrder, OnRecord
from runner.delivery.run import Delivery
from runner.errors import LedgerError, RunnerError, StorageError
from runner.ledger.locks.campaign_lock import read_clock
from runner.ledger.locks.cluster_run import (
    begin_cluster_run,
    drop_cluster_run,
    keep_client_alive,
    open_round,
    read_run_state,
    stop_cluster_run,
)
from runner.ledger.locks.partition_lease import (
    LeaseClaim,
    LeaseLostError,
    LeaseTaken,
    LeaseTerms,
    acquire_lease,
    count_recipients_done,
    find_live_leases,
)
from runner.ledger.locks.request_shares import RequestBudget, find_lost
from runner.ledger.record.unsettled import find_claimed
from runner.service.model import SendReply
from runner.telemetry.recording import Attributes, SendMeter, measure, span

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cluster.dask_engine import Cluster
    from runner.cluster.worker_access import WorkerTarget
    from runner.ledger.database import Ledger
    from runner.ledger.locks.campaign_lock import CampaignLock
    from runner.ledger.locks.partition_lease import LiveLeases, PartitionLease
    from runner.ledger.model import Run
    from runner.plan.manifest import PlanSet
    from runner.plan.model import PartFile, PlannedLaunch
    from runner.service.client import ServiceClient


_TOLD_S = 2.5 * BEAT_S
"""Seconds within which each task has recorded earlier successes."""
_CLIENT_BEAT_S = 0.25


@dataclass(frozen=True, slots=True)
class SendingOrder:
    """The order to the tasks of a round, without secrets or personal data.

    Attributes:
        plan_set: has the launches; tasks get their own files separately.
        campaign: the campaign, without its audience.
        campaign_id: the campaign's number in the ledger.
        target: the target, without secrets.
        concurrency: the most sends in flight of all tasks together.
        failures: failed launches in a row, over all tasks, that end the run.
        rate: the most sends a second of all tasks together; None for no limit.
        lease_s: seconds that a lease lasts.
        ahead: the lead of the target's clock over the worker's.
    """

    run_id: str
    round: int
    plan_set: PlanSet
    campaign: Campaign
    campaign_id: int
    target: WorkerTarget
    concurrency: int
    failures: int
    rate: float | None
    lease_s: float
    ahead: timedelta
    run: Run

    @property
    def budget(self) -> RequestBudget:
        """The sends in flight that the run's tasks share."""
        return RequestBudget(self.run_id, self.concurrency, self.lease_s, find_patience(self.target.target))

    def now(self) -> datetime:
        """Return the time on the clock that sending hours go by."""
        return datetime.now(UTC) + self.ahead


def send_partition(order: SendingOrder, partition: int, part: PartFile) -> PartReport:
    """Send the rest of a partition, given its number and file.

    Raises:
        StorageError: the file cannot be read here.
    """
    report, is_leaving = PartReport(), watch_worker()
    try:
        environment = order.target.environment
        with open_worker_ledger(environment) as ledger:
            key = open_campaign_key(ledger, order.campaign_id, order.target, environment)
            ref = CampaignRef(ledger, order.target.target.name, order.campaign_id, order.campaign.name, key)
            claim = _make_claim(order, partition)
            lease = _wait_for_lease(ledger, claim, LeaseTerms.lasting(order.lease_s), is_leaving)
            if lease is not None:
                about: Attributes = {"campaign": ref.campaign, "partition": partition, "round": order.round}
                with (
                    span("send partition", **about),
                    open_worker_service(order.target, order.concurrency, environment) as client,
                ):
                    _send(order, ref, client, claim, lease, part, report, is_leaving)
    except StorageError:
        # This worker's disk or access may be at fault: the call is made once more, on another.
        raise
    except RunnerError as error:
        report.failure = error
    # The run's row of the ledger has it, and outlives the task.
    report.final_reply = None
    return report


def _make_claim(order: SendingOrder, partition: int) -> LeaseClaim:
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    return LeaseClaim(
        order.run_id, order.round, partition, holder, f"partition {partition} of {order.campaign.name}"
    )


def _wait_for_lease(
    ledger: Ledger, claim: LeaseClaim, terms: LeaseTerms, is_leaving: Callable[[], bool]
) -> PartitionLease | None:
    """Return the lease; None if there is nothing left to send, or this worker is leaving."""
    pause = threading.Event()
    while not is_leaving():
        found = acquire_lease(ledger, claim, terms, read_clock)
        if not isinstance(found, LeaseTaken):
            return found
        # The former worker of this task is leaving, or may be stopped, and not dead: its lease ends first.
        pause.wait(min(BEAT_S, found.left_s + 0.01))
    return None


def _send(
    order: SendingOrder,
    ref: CampaignRef,
    client: ServiceClient,
    claim: LeaseClaim,
    lease: PartitionLease,
    part: PartFile,
    report: PartReport,
    is_leaving: Callable[[], bool],
) -> None:
    """Send one partition whose lease is held."""
    turns, stop = MessageOrder(), threading.Event()
    pace = SharedPace(ref.ledger, order.run_id, order.rate, read_clock, stop)
    breaker = SharedBreaker(ref.ledger, order.run_id, order.failures, _TOLD_S, stop)
    heartbeat = Heartbeat(
        ref.ledger, claim, lease, pace, breaker, stop, lambda: report.final_reply, is_leaving
    )
    limit = SharedLimit(ref.ledger, order.budget, read_clock)
    delivery = Delivery(
        campaign=ref,
        send=client.send,
        pace=pace,
        stop=stop,
        limit=limit,
        now=order.now,
        observe=heartbeat.observe_outcome,
        lock=lease,
        report=report,
        gate=EligibilityCheck.of(order.campaign, ref, order.target.read_state_key(order.target.environment)),
        breaker=breaker,
        run=order.run,
        settle_margin=order.campaign.limits.settle_margin,
        order=turns,
        find_claims=partial(_find_claims, ref, order.run.id),
        meter=SendMeter(ref.campaign, ref.target, order.target.target.base_url),
    )
    on_record = OnRecord(ref, order.run.id, turns)
    own = replace(order.plan_set, parts={order.campaign.name: (part,)})
    # The answer that ends the run is told before others get this share.
    with limit, heartbeat:
        try:
            _deliver(delivery, on_record.leave_out(read_launches(own, order.campaign, 0)), heartbeat)
        finally:
            report.unclear = len(delivery.unclear) + on_record.unclear
        is_ended = stop.is_set() or report.final_reply is not None or report.pause is not None
    report.is_complete = not is_ended and not heartbeat.is_lost


def _deliver(delivery: Delivery, launches: Iterator[PlannedLaunch], heartbeat: Heartbeat) -> None:
    try:
        delivery.run(launches)
    except LeaseLostError:
        heartbeat.is_lost = True
    except LedgerError:
        # The server ends sessions that stand still for too long.
        if not heartbeat.is_lost:
            raise


def _find_claims(ref: CampaignRef, run: str, guids: Collection[str]) -> Claims:
    with ref.ledger.reading() as connection:
        found = find_claimed(connection, ref.target, guids)
    own = {guid: launch_id for guid, (launch_id, by) in found.items() if by == run}
    return Claims(found.keys() - own.keys(), own)


def _make_calls(
    order: SendingOrder, partitions: Iterable[int]
) -> Iterator[tuple[SendingOrder, int, PartFile]]:
    """Yield the arguments of tasks: each gets only its own file of perhaps thousands."""
    parts = order.plan_set.parts[order.campaign.name]
    brief = replace(order, plan_set=replace(order.plan_set, campaigns=(), parts={}))
    for partition in partitions:
        yield brief, partition, parts[partition]


class Coordinator:
    """A sender of one campaign's partitions, round by round. Use it within `begin`.

    Args:
        ledger: open; on PostgreSQL.
        lock: the campaign's, held by this process.
        order: the order to the tasks; `send_round` sets its round.
        stop: set it to end the tasks after the sends in flight are recorded.
        tell: is called once a round if lost tasks have to be waited for.

    Attributes:
        left: the most recipients that a round may send to.
        reports: the last report of each partition, by number.
        failure: the reason for ending the tasks of all partitions.
    """

    def __init__(
        self,
        ledger: Ledger,
        cluster: Cluster,
        lock: CampaignLock,
        order: SendingOrder,
        stop: threading.Event,
        tell: Callable[[LiveLeases], None],
    ) -> None:
        self._ledger = ledger
        self._cluster = cluster
        self._lock = lock
        self._order = order
        self._run_id = order.run_id
        self._lease_s = order.lease_s
        self._stop = stop
        self._tell = tell
        files = order.plan_set.parts[order.campaign.name]
        self.parts = len(files)
        self.left = sum(file.recipients for file in files)
        self.reports: dict[int, PartReport] = {}
        self.failure: RunnerError | None = None

    @contextmanager
    def begin(self) -> Iterator[Self]:
        """Enter the run while the block lasts.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        target = self._order.target.target.name
        with self._ledger.writing() as connection:
            begin_cluster_run(connection, self._run_id, target, self._lock.terms, self._lease_s)
        yield self
        # After an error the rows stay: the next run waits for the leases in them.
        with self._ledger.writing() as connection:
            drop_cluster_run(connection, self._run_id)

    def send_round(self, number: int, partitions: Sequence[int], advance: Callable[[int], None]) -> None:
        """Send partitions in a round, from 1, and wait until no task can send any more.

        `advance` receives finished recipients, from another thread.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        order = replace(self._order, round=number)
        with self._ledger.writing() as connection:
            # Nobody renews the client's lease between rounds, and settling may take longer than it lasts.
            keep_client_alive(connection, self._run_id, self._lease_s)
            open_round(connection, self._run_id, number)
        with self._beating(advance):
            try:
                for place, report in self._cluster.run(send_partition, _make_calls(order, partitions)):
                    self.reports[partitions[place]] = report
                    self._note_failure(report)
            except RunnerError as error:
                self._end(error)
            with self._ledger.writing() as connection:
                open_round(connection, self._run_id, 0)
            self._await_leases()

    def find_final_reply(self) -> SendReply | None:
        """Return the answer that ended the run, if any.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        with self._ledger.reading() as connection:
            state = read_run_state(connection, self._run_id)
        if state is None or state.final is None:
            return None
        final = state.final
        return SendReply("rejected", detail=final.detail, status=final.status, is_final_for_run=True)

    def _note_failure(self, report: PartReport) -> None:
        """End the run if the failure of a task would happen to the others as well."""
        if report.failure is not None and not report.may_try_again:
            self._end(report.failure)

    def _end(self, error: RunnerError) -> None:
        self.failure = self.failure or error
        with self._ledger.writing() as connection:
            stop_cluster_run(connection, self._run_id)

    def _await_leases(self) -> None:
        has_told = False
        while (live := find_live_leases(self._ledger, self._run_id)) is not None:
            if not has_told:
                self._tell(live)
                has_told = True
            time.sleep(min(_CLIENT_BEAT_S, live.left_s + 0.01))

    @contextmanager
    def _beating(self, advance: Callable[[int], None]) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._beat, args=(ended, advance), name="client", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _beat(self, ended: threading.Event, advance: Callable[[int], None]) -> None:
        has_stopped, told, renewed_at = False, 0, 0.0
        while not ended.wait(_CLIENT_BEAT_S):
            # The ledger may be back at the next beat; if not, the tasks end by themselves.
            with suppress(RunnerError):
                if self._stop.is_set() and not has_stopped:
                    self._stop_tasks()
                    has_stopped = True
                if time.monotonic() - renewed_at >= self._lease_s / 4:
                    self._keep_alive()
                    renewed_at = time.monotonic()
                with self._ledger.reading() as connection:
                    done = count_recipients_done(connection, self._run_id)
                    lost, left_s = find_lost(connection, self._run_id)
                if lost >= self._order.concurrency:
                    self._cluster.note_waiting(
                        "budget",
                        "all sends in flight that are allowed were those of lost workers: waiting until none "
                        f"can be open at the service, {left_s:.0f} s at most",
                    )
                if done > told:
                    self._cluster.note_progress()
                    advance(done - told)
                    told = done

    def _keep_alive(self) -> None:
        try:
            self._lock.require_seen()
        except RunnerError as error:
            self._end(error)
            return
        with self._ledger.writing() as connection:
            keep_client_alive(connection, self._run_id, self._lease_s)
        measure("sms_campaign.lease.renewals", 1, lease="client", outcome="renewed")

    def _stop_tasks(self) -> None:
        with self._ledger.writing() as connection:
            stop_cluster_run(connection, self._run_id)
