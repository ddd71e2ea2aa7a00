"""Opt-outs of people whose launch has its intent already: no text leaves a second after them, whatever it waits for."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.campaign.message_model import Message
from runner.delivery.delivery_summary import OPTED_OUT
from runner.delivery.eligibility import EligibilityCheck
from runner.delivery.pace import Pace
from runner.delivery.run import FRESH_S
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey, launch_key
from runner.ledger.model import format_moment
from runner.ledger.people.opt_outs import add_opt_outs
from runner.ledger.record.deliveries import enter_campaign, read_known
from runner.ledger.tables import deliveries, launches
from runner.ledger.target_key import enter_key
from runner.plan.model import PlannedLaunch
from runner.service.model import SendReply
from runner.source.diagnostic import Position
from runner.text.payload import Payload
from tests.deliver.summed import SummedDelivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.ledger.model import LaunchState
    from runner.ledger.target_key import LedgerConnection

NOW = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
AT = format_moment(NOW)
KEY = TargetKey.of("live", None)
PHONES = tuple(f"+14155550{number}" for number in range(100, 140))
BUSY = SendReply("unknown", detail="HTTP 429", status=429, is_busy=True, retry_after_s=5.0)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """An open ledger with its tables, on each of the databases."""
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_ledger")
    with Ledger(url) as opened:
        opened.prepare()
        yield opened


@dataclass(frozen=True, slots=True)
class CountingGate(EligibilityCheck):
    """A gate that keeps how many phones it was asked about, question by question."""

    questions: list[int] = field(default_factory=list)

    def find_opted_out(self, connection: LedgerConnection, phones: Iterable[str]) -> set[str]:
        """Note the question, and answer it."""
        asked = list(phones)
        self.questions.append(len(asked))
        return EligibilityCheck.find_opted_out(self, connection, asked)


class Clock(threading.Event):
    """A clock that stands still until somebody waits, or moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.seconds += timeout or 0.0
        return self.is_set()


@dataclass(slots=True)
class Run:
    """A run of the campaign `pulse`, one send at a time, and what came of it."""

    ledger: Ledger
    post: Callable[[Run, tuple[str, ...]], SendReply]
    rate: float | None = None
    until_s: float | None = None
    clock: Clock = field(default_factory=Clock)
    gate: CountingGate = field(default_factory=lambda: CountingGate(KEY, None))
    requests: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)
    outcomes: list[LaunchState] = field(default_factory=list)
    campaign_id: int = 0

    def send(self, planned: Sequence[PlannedLaunch]) -> SummedDelivery:
        """Send launches."""
        with self.ledger.writing() as connection:
            self.campaign_id = enter_campaign(connection, "live", "pulse")
        delivery = SummedDelivery.make(
            ledger=self.ledger,
            target="live",
            campaign_id=self.campaign_id,
            campaign="pulse",
            key=KEY,
            send=self._post,
            pace=Pace(self.rate, lambda: self.clock.seconds, self.clock),
            stop=self.clock,
            concurrency=1,
            now=lambda: NOW + timedelta(seconds=self.clock.seconds),
            observe=self.observe_outcome,
            eligibility=self.gate,
            random=lambda: 0.0,
        )
        delivery.run(iter(planned))
        return delivery

    def _post(self, _definition: str, phones: list[str], _look: Callable[[], None]) -> SendReply:
        self.requests.append((self.clock.seconds, tuple(phones)))
        return self.post(self, tuple(phones))

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        """Take note of an outcome."""
        assert recipients
        assert detail != OPTED_OUT
        self.outcomes.append(outcome)

    def list_texted(self) -> list[str]:
        """Return who was in a request, in order."""
        return [phone for _, phones in self.requests for phone in phones]

    def list_launches(self) -> list[tuple[str, int, str | None]]:
        """Return state, recipients and detail of the launches on record, in order."""
        with self.ledger.reading() as connection:
            found = connection.execute(launches.select().order_by(launches.c.id)).all()
        return [(row.state, row.recipients, row.detail) for row in found]


def accept(_run: Run, phones: tuple[str, ...]) -> SendReply:
    return SendReply("sent", f"guid-{phones[0]}", status=201)


def plan(*phones: str, until_s: float | None = None) -> PlannedLaunch:
    """Return a launch to some phones."""
    return PlannedLaunch(
        Message("ask", "tag-ask", Position(Path("pulse.yaml"), 1, 1)),
        Payload({"text": "Hello"}, "d1g35t", 1, None),
        phones,
        until=None if until_s is None else NOW + timedelta(seconds=until_s),
    )


def opt_out(ledger: Ledger, *phones: str) -> None:
    with ledger.writing() as connection:
        enter_key(connection, KEY)
        add_opt_outs(connection, KEY, phones, "person", AT)


def opt_out_at(first: str, *phones: str, reply: SendReply | None = None) -> Callable[..., SendReply]:
    """Return what has people opt out while the request to `first` is under way."""

    def post(run: Run, sent_to: tuple[str, ...]) -> SendReply:
        if sent_to[0] == first:
            opt_out(run.ledger, *phones)
            if reply is not None and len(run.requests) == 1:
                return reply
        return accept(run, sent_to)

    return post


@pytest.mark.slow
def test_whoever_opts_out_behind_an_intent_is_not_texted(ledger: Ledger) -> None:
    """At one text a second the launch that waits has its intent: it is not sent, and counts as opted out."""
    run = Run(ledger, opt_out_at(PHONES[0], PHONES[1]), rate=1.0)
    summary = run.send([plan(phone) for phone in PHONES[:4]]).summary
    assert run.list_texted() == [PHONES[0], *PHONES[2:4]]
    assert (summary.left["opted_out"], summary.recipients_sent, summary.has_failures) == (1, 3, False)
    assert [launch.outcome for launch in summary.launches] == run.outcomes == ["sent"] * 3
    assert sorted(run.list_launches()) == [("not_sent", 1, OPTED_OUT), *[("sent", 1, None)] * 3]
    with ledger.reading() as connection:
        known = read_known(connection, run.campaign_id)
        held = connection.execute(deliveries.select().where(deliveries.c.released)).all()
    assert (len(known.sent["ask"]), known.unresolved) == (3, {})
    assert [row.fingerprint for row in held] == [KEY.fingerprint(PHONES[1])]


def test_the_others_of_a_launch_are_texted_by_the_same_run(ledger: Ledger) -> None:
    """A launch of several leaves as another one, without those who opted out, and exactly as its intent says."""
    ada, *others = PHONES[:5]
    run = Run(ledger, opt_out_at(ada, others[1]), rate=1.0)
    summary = run.send([plan(ada), plan(*others)]).summary
    left = (others[0], *others[2:])
    assert [phones for _, phones in run.requests] == [(ada,), left]
    assert (summary.left["opted_out"], summary.recipients_sent) == (1, 4)
    assert run.list_launches() == [("sent", 1, None), ("not_sent", 4, OPTED_OUT), ("sent", 3, None)]
    people = sorted(KEY.fingerprint(phone) for phone in left)
    assert summary.launches[1].key == launch_key("pulse", "ask", KEY.seal_payload("d1g35t"), people)
    with ledger.reading() as connection:
        rows = connection.execute(deliveries.select().where(deliveries.c.launch_id == 3)).all()
    assert sorted(row.fingerprint for row in rows if not row.released) == people


def test_a_try_is_not_repeated_to_somebody_who_opted_out(ledger: Ledger) -> None:
    """After the wait for its next try a launch is looked at again."""
    unreached = SendReply("not_sent", detail="unreached", may_retry=True)

    def post(run: Run, phones: tuple[str, ...]) -> SendReply:
        run.clock.seconds += FRESH_S
        return opt_out_at(PHONES[0], PHONES[0], reply=unreached)(run, phones)

    run = Run(ledger, post)
    summary = run.send([plan(PHONES[0]), plan(PHONES[1])]).summary
    assert run.list_texted() == [PHONES[0], PHONES[1]]
    assert (summary.left["opted_out"], summary.recipients_sent, summary.has_failures) == (1, 1, False)


def test_quick_sends_are_not_asked_about_again(ledger: Ledger) -> None:
    """As long as launches leave within the second after their commit, the commits' questions are the only ones."""
    run = Run(ledger, accept, rate=10.0)
    run.send([plan(phone) for phone in PHONES])
    assert len(run.requests) == sum(run.gate.questions) == len(PHONES)


@pytest.mark.parametrize(("after_s", "is_seen"), [(FRESH_S * 0.999, False), (FRESH_S, True)])
def test_an_answer_is_good_for_a_second(ledger: Ledger, after_s: float, *, is_seen: bool) -> None:
    """That is the time by which an opt-out may come too late: no more."""

    def post(run: Run, phones: tuple[str, ...]) -> SendReply:
        reply = opt_out_at(PHONES[0], PHONES[1])(run, phones)
        run.clock.seconds += after_s
        return reply

    run = Run(ledger, post)
    run.send([plan(PHONES[0]), plan(PHONES[1])])
    assert run.list_texted() == [PHONES[0]] + ([] if is_seen else [PHONES[1]])
