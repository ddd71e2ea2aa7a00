"""The service's counts of a campaign's launches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.service.listing import find_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runner.ledger.model import OpenLaunch
    from runner.service.client import ServiceClient
    from runner.service.model import StatRecord
    from runner.service.paging import Unreadable

_AT_ONCE = 5_000
"""Sessions that are kept together."""


@dataclass(slots=True)
class Survey:
    """Asks for the counts of launches.

    Attributes:
        client: the service.
        launches: those of the campaign, by `project_launch_guid`.
        observe_progress: is called with the number of launches found since the last call.
        keep_sessions: is given launches with their sessions, some at a time.
        unreadable: those that cannot be read.
    """

    client: ServiceClient
    launches: Mapping[str, OpenLaunch]
    observe_progress: Callable[[int], None]
    keep_sessions: Callable[[Sequence[StatRecord]], None]
    unreadable: dict[str, Unreadable] = field(default_factory=dict, init=False)
    _waiting: list[StatRecord] = field(default_factory=list, init=False)
    _sessions: int = field(default=0, init=False)

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
                observe_stat=self._collect,
            )
        self._flush()
        return found

    def _collect(self, stat: StatRecord) -> None:
        """Take the sessions of a launch of the campaign: the lists of all launches are too long to keep."""
        if stat.project_launch_guid in self.launches:
            self._waiting.append(stat)
            self._sessions += len(stat.recipients)
            if self._sessions >= _AT_ONCE:
                self._flush()

    def _flush(self) -> None:
        if self._sessions:
            self.keep_sessions(self._waiting)
        self._waiting, self._sessions = [], 0

    def _note(self, record: Unreadable) -> None:
        if record.project_launch_guid in self.launches:
            self.unreadable[record.project_launch_guid] = record
