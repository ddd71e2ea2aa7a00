"""The comparison of audiences, whatever the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as some

from runner.campaign.model import AudienceLimit
from runner.plan.limits.audience_guard import LastAudience, PlannedAudience

if TYPE_CHECKING:
    from fractions import Fraction

COUNTS = some.integers(0, 10**7)
CHANGES = some.fractions(0, 10, max_denominator=100)


def is_refused(now: int, before: int, change: Fraction, *, filled: int = 0) -> bool:
    """Return whether an audience of so many people is refused, beside one of so many `before`."""
    last = LastAudience(before, 3, 4, {"name": filled}, "2026-11-20T10:00:00Z")
    found = PlannedAudience(now, 3, 4, {"name": filled}, last)
    return any(found.find_refusals(AudienceLimit(change=change)))


@given(COUNTS, CHANGES, some.data())
def test_an_unchanged_audience_is_never_refused(people: int, change: Fraction, data: some.DataObject) -> None:
    """Whatever `change` is, the same people, lists and columns as the last time go through."""
    assert not is_refused(people, people, change, filled=data.draw(some.integers(0, people)))


@given(some.integers(1, 10**7), CHANGES, some.data())
def test_up_and_down_are_alike(before: int, change: Fraction, data: some.DataObject) -> None:
    """As many people more are refused exactly if as many less are, while anybody is left."""
    by = data.draw(some.integers(0, before - 1))
    assert is_refused(before + by, before, change) == is_refused(before - by, before, change)
