"""Full lists of the service's launches, although lists shift while they are paged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.errors import UnusableListError
from runner.service.paging import ListWalk, RecordedGuids, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from runner.service.client import ServiceClient
    from runner.service.model import StatRecord
    from runner.service.paging import Page

_TRIES = 100
_FRUITLESS_TRIES = 8
"""How often a list is read without finding anything new, before it is given up."""
_FRUITLESS_PAGES = 10
"""How many pages with nothing new there may be in a row, beyond twice those of what was found already."""
MOST_LAUNCHES = 2_000_000
"""Launches under one tag: all of them are held in memory."""


@dataclass(frozen=True, slots=True)
class LaunchList:
    """The launches that the service lists under a project tag.

    Attributes:
        launches: all that were found.
        is_counted: whether they are as many as the list itself counts; a list without a count proves nothing
            by what it lacks.
    """

    launches: tuple[StatRecord, ...]
    is_counted: bool


def list_launches(client: ServiceClient, tag: str | None) -> LaunchList:
    """Return every launch that the service lists under a project tag; under all tags, with None.

    The order of the list is not promised, and it can grow meanwhile (wire facts, "Result records"): it is
    read again, and what was found is kept, until as many different launches are found as the service
    counts afterwards; or, where it doesn't count, until nothing new is found.

    Args:
        client: the service.
        tag: the project tag; also that of launches whose record leaves it out.

    Raises:
        ServiceError: the service cannot be asked, one of the launches cannot be read, or the list does not
            come to rest.
    """
    search = _Search(client, tag, None, _refuse)
    is_counted = search.read()
    return LaunchList(tuple(search.found.values()), is_counted)


def find_launches(
    client: ServiceClient,
    tag: str,
    sought: AbstractSet[str],
    *,
    observe_progress: Callable[[int], None],
    observe_unreadable: Callable[[Unreadable], None],
    observe_stat: Callable[[StatRecord], None] = lambda _stat: None,
) -> dict[str, StatRecord]:
    """Return those of some launches under a project tag that the service knows, by `project_launch_guid`.

    Where they are few of a long list, each is asked for on its own (reference, 4.5). What is returned lacks
    `recipients` and `statuses`: those of all launches together can be a million phones.

    Args:
        client: the service.
        tag: the project tag.
        sought: their `project_launch_guid`s.
        observe_progress: is called with the number of launches found since the last call.
        observe_unreadable: is told of each of the list's records that cannot be read, perhaps repeatedly.
        observe_stat: is given each launch that is listed, with its sessions, perhaps repeatedly.

    Raises:
        ServiceError: the service cannot be asked, or its list does not come to rest.
    """
    found: dict[str, StatRecord] = {}
    # A service may have the tag in lower case only.
    for spelling in dict.fromkeys((tag, tag.casefold())):
        search = _Search(
            client, spelling, set(sought - found.keys()), observe_unreadable, observe_progress, observe_stat
        )
        search.read()
        found |= {guid: stat for guid, stat in search.found.items() if guid in sought}
        if sought <= found.keys():
            break
    return found


@dataclass(slots=True)
class _Search:
    """Reads a tag's launches until all of them, or all that are sought, are found."""

    client: ServiceClient
    tag: str | None
    sought: set[str] | None
    observe_unreadable: Callable[[Unreadable], None]
    observe_progress: Callable[[int], None] = lambda _steps: None
    observe_stat: Callable[[StatRecord], None] = lambda _stat: None
    found: dict[str, StatRecord] = field(default_factory=dict, init=False)
    _unreadable: set[str | int] = field(default_factory=set, init=False)
    _recorded: RecordedGuids = field(init=False)

    def __post_init__(self) -> None:
        self._recorded = RecordedGuids(frozenset(self.sought or ()))

    @property
    def _count(self) -> int:
        return len(self.found) + len(self._unreadable)

    @property
    def _where(self) -> str:
        return "under all tags" if self.tag is None else f"under the tag {self.tag!r}"

    @property
    def _is_done(self) -> bool:
        return self.sought is not None and self.sought <= self.found.keys()

    def read(self) -> bool:
        """Read until all are found, and return whether they are as many as the list counts."""
        fruitless = 0
        counted: int | None = None
        for _ in range(_TRIES):
            before = self._count
            self._read_once()
            if self._is_done:
                return True
            counted = self.client.count_launches(self.tag)
            if counted is not None and self._count >= counted:
                return self._count == counted
            fruitless = 0 if self._count > before else fruitless + 1
            if fruitless and counted is None:
                return False
            if fruitless == _FRUITLESS_TRIES:
                break
        counts = "there are always new ones" if counted is None else f"it counts {counted:,} of them"
        raise UnusableListError(
            f"the service's launches {self._where} cannot all be read: {counts}, and lists {self._count:,}",
            hint="try again when nothing is sent under this tag",
        )

    def _read_once(self) -> None:
        walk = ListWalk(self._read_page, most=MOST_LAUNCHES)
        fruitless = 0
        while not self._is_done and (page := walk.read_page()):
            fruitless = 0 if self._take(page) else fruitless + 1
            if fruitless:
                walk.turn()
            if fruitless > _FRUITLESS_PAGES + 2 * self._count // max(1, page.size):
                return
            if self.sought is not None and len(self.sought - self.found.keys()) < walk.pages_left:
                self._ask_for_each(self.sought)

    def _read_page(self, offset: int) -> Page[StatRecord]:
        return self._recorded.spell_page(self.client.read_stats(self.tag, offset))

    def _ask_for_each(self, sought: set[str]) -> None:
        for guid in sorted(sought - self.found.keys()):
            stat = self.client.read_stat(guid)
            if isinstance(stat, Unreadable):
                self.observe_unreadable(stat)
            elif stat is not None:
                self._keep(stat)
                self.observe_progress(1)
                continue
            # Who asks for it by its name need not look for it in the list.
            sought.remove(guid)

    def _take(self, page: Page[StatRecord]) -> bool:
        """Keep what is on a page, and return whether any of it was not known."""
        before, found = self._count, len(self.found)
        for stat in page.records:
            self._keep(stat if stat.project_tag else replace(stat, project_tag=self.tag or ""))
        self.observe_progress(len(self.found) - found)
        for record in page.unreadable:
            self.observe_unreadable(record)
            self._unreadable.add(record.project_launch_guid or record.position)
        if self._count > MOST_LAUNCHES:
            raise UnusableListError(
                f"the service lists more than {MOST_LAUNCHES:,} launches {self._where}: no more are read",
                hint="give new messages a tag of their own (`tag`)",
            )
        return self._count > before

    def _keep(self, stat: StatRecord) -> None:
        guid = self._recorded.spell(stat.project_launch_guid)
        if self.sought is None:
            self.found[guid] = stat
            return
        named = replace(stat, project_launch_guid=guid)
        self.observe_stat(named)
        self.found[guid] = replace(named, recipients=(), statuses=())


def _refuse(record: Unreadable) -> None:
    # A launch that is passed over would be taken for one that was not sent.
    raise UnusableListError(record.problem)
