"""Full lists of launches: nothing is missing from them, in whatever order their pages come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import ServiceError
from runner.service.listing import list_launches

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.service.client import ServiceClient
    from tests.service.conftest import ListService

    Make = Callable[..., dict[str, Any]]


def list_guids(client: ServiceClient, **options: Any) -> set[str]:
    return {stat.project_launch_guid for stat in list_launches(client, "pulse-2026", **options)}


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


def test_what_is_sought_makes_a_list_full_enough(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """A list in which everything that is sought was found is read once, and not counted."""
    service.records = [make_stat(1), make_stat(2)]
    steps: list[int] = []
    assert list_guids(client, sought={"launch-2"}, observe_progress=steps.append) == {"launch-1", "launch-2"}
    assert (len(service.queries), sum(steps)) == (1, 2)


def test_a_launch_has_the_tag_that_it_is_listed_under(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """A record that leaves its tag out has the one that was asked for; one that names another keeps it."""
    service.records = [make_stat(1, project_tag=None), make_stat(2, project_tag="other")]
    assert [stat.project_tag for stat in list_launches(client, "pulse-2026")] == ["pulse-2026", "other"]
