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
daily reports call some 15 different. So `analyse` uses only people and answers before one fixed day: every
later report makes the same test of the same data.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from itertools import chain
from math import exp, fsum, hypot, inf, isfinite, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from runner.report.model import ArmDifference, CountedArm, VariantAnalysis
from runner.report.scores import Z_95, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.ledger.report_model import SentRow
    from runner.report.comparison_model import Verdict
    from runner.report.facts import AnalysisPlan
    from runner.report.question_model import Interval


# As in R's fisher.test: rounding must not tell apart tables that are equally likely.
_TIE = 1 + 1e-7
_NEGLIGIBLE = 1e-300


def difference_interval(
    successes_a: int, trials_a: int, successes_b: int, trials_b: int, z: float = Z_95
) -> tuple[float, float]:
    """Return the interval, by default of 95 %, of a difference of two independent proportions, a less b.

    It is `subtract_interval` of the two Wilson intervals: R. G. Newcombe, "Interval estimation for the
    difference between independent proportions: comparison of eleven methods", Statistics in Medicine 17
    (1998), 873-890, method 10. Unlike the textbook's interval it stays within -1 and 1, and keeps its level
    for small samples and rates near the ends. `z` is its reach in standard errors.

    Raises:
        ValueError: if a count of successes is not from 0 to its trials, or trials are below 1.
    """
    interval_a = wilson_interval(successes_a, trials_a, z)
    interval_b = wilson_interval(successes_b, trials_b, z)
    rates = successes_a / trials_a, successes_b / trials_b
    low, high = subtract_interval(rates[0], interval_a, rates[1], interval_b)
    return max(-1.0, low), min(1.0, high)


def subtract_interval(
    value_a: float, interval_a: Interval, value_b: float, interval_b: Interval
) -> tuple[float, float]:
    """Return the interval of a difference of two independent estimates, a less b, from the interval of each.

    With the estimates p, q and their intervals (l, u) and (m, v), of one level, the ends are p - q - √((p -
    l)² + (v - q)²) and p - q + √((u - p)² + (q - m)²).
    Source: G. Y. Zou, A. Donner, "Construction of confidence limits about effect measures: a general
    approach", Statistics in Medicine 27 (2008), 1693-1702 (MOVER), which generalises Newcombe's method 10.
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
    total = information + MIXTURE
    return min(1.0, exp(log(total / MIXTURE) / 2 - square * information / (2 * total)))


def always_valid_reach(trials_a: int, trials_b: int, successes: int, error: float) -> float:
    """Return the reach, in standard errors, of an interval that ever misses with probability `error` at most.

    It is √((V + 16)/V × ln((V + 16)/(16 × error²))), the z at which E is 1/error; infinite if all or none
    succeeded. `successes` are those of both arms.
    """
    if not 0 < successes < trials_a + trials_b:
        return inf
    information = _measure_information(trials_a, trials_b, successes)
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


def compare_arms(
    counts: Sequence[tuple[str, int, int]], *, at_every_look: bool = False
) -> tuple[ArmDifference, ...]:
    """Compare each arm on a proportion with the first: the arm's proportion less the first one's.

    The methods are Fisher's exact test and Newcombe's interval; at every look, the always-valid p-value, and
    Newcombe's interval with its reach. With m comparisons p-values are multiplied by m, and each interval
    misses in 5/m of 100 experiments at most: O. J. Dunn, "Multiple comparisons among means", Journal of the
    American Statistical Association 56 (1961), 52-64, after Bonferroni. Holm's method would find somewhat
    more, but has no matching intervals. Arms of too few people count as comparisons, empty ones do not.

    The verdict is "too_few" if an arm has fewer than 30 people (our choice), or if some cell of the table of
    successes and failures has an expected count below 5 (W. G. Cochran, "Some methods for strengthening the
    common χ² tests", Biometrics 10 (1954), 417-451). The exact test does not need either, but readers do:
    arms so small show only large, exaggerated differences (A. Gelman and J. Carlin, "Beyond power
    calculations", Perspectives on Psychological Science 9 (2014), 641-651). Otherwise it is "differs" for a
    p-value below 0.05, and "no_difference_shown" for any other.

    Each count is name, successes and trials of an arm. The result has one comparison for each arm after the
    first.

    Raises:
        ValueError: if a count of successes is not from 0 to its trials.
    """
    if not counts:
        return ()
    baseline, *others = counts
    comparisons = sum(bool(trials and baseline[2]) for _, _, trials in others)
    return tuple(_compare(arm, baseline, comparisons, at_every_look=at_every_look) for arm in others)


def postpone_comparison(counts: Sequence[tuple[str, int, int]]) -> tuple[ArmDifference, ...]:
    """Return each arm's difference from the first, without intervals and verdicts, before these are due."""
    return tuple(
        one.replace(interval=None, p_value=None, verdict="too_early") for one in compare_arms(counts)
    )


def _compare(
    arm: tuple[str, int, int], baseline: tuple[str, int, int], comparisons: int, *, at_every_look: bool
) -> ArmDifference:
    (name_a, successes_a, trials_a), (name_b, successes_b, trials_b) = arm, baseline
    table = successes_a, trials_a, successes_b, trials_b
    if not trials_a or not trials_b:
        return ArmDifference(name_a, name_b, None, None, None, "too_few")
    successes, error = successes_a + successes_b, SIGNIFICANCE / comparisons
    if at_every_look:
        plain = always_valid_p_value(*table)
        reach = always_valid_reach(trials_a, trials_b, successes, error)
    else:
        plain = fisher_p_value(*table)
        reach = NormalDist().inv_cdf(1 - error / 2)
    p_value = min(1.0, comparisons * plain)
    verdict: Verdict = "differs" if p_value < SIGNIFICANCE else "no_difference_shown"
    return ArmDifference(
        arm=name_a,
        against=name_b,
        difference=Fraction(successes_a, trials_a) - Fraction(successes_b, trials_b),
        interval=difference_interval(*table, reach) if isfinite(reach) else (-1.0, 1.0),
        p_value=p_value,
        verdict=verdict if _are_enough(trials_a, trials_b, successes) else "too_few",
    )


def _are_enough(trials_a: int, trials_b: int, successes: int) -> bool:
    """Return whether two arms are large enough, given the successes of both."""
    people = trials_a + trials_b
    fewest = min(trials_a, trials_b)
    # The rarer outcome in the smaller arm is the smallest of the four expected counts.
    rarer = min(successes, people - successes)
    return fewest >= LEAST_PEOPLE and Fraction(fewest * rarer, people) >= LEAST_EXPECTED


DAYS_TO_ANSWER = 7
"""Days between the day on which enough people had been asked and the verdict: our choice."""


def analyse(
    plan: AnalysisPlan,
    arms: Sequence[str],
    sent: Iterable[SentRow],
    answered: Mapping[tuple[str, date], int],
    as_of: datetime | None,
) -> tuple[VariantAnalysis, tuple[ArmDifference, ...]]:
    """Return the plan and the results of the comparison of arms' response rates.

    With `at` a one-look test is made of the people asked, and of the first answers, before that day (UTC),
    once every launch was reconciled on it or later. With `per_arm` that day is the seventh after the one on
    which the last arm had so many people asked. With neither, a test that holds at every look uses all data.
    `as_of` is the oldest reading of the launches, None if some was not reconciled; `answered` counts
    participants by arm and day of their first answer.
    """
    rows = [(row.arm, date.fromisoformat(row.date), row.recipients) for row in sent]
    firsts = [(arm, day, count) for (arm, day), count in answered.items()]
    due = plan.at if plan.per_arm is None else _find_due_day(plan.per_arm, arms, rows)
    is_sequential = plan.at is None and plan.per_arm is None
    has_come = due is not None and as_of is not None and as_of >= datetime.combine(due, time(), UTC)
    is_due = is_sequential or has_come
    counted = _count_before(due if due is not None and has_come else date.max, arms, rows, firsts)
    analysis = VariantAnalysis("sequential" if is_sequential else "fixed", due, plan.per_arm, is_due, counted)
    counts = [(arm.name, arm.answered, arm.sent) for arm in counted]
    if not is_due:
        return analysis, postpone_comparison(counts)
    return analysis, compare_arms(counts, at_every_look=is_sequential)


def _find_due_day(per_arm: int, arms: Sequence[str], rows: Iterable[tuple[str, date, int]]) -> date | None:
    """Return the day of the verdict; None until each arm has enough people asked."""
    asked: Counter[str] = Counter()
    for arm, day, recipients in sorted(rows, key=lambda row: row[1]):
        asked[arm] += recipients
        if all(asked[one] >= per_arm for one in arms):
            return day + timedelta(days=DAYS_TO_ANSWER)
    return None


def _count_before(
    day: date,
    arms: Sequence[str],
    sent: Iterable[tuple[str, date, int]],
    answered: Iterable[tuple[str, date, int]],
) -> tuple[CountedArm, ...]:
    """Return the people of each arm who were asked, and who answered, before a day."""
    asked, responded = Counter[str](), Counter[str]()
    for counter, rows in ((asked, sent), (responded, answered)):
        for arm, one, count in rows:
            if one < day:
                counter[arm] += count
    # More answers than sends are a discrepancy, for which a test makes no sense.
    return tuple(CountedArm(arm, asked[arm], min(responded[arm], asked[arm])) for arm in arms)
