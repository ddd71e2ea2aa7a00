"""The survey field's scores, as pure functions of counted answers, without rounding."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate
from math import cbrt, erfc, exp, gamma, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from runner.report.question_model import FEW_ANSWERS, NPS_PSEUDO_ANSWERS, NetPromoterScore, SatisfactionScore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.report.question_model import QuestionReport


NPS_SCALE = range(11)
_LOWEST_PROMOTER = 9
_LOWEST_PASSIVE = 7
_TOP_BOXES = 2
Z_95 = NormalDist().inv_cdf(0.975)
"""The normal distribution's quantile of a 95 % interval: 1.95996…"""


def divide(part: int | None, whole: int | None) -> Fraction | None:
    """Return a part of a whole, exactly; None if the whole is 0, or one of them is not known."""
    return Fraction(part, whole) if part is not None and whole else None


def wilson_interval(successes: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion, by default of 95 %.

    With p = successes / trials and n = trials, the ends are (p + z²/2n ± z √(p(1 - p)/n + z²/4n²)) / (1 +
    z²/n); `z` is the reach in standard errors.
    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of
    the American Statistical Association 22 (1927), 209-212. Unlike the textbook p ± z √(p(1 - p)/n) it stays
    within 0 and 1, and keeps its level for small samples and rates near the ends.

    Raises:
        ValueError: if successes are not from 0 to trials, or trials are below 1.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} of {trials} is no proportion")
    rate, square = successes / trials, z**2
    middle = rate + square / (2 * trials)
    reach = z * sqrt(rate * (1 - rate) / trials + square / (4 * trials**2))
    scale = 1 + square / trials
    # At the ends the formula gives exactly 0 and 1; floating point may miss them by a hair.
    low = 0.0 if successes == 0 else (middle - reach) / scale
    high = 1.0 if successes == trials else (middle + reach) / scale
    return low, high


def rate_response(
    texted: int | None, answered: int | None, z: float | None = Z_95
) -> tuple[Fraction | None, tuple[float, float] | None]:
    """Return a response rate and its interval of a reach `z`, or of none.

    There is no rate where nobody was texted, where it is not known who was or who answered, and where more
    answered than were texted.
    """
    if not texted or answered is None or answered > texted:
        return None, None
    return Fraction(answered, texted), wilson_interval(answered, texted, z) if z else None


def net_promoter_score(numbers: Mapping[Fraction, int], z: float = Z_95) -> NetPromoterScore:
    """Return the Net Promoter Score of answers to "how likely are you to recommend us, from 0 to 10".

    `numbers` are counts by answer; answers that are no whole number from 0 to 10 are left out.
    Source: F. F. Reichheld, "The one number you need to grow", Harvard Business Review, December 2003; Bain &
    Company: promoters answer 9 or 10, passives 7 or 8, detractors 0 to 6; the score is the percentage of
    promoters less that of detractors.
    """
    counts = {int(number): count for number, count in numbers.items() if number in NPS_SCALE}
    counted = sum(counts.values())
    promoters = sum(count for number, count in counts.items() if number >= _LOWEST_PROMOTER)
    detractors = sum(count for number, count in counts.items() if number < _LOWEST_PASSIVE)
    nps = NetPromoterScore(
        score=divide(100 * (promoters - detractors), counted),
        promoters=promoters,
        passives=counted - promoters - detractors,
        detractors=detractors,
        counted=counted,
    )
    return nps.replace(interval=net_promoter_interval(nps, z))


def net_promoter_interval(nps: NetPromoterScore, z: float = Z_95) -> tuple[float, float] | None:
    """Return the interval of a Net Promoter Score, by default of 95 %: the adjusted Wald one of a trinomial.

    With n = counted + 3, p = (promoters + ¾)/n, d = (detractors + ¾)/n and z = 1.95996…, the ends are 100 ×
    (p - d ± z √((p + d - (p - d)²)/n)), cut off at the ends of the scale. Three answers are added, ¼, ½ and ¼
    (after A. Agresti and B. A. Coull, for two groups): without them the interval is too short for few
    answers, and of no length if all answer alike.
    Source: B. Rocks, "Interval estimation for the Net Promoter Score", The American Statistician 70 (2016),
    365-372, who found variants of the adjusted Wald interval, and an iterative score test, to do best; the
    three answers are the default of his R package NPS.
    None below 10 answers, our choice: there the interval may span half the scale and more, and for one answer
    need not hold the score itself.
    """
    error = nps.standard_error
    if error is None:
        return None
    middle = float(Fraction(100 * (nps.promoters - nps.detractors), nps.counted + NPS_PSEUDO_ANSWERS))
    return max(-100.0, middle - z * error), min(100.0, middle + z * error)


def satisfaction_score(
    numbers: Mapping[Fraction, int],
    scale: Sequence[Fraction | None],
    responses: Sequence[str] = (),
    z: float = Z_95,
) -> SatisfactionScore | None:
    """Return the top-two-box share: answers that are one of the two highest points of the scale.

    `numbers` are counts by point, `scale` has the point of each of the `responses`; answers off the scale are
    left out. None for a scale of fewer than three points.
    """
    points = sorted({point for point in scale if point is not None})
    if len(points) <= _TOP_BOXES:
        return None
    counted = sum(numbers.get(point, 0) for point in points)
    satisfied = sum(numbers.get(point, 0) for point in points[-_TOP_BOXES:])
    return SatisfactionScore(
        score=divide(satisfied, counted),
        satisfied=satisfied,
        counted=counted,
        interval=wilson_interval(satisfied, counted, z) if counted else None,
        top_two=tuple(
            text for text, point in zip(responses, scale, strict=False) if point in points[-_TOP_BOXES:]
        ),
    )


def add_mean(question: QuestionReport, numbers: Mapping[Fraction, int], z: float = Z_95) -> QuestionReport:
    """Return a question with the mean and the median of numbers, given how often each was answered."""
    counted = sum(numbers.values())
    if not counted:
        return question.replace(numeric_answers=0)
    mean = sum((number * count for number, count in numbers.items()), Fraction()) / counted
    ascending = sorted(numbers)
    ranks = list(accumulate(numbers[number] for number in ascending))
    middles = (ascending[bisect_right(ranks, rank)] for rank in ((counted - 1) // 2, counted // 2))
    return question.replace(
        mean=mean,
        median=sum(middles, Fraction()) / 2,
        mean_interval=mean_interval(numbers, z),
        mean_standard_error=_mean_error(numbers, mean) if counted > 1 else None,
        numeric_answers=counted,
    )


def _mean_error(numbers: Mapping[Fraction, int], mean: Fraction) -> float:
    """Return the standard error of a mean, s/√n; there are two numbers or more."""
    counted = sum(numbers.values())
    squares = sum((count * (number - mean) ** 2 for number, count in numbers.items()), Fraction())
    return sqrt(squares / ((counted - 1) * counted))


def mean_interval(numbers: Mapping[Fraction, int], z: float = Z_95) -> tuple[float, float] | None:
    """Return the interval of a mean, by default of 95 %: Student's t after Hall's transformation.

    The transformation removes skewness. With the mean m, the sample variance s² = Σ(x - m)²/(n - 1), the
    skewness g = (Σ(x - m)³/n) / (Σ(x - m)²/n)^1.5, c = g/√n, and t the 97.5 % quantile of Student's
    distribution with n - 1 degrees of freedom, the ends are m - h(t) s/√n and m - h(-t) s/√n, where h(y) =
    (3/c) × (∛(1 + c(y - c/6)) - 1), and h(y) = y for g = 0.
    Source: P. Hall, "On the removal of skewness by transformation", Journal of the Royal Statistical Society
    B 54 (1992), 221-228, the cubic transformation with a = 1/3 and b = 1/6; Student's quantile instead of the
    normal one is our choice. Scales are answered near one end, so the mean's t statistic is skewed, and the
    symmetric interval misses the mean far more often than it claims (docs/statistics.md).
    None for fewer than 10 answers, our choice, and if all are equal: the formula would then call the mean
    certain.
    """
    counted = sum(numbers.values())
    if counted < FEW_ANSWERS or sum(map(bool, numbers.values())) == 1:
        return None
    mean = sum((number * count for number, count in numbers.items()), Fraction()) / counted
    cubes = float(sum((count * (number - mean) ** 3 for number, count in numbers.items()), Fraction()))
    error = _mean_error(numbers, mean)
    skew = cubes / counted / (error**2 * (counted - 1)) ** 1.5 / sqrt(counted)
    t = student_quantile(counted - 1, z)
    low, high = (float(mean) - error * _remove_skewness(end, skew) for end in (t, -t))
    return low, high


def student_quantile(freedom: int, z: float = Z_95) -> float:
    """Return the quantile of Student's t distribution that is the normal one's `z`, by default of 97.5 %.

    From 9 degrees on the error is below 0.00002. With v degrees of freedom it is z + (z³ + z)/4v + (5z⁵ +
    16z³ + 3z)/96v² + (3z⁷ + 19z⁵ + 17z³ - 15z)/384v³ + (79z⁹ + 776z⁷ + 1482z⁵ - 1920z³ - 945z)/92160v⁴.
    Source: M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions" (1964), formula 26.7.5.
    """
    v = freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )


def _remove_skewness(end: float, skew: float) -> float:
    """Return Hall's inverted transformation of an end of an interval, with the skewness over √n."""
    if not skew:
        return end
    # In this form little skewness, which cancels in the formula's difference, loses no digits.
    step = skew * (end - skew / 6)
    root = cbrt(1 + step)
    return 3 * (end - skew / 6) / (root * root + root + 1)


def chi_squared_p_value(statistic: float, freedom: int) -> float:
    """Return the chance that chi-squared with so many degrees of freedom is at least `statistic`.

    With x for half the statistic it is e⁻ˣ Σ xⁱ/i! over i below v/2 for even v, and erfc(√x) + e⁻ˣ Σ xⁱ/Γ(i +
    1) over i = ½, 1½, … below v/2 for odd v.
    Source: M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions" (1964), formulas 26.4.4 and
    26.4.5.
    """
    half = statistic / 2
    term, place, total = (1.0, 0.0, 0.0) if freedom % 2 == 0 else (sqrt(half) / gamma(1.5), 0.5, 0.0)
    while place < freedom / 2 - 0.25:
        total += term
        place += 1
        term *= half / place
    return min(1.0, exp(-half) * total + (erfc(sqrt(half)) if freedom % 2 else 0.0))
