"""The statistics of guards: whether a share is above its limit by more than chance.

The test is the exact binomial one, one-sided: a guard is broken if the lower end of the 95 % interval of
Clopper and Pearson lies above the limit. So a true share at the limit breaks it in at most 5 of 100
rollouts, whatever the number of people.
Source: C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial", Biometrika 26 (1934), 404-413.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import count
from math import exp, fsum, lgamma, log, log1p
from typing import TYPE_CHECKING

from runner.source.quantity import write_share
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Rollout
    from runner.source.diagnostic import Diagnostic

ERROR = 0.05
"""The chance to break a guard at whose limit the true share is."""
POWER = 0.95
"""The chance that is asked of a guard to notice twice its limit."""
_NEGLIGIBLE = 1e-18


def find_tail(events: int, people: int, rate: float) -> float:
    """Return the chance of at least so many events among people to each of whom one happens at a rate."""
    if events > people:
        return 0.0
    if events <= 0 or rate >= 1:
        return 1.0
    if events > people * rate:
        return fsum(_walk(events, people, rate))
    # Mirrored: fewer events are more people without one.
    return 1 - fsum(_walk(people - events + 1, people, 1 - rate))


def _walk(events: int, people: int, rate: float) -> Iterator[float]:
    """Yield the chances of so many events and of each number above, until they vanish; they only fall."""
    ways = lgamma(people + 1) - lgamma(events + 1) - lgamma(people - events + 1)
    chance = exp(ways + events * log(rate) + (people - events) * log1p(-rate))
    while events <= people and chance > _NEGLIGIBLE:
        yield chance
        chance *= (people - events) / (events + 1) * rate / (1 - rate)
        events += 1


def is_above(events: int, people: int, limit: Fraction) -> bool:
    """Return whether a share of events is above its limit by more than chance."""
    return events > people * limit and find_tail(events, people, float(limit)) <= ERROR


@cache
def find_enough(limit: Fraction) -> int:
    """Return the least number of people from which on twice the limit is noticed in 95 of 100 rollouts."""
    # With so many events as the least that break it, the chance is smallest for the fewest people.
    return next(
        fewest
        for events in count(1)
        if find_tail(events, fewest := max(1, _find_most(events - 1, limit) + 1), 2 * float(limit)) >= POWER
    )


def find_least(limit: Fraction) -> int:
    """Return the least number of people among whom a guard can break: an event happens to each of them."""
    return next(people for people in count(1) if is_above(people, people, limit))


def _find_most(events: int, limit: Fraction) -> int:
    """Return the most people among whom so many events still break a guard; fewer than `events` if none."""
    low, high = events - 1, events
    while is_above(events, high, limit):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_above(events, middle, limit) else (low, middle)
    return low


def find_weak_guards(rollout: Rollout, everybody: int) -> Iterator[Diagnostic]:
    """Warn of guards that will often miss twice their limit, since the last step that they watch is small.

    `everybody` is the number of people in the audience, or in its sample.
    """
    share = rollout.steps[-2].share
    people = round(share * everybody)
    for guard in rollout.guards:
        enough, least = max(find_enough(guard.limit), find_least(guard.limit)), find_least(guard.limit)
        if people >= enough:
            continue
        twice = min(2 * guard.limit, Fraction(1))
        step = f"the step of {write_share(share)} has {count_words(people, 'person', 'people')} or so"
        words = f"`{guard.name}` will often miss {write_share(twice)}, twice its limit: {step}"
        if people < least:
            words = f"`{guard.name}` can never break: {step}"
        yield guard.position.problem(
            "rollout-guard-weak",
            words,
            f"to notice twice the limit in 95 of 100 rollouts takes {enough:,} people, to break at all "
            f"{least:,}: make the step larger, or read what people write before you go on",
            "warning",
        )
