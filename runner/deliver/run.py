"""Sends launches, exactly once: durable intent, one POST, recorded outcome (design: delivery, steps 1 to 3).

One thread writes the ledger; a bounded pool sends. Each turn of the loop commits, in one
transaction, the outcomes that have come back and the intents of the launches that go next: fsyncs
are shared, and no request leaves before its own intent is durable.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from runner.errors import RunnerError
from runner.ledger.deliveries import add_intents, read_guids, record_outcomes
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.model import Intent, LaunchState, Outcome
from runner.service.model import SendReply

if TYPE_CHECKING:
    import threading

    from runner.deliver.pace import Pace
    from runner.ledger.database import Ledger
    from runner.plan.model import PlannedLaunch

_AHEAD = 2
"""Launches that may have an intent, for each thread: one in flight and one to take next."""

Send = Callable[[str, list[str]], SendReply]


class DeliveryObserver(Protocol):
    """Is told of each outcome as soon as it is durable."""

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        """Take note of one launch's outcome.

        Args:
            outcome: where the launch is now.
            recipients: how many phones it has.
            detail: why it is not `sent`.
        """


@dataclass(frozen=True, slots=True)
class Delivered:
    """One launch of a run, with its outcome."""

    key: str
    message: str
    outcome: LaunchState
    recipients: int
    project_launch_guid: str | None
    detail: str | None


@dataclass(slots=True)
class DeliverySummary:
    """What a run did with one campaign.

    Attributes:
        launches: every launch that has an outcome.
        final_reply: the answer that ended the run, if one did: every further send would get it too.
    """

    launches: list[Delivered] = field(default_factory=list)
    final_reply: SendReply | None = None

    def count(self, outcome: LaunchState) -> int:
        """Return the number of launches with an outcome."""
        return sum(launch.outcome == outcome for launch in self.launches)

    @property
    def recipients_sent(self) -> int:
        """The recipients of the launches that the service accepted."""
        return sum(launch.recipients for launch in self.launches if launch.outcome == "sent")


@dataclass(frozen=True, slots=True)
class _Flight:
    launch_id: int
    intent: Intent


class Delivery:
    """Delivers the launches of one campaign.

    Args:
        ledger: where intents and outcomes go.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: the key of its fingerprints.
        send: one POST.
        pace: keeps the rate.
        stop: set it to end the run early; what is in flight is waited for and recorded.
        concurrency: sends in flight at once.
        now: returns UTC, ISO 8601.
        observer: is told of the outcomes.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        campaign_id: int,
        campaign: str,
        key: FingerprintKey,
        send: Send,
        pace: Pace,
        stop: threading.Event,
        concurrency: int,
        now: Callable[[], str],
        observer: DeliveryObserver,
    ) -> None:
        self._ledger = ledger
        self._campaign_id = campaign_id
        self._campaign = campaign
        self._key = key
        self._send = send
        self._pace = pace
        self._stop = stop
        self._concurrency = concurrency
        self._now = now
        self._observer = observer
        self._replies: SimpleQueue[tuple[_Flight, SendReply]] = SimpleQueue()
        self._in_flight = 0
        self._unrecorded: list[tuple[_Flight, SendReply]] = []
        self._unobserved: list[tuple[_Flight, SendReply]] = []
        self._guids: set[str] = set()
        self._halted = False
        self.summary = DeliverySummary()

    def run(self, launches: Iterator[PlannedLaunch]) -> None:
        """Send launches until there are none left, or the run has to end.

        Args:
            launches: taken from as threads become free.

        Raises:
            RunnerError: the ledger could not be written, or another run holds some of the recipients.
                What was in flight has been waited for, and recorded as far as that is possible.
        """
        with self._ledger.reading() as connection:
            self._guids = read_guids(connection, self._campaign_id)
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="send") as pool:
            try:
                self._loop(pool, launches)
            except BaseException:
                self._halted = True
                self._collect_all()
                raise

    def _loop(self, pool: ThreadPoolExecutor, launches: Iterator[PlannedLaunch]) -> None:
        while True:
            room = self._concurrency * _AHEAD - self._in_flight
            intents = [] if self._ends() else [self._intend(launch) for launch in islice(launches, room)]
            for flight, phones in self._commit(intents):
                self._in_flight += 1
                pool.submit(self._fly, flight, phones)
            self._conclude_recorded()
            if not self._in_flight:
                return
            self._collect()

    def _ends(self) -> bool:
        return self._halted or self._stop.is_set() or self.summary.final_reply is not None

    def _intend(self, launch: PlannedLaunch) -> tuple[Intent, list[str]]:
        fingerprints = sorted(self._key.fingerprint(self._campaign, phone) for phone in launch.phones)
        message, payload = launch.message, launch.payload
        intent = Intent(
            message=message.id,
            key=launch_key(self._campaign, message.id, payload.digest, fingerprints),
            tag=message.tag,
            payload_digest=payload.digest,
            definition=json.dumps(payload.definition, ensure_ascii=False),
            recipients=tuple(fingerprints),
        )
        return intent, list(launch.phones)

    def _commit(self, intended: list[tuple[Intent, list[str]]]) -> list[tuple[_Flight, list[str]]]:
        """Make outcomes and intents durable, together; return what may leave now."""
        recorded, self._unrecorded = self._unrecorded, []
        if not recorded and not intended:
            return []
        at = self._now()
        try:
            with self._ledger.writing() as connection:
                record_outcomes(connection, [_outcome(flight, reply, at) for flight, reply in recorded])
                intents = [intent for intent, _ in intended]
                ids = add_intents(connection, self._campaign_id, intents, at) if intents else []
        except RunnerError:
            self._unrecorded = recorded
            raise
        self._unobserved += recorded
        return [
            (_Flight(launch_id, intent), phones)
            for launch_id, (intent, phones) in zip(ids, intended, strict=True)
        ]

    def _conclude_recorded(self) -> None:
        # Only after the next launches have gone: an observer that fails must leave no intent behind unsent.
        recorded, self._unobserved = self._unobserved, []
        for flight, reply in recorded:
            self._conclude(flight, reply)

    def _conclude(self, flight: _Flight, reply: SendReply) -> None:
        intent = flight.intent
        recipients = len(intent.recipients)
        self.summary.launches.append(
            Delivered(
                intent.key, intent.message, reply.outcome, recipients, reply.project_launch_guid, reply.detail
            )
        )
        self._observer.observe_outcome(reply.outcome, recipients, reply.detail)

    def _fly(self, flight: _Flight, phones: list[str]) -> None:
        """Send one launch, in a thread of the pool."""
        self._pace.wait()
        if self._ends():
            reply = SendReply("not_sent", detail="the run ended before its turn")
        else:
            try:
                reply = self._send(flight.intent.definition, phones)
            except Exception as error:  # noqa: BLE001  whatever went wrong, the request may have left
                reply = SendReply("unknown", detail=f"an error of this program: {type(error).__name__}")
        if reply.is_final_for_run and self.summary.final_reply is None:
            self.summary.final_reply = reply
        self._replies.put((flight, reply))

    def _collect(self) -> None:
        """Wait for one reply, and take all that are there."""
        self._take_reply()
        while not self._replies.empty():
            self._take_reply()

    def _take_reply(self) -> None:
        flight, reply = self._replies.get()
        self._in_flight -= 1
        guid = reply.project_launch_guid
        if guid in self._guids:
            # A guid names one launch: whether this send made one, too, nobody can tell.
            reply = SendReply("unknown", detail="the service named an earlier launch", status=reply.status)
        elif guid is not None:
            self._guids.add(guid)
        self._unrecorded.append((flight, reply))

    def _collect_all(self) -> None:
        while self._in_flight:
            self._collect()
        # A last try: on a disk that is full again, intents without an outcome stay, and count as unknown.
        with contextlib.suppress(RunnerError):
            self._commit([])
            self._conclude_recorded()


def _outcome(flight: _Flight, reply: SendReply, at: str) -> Outcome:
    return Outcome(flight.launch_id, reply.outcome, at, reply.project_launch_guid, reply.detail)
