"""Comparison of variants on a proportion: their difference, its certainty, and whether samples suffice.

A single look uses Fisher's exact test and Newcombe's interval. Repeated looks use an always-valid test and
interval, as follows.
The k-th answer, of arm a or b, is a draw without replacement from the people asked who have not answered yet.
If the arms do not differ, a's answers S_a less their share of all S answers, over the part 1 - S/N of the
people who are left, is a martingale; with n_a and n_b people asked and N = n_a + n_b its variance has then
grown to V = (n_a n_b / N²) × S N/(N - S). So the two-sample z statistic, z, is that martingale over √V, and
looks are told apart by V.

Mixing over the strength of an effect by a normal distribution with variance 1/16 gives the e-value E =
√(16/(V + 16)) × exp(z² V / 2(V + 16)): its mean is at most 1 if nothing differs, at every look and at all of
them together (J. Ville, 1939), so that it ever reaches 20 in 5 of 100 experiments at most.

Sources: H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of
Mathematical Statistics 41 (1970), 1397-1409; R. Johari, P. Koomen, L. Pekelis, D. Walsh, "Always valid
inference: continuous monitoring of A/B tests", Operations Research 70 (2022), 1806-1821 (the mSPRT); S. R.
Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences",
Annals of Statistics 49 (2021), 1055-1080 (the two-sided normal mixture). The normal approximation, and people
who are asked while answers come in, are simulated: see docs/statistics.md.

A one-look test repeated for each of many reports finds false differences: of 100 experiments without one, 14
daily reports call some 15 different. So a fixed analysis uses only people and answers before one day: every
later report makes the same test of the same data.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from itertools import accumulate, chain
from math import exp, fsum, hypot, inf, isfinite, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from runner.report.comparison_model import Change, Compared, PairComparison, Verdict
from runner.report.facts import Deadline
from runner.report.scores import Z_95, divide, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from zoneinfo import ZoneInfo

    from runner.report.facts import ExperimentOutline
    from runner.report.question_model import Interval


# As in R's fisher.test: rounding must not tell apart tables that are equally likely.
_TIE = 1 + 1e-7
_NEGLIGIBLE = 1e-300


def subtract_interval(
    value_a: float, interval_a: Interval, value_b: float, interval_b: Interval
) -> tuple[float, float]:
    """Return the interval of a difference of two independent estimates, a less b, from the interval of each.

    With the estimates p, q and their intervals (l, u) and (m, v), of one level, the ends are p - q - √((p -
    l)² + (v - q)²) and p - q + √((u - p)² + (q - m)²).
    Source: G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures: a general
    approach", Statistics in Medicine 27 (2008), 1693-1702 (MOVER). Of two proportions with Wilson's intervals
    it is method 10 of R. G. Newcombe, "Interval estimation for the difference between independent
    proportions: comparison of eleven methods", Statistics in Medicine 17 (1998), 873-890, which stays within
    -1 and 1.
    """
    (low_a, high_a), (low_b, high_b) = interval_a, interval_b
    difference = value_a - value_b
    low = difference - hypot(value_a - low_a, high_b - value_b)
    high = difference + hypot(high_a - value_a, value_b - low_b)
    return low, high


def fisher_p_value(successes_a: int, trials_a: int, successes_b: int, trials_b: int) -> float:
    """Return the two-sided p-value of Fisher's exact test that two proportions are the same.

    It is the share, among all tables with the same totals (hypergeometric), of those no more likely than the
    one observed; 1 if one arm is empty, or all or none succeeded, and 0 below 1e-300.
    Source: R. A. Fisher, "The Design of Experiments" (1935), chapter II; A. Agresti, "A survey of exact
    inference for contingency tables", Statistical Science 7 (1992), 131-153, section 2.1, for two sides.
    Tables are weighed from the likeliest outwards, each by its exact ratio to the one before. Without
    factorials, rounding errors stay below 1e-11 of the result, and two arms of 5,000,000 take some 60,000
    steps.

    Raises:
        ValueError: if a count of successes is not from 0 to its trials.
    """
    for successes, trials in ((successes_a, trials_a), (successes_b, trials_b)):
        if not 0 <= successes <= trials:
            raise ValueError(f"{successes} of {trials} is no proportion")
    weights = dict(_weigh_tables(trials_a, trials_b, successes_a + successes_b))
    bar = weights.get(successes_a, 0.0) * _TIE
    return fsum(weight for weight in weights.values() if weight <= bar) / fsum(weights.values())


def _weigh_tables(trials_a: int, trials_b: int, successes: int) -> Iterator[tuple[int, float]]:
    """Yield each likely enough count of a's successes with its weight; the likeliest weighs 1."""
    likeliest = (trials_a + 1) * (successes + 1) // (trials_a + trials_b + 2)
    upwards = _walk(likeliest, trials_a, trials_b, successes)
    # Down for a's successes is up for b's.
    downwards = _walk(successes - likeliest, trials_b, trials_a, successes)
    mirrored = ((successes - count, weight) for count, weight in downwards)
    return chain([(likeliest, 1.0)], upwards, mirrored)


def _walk(count: int, trials: int, other_trials: int, successes: int) -> Iterator[tuple[int, float]]:
    """Yield the counts above one, with their weights relative to it, until these vanish."""
    weight = 1.0
    other_failures = other_trials - successes + count
    while count < min(trials, successes) and weight > _NEGLIGIBLE:
        # C(t, k + 1) C(o, s - k - 1) / (C(t, k) C(o, s - k)): integers to the last step, rounded once.
        rise = (trials - count) * (successes - count)
        count += 1
        other_failures += 1
        weight *= rise / (count * other_failures)
        yield count, weight


MIXTURE = 16
"""The inverse of the variance of effects mixed over, as logarithms of a ratio of rates: most effects are
below a half. An effect of a tenth to a third is found soonest; others later."""


def always_valid_p_value(successes_a: int, trials_a: int, successes_b: int, trials_b: int) -> float:
    """Return the always-valid p-value of two proportions: 1/E, and 1 at most.

    z² is D² N² (N - 1) / (n_a n_b S (N - S)) with D = S_a - S n_a/N: the square of the difference over its
    variance, which is hypergeometric. Each arm has at least one trial; the result is 1 if all or none
    succeeded.
    """
    people, successes = trials_a + trials_b, successes_a + successes_b
    if not 0 < successes < people:
        return 1.0
    information = _measure_information(trials_a, trials_b, successes)
    distance = successes_a * trials_b - successes_b * trials_a
    square = distance**2 * (people - 1) / (trials_a * trials_b * successes * (people - successes))
    return _weigh(square, information)


def _weigh(square: float, information: float) -> float:
    """Return 1/E for z² and V, and 1 at most."""
    total = information + MIXTURE
    return min(1.0, exp(log(total / MIXTURE) / 2 - square * information / (2 * total)))


def always_valid_reach(trials_a: int, trials_b: int, successes: int, error: float) -> float:
    """Return the reach, in standard errors, of an interval that ever misses with probability `error` at most.

    It is √((V + 16)/V × ln((V + 16)/(16 × error²))), the z at which E is 1/error; infinite if all or none
    succeeded. `successes` are those of both arms.
    """
    if not 0 < successes < trials_a + trials_b:
        return inf
    return _reach(_measure_information(trials_a, trials_b, successes), error)


def _reach(information: float, error: float) -> float:
    total = information + MIXTURE
    return sqrt(total / information * log(total / (MIXTURE * error**2)))


def _measure_information(trials_a: int, trials_b: int, successes: int) -> float:
    """Return V (see the module)."""
    people = trials_a + trials_b
    return trials_a * trials_b * successes / (people * (people - successes))


SIGNIFICANCE = 0.05
"""A p-value below this shows a difference."""

LEAST_PEOPLE = 30
"""Smaller arms are too small for a verdict."""

LEAST_EXPECTED = 5
"""Arms with fewer expected successes or failures are too small, too."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A share of people, or the mean of their answers, of one arm or wave.

    Attributes:
        name: of the arm or wave.
        counted: people, or answers.
        value: in its unit; None if nothing was counted.
        find_interval: returns the value's interval, given its reach in standard errors.
        successes: of `counted`; None for a mean.
        standard_error: of a mean, None where it is not known.
    """

    name: str
    counted: int
    value: Fraction | None
    find_interval: Callable[[float], Interval | None]
    successes: int | None = None
    standard_error: float | None = None


def share(name: str, successes: int, trials: int) -> Sample:
    """Return the sample of a proportion."""
    return Sample(
        name,
        trials,
        divide(successes, trials),
        lambda z: wilson_interval(successes, trials, z) if isfinite(z) else (0.0, 1.0),
        successes,
    )


def compare_arms(
    measure: Compared, samples: Sequence[Sample], *, at_every_look: bool = False
) -> tuple[PairComparison, ...]:
    """Compare each arm with those before it: the arm's value less the earlier one's.

    Of shares the methods are Fisher's exact test and Newcombe's interval; at every look, the always-valid
    p-value, and Newcombe's interval with its reach. Of means they are the z test of two independent means,
    and the interval of Zou and Donner; at every look the same mixture with V = n_a n_b/(n_a + n_b), the
    information on a difference in standard deviations (Johari et al. 2022). With m pairs p-values are
    multiplied by m, and each interval misses in 5/m of 100 experiments at most: O. J. Dunn, "Multiple
    comparisons among means", Journal of the American Statistical Association 56 (1961), 52-64, after
    Bonferroni. Holm's method would find somewhat more, but has no matching intervals. Arms of too few people
    count as comparisons, empty ones do not.

    The verdict is "too_few" if an arm has fewer than 30 people (our choice), or if some cell of the table of
    successes and failures has an expected count below 5 (W. G. Cochran, "Some methods for strengthening the
    common χ² tests", Biometrics 10 (1954), 417-451). The exact test does not need either, but readers do:
    arms so small show only large, exaggerated differences (A. Gelman and J. Carlin, "Beyond power
    calculations", Perspectives on Psychological Science 9 (2014), 641-651). Otherwise it is "differs" for a
    p-value below 0.05, and "no_difference_shown" for any other.

    The verdict is the test's. By a person or two the interval, which is made otherwise, may say the opposite
    (M. P. Fay, "Confidence intervals that match Fisher's exact or Blaker's exact tests", Biostatistics 11
    (2010), 373-374): then it is left out.
    """
    pairs = [(arm, before) for number, arm in enumerate(samples) for before in samples[:number]]
    comparisons = sum(bool(arm.counted and before.counted) for arm, before in pairs)
    return tuple(
        _compare(measure, arm, before, comparisons, at_every_look=at_every_look) for arm, before in pairs
    )


def find_reach(samples: Sequence[Sample], *, at_every_look: bool = False) -> float:
    """Return the reach, in standard errors, of the longest interval of `compare_arms`."""
    pairs = [(arm, before) for number, arm in enumerate(samples) for before in samples[:number]]
    counted = [pair for pair in pairs if pair[0].counted and pair[1].counted]
    error = SIGNIFICANCE / max(len(counted), 1)
    return max((_judge(*pair, error, at_every_look=at_every_look)[1] for pair in counted), default=Z_95)


def _compare(
    measure: Compared, arm: Sample, against: Sample, comparisons: int, *, at_every_look: bool
) -> PairComparison:
    if arm.value is None or against.value is None:
        return PairComparison(measure, arm.name, against.name, None, None, None, "too_few")
    plain, reach = _judge(arm, against, SIGNIFICANCE / comparisons, at_every_look=at_every_look)
    p_value = None if plain is None else min(1.0, comparisons * plain)
    interval = _subtract(arm, against, reach)
    # A test and an interval are two methods: where they say otherwise, the test counts.
    if p_value is not None and interval and (p_value < SIGNIFICANCE) != (interval[0] > 0 or interval[1] < 0):
        interval = None
    return PairComparison(
        measure=measure,
        arm=arm.name,
        against=against.name,
        difference=arm.value - against.value,
        interval=interval,
        p_value=p_value,
        verdict=judge(p_value, is_enough=are_enough((arm, against))),
    )


def judge(p_value: float | None, *, is_enough: bool) -> Verdict:
    """Return what a test may say, given whether its samples are large enough."""
    if p_value is None or not is_enough:
        return "too_few"
    return "differs" if p_value < SIGNIFICANCE else "no_difference_shown"


def compare_waves(measure: Compared, wave: Sample, last: Sample) -> Change | None:
    """Return what has changed since the last wave, as one pair of `compare_arms`; None without values."""
    (found,) = compare_arms(measure, (last, wave))
    if found.difference is None:
        return None
    return Change(measure, last.name, found.difference, found.interval, found.p_value, found.verdict)


def _judge(arm: Sample, against: Sample, error: float, *, at_every_look: bool) -> tuple[float | None, float]:
    """Return the p-value of one pair, None if it is not defined, and the reach of its interval."""
    fixed = NormalDist().inv_cdf(1 - error / 2)
    counted = arm.counted, against.counted
    if arm.successes is not None and against.successes is not None:
        table = arm.successes, counted[0], against.successes, counted[1]
        if not at_every_look:
            return fisher_p_value(*table), fixed
        return always_valid_p_value(*table), always_valid_reach(*counted, table[0] + table[2], error)
    information = counted[0] * counted[1] / sum(counted)
    reach = _reach(information, error) if at_every_look else fixed
    errors = arm.standard_error, against.standard_error
    if errors[0] is None or errors[1] is None or arm.value is None or against.value is None:
        return None, reach
    z = float(arm.value - against.value) / hypot(errors[0], errors[1])
    return (_weigh(z**2, information) if at_every_look else 2 * NormalDist().cdf(-abs(z))), reach


def _subtract(arm: Sample, against: Sample, reach: float) -> Interval | None:
    intervals = arm.find_interval(reach), against.find_interval(reach)
    if intervals[0] is None or intervals[1] is None or arm.value is None or against.value is None:
        return None
    return subtract_interval(float(arm.value), intervals[0], float(against.value), intervals[1])


def are_enough(samples: Sequence[Sample]) -> bool:
    """Return whether two samples or more are large enough."""
    counts = [one.counted for one in samples]
    successes = [one.successes for one in samples if one.successes is not None]
    fewest, people = min(counts), sum(counts)
    if len(successes) < len(samples):
        return fewest >= LEAST_PEOPLE
    # The rarer outcome in the smallest sample is the smallest of the expected counts.
    rarer = min(sum(successes), people - sum(successes))
    return fewest >= LEAST_PEOPLE and Fraction(fewest * rarer, people) >= LEAST_EXPECTED


DAYS_TO_ANSWER = 7
"""Days between the day on which enough people had been texted and the verdict: our choice."""


def fix_deadline(
    experiment: ExperimentOutline,
    sent: Mapping[str, Mapping[date, int]],
    as_of: datetime | None,
    zone: ZoneInfo,
) -> Deadline:
    """Return the time of the verdict, given the people sent to by arm and day.

    With `at` a one-look test is made of the people texted, and of the first answers, before that day, once
    every launch was reconciled on it or later. With `per_arm` that day is the seventh after the one on which
    the last arm had so many people sent to. With neither, a test that holds at every look uses all data.
    `as_of` is the oldest reading of the launches, None if some was not reconciled.
    """
    if not experiment.is_fixed:
        return Deadline()
    due = experiment.at if experiment.per_arm is None else _find_due_day(experiment.per_arm, sent)
    begins = None if due is None else datetime.combine(due, time(), zone)
    has_come = begins is not None and as_of is not None and as_of >= begins
    cutoff = (begins - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) if begins else None
    return Deadline(due, has_come, cutoff if has_come else None)


def _find_due_day(per_arm: int, sent: Mapping[str, Mapping[date, int]]) -> date | None:
    """Return the day of the verdict; None until each arm has enough people sent to."""
    last = date.min
    for days in sent.values():
        reached = accumulate(days[day] for day in sorted(days))
        whole = (day for day, count in zip(sorted(days), reached, strict=True) if count >= per_arm)
        found = next(whole, None)
        if found is None:
            return None
        last = max(last, found)
    return last + timedelta(days=DAYS_TO_ANSWER)
