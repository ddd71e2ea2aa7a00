"""One campaign's delivery with everything around it given: order, pace, and ends that nobody planned."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import datetime
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.campaign.message_model import Message
from runner.delivery.pace import Pace, RetryPolicy
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.record.deliveries import enter_campaign
from runner.plan.model import PlannedLaunch
from runner.service.model import SendReply
from runner.source.diagnostic import Position
from runner.text.payload import Payload
from tests.deliver.conftest import PATIENCE_S
from tests.deliver.summed import SummedDelivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.ledger.model import LaunchState

    Deliver = Callable[..., SummedDelivery]

AT = "2026-11-20T12:00:00.000000Z"
MOMENT = datetime.fromisoformat(AT)
KEY = TargetKey.of("live", None)


def list_launches(count: int) -> Iterator[PlannedLaunch]:
    message = Message("ask", "pulse-2026", Position(Path("pulse.yaml"), 1, 1))
    payload = Payload({"tag": "pulse-2026", "text": "Hello"}, "d1g35t", 1, None)
    for number in range(100, 100 + count):
        yield PlannedLaunch(message, payload, (f"+1415555{number:04}",))


def accept(_definition: str, phones: list[str]) -> SendReply:
    return SendReply("sent", f"guid-{phones[0]}", status=201)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def make_delivery(file: Path) -> Iterator[Deliver]:
    """Make a delivery: `send`, and what of `stop`, `pace`, `observe` and `concurrency` matters."""
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.prepare()
        with ledger.writing() as connection:
            campaign_id = enter_campaign(connection, "live", "pulse")

        def make(send: Callable[[str, list[str]], SendReply], **given: Any) -> SummedDelivery:
            stop = given.pop("stop", threading.Event())
            settings = {
                "pace": Pace(None, lambda: 0.0, stop),
                **({} if "limit" in given else {"concurrency": 1}),
                **given,
            }
            return SummedDelivery.make(
                ledger=ledger,
                target="live",
                campaign_id=campaign_id,
                campaign="pulse",
                key=KEY,
                send=lambda definition, phones, _look: send(definition, phones),
                stop=stop,
                now=lambda: MOMENT,
                **settings,
            )

        yield make


def read_states(file: Path) -> list[str]:
    """Return the state of each launch, as another process sees it."""
    with closing(sqlite3.connect(file, timeout=PATIENCE_S)) as connection:
        return [state for (state,) in connection.execute("SELECT state FROM launches ORDER BY id")]


def test_an_outcome_is_told_when_it_is_durable(make_delivery: Deliver, file: Path) -> None:
    """Whoever is told of an outcome finds it in the ledger, from another connection."""
    seen = []

    def observe(outcome: LaunchState, recipients: int, detail: str | None) -> None:
        assert (outcome, recipients, detail) == ("sent", 1, None)
        seen.append(read_states(file).count("sent"))

    delivery = make_delivery(accept, observe=observe)
    delivery.run(list_launches(6))
    assert len(seen) == 6
    assert all(count >= number for number, count in enumerate(seen, 1))
    assert delivery.summary.recipients_sent == 6


@pytest.mark.parametrize("concurrency", [1, 4])
def test_no_more_are_in_flight_than_allowed(make_delivery: Deliver, concurrency: int) -> None:
    """The service never has more sends to answer at once than the run's concurrency."""
    lock, now, most = threading.Lock(), 0, 0

    def send(definition: str, phones: list[str]) -> SendReply:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        reply = accept(definition, phones)
        with lock:
            now -= 1
        return reply

    make_delivery(send, concurrency=concurrency).run(list_launches(40))
    assert 1 <= most <= concurrency


def test_sends_keep_the_rate(make_delivery: Deliver) -> None:
    """A run with a rate sends at that rate on its clock, from its first send to its last."""

    class Clock(threading.Event):
        now = 0.0

        def wait(self, timeout: float | None = None) -> bool:
            self.now += timeout or 0.0
            return False

    clock = Clock()
    moments = []

    def send(definition: str, phones: list[str]) -> SendReply:
        moments.append(clock.now)
        return accept(definition, phones)

    make_delivery(send, pace=Pace(20, lambda: clock.now, clock)).run(list_launches(21))
    assert moments[0] == 0.0
    assert moments[-1] == pytest.approx(1.0)
    assert all(later - earlier == pytest.approx(0.05) for earlier, later in pairwise(moments))


def test_a_stopped_run_intends_nothing(make_delivery: Deliver, file: Path) -> None:
    """A run that is stopped before it starts leaves nothing behind."""
    stop = threading.Event()
    stop.set()
    delivery = make_delivery(accept, stop=stop)
    delivery.run(list_launches(5))
    assert delivery.summary.launches == []
    assert read_states(file) == []


def test_an_error_of_the_program_is_an_unknown_outcome(make_delivery: Deliver, file: Path) -> None:
    """If sending itself breaks down, the request may have left all the same; the detail shows no value."""

    def send(definition: str, phones: list[str]) -> SendReply:
        if phones[0].endswith("1"):
            raise ZeroDivisionError(definition)
        return accept(definition, phones)

    delivery = make_delivery(send)
    delivery.run(list_launches(3))
    assert read_states(file) == ["sent", "unknown", "sent"]
    assert [launch.detail for launch in delivery.summary.launches] == [
        None,
        "an error of this program: ZeroDivisionError",
        None,
    ]


def test_a_plan_that_breaks_off_leaves_no_open_intent(make_delivery: Deliver, file: Path) -> None:
    """If the launches end in an error, what was sent before is recorded, and nothing else is sent."""
    sent = []

    def send(definition: str, phones: list[str]) -> SendReply:
        sent.append(phones)
        return accept(definition, phones)

    def break_off() -> Iterator[PlannedLaunch]:
        yield from list_launches(5)
        raise LookupError

    with pytest.raises(LookupError):
        make_delivery(send).run(break_off())
    states = read_states(file)
    assert states.count("sent") == len(sent)
    assert set(states) <= {"sent", "not_sent"}


def test_an_observer_that_fails_leaves_no_open_intent(make_delivery: Deliver, file: Path) -> None:
    """If nobody can be told any more, as when a pipe is closed, everything that was intended has an outcome."""

    def fail(*_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        make_delivery(accept, observe=fail, concurrency=2).run(list_launches(20))
    states = read_states(file)
    assert states.count("sent") >= 1
    assert set(states) <= {"sent", "not_sent"}
    assert len(states) < 20


def run_recording(
    make_delivery: Deliver, reply: Callable[[int], SendReply], count: int, **given: Any
) -> SummedDelivery:
    """Deliver to a sender that answers by the number of the request, from 1; time is not waited for."""
    numbers = iter(range(1, 10_000))
    delivery = make_delivery(
        lambda _definition, _phones: reply(next(numbers)), policy=RetryPolicy(base_s=0.0), **given
    )
    delivery.run(list_launches(count))
    return delivery


def test_tries_share_one_intent(make_delivery: Deliver, file: Path) -> None:
    """A launch that is tried again is one launch in the ledger, with the outcome of its last try."""
    absent = SendReply("not_sent", detail="it cannot be reached", may_retry=True)
    delivery = run_recording(
        make_delivery, lambda number: SendReply("sent", f"g{number}") if number % 3 == 0 else absent, 4
    )
    assert read_states(file) == ["sent"] * 4
    assert [launch.project_launch_guid for launch in delivery.summary.launches] == ["g3", "g6", "g9", "g12"]


def test_tries_that_are_used_up_keep_their_answer(make_delivery: Deliver, file: Path) -> None:
    """A launch that cannot leave to the last is recorded as that, and the others go on."""
    absent = SendReply("not_sent", detail="it cannot be reached", may_retry=True)
    delivery = run_recording(
        make_delivery, lambda number: absent if number <= 5 else SendReply("sent", f"g{number}"), 3
    )
    assert read_states(file) == ["not_sent", "sent", "sent"]
    assert delivery.summary.final_reply is None


@pytest.mark.parametrize(
    ("reply", "tries"),
    [
        (SendReply("unknown", detail="HTTP 500", status=500), 1),
        (SendReply("not_sent", detail="it cannot be reached", may_retry=True), 5),
    ],
)
def test_a_row_of_failures_ends_the_run(
    make_delivery: Deliver, file: Path, reply: SendReply, tries: int
) -> None:
    """When nothing but failures comes back the run ends, and what was intended and not sent is free again."""
    requests: list[int] = []

    def answer(number: int) -> SendReply:
        requests.append(number)
        return reply

    delivery = run_recording(make_delivery, answer, 50)
    assert len(requests) == 10 * tries
    states = read_states(file)
    assert states[:10] == [reply.outcome] * 10
    assert set(states[10:]) <= {"not_sent"}
    assert len(states) < 50
    final = delivery.summary.final_reply
    assert final is not None
    assert final.detail == f"10 launches in a row failed, the last one with: {reply.detail}"
    assert final.status == reply.status


def test_a_run_that_ends_lets_nobody_wait(make_delivery: Deliver, file: Path) -> None:
    """When one launch ends the run, those that wait for their next try end theirs."""
    refused = SendReply("rejected", detail="HTTP 403", status=403, is_final_for_run=True)
    absent = SendReply("not_sent", detail="it cannot be reached", may_retry=True)
    is_waiting = threading.Event()

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            is_waiting.set()
            return super().wait(0.001 if timeout else timeout)

    def send(_definition: str, phones: list[str]) -> SendReply:
        if phones[0].endswith("00"):
            return absent
        is_waiting.wait()
        return refused

    stop = Stop()
    delivery = make_delivery(
        send,
        stop=stop,
        pace=Pace(None, lambda: 0.0, stop),
        policy=RetryPolicy(base_s=100.0),
        random=lambda: 1.0,
        concurrency=2,
    )
    delivery.run(list_launches(2))
    assert read_states(file) == ["not_sent", "rejected"]
    assert delivery.summary.final_reply is refused


def test_a_guid_in_another_case_is_the_same_guid(make_delivery: Deliver) -> None:
    """Hexadecimal comes in either case: a launch that is named so, too, now or later, is named twice."""
    launches = list_launches(3)
    for names, outcomes in ((["c1f5", "C1F5"], ["sent", "unknown"]), (["C1f5"], ["unknown"])):
        guids, seen = iter(names), list[str]()
        delivery = make_delivery(
            lambda _definition, _phones, guids=guids: SendReply("sent", next(guids), status=201),
            observe=lambda outcome, *_, seen=seen: seen.append(outcome),
        )
        delivery.run(islice(launches, len(names)))
        assert seen == outcomes
