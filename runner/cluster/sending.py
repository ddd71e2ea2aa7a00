"""Sends one partition of a plan, as a task on a worker: whatever happens to it, it may run again, or twice.

The task holds the lease of its partition (`runner.ledger.partition_lease`) from before it looks whom the
record has, until its last answer is recorded. It never settles: that is for the client, when no lease is
live. What it needs to know that is secret it reads from its worker's own environment; what it hands back are
numbers.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from runner.cluster.heartbeat import BEAT_S, Heartbeat
from runner.cluster.on_record import OnRecord
from runner.cluster.plan_set import read_launches
from runner.cluster.shared_breaker import SharedBreaker
from runner.cluster.shared_pace import SharedPace
from runner.cluster.worker_access import open_campaign_key, open_worker_ledger, open_worker_service
from runner.deliver.gate import Gate
from runner.deliver.guids import Claims
from runner.deliver.order import MessageOrder
from runner.deliver.run import Delivery
from runner.errors import LedgerError, RunLockedError, RunnerError
from runner.ledger.lock import read_clock
from runner.ledger.partition_lease import LeaseClaim, LeaseLostError, LeaseTaken, LeaseTerms, acquire_lease
from runner.ledger.unsettled import find_claimed

if TYPE_CHECKING:
    from collections.abc import Collection

    from runner.campaign.model import Campaign
    from runner.cluster.plan_set import PartFile, PlanSet
    from runner.cluster.worker_access import WorkerTarget
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import Run
    from runner.ledger.partition_lease import PartitionLease
    from runner.service.client import ServiceClient

_TOLD_S = 2.5 * BEAT_S
"""After which each task has told of what has succeeded before."""


@dataclass(frozen=True, slots=True)
class SendingOrder:
    """What the tasks of a round are to send; nothing of it is secret, or about people.

    Attributes:
        run_id: the run on the cluster.
        round: of the run.
        plan_set: has the launches; tasks are told of their own files beside it.
        campaign: the campaign, without its audience.
        campaign_id: the ledger's number of it.
        target: where to send, less what is secret.
        concurrency: sends in flight at once, in each task.
        failures: launches that fail in a row, over all tasks, which end the run.
        rate: the most sends a second, of all tasks together; None for no limit.
        lease_s: how long a lease lasts, in seconds.
        ahead: how far the target's own clock is ahead of the worker's.
        run: which the launches are recorded with.
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

    def now(self) -> datetime:
        """Return the time on the clock that sending hours are read from."""
        return datetime.now(UTC) + self.ahead


@dataclass(slots=True)
class PartitionReport:
    """What a task did: numbers.

    Attributes:
        partition: its number.
        is_complete: whether it came to the end of the partition.
        unclear: launches, or recipients, of unknown outcome: some may be free again once that is settled.
        deferred: recipients whose hours were over before their turn.
        opted_out: recipients who had opted out, or may have, since the plan was made.
        capped: recipients who had reached the frequency cap since.
        open_session: recipients to whom another campaign had sent a survey since.
        waiting: recipients whose message before was not sent, or nobody knows.
        failure: what ended it.
    """

    partition: int
    is_complete: bool = False
    unclear: int = 0
    deferred: int = 0
    opted_out: int = 0
    capped: int = 0
    open_session: int = 0
    waiting: int = 0
    failure: RunnerError | None = None

    @property
    def may_try_again(self) -> bool:
        """Whether what ended it may have passed when the partition is sent once more."""
        return isinstance(self.failure, (LedgerError, RunLockedError))


def send_partition(order: SendingOrder, partition: int, part: PartFile) -> PartitionReport:
    """Send what is left of a partition.

    Args:
        order: what is sent, and how.
        partition: its number.
        part: its file.
    """
    report = PartitionReport(partition)
    try:
        with open_worker_ledger(os.environ) as ledger:
            key = open_campaign_key(ledger, order.campaign_id, order.target, os.environ)
            claim = _make_claim(order, partition)
            lease = _wait_for_lease(ledger, claim, LeaseTerms.lasting(order.lease_s))
            if lease is not None:
                with open_worker_service(order.target, order.concurrency, os.environ) as client:
                    _Sending(order, ledger, client, key, claim, lease).send(part, report)
    except RunnerError as error:
        report.failure = error
    return report


def _make_claim(order: SendingOrder, partition: int) -> LeaseClaim:
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    return LeaseClaim(
        order.run_id, order.round, partition, holder, f"partition {partition} of {order.campaign.name}"
    )


def _wait_for_lease(ledger: Ledger, claim: LeaseClaim, terms: LeaseTerms) -> PartitionLease | None:
    """Return the lease; None if there is nothing to send any more."""
    pause = threading.Event()
    while isinstance(found := acquire_lease(ledger, claim, terms, read_clock), LeaseTaken):
        # The worker that had this task may be stopped, and not dead: its lease has to end first.
        pause.wait(min(1.0, found.left_s + 0.01))
    return found


class _Sending:
    """Sends one partition whose lease is held."""

    def __init__(
        self,
        order: SendingOrder,
        ledger: Ledger,
        client: ServiceClient,
        key: FingerprintKey,
        claim: LeaseClaim,
        lease: PartitionLease,
    ) -> None:
        self._order = order
        self._ledger = ledger
        self._client = client
        self._key = key
        self._lease = lease
        self._stop = threading.Event()
        self._pace = SharedPace(ledger, order.run_id, order.rate, read_clock, self._stop)
        self._breaker = SharedBreaker(ledger, order.run_id, order.failures, _TOLD_S, self._stop)
        self._heartbeat = Heartbeat(ledger, claim, lease, self._pace, self._breaker, self._stop)

    def send(self, part: PartFile, report: PartitionReport) -> None:
        order = self._order
        run = order.run.id
        turns = MessageOrder()
        on_record = OnRecord(self._ledger, order.campaign_id, order.campaign.name, self._key, run, turns)
        own = replace(order.plan_set, parts={order.campaign.name: (part,)})
        launches = read_launches(own, order.campaign, 0)
        with self._heartbeat:
            delivery = self._make_delivery(turns)
            self._heartbeat.watch_final(lambda: delivery.summary.final_reply)
            try:
                delivery.run(on_record.leave_out(launches))
            except LeaseLostError:
                self._heartbeat.is_lost = True
            except LedgerError:
                # The server ends sessions of who has stood still for too long.
                if not self._heartbeat.is_lost:
                    raise
            finally:
                summary = delivery.summary
                report.unclear = len(delivery.unclear) + on_record.unclear
                report.deferred, report.capped = summary.deferred, summary.capped
                report.opted_out, report.open_session = summary.opted_out, summary.open_session
                report.waiting = summary.waiting
            is_ended = self._stop.is_set() or summary.final_reply is not None
        report.is_complete = not is_ended and not self._heartbeat.is_lost

    def _make_delivery(self, turns: MessageOrder) -> Delivery:
        order, target = self._order, self._order.target.target
        state_key = order.target.read_state_key(os.environ)
        return Delivery(
            ledger=self._ledger,
            target=target.name,
            campaign_id=order.campaign_id,
            campaign=order.campaign.name,
            key=self._key,
            send=self._client.send,
            pace=self._pace,
            stop=self._stop,
            concurrency=order.concurrency,
            now=order.now,
            observer=self._heartbeat,
            lock=self._lease,
            gate=Gate.of(order.campaign, order.campaign_id, target.name, state_key),
            breaker=self._breaker,
            run=order.run,
            settle_margin=order.campaign.limits.settle_margin,
            order=turns,
            find_claims=partial(_find_claims, self._ledger, target.name, order.run.id),
        )


def _find_claims(ledger: Ledger, target: str, run: str, guids: Collection[str]) -> Claims:
    with ledger.reading() as connection:
        found = find_claimed(connection, target, guids)
    own = {guid: launch_id for guid, (launch_id, by) in found.items() if by == run}
    return Claims(found.keys() - own.keys(), own)
