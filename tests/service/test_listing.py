"""Full lists of launches: nothing is missing from them, in whatever order their pages come."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import ServiceError
from runner.service.model import Unreadable
from runner.service.paging import find_launches, list_launches

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.service.client import ServiceClient
    from runner.service.model import StatRecord
    from tests.service.conftest import ListService

    Make = Callable[..., dict[str, Any]]


def list_guids(client: ServiceClient) -> set[str]:
    return {stat.project_launch_guid for stat in list_launches(client, "pulse-2026").launches}


def find(client: ServiceClient, *sought: str) -> tuple[set[str], list[Unreadable]]:
    """Return which of some launches are found, and what cannot be read."""
    told: list[Unreadable] = []
    found: list[StatRecord] = []
    find_launches(client, "pulse-2026", sought, observe_unreadable=told.append, observe_record=found.append)
    return {stat.project_launch_guid for stat in found}, told


def test_a_list_in_another_order_each_time_is_read_in_full(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """What one reading has found is kept by the next one, so that an order without rest hides nothing."""
    service.records = [make_stat(number) for number in range(7)]
    service.page_size = 3

    def turn() -> None:
        service.records = [*service.records[3:], *service.records[:3]]

    service.on_page = turn
    assert list_guids(client) == {f"launch-{number}" for number in range(7)}


def test_a_list_that_grows_all_the_time_is_read_to_its_end(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """While there is something new in it a list is read again."""
    service.records = [make_stat(0)]
    new = iter(range(1, 21))

    def grow() -> None:
        number = next(new, None)
        if number is not None:
            service.records.append(make_stat(number))

    service.on_page = grow
    assert len(list_guids(client)) == 21


def test_a_list_that_lacks_what_it_counts_is_refused(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """A list that stays shorter than its count is no full list: what it lacks may be ours."""
    service.records = [make_stat(1)]

    def promise(page: dict[str, Any]) -> dict[str, Any]:
        page["meta"]["total_count"] = 3
        return page

    service.change_page = promise
    with pytest.raises(ServiceError) as caught:
        list_guids(client)
    assert caught.value.message == (
        "the service's launches under the tag 'pulse-2026' cannot all be read: "
        "it counts 3 of them, and lists 1"
    )
    assert caught.value.hint == "try again when nothing is sent under this tag"


def test_few_of_a_long_list_are_asked_for_one_by_one(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """Where the rest of the list takes more requests than there are launches to find, each has its own."""
    service.records = [make_stat(number) for number in range(50)]
    service.page_size = 5

    def answer_one(path: str) -> None:
        number = path.removeprefix("/api/stats/launch-").removesuffix("/")
        service.answer = (200, json.dumps(make_stat(int(number))).encode()) if number.isdigit() else None
        service.answer = (404, b"") if number == "404" else service.answer

    service.on_request = answer_one
    assert find(client, "launch-0", "launch-40", "launch-404") == ({"launch-0", "launch-40"}, [])
    assert [path for path, _ in service.queries] == [
        "/api/stats/",
        "/api/stats/launch-40/",
        "/api/stats/launch-404/",
    ]


def test_a_launch_that_cannot_be_read_does_not_lose_the_others(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """Of counts that are only reported it is told which cannot be read; who may send refuses the list."""
    service.records = [make_stat(1, project_definition="many"), make_stat(2)]
    problem = "a stat record of the service has no usable project_definition"
    assert find(client, "launch-1", "launch-2") == (
        {"launch-2"},
        [Unreadable("", "launch-1", 0, problem)],
    )
    with pytest.raises(ServiceError, match=f"^{problem}$"):
        list_guids(client)


def test_a_launch_that_moved_behind_the_reader_is_found(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """What one reading has missed the next one finds: it changes ends whenever a page has nothing new."""
    service.records = [make_stat(number) for number in range(10)]
    service.page_size = 2
    pages = iter(range(20))

    def move_one() -> None:
        if next(pages) == 2:
            service.records = [*service.records[1:], service.records[0]]

    service.on_page = move_one
    assert list_guids(client) == {f"launch-{number}" for number in range(10)}
    offsets = [query["offset"] for path, query in service.queries if "offset" in query]
    assert offsets == ["0", "2", "4", "6", "8", "0", "8", "2", "6", "4"]


def test_a_launch_has_the_tag_that_it_is_listed_under(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """A record that leaves its tag out has the one that was asked for; one that names another keeps it."""
    service.records = [make_stat(1, project_tag=None), make_stat(2, project_tag="other")]
    assert [stat.project_tag for stat in list_launches(client, "pulse-2026").launches] == [
        "pulse-2026",
        "other",
    ]


def test_a_list_says_if_it_agrees_with_its_own_count(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """As many different launches as the list counts are a full list; without a count nobody can tell."""
    service.records = [make_stat(number) for number in range(250)]
    counted = list_launches(client, "pulse-2026")
    assert (len(counted.launches), counted.is_counted) == (250, True)
    service.change_page = lambda page: {"objects": page["objects"]}
    uncounted = list_launches(client, "pulse-2026")
    assert (uncounted.launches, uncounted.is_counted) == (counted.launches, False)


def test_a_list_with_more_than_it_counts_does_not_agree(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """A service that forgets a launch while it is read has listed more than it counts."""
    service.records = [make_stat(number) for number in range(3)]

    def forget(page: dict[str, Any]) -> dict[str, Any]:
        del service.records[2:]
        return page

    service.change_page = forget
    found = list_launches(client, "pulse-2026")
    assert (len(found.launches), found.is_counted) == (3, False)


def test_a_list_that_claims_too_much_is_refused_at_once(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """A list that nobody could read is not begun with."""
    service.records = [make_stat(1)]
    service.change_page = lambda page: {**page, "meta": {"total_count": 10**9}}
    with pytest.raises(ServiceError) as caught:
        list_guids(client)
    assert caught.value.message == (
        "a list of the service claims to have 1,000,000,000 records: no more than 2,000,000 are read"
    )
    assert len(service.queries) == 1


@pytest.mark.parametrize("page_size", [1, 100])
def test_a_list_that_claims_more_than_it_gives_is_given_up_soon(
    client: ServiceClient, service: ListService, make_stat: Make, page_size: int
) -> None:
    """A list is read as long as it has something new, and not as long as it claims to be."""
    records = [make_stat(number) for number in range(page_size)]

    def turn_round(page: dict[str, Any]) -> dict[str, Any]:
        records.append(records.pop(0))
        return {**page, "meta": {"total_count": 1_000_000}, "objects": records}

    service.change_page = turn_round
    with pytest.raises(ServiceError) as caught:
        list_guids(client)
    assert caught.value.message == (
        "the service's launches under the tag 'pulse-2026' cannot all be read: "
        f"it counts 1,000,000 of them, and lists {page_size}"
    )
    assert len(service.queries) < 200


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_list_without_end_is_given_up(
    client: ServiceClient,
    service: ListService,
    make_stat: Make,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_counted: bool,
) -> None:
    """A list that has something new as long as it is read is refused when that is too much."""
    monkeypatch.setattr("runner.service.paging.MOST_LAUNCHES", 1000)
    numbers = iter(range(1_000_000))

    def grow(page: dict[str, Any]) -> dict[str, Any]:
        some = [make_stat(next(numbers)) for _ in range(100)]
        meta = {"total_count": int(page["meta"]["offset"]) + 150} if is_counted else {}
        return {"meta": meta, "objects": some}

    service.change_page = grow
    with pytest.raises(ServiceError) as caught:
        list_guids(client)
    assert caught.value.message in {
        "a list of the service has 1,001 records: no more than 1,000 are read",
        "a list of the service claims to have 1,050 records: no more than 1,000 are read",
    }
    assert len(service.queries) < 20
