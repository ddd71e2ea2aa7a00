"""Two proportions compared at every look: a test, and an interval, that any number of looks leaves valid.

The difference is looked at while answers come in. The k-th answer, of arm a or b, is a draw without
replacement from those who were asked and have not answered yet. If the arms do not differ, a's answers S_a
less their share of all S answers, over the part 1 - S/N of the people who are left, is a martingale; with n_a
and n_b people asked and N = n_a + n_b its variance has then grown to V = (n_a n_b / N²) × S N/(N - S). So the
two-sample z statistic, z, is that martingale over √V, and looks are told apart by V.

Mixing over the strength of an effect by a normal distribution with variance 1/16 gives the e-value
E = √(16/(V + 16)) × exp(z² V / 2(V + 16)): its mean is at most 1 if nothing differs, at every look and at all
of them together (J. Ville, 1939), so that it ever reaches 20 in 5 of 100 experiments at most.

Sources: H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of
Mathematical Statistics 41 (1970), 1397-1409; R. Johari, P. Koomen, L. Pekelis, D. Walsh, "Always valid
inference: continuous monitoring of A/B tests", Operations Research 70 (2022), 1806-1821 (the mSPRT);
S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence
sequences", Annals of Statistics 49 (2021), 1055-1080 (the two-sided normal mixture). The normal
approximation, and people who are asked while answers come in, are simulated: see docs/statistics.md.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt

MIXTURE = 16
"""The inverse of the variance of effects that are mixed over, as logarithms of a ratio of rates: most effects
are below a half. An effect of a tenth to a third is found soonest; others later."""


def always_valid_p_value(successes_a: int, trials_a: int, successes_b: int, trials_b: int) -> float:
    """Return the always-valid p-value of two proportions: 1/E, and 1 at most.

    z² is D² N² (N - 1) / (n_a n_b S (N - S)) with D = S_a - S n_a/N: the square of the difference over its
    variance, which is hypergeometric.

    Args:
        successes_a: from 0 to `trials_a`.
        trials_a: at least 1.
        successes_b: from 0 to `trials_b`.
        trials_b: at least 1.

    Returns:
        From 0 to 1; 1 when all succeeded, or none did.
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
    """Return how many standard errors an interval reaches that misses seldom over all looks together.

    It is √((V + 16)/V × ln((V + 16)/(16 × error²))): the z at which E is 1/error.

    Args:
        trials_a: at least 1.
        trials_b: at least 1.
        successes: of both.
        error: how often it may ever miss, above 0.

    Returns:
        The multiplier; infinite when all succeeded, or none did.
    """
    if not 0 < successes < trials_a + trials_b:
        return inf
    information = _measure_information(trials_a, trials_b, successes)
    total = information + MIXTURE
    return sqrt(total / information * log(total / (MIXTURE * error**2)))


def _measure_information(trials_a: int, trials_b: int, successes: int) -> float:
    """Return V."""
    people = trials_a + trials_b
    return trials_a * trials_b * successes / (people * (people - successes))
