"""The gate: what opt-outs and other campaigns' texts, entered since the plan, take out of launches."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.campaign.message_model import Message
from runner.delivery.eligibility import Admission, EligibilityCheck
from runner.delivery.pace import Pace
from runner.ledger.database import Ledger
from runner.ledger.files.suppressions import OptOut
from runner.ledger.fingerprint import TargetKey, launch_key
from runner.ledger.model import Intent, Outcome, format_moment
from runner.ledger.people.opt_outs import add_replies
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.tables import deliveries, launches
from runner.ledger.target_key import enter_key
from runner.plan.model import PlannedLaunch
from runner.service.model import SendReply
from runner.source.diagnostic import Position
from runner.text.payload import Payload
from runner.timing.schedule import FrequencyCap
from tests.deliver.summed import SummedDelivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.ledger.files.suppressions import State
    from runner.ledger.model import LaunchState

    Send = Callable[[str, list[str]], SendReply]

NOW = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
AT = format_moment(NOW)
KEY = TargetKey.of("live", None)
ADA, BOB, CY, DEE, EVE = (f"+1415555010{number}" for number in range(1, 6))
WEEK = timedelta(days=7)
ONE_A_WEEK, TWO_A_WEEK = FrequencyCap(1, WEEK), FrequencyCap(2, WEEK)
OPEN = EligibilityCheck(KEY, None)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """An open ledger with its tables, on each of the databases."""
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_ledger")
    with Ledger(url) as opened:
        opened.prepare()
        yield opened


def plan(*phones: str, message: str = "ask") -> PlannedLaunch:
    """Return a launch to some phones."""
    return PlannedLaunch(
        Message(message, f"tag-{message}", Position(Path("pulse.yaml"), 1, 1)),
        Payload({"text": message}, f"d1g35t-{message}", 1, None),
        phones,
    )


def opt_out(ledger: Ledger, phone: str, state: State = "confirmed") -> None:
    """Enter a reply of somebody."""
    with ledger.writing() as connection:
        enter_key(connection, KEY)
        reply = OptOut(KEY.fingerprint(phone), f"guid-{phone}", "reply", state, AT)
        add_replies(connection, "live", [reply])


def text(
    ledger: Ledger,
    *phones: str,
    ago: timedelta = timedelta(),
    state: LaunchState = "sent",
    target: str = "live",
    name: str = "news",
) -> None:
    """Enter a launch of another campaign, with its outcome."""
    people = tuple(sorted(KEY.fingerprint(phone) for phone in phones))
    at = format_moment(NOW - ago)
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, target, name)
        intent = Intent("hello", launch_key(name, "hello", at, people), "news", at, people, "{}")
        (launch_id,) = add_intents(connection, campaign_id, [intent], at)
        if state != "intent":
            guid = f"guid-{name}-{at}" if state == "sent" else None
            record_outcomes(connection, [Outcome(launch_id, state, at, guid)])


def admit(ledger: Ledger, gate: EligibilityCheck, *planned: PlannedLaunch) -> Admission:
    with ledger.writing() as connection:
        return gate.admit(connection, planned, NOW)


def list_phones(admission: Admission) -> list[tuple[str, ...]]:
    return [launch.phones for launch in admission.launches]


def survey(ledger: Ledger, *phones: str, name: str = "news") -> int:
    """Enter a survey of another campaign that was sent; return the ledger's number of the campaign."""
    people = tuple(sorted(KEY.fingerprint(phone) for phone in phones))
    definition = json.dumps({"questions": [{"tag": "why", "text": "Why?"}]})
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", name)
        intent = Intent("ask", launch_key(name, "ask", "d", people), "news", "d", people, definition)
        add_intents(connection, campaign_id, [intent], AT)
    return campaign_id


def test_who_was_sent_a_survey_since_is_left_out(ledger: Ledger) -> None:
    """What goes to them would queue behind it; one that completes what is open goes, and so do the others."""
    survey(ledger, ADA)
    gate = replace(OPEN, campaign_id=99)
    completing = plan(ADA, message="end")
    completing = replace(completing, message=replace(completing.message, complete_existing_sessions=True))
    admission = admit(ledger, gate, plan(ADA, BOB), completing)
    assert list_phones(admission) == [(BOB,), (ADA,)]
    assert (admission.opted_out, admission.capped, admission.open_session) == (0, 0, [ADA])


def test_what_a_gate_lets_queue(ledger: Ledger) -> None:
    """With `open_session: queue` nobody is asked for; of the campaign itself the plan has known."""
    campaign_id = survey(ledger, ADA)
    for gate in (OPEN, replace(OPEN, campaign_id=campaign_id)):
        assert list_phones(admit(ledger, gate, plan(ADA))) == [(ADA,)]


@pytest.mark.parametrize("cap", [None, ONE_A_WEEK])
def test_launches_that_nobody_is_barred_of_pass_untouched(ledger: Ledger, cap: FrequencyCap | None) -> None:
    """They are the same objects, in their order; whoever is on record and not in them does not matter."""
    opt_out(ledger, EVE)
    text(ledger, DEE)
    planned = [plan(CY, ADA), plan(BOB)]
    admission = admit(ledger, EligibilityCheck(KEY, cap), *planned)
    assert [id(launch) for launch in admission.launches] == [id(launch) for launch in planned]
    assert (admission.opted_out, admission.capped) == (0, 0)


def test_whoever_opted_out_is_taken_out_of_a_launch_of_several(ledger: Ledger) -> None:
    """Confirmed or doubtful, they get nothing; the others stay in their order, those let in again too."""
    opt_out(ledger, ADA)
    opt_out(ledger, CY, "doubtful")
    opt_out(ledger, DEE, "dismissed")
    planned = plan(EVE, ADA, DEE, CY, BOB)
    admission = admit(ledger, OPEN, planned)
    assert list_phones(admission) == [(EVE, DEE, BOB)]
    (launch,) = admission.launches
    assert (launch.message, launch.payload) == (planned.message, planned.payload)
    assert planned.phones == (EVE, ADA, DEE, CY, BOB)
    assert (admission.opted_out, admission.capped) == (2, 0)


def test_a_launch_that_nobody_is_left_in_is_dropped(ledger: Ledger) -> None:
    """The launches before and behind it pass; each message that somebody does not get counts."""
    opt_out(ledger, ADA)
    opt_out(ledger, BOB)
    admission = admit(ledger, OPEN, plan(CY), plan(ADA, BOB), plan(ADA, DEE, message="nudge"))
    assert list_phones(admission) == [(CY,), (DEE,)]
    assert admission.opted_out == 3


def test_what_other_campaigns_sent_counts(ledger: Ledger) -> None:
    """Of two messages a week: whoever got one may get one more, whoever got two gets none."""
    text(ledger, ADA, BOB, name="news")
    text(ledger, ADA, name="offer")
    admission = admit(ledger, EligibilityCheck(KEY, TWO_A_WEEK), plan(ADA, BOB, CY))
    assert list_phones(admission) == [(BOB, CY)]
    assert (admission.opted_out, admission.capped) == (0, 1)


@pytest.mark.parametrize(
    ("state", "capped"), [("intent", 1), ("sent", 1), ("unknown", 1), ("rejected", 0), ("not_sent", 0)]
)
def test_what_may_have_been_sent_counts(ledger: Ledger, state: LaunchState, capped: int) -> None:
    """An intent of another run that sends at this moment counts, too; what reached nobody does not."""
    text(ledger, ADA, state=state)
    admission = admit(ledger, EligibilityCheck(KEY, ONE_A_WEEK), plan(ADA))
    assert (admission.capped, len(admission.launches)) == (capped, 1 - capped)


@pytest.mark.parametrize(("ago", "capped"), [(WEEK, 1), (WEEK + timedelta(seconds=1), 0), (timedelta(0), 1)])
def test_the_time_of_the_cap_ends_now(ledger: Ledger, ago: timedelta, capped: int) -> None:
    """The week is that before this very commit, whatever moment the plan was made for."""
    text(ledger, ADA, ago=ago)
    assert admit(ledger, EligibilityCheck(KEY, ONE_A_WEEK), plan(ADA)).capped == capped


def test_another_target_does_not_count(ledger: Ledger) -> None:
    """What the sandbox was sent keeps nobody from a text."""
    text(ledger, ADA, target="sandbox")
    assert list_phones(admit(ledger, EligibilityCheck(KEY, ONE_A_WEEK), plan(ADA))) == [(ADA,)]


def test_launches_of_one_commit_count_each_other(ledger: Ledger) -> None:
    """Of three messages to one person in one commit, those over the cap are taken out, the last ones first."""
    planned = [plan(ADA, BOB), plan(ADA, message="nudge"), plan(CY, ADA, message="thanks")]
    admission = admit(ledger, EligibilityCheck(KEY, TWO_A_WEEK), *planned)
    assert list_phones(admission) == [(ADA, BOB), (ADA,), (CY,)]
    assert admission.capped == 1


def test_whoever_opted_out_counts_as_that_alone(ledger: Ledger) -> None:
    """Somebody who opted out and is at the cap is counted once."""
    opt_out(ledger, ADA)
    text(ledger, ADA, BOB)
    admission = admit(ledger, EligibilityCheck(KEY, ONE_A_WEEK), plan(ADA, BOB, CY))
    assert (list_phones(admission), admission.opted_out, admission.capped) == ([(CY,)], 1, 1)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of the campaign `pulse`."""

    ledger: Ledger
    campaign_id: int

    def send(
        self, planned: Sequence[PlannedLaunch], gate: EligibilityCheck, post: Send | None = None
    ) -> SummedDelivery:
        """Send launches, one at a time."""
        stop = threading.Event()
        delivery = SummedDelivery.make(
            ledger=self.ledger,
            target="live",
            campaign_id=self.campaign_id,
            campaign="pulse",
            key=KEY,
            send=lambda definition, phones, _look: (post or accept)(definition, phones),
            pace=Pace(None, lambda: 0.0, stop),
            stop=stop,
            concurrency=1,
            now=lambda: NOW,
            eligibility=gate,
        )
        delivery.run(iter(planned))
        return delivery


def accept(_definition: str, phones: list[str]) -> SendReply:
    return SendReply("sent", f"guid-{phones[0]}", status=201)


@pytest.fixture
def runs(ledger: Ledger) -> Runs:
    """Runs with nothing on record."""
    with ledger.writing() as connection:
        return Runs(ledger, enter_campaign(connection, "live", "pulse"))


def test_a_run_goes_on_when_nobody_is_left_of_a_commit(ledger: Ledger, runs: Runs) -> None:
    """All launches of the first commits are dropped; those that follow are sent."""
    phones = [f"+14155502{number:02}" for number in range(12)]
    for phone in phones[:9]:
        opt_out(ledger, phone)
    delivery = runs.send([plan(phone) for phone in phones], OPEN)
    summary = delivery.summary
    assert (summary.left["opted_out"], summary.left["capped"], summary.recipients_sent) == (9, 0, 3)
    assert (summary.has_failures, summary.final_reply, delivery.unclear) == (False, None, [])


def test_a_run_that_nobody_is_left_of_ends_well(ledger: Ledger, runs: Runs) -> None:
    """Nothing is sent, nothing is recorded, and nothing has failed."""
    text(ledger, ADA, BOB, CY)
    summary = runs.send([plan(ADA), plan(BOB), plan(CY)], EligibilityCheck(KEY, ONE_A_WEEK)).summary
    assert (summary.left["capped"], summary.launches, summary.has_failures) == (3, [], False)
    with ledger.reading() as connection:
        rows = connection.execute(launches.select().where(launches.c.campaign_id == runs.campaign_id)).all()
    assert rows == []


def test_what_is_recorded_is_what_is_sent(ledger: Ledger, runs: Runs) -> None:
    """Request, intent, key and deliveries are of those who are left, as if nobody else had been planned."""
    opt_out(ledger, BOB)
    requests = []

    def post(definition: str, phones: list[str]) -> SendReply:
        requests.append((json.loads(definition), phones))
        return accept(definition, phones)

    summary = runs.send([plan(ADA, BOB, CY)], OPEN, post).summary
    assert requests == [({"text": "ask"}, [ADA, CY])]
    people = sorted(KEY.fingerprint(phone) for phone in (ADA, CY))
    key = launch_key("pulse", "ask", KEY.seal_payload("d1g35t-ask"), people)
    assert [(launch.key, launch.recipients) for launch in summary.launches] == [(key, 2)]
    with ledger.reading() as connection:
        (launch,) = connection.execute(launches.select()).all()
        held = connection.execute(deliveries.select()).all()
    assert (launch.launch_key, launch.recipients, launch.state) == (key, 2, "sent")
    assert sorted(row.fingerprint for row in held) == people


def test_what_is_unclear_is_what_was_sent(ledger: Ledger, runs: Runs) -> None:
    """A launch that can be sent again has nobody in it who was taken out before."""
    opt_out(ledger, BOB)
    reply = SendReply("unknown", detail="it did not answer in time")
    delivery = runs.send([plan(ADA, BOB)], OPEN, lambda _definition, _phones: reply)
    assert [launch.phones for launch in delivery.unclear] == [(ADA,)]


def test_an_opt_out_during_the_run_holds_from_the_next_commit_on(ledger: Ledger, runs: Runs) -> None:
    """Whoever opts out while the first request is under way gets nothing of what has no intent yet."""
    last = plan(EVE, DEE)

    def post(definition: str, phones: list[str]) -> SendReply:
        if phones == [ADA]:
            opt_out(ledger, EVE)
        return accept(definition, phones)

    summary = runs.send([plan(ADA), plan(BOB), plan(CY), last], OPEN, post).summary
    assert (summary.left["opted_out"], summary.recipients_sent) == (1, 4)


def test_a_rejected_message_leaves_room_for_the_next(runs: Runs) -> None:
    """What reached nobody does not count for those behind it in the same run, once its outcome is known."""
    planned = [plan(ADA), plan(BOB), plan(CY), plan(ADA, message="nudge")]

    def post(definition: str, phones: list[str]) -> SendReply:
        is_first = json.loads(definition) == {"text": "ask"} and phones == [ADA]
        return (
            SendReply("rejected", detail="HTTP 400", status=400) if is_first else accept(definition, phones)
        )

    summary = runs.send(planned, EligibilityCheck(KEY, ONE_A_WEEK), post).summary
    assert (summary.left["capped"], summary.recipients_sent, summary.count("rejected")) == (0, 3, 1)


def test_a_launch_brings_the_caps_of_its_people_s_law(ledger: Ledger) -> None:
    """They hold for its people beside the campaign's cap, and for no others; each has its own time."""
    text(ledger, ADA, BOB)
    by_law = FrequencyCap(1, timedelta(hours=24), "Act 1")
    legal = replace(plan(ADA, CY), caps=(by_law,))
    assert list_phones(admit(ledger, OPEN, legal, plan(BOB))) == [(CY,), (BOB,)]
    both = admit(
        ledger, EligibilityCheck(KEY, TWO_A_WEEK), legal, replace(plan(CY, message="nudge"), caps=(by_law,))
    )
    assert (list_phones(both), both.capped) == ([(CY,)], 2)
