"""What a plan says that its experiment can find, recomputed from sample sizes and from every outcome."""

from __future__ import annotations

import json
from math import comb, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import pytest

from runner.cli.main import run as run_command
from runner.report.comparison import always_valid_p_value, fisher_p_value
from runner.workflow.documents import find_difference

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CAMPAIGN = """\
version: 1
name: pulse
recipients: [{{csv: people.csv}}]
messages:
  - id: ask
    introduction: Hello. Reply STOP to opt out.
    questions: [{{tag: why, text: Why?}}]
variants:
  seed: s
  of: ask
  arms: [{arms}]
  {analysis}
"""
TWO = "{id: short, introduction: Hi. Reply STOP to opt out.}, {id: warm}"
THREE = "{id: a, weight: 2}, {id: b, introduction: Hi. Reply STOP to opt out.}, {id: c}"
FIXED, SEQUENTIAL = "analysis: {at: 2099-12-15}", "analysis: {sequential: true}"


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Write a campaign for so many people, run a command, and return what it wrote."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaigns").mkdir()

    def run(*arguments: str, people: int = 400, arms: str = TWO, analysis: str = FIXED) -> str:
        rows = ["phone", *(f"+1212555{number:04}" for number in range(100, 100 + people))]
        (tmp_path / "campaigns/people.csv").write_text("\n".join(rows), encoding="utf-8")
        text = CAMPAIGN.format(arms=arms, analysis=analysis)
        (tmp_path / "campaigns/pulse.yaml").write_text(text, encoding="utf-8")
        code = run_command(arguments)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


def list_findable(document: str) -> list[dict[str, object]]:
    ((message,),) = (one["messages"] for one in json.loads(document)["campaigns"])
    found: list[dict[str, object]] = message["findable"]
    return found


def need(difference: float, share: float = 0.05) -> float:
    """Return the people in each of two arms of one size: Fleiss, Tytun and Ury 1980, from a half."""
    rate, normal = 0.5 + difference, NormalDist()
    both = (0.5 + rate) / 2
    plain = normal.inv_cdf(1 - share / 2) * sqrt(2 * both * (1 - both))
    plain = (plain + normal.inv_cdf(0.8) * sqrt(0.25 + rate * (1 - rate))) ** 2 / difference**2
    return plain / 4 * (1 + sqrt(1 + 4 / (plain * difference))) ** 2


def test_two_arms_of_200_find_14_points(run: Callable[..., str]) -> None:
    """The difference is the smallest for which the field's formula wants no more than 200 people an arm."""
    (pair,) = list_findable(run("plan", "--format", "json"))
    assert pair == {
        "arm": "warm",
        "against": "short",
        "people": 200,
        "against_people": 200,
        "difference": 0.1432,
    }
    assert need(0.1432) <= 200 < need(0.1431)


@pytest.mark.parametrize("arguments", [("plan",), ("plan", "--format", "markdown"), ("ci", "comment")])
def test_texts_say_it(run: Callable[..., str], arguments: tuple[str, ...]) -> None:
    """The plan and the comment on a pull request say it in the words of people, rounded up."""
    said = " ".join(run(*arguments).split())
    assert (
        "the experiment can find a difference of 14.4 points in response (80% power, if 50% answer)" in said
    )


def test_every_pair_has_its_own(run: Callable[..., str]) -> None:
    """Of three arms each pair is tested at a third of 5 %, and arms of a weight of two have more people."""
    found = list_findable(run("plan", "--format", "json", arms=THREE))
    assert [(one["against"], one["arm"], one["people"], one["against_people"]) for one in found] == [
        ("a", "b", 100, 200),
        ("a", "c", 100, 200),
        ("b", "c", 100, 100),
    ]
    last = found[2]["difference"]
    assert isinstance(last, float)
    assert need(last, 0.05 / 3) <= 100 < need(last - 0.0001, 0.05 / 3)
    assert "a difference of 20.2 to 23.1 points" in " ".join(run("plan", arms=THREE).split())


def test_small_arms_find_nothing(run: Callable[..., str]) -> None:
    """There is no verdict on arms of fewer than 30 people, so no difference can be found."""
    (pair,) = list_findable(run("plan", "--format", "json", people=58))
    assert (pair["people"], pair["difference"]) == (29, None)
    assert "can find no difference in response: too few people" in " ".join(run("plan", people=58).split())


def test_looking_again_and_again_finds_less(run: Callable[..., str]) -> None:
    """Where there is a verdict at every look, its own test has the power that is said, at the last look."""
    (pair,) = list_findable(run("plan", "--format", "json", people=200, analysis=SEQUENTIAL))
    difference = pair["difference"]
    assert isinstance(difference, float)
    assert measure_power(always_valid_p_value, 100, 100, difference) == pytest.approx(0.8, abs=0.03)
    (fixed,) = list_findable(run("plan", "--format", "json", people=200))
    assert difference > float(str(fixed["difference"]))


@pytest.mark.parametrize(("people", "against"), [(60, 60), (90, 40)])
def test_fisher_has_the_power(people: int, against: int) -> None:
    """Over every outcome, Fisher's exact test shows the difference in 80 of 100 experiments."""
    found = find_difference(people, against, lambda _: 1.959964)
    assert found is not None
    assert measure_power(fisher_p_value, people, against, float(found)) == pytest.approx(0.8, abs=0.03)


def measure_power(
    test: Callable[[int, int, int, int], float], people: int, against: int, difference: float
) -> float:
    first, second = weigh(people, 0.5 + difference), weigh(against, 0.5)
    return sum(
        first[a] * second[b]
        for a in range(people + 1)
        for b in range(against + 1)
        if first[a] * second[b] > 1e-9 and test(a, people, b, against) < 0.05
    )


def weigh(trials: int, rate: float) -> list[float]:
    return [comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(trials + 1)]
