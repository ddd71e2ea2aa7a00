"""Follow-ups by answer, in all histories of two messages that ask, against a plain reading of the promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.campaign.answers import AnswerValue
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.history import EarlierAnswer, EarlierLaunch, EarlierMessage
from runner.ledger.report_model import LaunchDifference, OpenDifferences
from runner.plan.answer_rule import DIFFERS
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.reasons import Disposition
from runner.source.diagnostic import Problems
from tests.plan.worlds import KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign

    Load = Callable[..., Campaign]

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
WAIT = timedelta(hours=2)
HOURS = [timedelta(hours=hours) for hours in (0, 1, 2, 3, 4, 6, 9)]
YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
messages:
  - id: ask
    questions: [{tag: score, text: How?, scale: number}]
  - id: nudge
    after: {message: ask, wait: 1h}
    complete_existing_sessions: true
    questions: [{tag: score, text: "How, please?", scale: number}]
  - id: why
    after: {message: ask, wait: 2h}
    to: {question: score, values: 0-6}
    text: Why?
policy: {open_session: queue}
"""


@dataclass(frozen=True)
class Asked:
    """A message to somebody: how long ago it was sent, last read (None: never), and answered, with the value.

    An answer that is read after the reading is not known; `is_unresolved` if it is not known whether it was sent.
    """

    sent: timedelta
    read: timedelta | None = None
    answered: timedelta | None = None
    value: int | None = None
    is_unresolved: bool = False

    @property
    def is_known(self) -> bool:
        """True if the answer was read."""
        return self.answered is not None and self.read is not None and self.read <= self.answered


@st.composite
def draw_asked(draw: st.DrawFn) -> Asked:
    sent = draw(st.sampled_from(HOURS[1:]))
    later = [length for length in HOURS if length <= sent]
    read, answered = draw(st.none() | st.sampled_from(later)), draw(st.none() | st.sampled_from(later))
    return Asked(sent, read, answered, draw(st.sampled_from([0, 6, 7, 10])), draw(st.booleans()))


HISTORIES = st.lists(st.tuples(draw_asked(), st.none() | draw_asked()), min_size=1, max_size=8)


def decide(ask: Asked, nudge: Asked | None) -> str:
    """Return what becomes of the follow-up, as the documentation says it."""
    held = nudge is not None and nudge.is_unresolved
    asked = [one for one in (ask, nudge) if one is not None and not (one is nudge and held)]
    known = [one for one in asked if one.is_known]
    if not known:
        return "awaiting" if held or any(one.read is None for one in asked) else "not_qualified"
    # Ago: the latest is the smallest; of two at once, the later message's.
    latest = min(reversed(known), key=lambda one: one.answered or timedelta())
    if latest.value is None or latest.value > 6:
        return "not_qualified"
    assert latest.answered is not None
    due = latest.answered - WAIT
    if due < timedelta():
        return "deferred"
    if held or any((one.read is None or one.read > due) and one.sent > due for one in asked):
        return "awaiting"
    return "to_send"


@pytest.mark.slow
@settings(max_examples=80)
@given(histories=HISTORIES)
def test_everybody_is_decided_on_as_promised(
    campaign: Load, histories: list[tuple[Asked, Asked | None]]
) -> None:
    """Nobody is followed up on an answer that a later one may have replaced, or before its wait is over."""
    people = [KEY.fingerprint(f"+1415555{number:04}") for number in range(100, 100 + len(histories))]
    known = RecordedDeliveries({"ask": set(people), "nudge": set()}, {"nudge": set()})
    earlier = {"ask": EarlierMessage(), "nudge": EarlierMessage()}
    for person, (ask, nudge) in zip(people, histories, strict=True):
        for name, one in (("ask", ask), ("nudge", nudge)):
            if one is None:
                continue
            if name == "nudge" and one.is_unresolved:
                known.unresolved["nudge"].add(person)
                continue
            known.sent[name].add(person)
            read_at = None if one.read is None else NOW - one.read
            earlier[name].launches[person] = EarlierLaunch(NOW - one.sent, read_at)
            if one.is_known and one.answered is not None and one.value is not None:
                answer = EarlierAnswer(NOW - one.answered, AnswerValue(None, Fraction(one.value)))
                earlier[name].answers.setdefault("score", {})[person] = answer
                earlier[name].answered.add(person)
    rows = "".join(f"+1415555{number:04}\n" for number in range(100, 100 + len(histories)))
    loaded = campaign(YAML, people=f"phone\n{rows}")
    context = PlanContext(now=NOW, earlier=earlier)
    problems = Problems()
    plan = Planner(loaded, "sandbox", known, KEY, PlanOptions(), context).make_plan(problems)
    assert plan is not None, list(problems)
    message = plan.messages[2]
    found = {name: count for name in get_args(Disposition) if (count := getattr(message, name))}
    assert found == Counter(decide(*history) for history in histories)
    # What is sure comes; the most are those who may still qualify.
    assert all(one.recipients.least <= one.recipients.most for one in message.coming)


def test_a_difference_holds_the_follow_up(campaign: Load) -> None:
    """As long as the service contradicts itself on a launch, its answers are known as of when it agreed."""
    person = KEY.fingerprint("+14155550101")
    known = RecordedDeliveries({"ask": {person}, "nudge": set()}, {})
    # They answered after that, so that the time of their answer is one that can be.
    launch = EarlierLaunch(NOW - timedelta(hours=9), NOW - timedelta(hours=8), differs=True)
    answer = EarlierAnswer(NOW - timedelta(hours=4), AnswerValue(None, Fraction(3)))
    difference = LaunchDifference("guid", "more_counted", 2, 1, "2026-11-20T04:00:00.000000Z", None, 1)
    differences = OpenDifferences(1, 0, (difference,))
    earlier = EarlierMessage({person: launch}, {person}, differences, {"score": {person: answer}})
    context = PlanContext(now=NOW, earlier={"ask": earlier})
    loaded = campaign(YAML, people="phone\n+14155550101\n")
    plan = Planner(loaded, "sandbox", known, KEY, PlanOptions(), context).make_plan(Problems())
    assert plan is not None
    message = plan.messages[2]
    assert message.awaiting == 1
    (reason,) = message.reasons
    assert reason.startswith(DIFFERS)
