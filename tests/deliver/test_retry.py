"""Launches that have not left this machine are tried again, within bounds; what may have been sent never is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.delivery.pace import Pace, Retrier, RetryPolicy, WithheldError
from runner.errors import LedgerError
from runner.service.model import SendReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.service.client import ServiceClient
    from tests.deliver.conftest import Behaviour, FaultyService

DEFINITION = '{"text": "Hello"}'
PHONE = "+14155550101"
SENT = SendReply("sent", "a-guid", status=201)
NOT_SENT = SendReply("not_sent", detail="it cannot be reached", may_retry=True)
UNKNOWN = SendReply("unknown", detail="it did not answer in time")


def ask_to_wait(seconds: float) -> SendReply:
    return SendReply("unknown", detail="HTTP 429", status=429, is_busy=True, retry_after_s=seconds)


class Clock(threading.Event):
    """A clock that stands still until somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.on_wait: Callable[[], None] = lambda: None

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.now += timeout or 0.0
            self.on_wait()
        return self.is_set()


class Attempts:
    """A sender that answers what it is told to, and notes when it was asked.

    Attributes:
        moments: of the tries, in seconds from the start.
    """

    def __init__(self, replies: Iterable[SendReply], **settings: Any) -> None:
        self.moments: list[float] = []
        self.clock = Clock()
        self._replies = iter(replies)
        self._pace = Pace(settings.pop("rate", None), lambda: self.clock.now, self.clock)
        self._retrier = Retrier(
            self._send,
            pace=self._pace,
            **{
                "policy": RetryPolicy(),
                "random": lambda: 1.0,
                "is_over": self.clock.is_set,
                "guard": lambda: None,
                **settings,
            },
        )

    def _send(self, _definition: str, _phones: list[str], look: Callable[[], None]) -> SendReply:
        look()
        self.moments.append(self.clock.now)
        return next(self._replies)

    def run(self, check: Callable[[], None] = lambda: None) -> SendReply | None:
        """Send one launch."""
        return self._retrier.send(DEFINITION, [PHONE], check)


def test_what_has_not_left_is_tried_again() -> None:
    """A send that certainly texted nobody is repeated, and the last answer counts."""
    attempts = Attempts([NOT_SENT, NOT_SENT, SENT])
    assert attempts.run() is SENT
    assert len(attempts.moments) == 3


@pytest.mark.parametrize(
    "reply",
    [
        SENT,
        UNKNOWN,
        ask_to_wait(3),
        SendReply("unknown", detail="HTTP 500", status=500),
        SendReply("rejected", detail="HTTP 422", status=422),
        SendReply("rejected", detail="HTTP 403", status=403, is_final_for_run=True),
    ],
)
def test_what_stands_is_not_tried_again(reply: SendReply) -> None:
    """An answer that may mean sent, and one that won't change, is the last."""
    attempts = Attempts([reply])
    assert attempts.run() is reply
    assert attempts.moments == [0.0]


def test_waits_grow() -> None:
    """Without jitter the waits double, and the tries are counted."""
    attempts = Attempts([NOT_SENT] * 5, policy=RetryPolicy(tries=5, base_s=0.5))
    assert attempts.run() is NOT_SENT
    assert attempts.moments == pytest.approx([0, 0.5, 1.5, 3.5, 7.5])


@given(st.integers(1, 4), st.floats(0, 1))
def test_jitter_is_full(failures: int, chance: float) -> None:
    """A wait lies anywhere between nothing and the exponential bound."""
    assert RetryPolicy(base_s=0.5).backoff(failures, chance) == pytest.approx(
        chance * 0.5 * 2 ** (failures - 1)
    )


def test_what_is_withheld_is_not_tried_again() -> None:
    """Whether these people may be texted is asked after every wait, right before the try."""
    attempts = Attempts([NOT_SENT, NOT_SENT, SENT], rate=1 / 100)
    asked = []

    def check() -> None:
        asked.append(attempts.clock.now)
        if attempts.clock.now >= 200:
            raise WithheldError("they have opted out")

    with pytest.raises(WithheldError, match=r"^they have opted out$") as caught:
        attempts.run(check)
    assert caught.value.reason == "they have opted out"
    assert attempts.moments == pytest.approx([0.0, 100.0])
    assert asked == pytest.approx([0.0, 100.0, 200.0])


def test_a_pause_that_is_asked_for_is_kept() -> None:
    """`Retry-After` is waited for in full, and a little more, by the launches that come next."""
    attempts = Attempts(
        [busy := ask_to_wait(60), again := ask_to_wait(7), SENT], policy=RetryPolicy(base_s=0.5)
    )
    assert [attempts.run() for _ in range(3)] == [busy, again, SENT]
    assert attempts.moments == pytest.approx([0.0, 62.0, 71.0])


def test_a_pause_that_is_too_long_ends_the_run() -> None:
    """A service that wants to be left alone for an hour is, and the user hears of it."""
    attempts = Attempts([ask_to_wait(3600)])
    assert attempts.run() == SendReply(
        "unknown",
        detail="HTTP 429; it asks to be left alone for 3,600 s",
        status=429,
        is_final_for_run=True,
        is_busy=True,
        retry_after_s=3600,
    )
    assert attempts.clock.now == 0.0


def test_one_threads_pause_is_everybodys() -> None:
    """When one launch is asked to wait, a launch of another thread waits too."""
    clock = Clock()
    pace = Pace(None, lambda: clock.now, clock)
    moments: dict[str, list[float]] = {"first": [], "second": []}
    replies = {"first": iter([ask_to_wait(20)]), "second": iter([SENT])}

    def make(name: str) -> Retrier:
        def send(_definition: str, _phones: list[str], _look: Callable[[], None]) -> SendReply:
            moments[name].append(clock.now)
            return next(replies[name])

        return Retrier(
            send,
            policy=RetryPolicy(),
            pace=pace,
            random=lambda: 0.0,
            is_over=lambda: False,
            guard=lambda: None,
        )

    retriers = {name: make(name) for name in moments}
    retriers["first"].send(DEFINITION, [PHONE])
    second = threading.Thread(target=retriers["second"].send, args=(DEFINITION, [PHONE]))
    second.start()
    second.join()
    assert moments == {"first": [0.0], "second": [20.0]}


def test_tries_keep_the_rate() -> None:
    """A repeated send is a send: the rate holds for it too."""
    attempts = Attempts([NOT_SENT] * 4 + [SENT], rate=0.1, policy=RetryPolicy(base_s=0.5))
    assert attempts.run() is SENT
    assert attempts.moments == pytest.approx([0, 10, 20, 30, 40])


def test_a_run_that_is_over_sends_nothing() -> None:
    """Nothing leaves once the run has ended, and nothing is said of it."""
    assert Attempts([], is_over=lambda: True).run() is None


def test_a_run_that_ends_tries_no_more() -> None:
    """A launch that waits for its next try when the run ends keeps its last answer."""
    attempts = Attempts([NOT_SENT, SENT])
    attempts.clock.on_wait = attempts.clock.set
    assert attempts.run() is NOT_SENT
    assert len(attempts.moments) == 1


@pytest.mark.parametrize(
    ("behaviour", "count", "outcome"),
    [
        ({"status": 429, "accepts": False, "body": b""}, 1, "unknown"),
        ({"status": 503, "accepts": False, "body": b"", "headers": {"Retry-After": "1"}}, 1, "unknown"),
        ({"status": 429}, 1, "unknown"),
        ({"status": 503, "headers": {"Retry-After": "1"}}, 1, "unknown"),
        ({"status": 503}, 1, "unknown"),
        ({"status": 500}, 1, "unknown"),
        ({"end": "drop"}, 1, "unknown"),
        ({"end": "half"}, 1, "unknown"),
        ({"status": 400, "accepts": False}, 1, "rejected"),
    ],
)
def test_requests_on_the_wire(
    faulty: FaultyService,
    connect: Callable[..., ServiceClient],
    behaviour: Behaviour,
    count: int,
    outcome: str,
) -> None:
    """Of each fault the service sees as many requests as are safe."""
    faulty.behave(behaviour)
    clock = Clock()
    retrier = Retrier(
        connect(faulty.url).send,
        policy=RetryPolicy(),
        pace=Pace(None, lambda: clock.now, clock),
        random=lambda: 1.0,
        is_over=lambda: False,
        guard=lambda: None,
    )
    reply = retrier.send(DEFINITION, [PHONE])
    assert reply is not None
    assert reply.outcome == outcome
    assert len(faulty.requests) == count


def test_a_lock_that_is_lost_during_the_last_check_keeps_the_request_back(
    faulty: FaultyService, connect: Callable[..., ServiceClient]
) -> None:
    """A ledger may take any time to say who has opted out: the lock is looked at once more after that."""
    is_lost = threading.Event()

    def require_held() -> None:
        if is_lost.is_set():
            raise LedgerError("the lock is lost")

    retrier = Retrier(
        connect(faulty.url).send,
        policy=RetryPolicy(),
        pace=Pace(None, lambda: 0.0, threading.Event()),
        random=lambda: 0.0,
        is_over=lambda: False,
        guard=require_held,
    )
    with pytest.raises(LedgerError, match="the lock is lost"):
        retrier.send(DEFINITION, [PHONE], is_lost.set)
    assert not faulty.requests
