"""Full lists of the service's launches, although lists shift while they are paged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from runner.service.client import ServiceClient
    from runner.service.model import StatRecord

_TRIES = 100
_FRUITLESS_TRIES = 8
"""How often a list is read without finding anything new, before it is given up."""


def list_launches(
    client: ServiceClient,
    tag: str,
    *,
    sought: AbstractSet[str] | None = None,
    observe_progress: Callable[[int], None] = lambda _steps: None,
) -> list[StatRecord]:
    """Return every launch that the service lists under a project tag.

    The order of the list is not promised, and it can grow meanwhile (wire facts, "Result records"): it is
    read again, and what was found is kept, until as many different launches are found as the service
    counts afterwards.

    Args:
        client: the service.
        tag: the project tag; also that of launches whose record leaves it out.
        sought: the `project_launch_guid`s that are of interest, if not all are: with them the list is
            full enough.
        observe_progress: is called with the number of launches found since the last call.

    Raises:
        ServiceError: the service cannot be asked, or its list does not come to rest.
    """
    found: dict[str, StatRecord] = {}
    fruitless = total = 0
    for _ in range(_TRIES):
        before = len(found)
        for stat in client.iterate_stats(tag):
            if stat.project_launch_guid not in found:
                observe_progress(1)
            found[stat.project_launch_guid] = stat if stat.project_tag else replace(stat, project_tag=tag)
        if sought is not None and found.keys() >= sought:
            return list(found.values())
        total = client.count_launches(tag)
        if len(found) >= total:
            return list(found.values())
        fruitless = 0 if len(found) > before else fruitless + 1
        if fruitless == _FRUITLESS_TRIES:
            break
    raise ServiceError(
        f"the service's launches under the tag {tag!r} cannot all be read: it counts {total:,} of them, "
        f"and lists {len(found):,}",
        hint="try again when nothing is sent under this tag",
    )
