"""Sending of launches, exactly once: durable intent, one POST, recorded outcome.

One thread writes the ledger; a bounded pool sends. Each turn of the loop commits the outcomes that came back
and the next launches' intents in one transaction, so that they share an fsync. No request leaves before its
own intent is durable.
If a recipient opts out while a launch waits (see `eligibility`), it is recorded as not sent and comes
back to the check, which sends the rest as a new launch: what leaves is always exactly an intent.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from runner.delivery.delivery_summary import ENOUGH, OPTED_OUT, PAUSED, TOO_LATE, DeliverySummary
from runner.delivery.eligibility import Admission
from runner.delivery.order import InFlightLaunch, MessageOrder, iterate_in_flight
from runner.delivery.pace import (
    DEFAULT_POLICY,
    FEWEST_FAILURES,
    Breaker,
    Margin,
    Retrier,
    RetryPolicy,
    WithheldError,
)
from runner.errors import RunnerError
from runner.ledger.locks.campaign_lock import CampaignLock
from runner.ledger.model import Outcome, format_moment
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.record.unsettled import list_claimed
from runner.ledger.results.runs import enter_runs
from runner.service.model import SendReply
from runner.source.normalize import normalize_guid
from runner.telemetry import measure, measure_request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from runner.delivery.campaign_ref import CampaignRef
    from runner.delivery.eligibility import EligibilityCheck
    from runner.delivery.pace import Pace, Send
    from runner.ledger.model import Intent, LaunchState, Run
    from runner.plan.model import PlannedLaunch


ObserveOutcome = Callable[["LaunchState", int, "str | None"], object]
"""Observation of a launch's durable outcome: its state, recipients, and the reason if it is not `sent`."""
FRESH_S = 1.0
"""Seconds for which a finding of no opt-outs in a launch is valid; when the machine sleeps they do not count.

An opt-out or pause committed within them before a request leaves, or while it connects, may be too late.
"""
ENDED = "the run ended before its turn"
REPEATED_GUID = "the service named an earlier launch"
_AHEAD = 2
"""Launches that may have an intent, for each that may be in flight: itself, and one to take next."""
_GATHER_S = 0.02
"""The longest wait, in seconds, for further replies that are recorded with the first."""


class SenderPool:
    """A bounded pool of threads that send launches. A context manager that leaves nothing in flight.

    Threads take launches from a queue, which costs less than a future for each; there are at most `size`.
    `send` must not raise.
    """

    def __init__(self, size: int, send: Callable[[InFlightLaunch], SendReply]) -> None:
        self.count = 0
        self._size = size
        self._send = send
        self._threads = 0
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="send")
        self._due: SimpleQueue[InFlightLaunch | None] = SimpleQueue()
        self._replies: SimpleQueue[tuple[InFlightLaunch, SendReply]] = SimpleQueue()
        self._is_used_up = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for _thread in range(self._threads):
            self._due.put(None)
        self._pool.shutdown()

    def send_off(self, in_flight: InFlightLaunch) -> None:
        """Have a launch sent as soon as a thread is free."""
        self.count += 1
        self._due.put(in_flight)
        if self._threads < min(self.count, self._size):
            self._threads += 1
            self._pool.submit(self._work)

    def take_back(self) -> list[tuple[InFlightLaunch, SendReply]]:
        """Wait for a reply, and return all that have come, each with its launch.

        As long as there are launches to take next, more are waited for: a record of many costs little more
        than that of one, and who waits is woken once, and not by each of many threads.
        """
        taken = [self._replies.get()]
        self._is_used_up.clear()
        if not self._due.empty():
            self._is_used_up.wait(_GATHER_S)
        while not self._replies.empty():
            taken.append(self._replies.get())
        self.count -= len(taken)
        return taken

    def _work(self) -> None:
        while (in_flight := self._due.get()) is not None:
            if self._due.empty():
                self._is_used_up.set()
            self._replies.put((in_flight, self._send(in_flight)))


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """The delivery of one campaign's launches.

    Attributes:
        concurrency: the most sends in flight.
        stop: ends the run early when set; launches in flight are waited for and recorded.
        now: the clock for sending hours.
        observe: is called with each outcome as soon as it is durable.
        lock: is checked in each transaction that records intents, and before each request.
        report: receives counts of left out recipients; continues an earlier round of the same run.
        eligibility: removes recipients who may no longer be texted, at the last moment.
        provenance: the run that launches are recorded with.
        settle_margin: time before the end of the hours at which the last launches leave; None to derive it
            from the service's response times.
        unclear: launches of unknown outcome, by the ledger's number; those that turn out not to have been
            sent can be sent again.
    """

    campaign: CampaignRef
    send: Send
    pace: Pace
    stop: threading.Event
    concurrency: int
    now: Callable[[], datetime]
    observe: ObserveOutcome = lambda *_: None
    lock: CampaignLock = field(default_factory=CampaignLock)
    report: DeliverySummary = field(default_factory=DeliverySummary)
    eligibility: EligibilityCheck | None = None
    policy: RetryPolicy = DEFAULT_POLICY
    random: Callable[[], float] = random.random
    provenance: Run | None = None
    settle_margin: timedelta | None = None
    unclear: dict[int, PlannedLaunch] = field(default_factory=dict, init=False)
    _guids: set[str] = field(default_factory=set, init=False)
    _is_run_entered: bool = field(default=False, init=False)
    _order: MessageOrder = field(default_factory=MessageOrder, init=False)
    _margin: Margin = field(init=False)
    _labels: dict[str, str] = field(init=False)
    _breaker: Breaker = field(init=False)
    _retrier: Retrier = field(init=False)
    _pool: SenderPool = field(init=False)
    _unrecorded: list[tuple[InFlightLaunch, SendReply]] = field(default_factory=list, init=False)
    _unobserved: list[tuple[InFlightLaunch, SendReply]] = field(default_factory=list, init=False)
    _again: deque[PlannedLaunch] = field(default_factory=deque, init=False)
    _next: deque[PlannedLaunch] = field(default_factory=deque, init=False)
    _failure: RunnerError | None = field(default=None, init=False)
    _halted: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Make the parts."""
        ref = self.campaign
        self._labels = {"campaign": ref.campaign, "target": ref.target}
        self._margin = Margin(self.settle_margin)
        self._breaker = Breaker(max(FEWEST_FAILURES, self.concurrency))
        self._pool = SenderPool(self.concurrency, self._send_launch)
        self._retrier = Retrier(
            self._send_timed,
            policy=self.policy,
            pace=self.pace,
            random=self.random,
            is_over=self._ends,
            guard=self.lock.require_seen,
        )

    def run(self, launches: Iterator[PlannedLaunch]) -> None:
        """Send launches until none are left, or the run has to end.

        Launches are taken as threads become free.
        """
        with self.campaign.ledger.reading() as connection:
            self._guids = list_claimed(connection, self.campaign.target, explained_only=False)
        with self._pool:
            try:
                self._loop(launches)
            except BaseException:
                self._halted = True
                self._collect_all()
                raise

    def _loop(self, launches: Iterator[PlannedLaunch]) -> None:
        while True:
            room = max(0, self.concurrency * _AHEAD - self._pool.count)
            due = [] if self._ends() else list(islice(self._iterate_due(launches), room))
            for in_flight in self._commit(due):
                self._pool.send_off(in_flight)
            self._conclude_recorded()
            if self._pool.count:
                self._collect()
            elif not due:
                return
            if self._failure is not None:
                raise self._failure

    def _iterate_due(self, launches: Iterator[PlannedLaunch]) -> Iterator[PlannedLaunch]:
        """Yield launches that may be recorded now, first those that come back to the check.

        Ends where a recipient has another message in flight. Skips launches whose hours are over and
        recipients who wait for an earlier message: nothing is recorded, and a later run sends them.
        """
        for launch in chain(_take(self._again), _take(self._next), launches):
            if not self._order.is_free(launch):
                self._next.append(launch)
                return
            if self._is_late(launch):
                self.report.left["deferred"] += len(launch.phones)
                self._order.hold(launch.phones)
                continue
            left = self._order.leave_out_held(launch)
            self.report.left["waiting"] += len(launch.phones) - (len(left.phones) if left else 0)
            if left is not None:
                self._order.depart(left)
                yield left

    def _is_late(self, launch: PlannedLaunch) -> bool:
        """Return whether the service might accept a launch after its hours."""
        return (
            launch.until is not None and self.now() + timedelta(seconds=self._margin.seconds) >= launch.until
        )

    def _ends(self) -> bool:
        return self._halted or self.stop.is_set() or bool(self.report.final_reply or self._find_withheld())

    def _commit(self, due: list[PlannedLaunch]) -> list[InFlightLaunch]:
        """Make outcomes and intents durable, together; return the launches that may leave now."""
        recorded, self._unrecorded = self._unrecorded, []
        if not recorded and not due:
            return []
        asked_at = self.pace.now()
        try:
            entered, admission = self._record(recorded, due)
        except RunnerError:
            self._unrecorded = recorded
            raise
        self._unobserved += recorded
        self.report.pause = self.report.pause or admission.pause
        self.report.has_enough = self.report.has_enough or admission.has_enough
        self.report.left.update(
            opted_out=admission.opted_out, capped=admission.capped, open_session=len(admission.open_session)
        )
        if admission.launches != due:
            self._order.turn_back(due, admission.launches, admission.open_session)
        return list(iterate_in_flight(entered, asked_at))

    def _record(
        self, recorded: list[tuple[InFlightLaunch, SendReply]], due: list[PlannedLaunch]
    ) -> tuple[list[tuple[int, Intent, PlannedLaunch]], Admission]:
        """Record outcomes, and the intents of launches that may be sent, in one transaction."""
        ref, now = self.campaign, self.now()
        at, admission, ids = format_moment(now), Admission(list(due)), list[int]()
        run = None if self.provenance is None else self.provenance.id
        with ref.ledger.writing() as connection:
            record_outcomes(
                connection,
                [
                    Outcome(sent.launch_id, reply.outcome, at, reply.project_launch_guid, reply.detail)
                    for sent, reply in recorded
                ],
            )
            if due:
                self.lock.require_held(connection)
                admission = self.eligibility.admit(connection, due, now) if self.eligibility else admission
            intents = [ref.make_intent(launch, run) for launch in admission.launches]
            if intents:
                if self.provenance is not None and not self._is_run_entered:
                    enter_runs(connection, [self.provenance])
                ids = add_intents(connection, ref.campaign_id, intents, at)
        # Only once it is durable.
        self._is_run_entered = self._is_run_entered or bool(intents)
        return list(zip(ids, intents, admission.launches, strict=True)), admission

    def _conclude_recorded(self) -> None:
        # After the next launches have gone: an observer that fails must leave no unsent intent behind.
        recorded, self._unobserved = self._unobserved, []
        for in_flight, reply in recorded:
            if reply.detail not in (OPTED_OUT, PAUSED, ENOUGH):
                self._conclude(in_flight, reply)

    def _conclude(self, in_flight: InFlightLaunch, reply: SendReply) -> None:
        if reply.outcome == "unknown":
            self.unclear[in_flight.launch_id] = in_flight.launch
        launch = in_flight.launch
        labels = {**self._labels, "message": launch.message.id, "arm": launch.arm, "outcome": reply.outcome}
        measure("sms_campaign.launch.outcomes", 1, **labels)
        measure("sms_campaign.recipient.outcomes", len(launch.phones), **labels)
        self.observe(reply.outcome, len(launch.phones), reply.detail)

    def _send_launch(self, in_flight: InFlightLaunch) -> SendReply:
        """Send one launch, in a thread of the pool."""
        number = self._breaker.enter()
        try:
            reply = self._retrier.send(
                in_flight.intent.definition, list(in_flight.launch.phones), lambda: self._check(in_flight)
            )
        except WithheldError as withheld:
            return SendReply("not_sent", detail=withheld.reason)
        except RunnerError as error:
            return self._fail(error)
        except Exception as error:  # noqa: BLE001  whatever went wrong, the request may have left
            reply = SendReply("unknown", detail=f"an error of this program: {type(error).__name__}")
        if reply is None:
            return SendReply("not_sent", detail=self._find_withheld() or ENDED)
        self._note_end(number, reply)
        return reply

    def _fail(self, error: RunnerError) -> SendReply:
        # The lock or the ledger is lost: nothing more leaves; earlier tries have not been accepted.
        self._failure = error
        self._halted = True
        return SendReply("not_sent", detail=error.message)

    def _send_timed(self, definition: str, phones: list[str], look: Callable[[], None]) -> SendReply:
        began = self.pace.now()
        reply = self.send(definition, phones, look)
        took_s = self.pace.now() - began
        measure_request(took_s, reply.status, **self._labels)
        if reply.status is not None:
            self._margin.observe(took_s)
        return reply

    def _check(self, in_flight: InFlightLaunch) -> None:
        """Raise if a launch must no longer be sent, or not to all of its recipients."""
        if self._is_late(in_flight.launch):
            raise WithheldError(TOO_LATE)
        if self.eligibility is None:
            return
        people = in_flight.people
        with people.turn:
            now = self.pace.now()
            if now - people.asked_at >= FRESH_S:
                with self.campaign.ledger.reading() as connection:
                    pause = self.eligibility.find_pause(connection)
                    has_enough = self.eligibility.has_enough(connection)
                    people.opted_out = self.eligibility.find_opted_out(connection, people.phones)
                people.asked_at = now
                self.report.pause = self.report.pause or pause
                self.report.has_enough = self.report.has_enough or has_enough
        if (why := self._find_withheld()) is not None:
            raise WithheldError(why)
        if not people.opted_out.isdisjoint(in_flight.launch.phones):
            raise WithheldError(OPTED_OUT)

    def _find_withheld(self) -> str | None:
        """Return the detail of launches that nothing more is sent of; None if the run goes on."""
        if self.report.pause is not None:
            return PAUSED
        return ENOUGH if self.report.has_enough else None

    def _note_end(self, number: int, reply: SendReply) -> None:
        """Keep the answer that ends the run, if this one does."""
        is_last_straw = self._breaker.observe(number, reply)
        if self.report.final_reply is not None:
            return
        if reply.is_final_for_run:
            self.report.final_reply = reply
        elif is_last_straw:
            failures = (
                f"the service asks for one pause after the other, and accepts nothing: {reply.detail}"
                if reply.is_busy
                else f"{self._breaker.limit} launches in a row failed, the last one with: {reply.detail}"
            )
            self.report.final_reply = replace(reply, detail=failures, is_final_for_run=True)

    def _collect(self) -> None:
        taken = self._pool.take_back()
        for in_flight, answer in taken:
            reply = self._judge(answer)
            comes_again = reply.detail == OPTED_OUT
            self._order.arrive(in_flight.launch, reply, comes_again=comes_again)
            self._again += [in_flight.launch] if comes_again else []
            self._unrecorded.append((in_flight, reply))

    def _judge(self, reply: SendReply) -> SendReply:
        """Return a reply; as of unknown outcome if its guid is an earlier launch's, of any run."""
        if reply.project_launch_guid is None:
            return reply
        guid = normalize_guid(reply.project_launch_guid)
        if guid in self._guids:
            return SendReply("unknown", detail=REPEATED_GUID, status=reply.status)
        self._guids.add(guid)
        return reply

    def _collect_all(self) -> None:
        while self._pool.count:
            self._collect()
        # A last try: if the disk is full again, intents without an outcome stay, and count as unknown.
        with contextlib.suppress(RunnerError):
            self._commit([])
            self._conclude_recorded()


def _take(waiting: deque[PlannedLaunch]) -> Iterator[PlannedLaunch]:
    while waiting:
        yield waiting.popleft()
