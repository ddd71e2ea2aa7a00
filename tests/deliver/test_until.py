"""No text leaves outside its hours, however long a run takes: the clock moves while it sends."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.campaign.message_model import Message
from runner.delivery.delivery_summary import TOO_LATE
from runner.delivery.pace import Pace
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.record.deliveries import enter_campaign, read_known
from runner.plan.model import PlannedLaunch
from runner.service.model import SendReply
from runner.source.diagnostic import Position
from runner.text.payload import Payload
from tests.deliver.conftest import PHONES
from tests.deliver.summed import SummedDelivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.ledger.model import LaunchState
    from tests.deliver.conftest import Behaviour, FaultyService, Repository, Request

    Send = Callable[["Clock", str], SendReply]

START = datetime(2026, 11, 20, 19, 59, 0, tzinfo=UTC)
KEY = TargetKey.of("live", None)
MESSAGE = Message("ask", "pulse-2026", Position(Path("pulse.yaml"), 1, 1))
LIMITED = SendReply("unknown", detail="HTTP 429", status=429, is_busy=True, retry_after_s=30)
UNREACHED = SendReply("not_sent", detail="it cannot be reached", may_retry=True)
ACCEPTED = SendReply("sent", "guid", status=201)


class Clock(threading.Event):
    """A clock that stands still until somebody waits, or something takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.seconds += timeout or 0.0
        return self.is_set()

    def now(self) -> datetime:
        """Return the time of day."""
        return START + timedelta(seconds=self.seconds)


class Trace:
    """What a run did: the moments of its requests by phone, and the outcomes that it told of."""

    def __init__(self) -> None:
        self.requests: list[tuple[datetime, str]] = []
        self.outcomes: list[tuple[LaunchState, str | None]] = []

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        """Take note of a launch of one recipient."""
        assert recipients == 1
        self.outcomes.append((outcome, detail))


class Runs:
    """Runs of one campaign, each on a clock of its own, with one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        with ledger.writing() as connection:
            self._campaign_id = enter_campaign(connection, "live", "pulse")

    def send(
        self,
        launches: Sequence[PlannedLaunch],
        reply: Send,
        *,
        rate: float | None = None,
        clock: Clock | None = None,
        margin: timedelta | None = timedelta(0),
    ) -> tuple[Trace, SummedDelivery]:
        """Send launches; `reply` answers a request, and may move the clock."""
        clock, trace = clock or Clock(), Trace()

        def post(_definition: str, phones: list[str], _look: Callable[[], None]) -> SendReply:
            trace.requests.append((clock.now(), phones[0]))
            found = reply(clock, phones[0])
            return replace(found, project_launch_guid=found.project_launch_guid and f"guid-{phones[0]}")

        delivery = SummedDelivery.make(
            ledger=self.ledger,
            target="live",
            campaign_id=self._campaign_id,
            campaign="pulse",
            key=KEY,
            send=post,
            stop=clock,
            pace=Pace(rate, lambda: clock.seconds, clock),
            concurrency=1,
            now=clock.now,
            observe=trace.observe_outcome,
            random=lambda: 0.5,
            settle_margin=margin,
        )
        delivery.run(iter(launches))
        return trace, delivery

    def list_known(self) -> tuple[set[str], set[str]]:
        """Return the fingerprints of those on record as reached, and of those who may be."""
        with self.ledger.reading() as connection:
            known = read_known(connection, self._campaign_id)
        return known.sent.get("ask", set()), known.unresolved.get("ask", set())


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs with an empty ledger."""
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        ledger.prepare()
        yield Runs(ledger)


def plan(*until_s: float | None) -> list[PlannedLaunch]:
    """Return a launch for each of these ends, in seconds from the start; None for no end."""
    return [
        PlannedLaunch(
            MESSAGE,
            Payload({"text": phone}, f"d1g35t-{phone}", 1, None),
            (phone,),
            until=None if end is None else START + timedelta(seconds=end),
        )
        for phone, end in zip(PHONES, until_s, strict=False)
    ]


def accept(_clock: Clock, _phone: str) -> SendReply:
    return ACCEPTED


@pytest.mark.parametrize(("until_s", "sent"), [(1e-6, 1), (0, 0), (-1, 0), (None, 1)])
def test_the_end_is_the_first_moment_that_is_too_late(runs: Runs, until_s: float | None, sent: int) -> None:
    """Right before its end a launch still leaves; at its end it does not."""
    trace, delivery = runs.send(plan(until_s), accept)
    assert [phone for _, phone in trace.requests] == list(PHONES[:sent])
    assert delivery.summary.left["deferred"] == 1 - sent


@pytest.mark.parametrize(
    ("margin", "took_s", "left_at"),
    [
        (None, 1.5, [0, 1.5, 3, 4.5, 6]),  # twice as long as an answer takes
        (None, 0.5, [0.5 * number for number in range(16)]),  # at least two seconds
        (timedelta(seconds=4), 0.5, [0.5 * number for number in range(12)]),
        (timedelta(0), 3, [0, 3, 6, 9]),
    ],
)
def test_the_last_launches_leave_a_margin_before_the_end(
    runs: Runs, margin: timedelta | None, took_s: float, left_at: list[float]
) -> None:
    """What leaves is accepted before its hours end, even by a service as slow as the slowest of its answers."""

    def answer(clock: Clock, _phone: str) -> SendReply:
        clock.seconds += took_s
        return replace(ACCEPTED, status=201)

    trace, delivery = runs.send(plan(*[10.0] * 20), answer, margin=margin)
    assert [(moment - START).total_seconds() for moment, _ in trace.requests] == left_at
    assert delivery.summary.count("sent") == len(left_at)


def test_what_is_late_before_its_intent_leaves_no_trace(runs: Runs, tmp_path: Path) -> None:
    """Launches whose hours are over are counted as deferred; nothing is recorded, and those behind go on."""
    trace, delivery = runs.send(plan(0, 60, 0), accept)
    assert [phone for _, phone in trace.requests] == [PHONES[1]]
    assert (delivery.summary.left["deferred"], len(delivery.summary.launches)) == (2, 1)
    assert trace.outcomes == [("sent", None)]
    assert not delivery.summary.has_failures
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM launches").fetchone() == (1,)


def test_what_becomes_late_while_it_waits_for_the_pace_is_free_again(runs: Runs) -> None:
    """At one send a minute, those whose turn comes after the end are not sent; the next run sends them."""
    launches = plan(*[90.0] * 5)
    trace, delivery = runs.send(launches, accept, rate=1 / 60)
    assert [(moment - START).total_seconds() for moment, _ in trace.requests] == [0, 60]
    states = Counter((launch.outcome, launch.detail) for launch in delivery.summary.launches)
    assert states["sent", None] == 2
    late = states["not_sent", TOO_LATE]
    assert late >= 1
    assert late == delivery.summary.recipients_too_late
    assert late + delivery.summary.left["deferred"] == 3
    assert not delivery.summary.has_failures
    reached, unclear = runs.list_known()
    assert (len(reached), unclear) == (2, set())
    again, _ = runs.send(plan(*[None] * 5)[2:], accept)
    assert Counter(phone for _, phone in trace.requests + again.requests) == Counter(PHONES[:5])


def test_what_becomes_late_between_two_tries_is_free_again(runs: Runs) -> None:
    """A launch that cannot leave until its hours are over has failed in nothing: the next run sends it."""
    trace, delivery = runs.send(plan(0.2), lambda _clock, _phone: UNREACHED)
    assert len(trace.requests) == 1
    (launch,) = delivery.summary.launches
    assert (launch.outcome, launch.detail) == ("not_sent", TOO_LATE)
    assert (delivery.summary.has_failures, delivery.summary.final_reply) == (False, None)
    assert runs.list_known() == (set(), set())
    again, _ = runs.send(plan(None), accept)
    assert [phone for _, phone in again.requests] == [PHONES[0]]


def test_an_unclear_try_stays_unclear_when_it_is_late(runs: Runs) -> None:
    """A launch that may have been accepted is not taken for one that was too late."""

    def answer(clock: Clock, _phone: str) -> SendReply:
        clock.seconds += 60
        return SendReply("unknown", detail="it did not answer in time")

    _, delivery = runs.send(plan(30), answer)
    assert [launch.outcome for launch in delivery.summary.launches] == ["unknown"]
    assert len(runs.list_known()[1]) == 1


ANSWERS = st.sampled_from([ACCEPTED, ACCEPTED, LIMITED, UNREACHED])


@pytest.mark.slow
@settings(max_examples=60)
@given(
    ends=st.lists(st.none() | st.sampled_from([0.0, 0.1, 1.0, 30.0, 61.0, 400.0]), max_size=12),
    answers=st.lists(st.tuples(ANSWERS, st.sampled_from([0.0, 0.5, 20.0])), max_size=30),
    rate=st.sampled_from([None, 0.1, 2.0]),
)
def test_nothing_ever_leaves_too_late(
    tmp_path: Path, ends: list[float | None], answers: list[tuple[SendReply, float]], rate: float | None
) -> None:
    """Whatever delays a run: each request leaves in time, each person is reached at most once, in the end once."""
    script = iter(answers)

    def answer(clock: Clock, _phone: str) -> SendReply:
        reply, took_s = next(script, (ACCEPTED, 0.0))
        clock.seconds += took_s
        return reply

    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    (tmp_path / "ledger.sqlite").unlink(missing_ok=True)
    with Ledger(url) as ledger:
        ledger.prepare()
        runs = Runs(ledger)
        launches = plan(*ends)
        until = {launch.phones[0]: launch.until for launch in launches}
        trace, delivery = runs.send(launches, answer, rate=rate)
        for moment, phone in trace.requests:
            end = until[phone]
            assert end is None or moment < end
        told = len(delivery.summary.launches) + delivery.summary.left["deferred"]
        assert told == len(launches) or delivery.summary.final_reply is not None
        reached, unclear = runs.list_known()
        # A launch that was answered with 429 may have been accepted: only asking the service sets its people free.
        assert len(unclear) == delivery.summary.count("unknown")
        assert len(reached) == delivery.summary.count("sent")
        rest = [
            one
            for one in plan(*[None] * len(ends))
            if KEY.fingerprint(one.phones[0]) not in reached | unclear
        ]
        again, _ = runs.send(rest, accept)
        assert {phone for _, phone in again.requests} == {one.phones[0] for one in rest}


EVENING = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
"""An hour before the end of the hours: frozen clocks tick on, and a busy machine takes its time."""
CAMPAIGN = 'schedule: {timezone: America/Los_Angeles, send_between: ["09:00", "20:00"]}\n'


def write_timed_campaign(repository: Repository, count: int) -> tuple[str, ...]:
    phones = repository.write_campaign(count)
    content = repository.campaign.read_text(encoding="utf-8")
    content = content.replace("limits:\n", "limits:\n  settle_margin: 0s\n")
    repository.campaign.write_text(content + CAMPAIGN, encoding="utf-8")
    return phones


@pytest.mark.slow
def test_a_run_that_lasts_past_the_end_of_the_hours(repository: Repository, faulty: FaultyService) -> None:
    """What comes after eight in the evening waits for the morning; the exit code is that of a run that is done."""
    phones = write_timed_campaign(repository, 6)
    with freeze_time(EVENING, tick=True, real_asyncio=True) as frozen:

        def take_time(_number: int, _request: Request) -> Behaviour:
            frozen.tick(timedelta(minutes=40))
            return {}

        faulty.decide = take_time
        applied = repository.apply("--concurrency", "1", "--format", "json", "--quiet")
        done = applied.campaign
        assert (applied.code, applied.err) == (0, "")
        assert faulty.accepted == Counter(phones[:2])
        assert (done["sent"], done["rejected"], done["unknown"], done["not_tried"]) == (2, 0, 0, 0)
        assert done["deferred"] == 4
        assert done["sent"] + done["not_sent"] == len(done["launches"])
        night = repository.apply()
        assert (night.code, night.out) == (
            0,
            "pulse: nothing sent, 4 people deferred until Sat 2026-11-21 09:00 (America/Los_Angeles).\n",
        )
        frozen.move_to(datetime(2026, 11, 21, 17, 0, tzinfo=UTC))
        assert repository.apply("--concurrency", "1").code == 0
    assert faulty.accepted == Counter(phones)


@pytest.mark.slow
def test_a_service_that_is_busy_until_the_hours_are_over(
    repository: Repository, faulty: FaultyService
) -> None:
    """A 429 whose wait lasts beyond eight leaves nothing failed; in the morning each is texted once."""
    phones = write_timed_campaign(repository, 3)
    with freeze_time(EVENING, tick=True, real_asyncio=True) as frozen:

        def refuse(_number: int, _request: Request) -> Behaviour:
            frozen.tick(timedelta(minutes=80))
            return {"status": 429, "accepts": False, "headers": {"Retry-After": "0"}}

        faulty.decide = refuse
        applied = repository.apply("--concurrency", "1")
        assert applied.code == 0, applied.err
        assert len(faulty.requests) == 1
        frozen.move_to(datetime(2026, 11, 21, 17, 0, tzinfo=UTC))
        faulty.behave({})
        assert repository.apply().code == 0
    assert faulty.accepted == Counter(phones)


def test_what_a_trial_sends_keeps_no_hours(repository: Repository, faulty: FaultyService) -> None:
    """What somebody sends to their own phone leaves at any hour."""
    write_timed_campaign(repository, 1)
    with freeze_time(datetime(2026, 11, 21, 9, 0, tzinfo=UTC), real_asyncio=True):
        assert repository.apply("--test-to", "+14155550199").code == 0
    assert faulty.accepted == {"+14155550199": 1}


@pytest.mark.slow
def test_settled_launches_keep_the_hours_too(repository: Repository, faulty: FaultyService) -> None:
    """A launch that was not sent after all is not sent again in the night that has begun meanwhile."""
    phones = write_timed_campaign(repository, 1)
    with freeze_time(EVENING, tick=True, real_asyncio=True) as frozen:

        def lose(_number: int, _request: Request) -> Behaviour:
            frozen.tick(timedelta(minutes=80))
            return {"accepts": False, "end": "drop"}

        faulty.decide = lose
        applied = repository.apply()
        assert (applied.code, len(faulty.requests)) == (0, 1), applied.err
        assert applied.out == "pulse: nothing sent, 1 person deferred.\n"
        frozen.move_to(datetime(2026, 11, 21, 17, 0, tzinfo=UTC))
        faulty.behave({})
        assert repository.apply().code == 0
    assert faulty.accepted == Counter(phones)
