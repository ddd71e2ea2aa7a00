"""One pass over a list from both ends: it always ends, and has everything while nothing moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from runner.service.paging import ListWalk, Page

if TYPE_CHECKING:
    from collections.abc import Iterable


@given(length=st.integers(0, 450), page_size=st.integers(1, 120), turns=st.sets(st.integers(0, 60)))
def test_a_quiet_list_is_read_once(length: int, page_size: int, turns: set[int]) -> None:
    """Whenever it turns, a pass shows every record, and asks for no record twice."""
    offsets = []

    def read(offset: int) -> Page[int]:
        offsets.append(offset)
        return Page(tuple(range(length)[offset : offset + min(page_size, 100)]), (), length)

    walk = ListWalk(read)
    seen: set[int] = set()
    while page := walk.read_page():
        seen.update(page.records)
        if len(offsets) in turns:
            walk.turn()
    assert seen == set(range(length))
    assert len(offsets) == len(set(offsets)) == max(1, -(-length // min(page_size, 100)))
    assert walk.is_over


@given(
    pages=st.lists(st.tuples(st.integers(0, 150), st.integers(-5, 2000)), max_size=40),
    turns=st.sets(st.integers(0, 40)),
)
def test_a_pass_ends_whatever_the_list_is_like(pages: Iterable[tuple[int, int]], turns: set[int]) -> None:
    """Pages and counts of any length, empty ones among them, keep nobody reading for ever."""
    answers = iter(pages)
    requests = 0

    def read(offset: int) -> Page[int]:
        nonlocal requests
        requests += 1
        size, total = next(answers, (1, 2000))
        return Page(tuple(range(offset, offset + size)), (), total)

    walk = ListWalk(read)
    while walk.read_page():
        assert walk.pages_left >= 0
        if requests in turns:
            walk.turn()
    assert requests <= 2200


def test_smaller_pages_from_the_end_leave_no_gap() -> None:
    """Where the service gives less than before, the records between two pages are asked for again."""
    sizes = iter([100, 100, 30, 100, 100, 100, 100, 100, 100, 100, 100, 100])

    def read(offset: int) -> Page[int]:
        return Page(tuple(range(400)[offset : offset + next(sizes)]), (), 400)

    walk = ListWalk(read)
    seen: set[int] = set()
    while page := walk.read_page():
        seen.update(page.records)
        if len(seen) == 100:
            walk.turn()
    assert seen == set(range(400))
