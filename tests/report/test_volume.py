"""Renders: what sends were expected to take, what was asked again, and what it costs."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest

from runner.ledger.report_model import MessageTotals, ServicePlan
from runner.report.facts import MessageOutline, QuestionOutline, WayOutline
from runner.report.funnel import FunnelStep, count_completed, follow_questions
from runner.report.metrics import measure_volume

FIRST = QuestionOutline("first", "First?", ("Yes", "No"), conclude_on="No")
SECOND = QuestionOutline("second", "Second?", scale="text")
THIRD = QuestionOutline("third", "Third?", scale="text")
TOTALS = MessageTotals("ask", launches=1, sent=10, renders=25, reconciled_at="2026-11-20T12:00:00Z")


def outline_of(*ways: WayOutline) -> MessageOutline:
    questions = {question.tag: question for way in ways for question in way.questions}
    return MessageOutline("ask", "tag", tuple(questions.values()), ways)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("12.50", Fraction(25, 2) * Fraction(25, 1000)),
        ("0", Fraction(0)),
        (" 40 ", Fraction(1)),
        ("", None),
        ("free", None),
        ("$12.50", None),
        ("12,50", None),
        ("1,250", None),
        (None, None),
        ("NaN", None),
        ("Infinity", None),
        ("-1", None),
        ("1e999999", None),
        ("9" * 400, None),
    ],
)
def test_a_price_that_is_one_is_shared_out(text: str | None, cost: Fraction | None) -> None:
    """A render costs its share of the plan's price; a price that is no plain decimal number is none."""
    outline = outline_of(WayOutline("", (FIRST,)))
    volume = measure_volume(outline, TOTALS, {"": 10}, {}, (), ServicePlan("gold", text, 1000, 0))
    assert (volume.plan_share, volume.cost_usd) == (Fraction(25, 1000), cost)


def test_the_forecast_adds_up_the_arms() -> None:
    """Introduction and first question at least; at most every question and the conclusion."""
    outline = outline_of(
        WayOutline("a", (FIRST, SECOND), introduces=True, concludes=True), WayOutline("b", (FIRST,))
    )
    volume = measure_volume(outline, TOTALS, {"a": 4, "b": 6, "gone": 3}, {}, (), None)
    assert (volume.forecast_min, volume.forecast_max) == (4 * 2 + 6 * 1, 4 * 4 + 6 * 1)
    plain = measure_volume(MessageOutline("ask", "tag"), TOTALS, {"": 10}, {}, (), None)
    assert (plain.forecast_min, plain.forecast_max, plain.asked_again) == (10, 10, None)


def simulate(way: WayOutline, chance: random.Random) -> tuple[str, int, int]:
    """Return a participant's path through a way, the renders of it, and those that were repetitions."""
    renders, again, path = int(way.introduces), 0, ""
    for number, question in enumerate(way.questions):
        repeats = chance.choice((0, 0, 0, 1, 2))
        renders, again = renders + 1 + repeats, again + repeats
        if chance.random() < 0.2:
            return path.ljust(len(way.questions), "-"), renders, again
        ends = question.conclude_on is not None and chance.random() < 0.3
        path += "c" if ends else "a"
        if ends or number == len(way.questions) - 1:
            break
    return path.ljust(len(way.questions), "-"), renders + int(way.concludes), again


@pytest.mark.parametrize("introduces", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_asked_again_is_what_was_repeated(seed: int, introduces: bool) -> None:  # noqa: FBT001
    """Of simulated conversations the renders that nothing else explains are the repeated questions."""
    chance = random.Random(seed)  # noqa: S311  nothing depends on its being hard to guess
    ways = (
        WayOutline("a", (FIRST, SECOND, THIRD), introduces=introduces, concludes=True),
        WayOutline("b", (FIRST, SECOND, THIRD), introduces=introduces),
    )
    outline, paths = outline_of(*ways), Counter[tuple[str, str]]()
    sent, queued, blocked, renders, again = Counter(a=60, b=40), 7, 5, 0, 0
    for way in ways:
        # The queued and the blocked ones, all of the first arm, have not had a text yet.
        for _ in range(sent[way.arm] - (queued + blocked if way.arm == "a" else 0)):
            path, rendered, repeated = simulate(way, chance)
            renders, again = renders + rendered, again + repeated
            if path.strip("-"):
                paths[way.arm, path] += 1
    totals = MessageTotals("ask", sent=100, queued=queued, renders=renders, reconciled_at="2026-11-20")
    steps = tuple(follow_questions(outline, paths, {"first": 100 - queued - blocked}))
    volume = measure_volume(outline, totals, sent, count_completed(outline, paths), steps, None, blocked)
    assert (volume.renders, volume.asked_again) == (renders, again)
    assert again > 0


@pytest.mark.parametrize(
    ("totals", "ways"),
    [
        (MessageTotals("ask", sent=10, renders=30), (WayOutline("", (FIRST,)),)),
        (
            MessageTotals("ask", sent=10, queued=1, renders=30, reconciled_at="2026-11-20"),
            (WayOutline("a", (FIRST,), introduces=True), WayOutline("b", (FIRST,))),
        ),
        (
            MessageTotals("ask", sent=10, queued=1, renders=30, reconciled_at="2026-11-20"),
            (WayOutline("a", (FIRST,)), WayOutline("b", (SECOND, FIRST))),
        ),
        (MessageTotals("ask", sent=10, renders=9, reconciled_at="2026-11-20"), (WayOutline("", (FIRST,)),)),
        (MessageTotals("ask", sent=10, renders=30, reconciled_at="2026-11-20"), (WayOutline("", ()),)),
    ],
)
def test_what_cannot_be_told_is_not(totals: MessageTotals, ways: tuple[WayOutline, ...]) -> None:
    """Nothing is said before reconciling, of queued arms that begin differently, of too few renders, of texts."""
    steps = (FunnelStep("first", 10, 5, 0, None),)
    volume = measure_volume(outline_of(*ways), totals, {"": 10, "a": 5, "b": 5}, {}, steps, None)
    assert volume.asked_again is None
