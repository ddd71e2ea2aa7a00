"""The service's counts of a campaign's launches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.service.listing import find_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.ledger.model import OpenLaunch
    from runner.service.client import ServiceClient
    from runner.service.model import StatRecord
    from runner.service.paging import Unreadable


@dataclass(slots=True)
class Survey:
    """Asks for the counts of launches.

    Attributes:
        client: the service.
        launches: those of the campaign, by `project_launch_guid`.
        observe_progress: is called with the number of launches found since the last call.
        observe_record: is told of each launch as it is read, with its recipients, perhaps repeatedly.
        unreadable: those that cannot be read.
    """

    client: ServiceClient
    launches: Mapping[str, OpenLaunch]
    observe_progress: Callable[[int], None]
    observe_record: Callable[[StatRecord], None] = lambda _record: None
    unreadable: dict[str, Unreadable] = field(default_factory=dict, init=False)

    def read_stats(self, guids: set[str]) -> dict[str, StatRecord]:
        """Return the counts of some launches of the campaign, as far as the service knows them."""
        by_tag: dict[str, set[str]] = {}
        for guid in guids:
            by_tag.setdefault(self.launches[guid].tag, set()).add(guid)
        found: dict[str, StatRecord] = {}
        for tag, sought in sorted(by_tag.items()):
            found |= find_launches(
                self.client,
                tag,
                sought,
                observe_progress=self.observe_progress,
                observe_unreadable=self._note,
                observe_record=self.observe_record,
            )
        return found

    def _note(self, record: Unreadable) -> None:
        if record.project_launch_guid in self.launches:
            self.unreadable[record.project_launch_guid] = record
