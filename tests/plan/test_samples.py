"""Samples: who is drawn, that enlarging one keeps everybody, and that a size is exact."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.variants import SHARES, draw_shares
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.plan.survey import survey_audience
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runner.campaign.model import Campaign

    Load = Callable[..., Campaign]

KEY = TargetKey.of("sandbox", None)
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
PHONES = [f"+1415555{number:04}" for number in range(100, 200)]
CHI_SQUARED_9_999 = 27.88
"""The 0.999 quantile of the chi-squared distribution with nine degrees of freedom."""


def load(campaign: Load, sample: str, phones: list[str] = PHONES, rules: str = "") -> Campaign:
    """Return a campaign with one message and a sample."""
    people = "".join(f'  - phone: "{phone}"\n' for phone in phones)
    return campaign(
        f"version: 1\nname: pulse\nrecipients:\n{people}sample: {sample}\n{rules}"
        "messages:\n  - {id: ask, text: Hello}\n"
    )


def draw(loaded: Campaign, texted: Collection[str] = ()) -> set[str]:
    """Return who is texted now, if some people were texted before."""
    known = RecordedDeliveries({"ask": set(map(KEY.fingerprint, texted))} if texted else {}, {})
    context = survey_audience(loaded, known, KEY, PlanContext(now=NOW))
    planner = Planner(loaded, "sandbox", known, KEY, PlanOptions(), context)
    problems = Problems()
    assert planner.make_plan(problems) is not None, list(problems)
    return {phone for launch in planner.iterate_launches() for phone in launch.phones}


def test_a_size_is_exact(campaign: Load) -> None:
    """So many people are drawn, and all of them if there are no more."""
    assert len(draw(load(campaign, "{size: 30}"))) == 30
    assert draw(load(campaign, "{size: 100}")) == set(PHONES) == draw(load(campaign, "{size: 500}"))


def test_enlarging_a_sample_keeps_everybody(campaign: Load) -> None:
    """A larger size or share has everybody of a smaller one, sent or not."""
    small, large = draw(load(campaign, "{size: 20}")), draw(load(campaign, "{size: 45}"))
    assert small < large
    assert draw(load(campaign, "{size: 45}"), small) == large - small
    assert draw(load(campaign, "{share: 10%}")) < draw(load(campaign, "{share: 60 %}"))


@pytest.mark.slow
@given(st.sets(st.sampled_from(PHONES), max_size=60), st.integers(1, 60))
def test_whoever_was_texted_counts_in_the_size(campaign: Load, texted: set[str], size: int) -> None:
    """With people who were texted before, in the audience or not, there are never more than the size."""
    left = [phone for phone in PHONES if phone not in texted or int(phone) % 2]
    new = draw(load(campaign, f"{{size: {size}}}", left), texted)
    assert new.isdisjoint(texted)
    assert len(new) == min(max(0, size - len(texted)), len(set(left) - texted))


def test_people_who_may_not_be_texted_are_not_drawn(campaign: Load) -> None:
    """A size is of people who may be texted: the excluded take nobody's place."""
    out = "".join(f'  - phone: "{phone}"\n' for phone in PHONES[:40])
    drawn = draw(load(campaign, "{size: 50}", rules=f"exclude:\n{out}"))
    assert len(drawn) == 50
    assert drawn.isdisjoint(PHONES[:40])


def test_the_seed_decides(campaign: Load) -> None:
    """The same seed draws the same people in another campaign, another seed draws others."""
    loaded = load(campaign, "{size: 30, seed: a}")
    assert draw(loaded) == draw(replace(loaded, name="other"))
    assert draw(loaded) != draw(load(campaign, "{size: 30, seed: b}"))


@pytest.mark.parametrize("purpose", ["sample", "rollout"])
def test_draws_are_uniform(purpose: str) -> None:
    """Ten thousand draws fill ten tenths evenly: Pearson's chi-squared test, at 0.001."""
    counts = [0] * 10
    drawn = draw_shares("seed", purpose)
    for number in range(10_000):
        counts[drawn(f"+1415{number:07}") * 10 // SHARES] += 1
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < CHI_SQUARED_9_999


def test_draws_for_different_purposes_are_independent() -> None:
    """Whoever is first in a sample is not first in a rollout: the halves cross evenly."""
    one, other = draw_shares("seed", "sample"), draw_shares("seed", "rollout")
    phones = [f"+1415{number:07}" for number in range(4_000)]
    both = sum(one(phone) < SHARES // 2 and other(phone) < SHARES // 2 for phone in phones)
    assert 900 < both < 1100
