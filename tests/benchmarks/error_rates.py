"""How often a report's intervals hold the truth, and its verdicts find what is not there, or miss what is.

Draws many surveys from populations of which the truth is known, and has the report's own functions judge
them. The figures stand in docs/statistics.md. Prints and never fails; tests/report/test_error_rates.py holds
a few of them to bounds, with fewer surveys.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from runner.report.comparison import compare_arms, share, subtract_interval
from runner.report.scores import mean_interval, net_promoter_score, wilson_interval
from tests.benchmarks.sandbox import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.report.comparison_model import PairComparison
    from runner.report.question_model import Interval

DAYS_TO_ANSWER = 4.0
"""The mean of the exponential distribution of times to answer."""

SATISFIED = ((1, 2, 3, 4, 5), (5, 3, 7, 20, 65))
DELIGHTED = ((1, 2, 3, 4, 5), (2, 2, 3, 8, 85))
VISITS = (tuple(range(60)), tuple(0.25 * 0.75**number for number in range(60)))
"""Populations of answers: the values, and their weights."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An experiment whose truth is known.

    Attributes:
        people: asked in each arm.
        rates: of each arm: how many answer in the end.
        looks: the days of the reports.
        days: over which the people are asked, evenly; none for all at once.
        is_sequential: whether the verdict is that of a test for every look; else a test for one look is made at
            each, as reports once did.
    """

    people: Sequence[int]
    rates: Sequence[float]
    looks: Sequence[float]
    days: float = 0.0
    is_sequential: bool = True


def cover_mean(random: Random, population: tuple[Sequence[int], Sequence[float]], size: int) -> bool | None:
    """Return whether a mean's interval holds the true one; None if there is none."""
    values, weights = population
    truth = sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
    drawn = Counter(map(Fraction, random.choices(values, weights, k=size)))
    return _holds(mean_interval(drawn), truth)


def cover_rate(random: Random, rate: float, size: int) -> bool | None:
    """Return whether Wilson's interval of a rate holds the true one."""
    return _holds(wilson_interval(_draw(random, rate, size), size), rate)


def cover_nps(random: Random, weights: Sequence[float], size: int) -> bool | None:
    """Return whether the interval of a Net Promoter Score holds the true one.

    Args:
        random: draws.
        weights: of detractors, passives and promoters.
        size: answers.
    """
    drawn = Counter(random.choices((Fraction(0), Fraction(8), Fraction(10)), weights, k=size))
    return _holds(net_promoter_score(drawn).interval, 100 * (weights[2] - weights[0]) / sum(weights))


def cover_difference(random: Random, rates: tuple[float, float], size: int) -> bool | None:
    """Return whether Newcombe's interval of a difference of rates holds the true one."""
    drawn = [_draw(random, rate, size) for rate in rates]
    a, b = ((count / size, wilson_interval(count, size)) for count in drawn)
    return _holds(subtract_interval(*a, *b), rates[0] - rates[1])


def cover_comparisons(random: Random, trial: Trial) -> bool:
    """Return whether all intervals of an experiment's differences hold the true ones, at all looks."""
    return all(
        low <= truth <= high
        for counts in _walk(random, trial)
        for one, truth in zip(
            _compare(counts, trial),
            [rate - other for number, rate in enumerate(trial.rates) for other in trial.rates[:number]],
            strict=True,
        )
        if one.interval is not None
        for low, high in [one.interval]
    )


def call_different(random: Random, trial: Trial) -> bool:
    """Return whether some report of an experiment calls some arm different."""
    return any(one.verdict == "differs" for counts in _walk(random, trial) for one in _compare(counts, trial))


def _compare(counts: Sequence[tuple[str, int, int]], trial: Trial) -> tuple[PairComparison, ...]:
    samples = [share(*count) for count in counts]
    return compare_arms("response", samples, at_every_look=trial.is_sequential)


def measure(judge: Callable[[Random], bool | None], seed: int, surveys: int) -> float:
    """Return the share of surveys of which something is true, of those of which it can be said."""
    random = Random(seed)  # noqa: S311  # a simulation
    judged = [found for _ in range(surveys) if (found := judge(random)) is not None]
    return sum(judged) / len(judged)


def _walk(random: Random, trial: Trial) -> Iterator[list[tuple[str, int, int]]]:
    """Yield the counts of an experiment's arms at each look."""
    arms = []
    for people, rate in zip(trial.people, trial.rates, strict=True):
        asked = sorted(random.uniform(0, trial.days) for _ in range(people))
        answered = sorted(
            at + random.expovariate(1 / DAYS_TO_ANSWER) for at in asked if random.random() < rate
        )
        arms.append((asked, answered))
    for look in trial.looks:
        yield [
            (str(number), bisect_right(answered, look), bisect_right(asked, look))
            for number, (asked, answered) in enumerate(arms)
        ]


def _draw(random: Random, rate: float, size: int) -> int:
    return sum(random.random() < rate for _ in range(size))


def _holds(interval: Interval | None, truth: float) -> bool | None:
    return None if interval is None else interval[0] <= truth <= interval[1]


DAILY = tuple(range(1, 15))
OFTEN = tuple(number / 4 for number in range(1, 121))
COVERAGE: Sequence[tuple[str, Callable[[Random], bool | None]]] = (
    *(
        (f"rate {rate:.0%} (Wilson), n = {size}", lambda random, r=rate, n=size: cover_rate(random, r, n))
        for rate, size in ((0.05, 40), (0.3, 40), (0.3, 400))
    ),
    *(
        (f"NPS, n = {size}", lambda random, n=size: cover_nps(random, (20, 30, 50), n))
        for size in (10, 30, 400)
    ),
    *(
        (f"mean of {name}, n = {size}", lambda random, p=population, n=size: cover_mean(random, p, n))
        for name, population in (("satisfaction", SATISFIED), ("delight", DELIGHTED), ("visits", VISITS))
        for size in (10, 20, 50, 400)
    ),
    *(
        (
            f"difference {a:.0%} less {b:.0%}, n = {size}",
            lambda random, a=a, b=b, n=size: cover_difference(random, (a, b), n),
        )
        for a, b, size in ((0.4, 0.3, 50), (0.4, 0.3, 400), (0.9, 0.95, 50))
    ),
    (
        "differences of 3 arms, once, all of them",
        lambda random: cover_comparisons(
            random, Trial((400,) * 3, (0.3, 0.4, 0.3), (99,), is_sequential=False)
        ),
    ),
    (
        "differences of 3 arms, once, both large",
        lambda random: cover_comparisons(
            random, Trial((400,) * 3, (0.2, 0.4, 0.5), (99,), is_sequential=False)
        ),
    ),
    (
        "difference of 2 arms that are alike, at all of 14 looks",
        lambda random: cover_comparisons(random, Trial((400, 400), (0.3, 0.3), DAILY)),
    ),
)
ALARMS: Sequence[tuple[str, Trial]] = (
    ("a test for one look, made at 14", Trial((400, 400), (0.3, 0.3), DAILY, is_sequential=False)),
    ("a test for one look, made once", Trial((400, 400), (0.3, 0.3), (14,), is_sequential=False)),
    ("at every look, 14", Trial((400, 400), (0.3, 0.3), DAILY)),
    ("at every look, 120", Trial((400, 400), (0.3, 0.3), OFTEN)),
    ("at every look, 120; 85 % answer", Trial((400, 400), (0.85, 0.85), OFTEN)),
    ("at every look, 120; asked over 20 days", Trial((400, 400), (0.3, 0.3), OFTEN, days=20)),
    ("the same, 85 % answer", Trial((400, 400), (0.85, 0.85), OFTEN, days=20)),
    ("at every look, 120; arms of 900 and 100", Trial((900, 100), (0.1, 0.1), OFTEN)),
    ("at every look, 120; 4 arms", Trial((400,) * 4, (0.3,) * 4, OFTEN)),
)
POWER: Sequence[tuple[str, Trial]] = (
    ("30 % and 40 %, 400 an arm, once", Trial((400, 400), (0.3, 0.4), (99,), is_sequential=False)),
    ("30 % and 40 %, 400 an arm, at every look of 14", Trial((400, 400), (0.3, 0.4), DAILY)),
    ("30 % and 36 %, 2,000 an arm, once", Trial((2000, 2000), (0.3, 0.36), (99,), is_sequential=False)),
    ("30 % and 36 %, 2,000 an arm, at every look of 14", Trial((2000, 2000), (0.3, 0.36), DAILY)),
)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--surveys", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    surveys, seed = options.surveys, options.seed
    write(f"Of {surveys:,} surveys each, intervals of 95 % hold the truth in:")
    for name, judge in COVERAGE:
        write(f"  {measure(judge, seed, surveys):.3f}  {name}")
    write("Experiments without a difference that some report calls different, at most 0.050 wanted:")
    for name, trial in ALARMS:
        write(f"  {measure(partial(call_different, trial=trial), seed, surveys // 2):.3f}  {name}")
    write("Experiments with a difference in which some report finds it:")
    for name, trial in POWER:
        write(f"  {measure(partial(call_different, trial=trial), seed, surveys // 2):.3f}  {name}")


if __name__ == "__main__":
    main()
