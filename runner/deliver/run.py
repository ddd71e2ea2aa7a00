"""Sends launches, exactly once: durable intent, one POST, recorded outcome (design: delivery, steps 1 to 3).

One thread writes the ledger; a bounded pool sends. Each turn of the loop commits, in one
transaction, the outcomes that have come back and the intents of the launches that go next: fsyncs
are shared, and no request leaves before its own intent is durable.
"""

from __future__ import annotations

import contextlib
import json
import random
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from runner.deliver.breaker import Breaker
from runner.deliver.crew import Crew, Flight
from runner.deliver.gate import Admission, Gate
from runner.deliver.retry import DEFAULT_POLICY, Retrier, RetryPolicy, Send
from runner.deliver.summary import TOO_LATE, Delivered, DeliverySummary
from runner.errors import RunnerError
from runner.ledger.deliveries import record_outcomes
from runner.ledger.entry import add_intents
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.model import Intent, LaunchState, Outcome
from runner.ledger.moment import format_moment
from runner.ledger.run_lock import RunLock, Unlocked
from runner.ledger.unsettled import dispute_launches, list_claimed
from runner.service.model import SendReply

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from runner.deliver.pace import Pace
    from runner.ledger.database import Ledger
    from runner.plan.model import PlannedLaunch

ENDED = "the run ended before its turn"
REPEATED_GUID = "the service named an earlier launch"
_AHEAD = 2
"""Launches that may have an intent, for each thread: one in flight and one to take next."""


class DeliveryObserver(Protocol):
    """Is told of each outcome as soon as it is durable."""

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        """Take note of one launch's outcome.

        Args:
            outcome: where the launch is now.
            recipients: how many phones it has.
            detail: why it is not `sent`.
        """


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
    ) -> None:
        self._ledger = ledger
        self._target = target
        self._campaign_id = campaign_id
        self._campaign = campaign
        self._key = key
        self._lock = lock or Unlocked()
        self._gate = gate
        self._retrier = Retrier(
            send, policy=policy, pace=pace, random=random, is_over=self._ends, guard=self._lock.require_seen
        )
        self._breaker = breaker or Breaker.for_concurrency(concurrency)
        self._stop = stop
        self._concurrency = concurrency
        self._now = now
        self._observer = observer
        self._crew = Crew(concurrency, self._fly)
        self._unrecorded: list[tuple[Flight, SendReply]] = []
        self._unobserved: list[tuple[Flight, SendReply]] = []
        self._claimed: set[str] = set()
        self._named: set[str] = set()
        self._disputed: set[str] = set()
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
        with self._ledger.reading() as connection:
            self._claimed = list_claimed(connection, self._target)
        with self._crew:
            try:
                self._loop(self._leave_out_late(launches))
            except BaseException:
                self._halted = True
                self._collect_all()
                raise

    def _loop(self, launches: Iterator[PlannedLaunch]) -> None:
        while True:
            room = self._concurrency * _AHEAD - self._crew.in_flight
            due = [] if self._ends() else list(islice(launches, room))
            for flight in self._commit(due):
                self._crew.send_off(flight)
            self._conclude_recorded()
            if self._crew.in_flight:
                self._collect()
            elif not due:
                return
            if self._failure is not None:
                raise self._failure

    def _leave_out_late(self, launches: Iterator[PlannedLaunch]) -> Iterator[PlannedLaunch]:
        """Pass on launches, less those whose hours are over: nothing is recorded, a later run sends them."""
        for launch in launches:
            if self._is_late(launch):
                self.summary.deferred += len(launch.phones)
            else:
                yield launch

    def _is_late(self, launch: PlannedLaunch) -> bool:
        return launch.until is not None and self._now() >= launch.until

    def _ends(self) -> bool:
        return self._halted or self._stop.is_set() or self.summary.final_reply is not None

    def _intend(self, launch: PlannedLaunch) -> Intent:
        fingerprints = sorted(self._key.fingerprint(self._campaign, phone) for phone in launch.phones)
        message, payload = launch.message, launch.payload
        return Intent(
            message=message.id,
            key=launch_key(self._key.lasting_name(self._campaign), message.id, payload.digest, fingerprints),
            tag=message.tag,
            payload_digest=payload.digest,
            definition=json.dumps(payload.definition, ensure_ascii=False),
            recipients=tuple(fingerprints),
            arm=launch.arm,
        )

    def _commit(self, due: list[PlannedLaunch]) -> list[Flight]:
        """Make outcomes and intents durable, together; return what may leave now."""
        recorded, self._unrecorded = self._unrecorded, []
        if not recorded and not due:
            return []
        now = self._now()
        at, admission = format_moment(now), Admission(due)
        try:
            with self._ledger.writing() as connection:
                record_outcomes(connection, [_outcome(flight, reply, at) for flight, reply in recorded])
                dispute_launches(connection, self._campaign_id, self._disputed)
                if due:
                    self._lock.require_held(connection)
                    admission = self._gate.admit(connection, due, now) if self._gate else admission
                intents = [self._intend(launch) for launch in admission.launches]
                ids = add_intents(connection, self._campaign_id, intents, at) if intents else []
        except RunnerError:
            self._unrecorded = recorded
            raise
        self._unobserved += recorded
        self.summary.opted_out += admission.opted_out
        self.summary.capped += admission.capped
        sent = zip(ids, intents, admission.launches, strict=True)
        return [Flight(launch_id, intent, launch) for launch_id, intent, launch in sent]

    def _conclude_recorded(self) -> None:
        # Only after the next launches have gone: an observer that fails must leave no intent behind unsent.
        recorded, self._unobserved = self._unobserved, []
        for flight, reply in recorded:
            self._conclude(flight, reply)
        self.summary.dispute(self._disputed)

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
        launch = flight.launch
        number = self._breaker.enter()
        try:
            reply = self._retrier.send(
                flight.intent.definition, list(launch.phones), lambda: self._is_late(launch)
            )
        except RunnerError as error:
            # The lock is lost: nothing more leaves, and what was tried before has not been accepted.
            self._failure = error
            self._halted = True
            return SendReply("not_sent", detail=error.message)
        except Exception as error:  # noqa: BLE001  whatever went wrong, the request may have left
            reply = SendReply("unknown", detail=f"an error of this program: {type(error).__name__}")
        if reply is None:
            return SendReply("not_sent", detail=TOO_LATE if self._is_late(launch) else ENDED)
        self._note_end(number, reply)
        return reply

    def _note_end(self, number: int, reply: SendReply) -> None:
        """Keep the answer that ends the run, if this one does."""
        is_last_straw = self._breaker.observe(number, reply)
        if self.summary.final_reply is not None:
            return
        if reply.is_final_for_run:
            self.summary.final_reply = reply
        elif is_last_straw:
            failures = f"{self._breaker.limit} launches in a row failed, the last one with: {reply.detail}"
            self.summary.final_reply = replace(reply, detail=failures, is_final_for_run=True)

    def _collect(self) -> None:
        self._unrecorded += [(flight, self._doubt(reply)) for flight, reply in self._crew.take_back()]

    def _doubt(self, reply: SendReply) -> SendReply:
        """Return what a reply is worth: a guid names one launch, and proves nothing when it comes again."""
        guid = reply.project_launch_guid
        if guid is None:
            return reply
        if guid in self._named:
            # Which of the two launches it names, nobody can tell.
            self._disputed.add(guid)
        elif guid not in self._claimed:
            self._named.add(guid)
            return reply
        return SendReply("unknown", detail=REPEATED_GUID, status=reply.status)

    def _collect_all(self) -> None:
        while self._crew.in_flight:
            self._collect()
        # A last try: on a disk that is full again, intents without an outcome stay, and count as unknown.
        with contextlib.suppress(RunnerError):
            self._commit([])
            self._conclude_recorded()


def _outcome(flight: Flight, reply: SendReply, at: str) -> Outcome:
    return Outcome(flight.launch_id, reply.outcome, at, reply.project_launch_guid, reply.detail)
