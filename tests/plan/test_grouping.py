"""How many share a launch, held against a counter that keeps everything."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from runner.plan.plan_counts import LaunchSizes, group_of
from runner.text.payload import Payload

GROUPS = st.lists(st.integers(1, 6) | st.integers(1, 2**60))


def add_all(groups: list[int]) -> LaunchSizes:
    sizes = LaunchSizes()
    for group in groups:
        sizes.add(group)
    return sizes


@given(groups=GROUPS, per_send=st.integers(1, 4))
def test_launches_are_the_groups_cut_to_size(groups: list[int], per_send: int) -> None:
    """Each group takes as many launches as it fills, and one for the rest."""
    expected = sum(-(-size // per_send) for size in Counter(groups).values())
    assert add_all(groups).count_launches(per_send) == expected


@given(groups=GROUPS, taken=GROUPS)
def test_nobody_is_taken_who_was_not_counted(groups: list[int], taken: list[int]) -> None:
    """In any order a group gives as many as it was given, and tells how many are left."""
    left = Counter(groups)
    remaining = add_all(groups).start_taking()
    for group in taken + groups:
        found = remaining.take(group)
        if not left[group]:
            assert found is None
        else:
            left[group] -= 1
            assert found == left[group]
    assert remaining.is_empty()
    assert not left.total()


@given(groups=GROUPS)
def test_what_is_not_taken_is_missed(groups: list[int]) -> None:
    """As long as one of them is left, it is not empty."""
    remaining = add_all(groups).start_taking()
    for group in groups:
        assert not remaining.is_empty()
        remaining.take(group)
    assert remaining.is_empty()


def test_takings_do_not_touch_each_other() -> None:
    """The second pass can be made again: what one takes, the other still has."""
    sizes = add_all([7, 7])
    first, second = sizes.start_taking(), sizes.start_taking()
    assert [first.take(7), first.take(7), first.take(7)] == [1, 0, None]
    assert [second.take(7), second.take(7)] == [1, 0]
    assert sizes.count_launches(1) == 2


def test_text_arm_and_end_of_the_hours_make_a_group() -> None:
    """Who differs in one of them is in another group; who differs in nothing is in the same."""
    ends = [None, datetime(2026, 11, 21, 1, tzinfo=UTC), datetime(2026, 11, 21, 4, tzinfo=UTC)]
    payloads = [Payload({}, digest * 32, 1, None) for digest in ("0", "f")]
    found = [
        group_of(payload, arm, until)
        for payload in payloads
        for arm in (None, "short", "warm")
        for until in ends
        for _ in range(2)
    ]
    assert set(Counter(found).values()) == {2}
    assert len(set(found)) == 18
    assert all(0 < group < 2**64 for group in found)
