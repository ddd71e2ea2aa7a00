"""Sends launches, exactly once: durable intent, one POST, recorded outcome (design: delivery, steps 1 to 3).

One thread writes the ledger; a bounded pool sends. Each turn of the loop commits, in one
transaction, the outcomes that have come back and the intents of the launches that go next: fsyncs
are shared, and no request leaves before its own intent is durable.

A launch that somebody opts out of while it waits (see `watch`) does not leave: it is recorded as not
sent, which frees its recipients, and comes before the gate once more, with the next intents. That lets
pass whoever is left of it, as a launch of its own: what leaves is always, exactly, an intent.
"""

from __future__ import annotations

import contextlib
import random
from collections import deque
from dataclasses import replace
from datetime import timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING

from runner.deliver.breaker import Breaker
from runner.deliver.crew import Crew, Flight
from runner.deliver.guids import Guids, doubt_guid, read_claims
from runner.deliver.journal import Journal
from runner.deliver.order import MessageOrder
from runner.deliver.pace import Margin
from runner.deliver.retry import DEFAULT_POLICY, Retrier, RetryPolicy, Send, WithheldError
from runner.deliver.summary import TOO_LATE, Delivered, DeliverySummary
from runner.deliver.watch import OPTED_OUT, Watch
from runner.errors import RunnerError
from runner.ledger.run_lock import RunLock, Unlocked
from runner.service.model import SendReply

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from runner.deliver.gate import Gate
    from runner.deliver.guids import FindClaims
    from runner.deliver.observer import DeliveryObserver
    from runner.deliver.pace import Pace
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import Run
    from runner.plan.model import PlannedLaunch

ENDED = "the run ended before its turn"
_AHEAD = 2
"""Launches that may have an intent, for each thread: one in flight and one to take next."""


class Delivery:
    """Delivers the launches of one campaign.

    Args:
        ledger: where intents and outcomes go.
        target: the target's name.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: the key of its fingerprints.
        send: one POST.
        pace: keeps the rate.
        gate: takes out, at the last moment, whoever may no longer be texted; None to let everybody pass.
        policy: how what may be tried again is.
        random: returns a uniform number from 0 to 1, for the waits between tries.
        breaker: ends the run if everything fails; None for one that fits the concurrency.
        stop: set it to end the run early; what is in flight is waited for and recorded.
        concurrency: sends in flight at once.
        now: returns the time on the clock that sending hours are read from.
        observer: is told of the outcomes.
        lock: is looked at in each transaction that records intents, and before each request.
        summary: goes on from an earlier round of the same run, if there was one.
        run: which the launches are recorded with.
        find_claims: says which guids are on record; None to read all of the target's at the start.
        settle_margin: how long before the end of their hours the last launches leave; None to go by how long
            the service takes to answer.
        order: has people already whose later messages wait; None if there are none.

    Attributes:
        unclear: the launches of unknown outcome, by their keys: those of them that turn out not to have
            been sent can be sent again.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        target: str,
        campaign_id: int,
        campaign: str,
        key: FingerprintKey,
        send: Send,
        pace: Pace,
        stop: threading.Event,
        concurrency: int,
        now: Callable[[], datetime],
        observer: DeliveryObserver,
        lock: RunLock | None = None,
        summary: DeliverySummary | None = None,
        gate: Gate | None = None,
        policy: RetryPolicy = DEFAULT_POLICY,
        random: Callable[[], float] = random.random,
        breaker: Breaker | None = None,
        run: Run | None = None,
        find_claims: FindClaims | None = None,
        settle_margin: timedelta | None = None,
        order: MessageOrder | None = None,
    ) -> None:
        self._ledger = ledger
        self._target = target
        lock = lock or Unlocked()
        self._journal = Journal(ledger, campaign_id, campaign, key, lock, gate, run)
        self._pace = pace
        self._watch = Watch(ledger, gate, pace.now) if gate else None
        self._find_claims = find_claims
        self._guids = Guids()
        self._margin = Margin(settle_margin)
        self._order = order or MessageOrder()
        self._send = send
        self._retrier = Retrier(
            self._send_timed,
            policy=policy,
            pace=pace,
            random=random,
            is_over=self._ends,
            guard=lock.require_seen,
        )
        self._breaker = breaker or Breaker.for_concurrency(concurrency)
        self._stop = stop
        self._concurrency = concurrency
        self._now = now
        self._observer = observer
        self._crew = Crew(concurrency, self._fly)
        self._unrecorded: list[tuple[Flight, SendReply]] = []
        self._unobserved: list[tuple[Flight, SendReply]] = []
        self._again: deque[PlannedLaunch] = deque()
        self._next: deque[PlannedLaunch] = deque()
        self._failure: RunnerError | None = None
        self._halted = False
        self.summary = summary or DeliverySummary()
        self.unclear: dict[str, PlannedLaunch] = {}

    def run(self, launches: Iterator[PlannedLaunch]) -> None:
        """Send launches until there are none left, or the run has to end.

        Args:
            launches: taken from as threads become free.

        Raises:
            RunnerError: the ledger could not be written, or another run holds some of the recipients.
                What was in flight has been waited for, and recorded as far as that is possible.
        """
        self._guids = Guids(self._find_claims or read_claims(self._ledger, self._target))
        with self._crew:
            try:
                self._loop(launches)
            except BaseException:
                self._halted = True
                self._collect_all()
                raise

    def _loop(self, launches: Iterator[PlannedLaunch]) -> None:
        while True:
            room = self._concurrency * _AHEAD - self._crew.in_flight
            due = [] if self._ends() else list(islice(self._iterate_due(launches), room))
            for flight in self._commit(due):
                self._crew.send_off(flight)
            self._conclude_recorded()
            if self._crew.in_flight:
                self._collect()
            elif not due:
                return
            if self._failure is not None:
                raise self._failure

    def _iterate_due(self, launches: Iterator[PlannedLaunch]) -> Iterator[PlannedLaunch]:
        """Yield launches, first those that come before the gate once more.

        It ends where somebody has another message on its way. Those whose hours are over are left out, and
        those who wait for an earlier message: nothing is recorded, a later run sends them.
        """
        for launch in chain(_take(self._again), _take(self._next), launches):
            if not self._order.is_free(launch):
                self._next.append(launch)
                return
            if self._is_late(launch):
                self.summary.deferred += len(launch.phones)
                self._order.hold(launch.phones)
                continue
            left = self._order.leave_out_held(launch)
            self.summary.waiting += len(launch.phones) - (len(left.phones) if left else 0)
            if left is not None:
                self._order.depart(left)
                yield left

    def _is_late(self, launch: PlannedLaunch) -> bool:
        """Return whether the service might accept a launch after its hours."""
        return (
            launch.until is not None and self._now() + timedelta(seconds=self._margin.seconds) >= launch.until
        )

    def _ends(self) -> bool:
        return self._halted or self._stop.is_set() or self.summary.final_reply is not None

    def _commit(self, due: list[PlannedLaunch]) -> list[Flight]:
        """Make outcomes and intents durable, together; return what may leave now."""
        recorded, self._unrecorded = self._unrecorded, []
        if not recorded and not due:
            return []
        asked_at = self._pace.now()
        try:
            flights, admission = self._journal.commit(recorded, due, self._guids.disputed, self._now())
        except RunnerError:
            self._unrecorded = recorded
            raise
        self._unobserved += recorded
        self.summary.opted_out += admission.opted_out
        self.summary.capped += admission.capped
        self.summary.open_session += len(admission.open_session)
        self._order.turn_back(admission.find_left_out(due), admission.open_session)
        if self._watch is not None:
            self._watch.enter(flights, asked_at)
        return flights

    def _conclude_recorded(self) -> None:
        # Only after the next launches have gone: an observer that fails must leave no intent behind unsent.
        recorded, self._unobserved = self._unobserved, []
        for flight, reply in recorded:
            if reply.detail != OPTED_OUT:
                self._conclude(flight, reply)
        self.summary.dispute(self._guids.disputed)

    def _conclude(self, flight: Flight, reply: SendReply) -> None:
        intent = flight.intent
        recipients = len(intent.recipients)
        if reply.outcome == "unknown":
            self.unclear[intent.key] = flight.launch
        self.summary.launches.append(
            Delivered(
                intent.key, intent.message, reply.outcome, recipients, reply.project_launch_guid, reply.detail
            )
        )
        self._observer.observe_outcome(reply.outcome, recipients, reply.detail)

    def _fly(self, flight: Flight) -> SendReply:
        """Send one launch, in a thread of the crew."""
        number = self._breaker.enter()
        try:
            reply = self._retrier.send(
                flight.intent.definition, list(flight.launch.phones), lambda: self._check(flight)
            )
        except WithheldError as withheld:
            return SendReply("not_sent", detail=withheld.reason)
        except RunnerError as error:
            # The lock is lost, or the ledger: nothing more leaves; what was tried has not been accepted.
            self._failure = error
            self._halted = True
            return SendReply("not_sent", detail=error.message)
        except Exception as error:  # noqa: BLE001  whatever went wrong, the request may have left
            reply = SendReply("unknown", detail=f"an error of this program: {type(error).__name__}")
        if reply is None:
            return SendReply("not_sent", detail=ENDED)
        self._note_end(number, reply)
        return reply

    def _send_timed(self, definition: str, phones: list[str], look: Callable[[], None]) -> SendReply:
        began = self._pace.now()
        reply = self._send(definition, phones, look)
        if reply.status is not None:
            self._margin.observe(self._pace.now() - began)
        return reply

    def _check(self, flight: Flight) -> None:
        """Raise if the people of a launch must not be texted any more."""
        if self._is_late(flight.launch):
            raise WithheldError(TOO_LATE)
        if self._watch is not None and self._watch.has_opted_out(flight):
            raise WithheldError(OPTED_OUT)

    def _note_end(self, number: int, reply: SendReply) -> None:
        """Keep the answer that ends the run, if this one does."""
        is_last_straw = self._breaker.observe(number, reply)
        if self.summary.final_reply is not None:
            return
        if reply.is_final_for_run:
            self.summary.final_reply = reply
        elif is_last_straw:
            failures = (
                f"the service asks for one pause after the other, and accepts nothing: {reply.detail}"
                if reply.is_busy
                else f"{self._breaker.limit} launches in a row failed, the last one with: {reply.detail}"
            )
            self.summary.final_reply = replace(reply, detail=failures, is_final_for_run=True)

    def _collect(self) -> None:
        taken = self._crew.take_back()
        if self._watch is not None:
            self._watch.leave(flight for flight, _ in taken)
        judged = self._judge(taken)
        for (flight, _), reply in zip(taken, judged, strict=True):
            comes_again = reply.detail == OPTED_OUT
            self._order.arrive(flight.launch, reply, comes_again=comes_again)
            self._again += [flight.launch] if comes_again else []
            self._unrecorded.append((flight, reply))

    def _judge(self, taken: list[tuple[Flight, SendReply]]) -> list[SendReply]:
        try:
            return self._guids.judge([(flight.launch_id, reply) for flight, reply in taken])
        except RunnerError as error:
            # The ledger cannot be read. What the service named stays to be settled.
            self._failure = error
            self._halted = True
            return [doubt_guid(reply) for _, reply in taken]

    def _collect_all(self) -> None:
        while self._crew.in_flight:
            self._collect()
        # A last try: on a disk that is full again, intents without an outcome stay, and count as unknown.
        with contextlib.suppress(RunnerError):
            self._commit([])
            self._conclude_recorded()


def _take(waiting: deque[PlannedLaunch]) -> Iterator[PlannedLaunch]:
    while waiting:
        yield waiting.popleft()
