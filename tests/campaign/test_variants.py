"""Experiments: who gets which arm, who gets nothing, and what an arm changes."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.message_model import Arm, Message, Question, TemplateText
from runner.campaign.model import Variants
from runner.campaign.variants import Draw
from runner.source.diagnostic import Position

PLACE = Position(Path("pulse.yaml"), 7, 3)
PHONES = [f"+1415{number:07}" for number in range(2_000_000, 2_020_000)]


def text(source: str) -> TemplateText:
    return TemplateText(source, PLACE, 7, 3, is_block=False)


def arm(name: str, weight: float = 1) -> Arm:
    return Arm(name, weight, PLACE)


def variants(*arms: Arm, holdout: float = 0, seed: str = "pulse-1") -> Variants:
    return Variants(seed, "ask", arms, PLACE, holdout)


def assign(made: Variants, phones: list[str] = PHONES) -> dict[str, str]:
    draw = Draw(made)
    return {phone: chosen for phone in phones if (chosen := draw.choose_arm(phone)) is not None}


WEIGHTS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3), st.floats(0.01, 100), min_size=1, max_size=5
)
NUMBERS = st.lists(st.sampled_from(PHONES), min_size=1, max_size=40, unique=True)


@given(WEIGHTS, NUMBERS, NUMBERS, st.text(max_size=8), st.floats(0, 0.99))
def test_adding_people_moves_nobody(
    weights: dict[str, float], first: list[str], added: list[str], seed: str, holdout: float
) -> None:
    """What a recipient gets depends on nobody else, nor on the order of the arms."""
    arms = [arm(name, weight) for name, weight in weights.items()]
    one, other = variants(*arms, seed=seed), variants(*reversed(arms), seed=seed, holdout=holdout)
    alone, together = assign(one, first), assign(other, [*added, *first])
    assert all(together[phone] == alone[phone] for phone in first)


@given(WEIGHTS, NUMBERS, st.floats(0.01, 100))
def test_a_new_arm_takes_people_and_moves_none_between_the_others(
    weights: dict[str, float], phones: list[str], weight: float
) -> None:
    """Who doesn't go to the new arm stays where they were."""
    arms = [arm(name, own) for name, own in weights.items()]
    before, after = assign(variants(*arms), phones), assign(variants(*arms, arm("new", weight)), phones)
    assert all(after[phone] in {before[phone], "new"} for phone in phones)


@given(NUMBERS, st.floats(0, 0.9), st.floats(0, 0.09))
def test_a_larger_holdout_keeps_the_control_group(phones: list[str], share: float, more: float) -> None:
    """Holding out more people sends nothing to those who were in the control group before."""
    small, large = Draw(variants(holdout=share)), Draw(variants(holdout=share + more))
    assert all(large.is_in_control_group(phone) for phone in phones if small.is_in_control_group(phone))


@pytest.mark.parametrize("seed", ["pulse-1", "pulse-2", ""])
def test_people_are_spread_by_weight(seed: str) -> None:
    """Of 20,000 people each arm gets its share, within five standard deviations."""
    count = Counter(assign(variants(arm("a"), arm("b", 2), arm("c", 5), seed=seed)).values())
    for name, share in (("a", 1 / 8), ("b", 2 / 8), ("c", 5 / 8)):
        assert abs(count[name] - len(PHONES) * share) < 5 * math.sqrt(len(PHONES) * share * (1 - share))


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_holdout_is_independent_of_the_arms(share: float) -> None:
    """The holdout has its share of all people, and of each arm's."""
    made = variants(arm("a"), arm("b"), holdout=share)
    draw, arms = Draw(made), assign(made)
    for people in (PHONES, *([p for p in PHONES if arms[p] == name] for name in "ab")):
        held = sum(draw.is_in_control_group(phone) for phone in people)
        assert abs(held - len(people) * share) < 5 * math.sqrt(len(people) * share * (1 - share))


@pytest.mark.slow
def test_the_draw_is_the_same_for_ever() -> None:
    """These people have these places: if they don't, everyone's has changed under running campaigns."""
    made = variants(arm("short"), arm("warm", 2), holdout=0.2)
    draw = Draw(made)
    found = {(draw.is_in_control_group(phone), assign(made)[phone]) for phone in PHONES[:50]}
    assert found == {(held, name) for held in (False, True) for name in ("short", "warm")}
    assert "".join(assign(made)[phone][0] for phone in PHONES[:24]) == "wwwwwwwwswwssswwswsswsww"
    assert [index for index in range(24) if draw.is_in_control_group(PHONES[index])] == [1, 3, 12, 16]


def test_a_closed_arm_gets_nobody_and_no_arms_mean_no_arm() -> None:
    """A weight of 0 closes an arm; an experiment of a holdout alone has no arms."""
    assert set(assign(variants(arm("a", 0), arm("b"))).values()) == {"b"}
    assert Draw(variants(holdout=0.5)).choose_arm(PHONES[0]) is None
    assert not any(Draw(variants(arm("a"))).is_in_control_group(phone) for phone in PHONES[:1000])


ASK = Message(
    "ask",
    "pulse",
    PLACE,
    introduction=text("Hi"),
    questions=(Question("nps", text("?")),),
    conclusion=text("Bye"),
)


def test_an_arm_changes_what_it_says_and_nothing_else() -> None:
    """What an arm doesn't say it takes from the message; the id, by which people are known, stays."""
    made = Arm("short", 1, PLACE, {"introduction": text("One question."), "tag": "pulse-short"}).apply_to(ASK)
    assert made.introduction == text("One question.")
    assert made.tag == "pulse-short"
    assert (made.id, made.questions, made.conclusion) == (ASK.id, ASK.questions, ASK.conclusion)
    assert Arm("same", 1, PLACE).apply_to(ASK) == ASK
    assert Arm("on", 1, PLACE, {"complete_existing_sessions": True}).apply_to(ASK).complete_existing_sessions
