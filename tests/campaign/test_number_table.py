"""The set of numbers, held against Python's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.campaign.number_table import NumberTable

NUMBERS = st.integers(1, 2**64 - 1) | st.integers(14155550000, 14155552000)


@given(st.lists(NUMBERS, max_size=300))
def test_knows_what_it_has_seen(numbers: list[int]) -> None:
    """A number is new exactly when it was not added before."""
    table, seen = NumberTable(), set[int]()
    for number in numbers:
        assert table.add(number) is (number not in seen)
        seen.add(number)
    assert len(table) == len(seen)


def test_grows_without_forgetting() -> None:
    """Numbers in one dense block are all kept, and each is new once."""
    table = NumberTable()
    block = range(14155500000, 14155520000)
    assert all(map(table.add, block))
    assert not any(map(table.add, block))
    assert len(table) == len(block)
