"""One pass over a list from both ends: it always ends, and has everything while nothing moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import ServiceError
from runner.service.model import Page
from runner.service.paging import ListWalk

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


@given(length=st.integers(0, 450), page_size=st.integers(1, 120), turns=st.sets(st.integers(0, 60)))
def test_a_list_without_a_count_is_read_to_its_empty_page(
    length: int, page_size: int, turns: set[int]
) -> None:
    """Where nobody knows how long a list is, a pass shows every record, and turning doesn't lead it astray."""
    offsets = []

    def read(offset: int) -> Page[int]:
        offsets.append(offset)
        return Page(tuple(range(length)[offset : offset + min(page_size, 100)]), (), None)

    walk = ListWalk(read)
    seen: list[int] = []
    while page := walk.read_page():
        seen += page.records
        if len(offsets) in turns:
            walk.turn()
    assert seen == list(range(length))
    assert len(offsets) == -(-length // min(page_size, 100)) + 1
    assert walk.is_over


@given(
    pages=st.lists(st.tuples(st.integers(0, 150), st.none() | st.integers(-5, 2000)), max_size=40),
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


@pytest.mark.parametrize("total", [1_000_000, None])
def test_the_same_page_again_and_again_is_the_end(total: int | None) -> None:
    """A list that doesn't move when it is asked for the next page is not asked as often as it claims."""
    offsets = []

    def read(offset: int) -> Page[int]:
        offsets.append(offset)
        return Page(tuple(range(100)), (), total)

    walk = ListWalk(read)
    while walk.read_page():
        pass
    assert offsets == [0, 100, 200, 300]


def test_a_list_that_grows_is_left_to_the_next_pass() -> None:
    """A pass reads about twice what the list had when it began, however fast it grows."""
    requests = 0

    def read(offset: int) -> Page[int]:
        nonlocal requests
        requests += 1
        return Page(tuple(range(offset, offset + 100)), (), offset + 1000)

    walk = ListWalk(read)
    while walk.read_page():
        pass
    assert requests == 30


@pytest.mark.parametrize(
    ("total", "message"),
    [
        (251, "a list of the service claims to have 251 records: no more than 250 are read"),
        (None, "a list of the service has 301 records: no more than 250 are read"),
    ],
)
def test_a_list_that_is_too_long_is_refused(total: int | None, message: str) -> None:
    """A list that claims more than is read, or gives more, is an error that names the cap."""
    walk = ListWalk(lambda offset: Page(tuple(range(offset, offset + 100)), (), total), most=250)
    with pytest.raises(ServiceError) as caught:
        list(iter(walk.read_page, None))
    assert caught.value.message == message
