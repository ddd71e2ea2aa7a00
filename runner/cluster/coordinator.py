"""The client of an `apply` on a cluster: opens rounds for its tasks, lives, and waits for the last lease.

While a round is open the client renews a lease of its own: when it runs out, the tasks end by themselves. The
lock of the campaign is the client's alone; once it is lost, it has the tasks end as well.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from runner.cluster.sending import send_partition
from runner.errors import RunnerError
from runner.ledger.cluster_run import (
    begin_cluster_run,
    drop_cluster_run,
    keep_client_alive,
    open_round,
    stop_cluster_run,
)
from runner.ledger.lease_wait import count_recipients_done, find_live_leases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.cluster.engine import Cluster
    from runner.cluster.plan_set import PartFile
    from runner.cluster.sending import PartitionReport, SendingOrder
    from runner.ledger.database import Ledger
    from runner.ledger.lease_wait import LiveLeases
    from runner.ledger.lock import CampaignLock

_BEAT_S = 0.25
_POLL_S = 0.25


def _make_calls(
    order: SendingOrder, partitions: Iterable[int]
) -> Iterator[tuple[SendingOrder, int, PartFile]]:
    """Yield what tasks are called with: each is told of its own file alone, of what may be thousands."""
    parts = order.plan_set.parts[order.campaign.name]
    brief = replace(order, plan_set=replace(order.plan_set, campaigns=(), parts={}))
    for partition in partitions:
        yield brief, partition, parts[partition]


class Coordinator:
    """Runs the rounds of one campaign. Use `begin`, which enters it in the ledger.

    Args:
        ledger: open; on PostgreSQL.
        cluster: makes the calls.
        lock: the campaign's, held by this process.
        run_id: the run on the cluster; random.
        lease_s: how long the client's own lease, and each task's, lasts, in seconds.
        stop: set it to have the tasks end; what is in flight is waited for and recorded.
    """

    def __init__(
        self,
        ledger: Ledger,
        cluster: Cluster,
        lock: CampaignLock,
        run_id: str,
        lease_s: float,
        stop: threading.Event,
    ) -> None:
        self._ledger = ledger
        self._cluster = cluster
        self._lock = lock
        self._run_id = run_id
        self._lease_s = lease_s
        self._stop = stop
        self.failure: RunnerError | None = None

    @contextmanager
    def begin(self, target: str) -> Iterator[Self]:
        """Enter the run while the block lasts.

        Args:
            target: the target's name.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        with self._ledger.writing() as connection:
            begin_cluster_run(connection, self._run_id, target, self._lock.terms, self._lease_s)
        yield self
        # After an error the rows stay: they are what tells the next run whom to wait for.
        with self._ledger.writing() as connection:
            drop_cluster_run(connection, self._run_id)

    def send_round(
        self,
        order: SendingOrder,
        partitions: Sequence[int],
        advance: Callable[[int], None],
        tell: Callable[[LiveLeases], None],
    ) -> list[PartitionReport]:
        """Have partitions sent, and return what their tasks did when no task can send any more.

        Args:
            order: what to send, and how.
            partitions: their numbers.
            advance: is told of recipients that are done with, from another thread.
            tell: is told once if tasks that are lost have to be waited for.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        with self._ledger.writing() as connection:
            # Between rounds nobody renews the client's own lease, and what is settled may take longer.
            keep_client_alive(connection, self._run_id, self._lease_s)
            open_round(connection, self._run_id, order.round)
        reports = []
        with self._beating(advance):
            try:
                for _, report in self._cluster.run(send_partition, _make_calls(order, partitions)):
                    reports.append(report)
                    self._note_failure(report)
            except RunnerError as error:
                self._end(error)
            with self._ledger.writing() as connection:
                open_round(connection, self._run_id, 0)
            self._await_leases(tell)
        return reports

    def _note_failure(self, report: PartitionReport) -> None:
        """End the run if what a task failed of would happen to the others as well."""
        if report.failure is not None and not report.may_try_again:
            self._end(report.failure)

    def _end(self, error: RunnerError) -> None:
        self.failure = self.failure or error
        with self._ledger.writing() as connection:
            stop_cluster_run(connection, self._run_id)

    def _await_leases(self, tell: Callable[[LiveLeases], None]) -> None:
        has_told = False
        while (live := find_live_leases(self._ledger, self._run_id)) is not None:
            if not has_told:
                tell(live)
                has_told = True
            time.sleep(min(_POLL_S, live.left_s + 0.01))

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
        while not ended.wait(_BEAT_S):
            # The ledger may be back at the next beat; if it is not, the tasks end by themselves.
            with suppress(RunnerError):
                if self._stop.is_set() and not has_stopped:
                    self._stop_tasks()
                    has_stopped = True
                if time.monotonic() - renewed_at >= self._lease_s / 4:
                    self._keep_alive()
                    renewed_at = time.monotonic()
                with self._ledger.reading() as connection:
                    done = count_recipients_done(connection, self._run_id)
                if done > told:
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

    def _stop_tasks(self) -> None:
        with self._ledger.writing() as connection:
            stop_cluster_run(connection, self._run_id)
