"""Groups of recipients: arms side by side, and breakdowns in which nobody can be made out."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.report_model import SentRow
from runner.report.breakdowns import break_down, describe_experiment
from runner.report.facts import (
    AnalysisPlan,
    AnswerReading,
    GroupTally,
    MessageOutline,
    MessageTally,
    QuestionOutline,
    QuestionTally,
    WayOutline,
)
from runner.report.model import CountedArm, VariantAnalysis
from runner.report.scores import wilson_interval
from tests.report.sample import replace

NPS = QuestionOutline("nps", "0 to 10?", tuple(map(str, range(11))), "nps")
WHY = QuestionOutline("why", "Why?", scale="text")
ASK = MessageOutline("ask", "tag", (NPS, WHY), (WayOutline("b", (NPS, WHY)), WayOutline("a", (NPS,))))
TEN, ZERO = AnswerReading("11", "10", Fraction(10)), AnswerReading("1", "0", Fraction(0))
TALLY = MessageTally(
    paths={("a", "a-"): 30, ("b", "aa"): 10, ("b", "a-"): 10, ("gone", "a-"): 5},
    questions={
        "nps": QuestionTally({("a", TEN): 20, ("a", ZERO): 10, ("b", ZERO): 20, ("gone", TEN): 5}),
        "why": QuestionTally({("b", AnswerReading()): 10}),
    },
    arm_days={("a", date(2026, 11, 20)): 12, ("a", date(2026, 11, 25)): 18, ("b", date(2026, 11, 21)): 20},
)
START = datetime(2026, 11, 21, 9, tzinfo=UTC)


def sent(day: str = "2026-11-20", **arms: int) -> list[SentRow]:
    """Return the recipients of a day, by arm."""
    return [SentRow("ask", arm, day, recipients) for arm, recipients in arms.items()]


def test_arms_stand_side_by_side() -> None:
    """Each arm of the campaign has its turnout and scores, the first one first; one that is no more has none."""
    experiment = describe_experiment(ASK, TALLY, sent(a=100, b=80, gone=9), START)
    assert experiment is not None
    first, second = experiment.arms
    assert (first.name, first.sent, first.answered, first.completed) == ("b", 80, 20, 10)
    assert (second.name, second.sent, second.answered, second.completed) == ("a", 100, 30, 30)
    assert (first.response_rate, second.response_rate) == (Fraction(1, 4), Fraction(3, 10))
    assert second.response_interval == wilson_interval(30, 100)
    assert [(score.tag, score.measure, score.value, score.counted) for score in second.scores] == [
        ("nps", "nps", Fraction(100, 3), 30)
    ]
    (difference,) = experiment.differences
    assert (difference.arm, difference.against) == ("a", "b")
    assert experiment.analysis == VariantAnalysis(
        "sequential", None, None, is_due=True, arms=(CountedArm("b", 80, 20), CountedArm("a", 100, 30))
    )


def test_an_arm_with_more_answers_than_sends_has_no_rate() -> None:
    """What cannot be is compared as far as it can be, and gets no rate above 1."""
    experiment = describe_experiment(ASK, TALLY, sent(a=5), START)
    assert experiment is not None
    assert [arm.response_rate for arm in experiment.arms] == [None, None]
    assert len(experiment.differences) == 1


@pytest.mark.parametrize(
    "outline",
    [MessageOutline("ask", "tag", (NPS,)), MessageOutline("ask", "tag", (NPS,), (WayOutline("", (NPS,)),))],
)
def test_a_message_of_one_way_has_no_experiment(outline: MessageOutline) -> None:
    """Without arms there is nothing to compare."""
    assert describe_experiment(outline, TALLY, [SentRow("ask", "", "2026-11-20", 100)], START) is None


def test_texts_in_arms_have_sends_alone() -> None:
    """Arms that ask nothing have no rates and no differences."""
    outline = MessageOutline("ask", "tag", (), (WayOutline("a", ()), WayOutline("b", ())))
    experiment = describe_experiment(outline, MessageTally(), sent(a=5, b=6), START)
    assert experiment is not None
    assert [(arm.sent, arm.response_rate) for arm in experiment.arms] == [(5, None), (6, None)]
    assert experiment.differences == ()


@pytest.mark.parametrize(
    ("plan", "as_of", "due", "counted"),
    [
        # Everybody asked and all answers before the day, once a reconcile was on it or later.
        (AnalysisPlan(date(2026, 11, 25)), "2026-11-24T23:59:59Z", date(2026, 11, 25), None),
        (AnalysisPlan(date(2026, 11, 25)), "2026-11-25T00:00:00Z", date(2026, 11, 25), (50, 12)),
        (AnalysisPlan(date(2026, 11, 25)), "2027-01-01T00:00:00Z", date(2026, 11, 25), (50, 12)),
        (AnalysisPlan(date(2026, 11, 25)), None, date(2026, 11, 25), None),
        # The seventh day after the last arm had its fifty.
        (AnalysisPlan(per_arm=50), "2026-11-27T23:00:00Z", date(2026, 11, 28), None),
        (AnalysisPlan(per_arm=50), "2026-11-28T00:00:00Z", date(2026, 11, 28), (80, 30)),
        (AnalysisPlan(per_arm=81), "2027-01-01T00:00:00Z", None, None),
    ],
)
def test_a_verdict_waits_for_its_day(
    plan: AnalysisPlan, as_of: str | None, due: date | None, counted: tuple[int, int] | None
) -> None:
    """Before the day it is too early; from then on every report counts the same people and answers."""
    rows = [*sent("2026-11-20", a=50, b=40), *sent("2026-11-21", b=40), *sent("2026-11-25", a=30)]
    moment = None if as_of is None else datetime.fromisoformat(as_of)
    experiment = describe_experiment(replace(ASK, analysis=plan), TALLY, rows, moment)
    assert experiment is not None
    analysis, (difference,) = experiment.analysis, experiment.differences
    assert analysis is not None
    assert (analysis.method, analysis.due, analysis.is_due) == ("fixed", due, counted is not None)
    asked, answered = counted or (80, 30)
    assert analysis.arms == (CountedArm("b", 80, 20), CountedArm("a", asked, answered))
    assert (difference.verdict == "too_early") == (difference.p_value is None) == (counted is None)
    assert difference.difference == Fraction(answered, asked) - Fraction(20, 80)


def test_a_verdict_is_not_due_with_an_empty_arm() -> None:
    """As long as an arm has not been asked at all, it has no size and no difference."""
    plan = replace(ASK, analysis=AnalysisPlan(per_arm=1))
    experiment = describe_experiment(plan, TALLY, sent(a=100), START)
    assert experiment is not None
    assert experiment.analysis is not None
    assert experiment.analysis.due is None
    assert [(one.verdict, one.difference) for one in experiment.differences] == [("too_early", None)]


def group(sent: int, answered: int = 0) -> GroupTally:
    return GroupTally(sent, {("a", "a-"): answered} if answered else {}, {"nps": {TEN: answered}})


@pytest.mark.parametrize(
    ("sizes", "shown", "suppressed", "suppressed_sent"),
    [
        ({"a": 10, "b": 11}, ["a", "b"], 0, None),
        ({"a": 9, "b": 1, "c": 50}, ["c"], 2, 10),
        ({"a": 9, "b": 20, "c": 50}, ["c"], 2, 29),
        ({"a": 0, "b": 20, "c": 20}, ["c"], 2, 20),
        ({"a": 9}, [], 1, None),
        ({"a": 4, "b": 5}, [], 2, None),
        ({"a": 3, "b": 3, "c": 3, "d": 3, "e": 90}, ["e"], 4, 12),
        ({}, [], 0, None),
    ],
)
def test_small_groups_are_left_out(
    sizes: dict[str, int], shown: list[str], suppressed: int, suppressed_sent: int | None
) -> None:
    """Groups of fewer than ten are left out, and the next larger one if the total would give them away."""
    breakdown = break_down(ASK, "city", {name: group(sent) for name, sent in sizes.items()}, 10)
    assert [one.name for one in breakdown.groups] == shown
    assert (breakdown.suppressed, breakdown.column, breakdown.least) == (suppressed, "city", 10)
    assert breakdown.suppressed_sent == suppressed_sent


@given(st.dictionaries(st.text(max_size=2), st.integers(0, 30), max_size=8), st.integers(1, 20))
def test_no_difference_gives_small_groups_away(sizes: dict[str, int], least: int) -> None:
    """The total less what is shown is nothing, or as many as a group that may be shown."""
    breakdown = break_down(ASK, "city", {name: group(sent) for name, sent in sizes.items()}, least)
    assert all(one.sent >= least for one in breakdown.groups)
    rest = sum(sizes.values()) - sum(one.sent for one in breakdown.groups)
    assert len(breakdown.groups) + breakdown.suppressed == len(sizes)
    assert rest == 0 or rest >= least or not breakdown.groups
    assert breakdown.suppressed_sent in (None, rest)
    assert breakdown.suppressed_sent is None or breakdown.suppressed_sent >= least


def test_scores_of_few_answers_are_left_out() -> None:
    """A group may be large, and its score rest on the answers of two: how many they are is all that is said."""
    groups = {"Lyon": group(50, 2), "Metz": group(50, 8), "Nice": group(50), "Paris": group(50, 10)}
    breakdown = break_down(ASK, "city", groups, 10)
    scores = [
        (score.value, score.interval is None, score.counted)
        for one in breakdown.groups
        for score in one.scores
    ]
    assert scores == [(None, True, 2), (None, True, 8), (None, True, 0), (Fraction(100), False, 10)]


@pytest.mark.parametrize(
    ("groups", "scored"),
    [
        ({"Lyon": group(50, 2), "Paris": group(50, 10)}, []),
        ({"Lyon": group(50, 2), "Metz": group(50, 30), "Paris": group(50, 10)}, ["Metz"]),
        ({"Lyon": group(50), "Paris": group(50, 10)}, ["Paris"]),
        # Ten are left out as a group, of whom one has answered.
        ({"Lyon": group(10, 1), "Metz": group(5), "Nice": group(50, 30), "Paris": group(50, 10)}, ["Nice"]),
    ],
)
def test_no_difference_gives_scores_of_few_away(groups: dict[str, GroupTally], scored: list[str]) -> None:
    """The next larger score is left out as well if that of everybody would tell the answers of a few."""
    breakdown = break_down(ASK, "city", groups, 10)
    assert [one.name for one in breakdown.groups if one.scores[0].value is not None] == scored


def test_people_in_the_audience_no_more_are_the_empty_group() -> None:
    """Who was sent to and has left the audience is of the group without a name, which is shown like others."""
    breakdown = break_down(ASK, "city", {"": group(12, 3), "Paris": group(50)}, 10)
    assert [(one.name, one.sent, one.answered) for one in breakdown.groups] == [
        ("(empty)", 12, 3),
        ("Paris", 50, 0),
    ]


def test_a_phone_is_no_name_of_a_group() -> None:
    """A report has no phone number, whatever the column holds."""
    breakdown = break_down(ASK, "city", {"+14155550101": group(12, 3), "Paris": group(50)}, 10)
    assert [one.name for one in breakdown.groups] == ["+14•••••••01", "Paris"]
