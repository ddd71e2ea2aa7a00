"""Lists that are read a page at a time, from both ends, and complete lists of launches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic

from runner.errors import ServiceError, UnusableListError
from runner.service.model import PAGE, Record, Unreadable
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runner.service.client import ServiceClient
    from runner.service.model import Page, StatRecord

MOST_RECORDS = 100_000_000
"""Most records that a list may have, or claim."""
_GROWTH = 10 * PAGE
"""By how much more than twofold a list may grow in one pass; the next one reads the rest."""
_MOST_REPEATS = 3
"""Most times in a row that one page may come: once or twice, a growing list may shift by just that."""

_TRIES = 100
_FRUITLESS_TRIES = 8
"""Reads of a list without anything new, after which it is given up."""
_FRUITLESS_PAGES = 10
"""The most pages in a row with nothing new, beyond twice those of what was found already."""
MOST_LAUNCHES = 2_000_000
"""Launches under one tag: all of them are held in memory."""


class ListWalk(Generic[Record]):
    """One pass over a list in any order: from its start, from its end, or in turns until both meet.

    In a growing list sorted by time, new records stand at one end. Turning after a page without new records
    finds that end at the cost of one page. The caller counts records that a shifting list has hidden, and
    finds them in the next pass.

    A list without a count is read from its start to the first empty page. A pass always ends: each page moves
    one end or shows a smaller page size, and a repeated page ends it. It reads at most about twice a growing
    list.

    Args:
        read: returns at most `PAGE` records from an offset on.
        most: maximum number of records; a longer list is refused.
    """

    def __init__(self, read: Callable[[int], Page[Record]], *, most: int = MOST_RECORDS) -> None:
        self._read = read
        self._most = most
        # The unread part is from `low` to `high`; the first page sets the end.
        self._low, self._high = 0, 1
        self._longest: int | None = None
        self._last: Page[Record] | None = None
        self._repeats = 0
        self._size = PAGE
        self._is_counted = True
        self._is_forward = True
        self._has_turned = False

    @property
    def pages_left(self) -> int:
        """The number of requests left; 1 for a list without a count."""
        return max(0, -(-(self._high - self._low) // self._size))

    @property
    def is_over(self) -> bool:
        """True if there is no further page."""
        return self._low >= self._high

    def turn(self) -> None:
        """Continue from the other end, if its position is known."""
        if self._is_counted:
            self._is_forward = not self._is_forward
            self._has_turned = True

    def read_page(self) -> Page[Record] | None:
        """Return the next page; None at the end."""
        if self.is_over:
            return None
        page = self._read_forward() if self._is_forward else self._read_backward()
        self._repeats = self._repeats + 1 if page.repeats(self._last) else 0
        if self._repeats == _MOST_REPEATS:
            self._low = self._high
        self._last = page
        return page

    def read_pages(self, most: int) -> list[Page[Record]]:
        """Return at most so many pages; none at the end."""
        pages: list[Page[Record]] = []
        try:
            while len(pages) < most and (page := self.read_page()):
                pages.append(page)
        except ServiceError:
            if not pages:
                raise
        return pages

    def _read_forward(self) -> Page[Record]:
        page = self._read(self._low)
        total = self._measure(page)
        if not self._has_turned:
            self._high = total
        if self._low == 0 and 0 < page.size < total:
            self._size = page.size
        # An empty page is the end, whatever the list's count.
        self._low = self._low + page.size if page.size else self._high
        return page

    def _read_backward(self) -> Page[Record]:
        offset = max(self._low, self._high - self._size)
        page = self._read(offset)
        end = min(self._high, self._measure(page))
        if 0 < page.size < end - offset:
            # A short page leaves a gap: the next ones are asked for in its size.
            self._size, self._high = page.size, end
        else:
            self._high = offset
        return page

    def _measure(self, page: Page[Record]) -> int:
        """Return the list's length as far as this pass reads it."""
        end = self._low + page.size
        # Without a count, only an empty page shows the end.
        total = end + (page.size > 0) if page.total_count is None else page.total_count
        if total > self._most:
            verb = "has" if page.total_count is None else "claims to have"
            raise UnusableListError(
                f"a list of the service {verb} {total:,} records: no more than {self._most:,} are read"
            )
        if page.total_count is None:
            self._is_counted = False
            return total
        if self._longest is None:
            self._longest = 2 * total + _GROWTH
        return min(total, self._longest)


@dataclass(frozen=True, slots=True)
class LaunchList:
    """Launches under a project tag; a missing one proves nothing unless `is_counted`, by the list's count."""

    launches: tuple[StatRecord, ...]
    is_counted: bool


def list_launches(client: ServiceClient, tag: str | None) -> LaunchList:
    """Return every launch that the service lists under a project tag; for all tags with None.

    The list has no promised order and can grow meanwhile. It is read again until as many different launches
    are found as the service counts afterwards, or, without a count, until nothing new is found.
    """
    found: dict[str, StatRecord] = {}

    def keep(stat: StatRecord) -> None:
        told = stat.project_definition.get("tag")
        own = stat.project_tag or (told if isinstance(told, str) else "") or tag or ""
        found[stat.project_launch_guid] = stat if stat.project_tag else replace(stat, project_tag=own)

    is_counted = _Search(client, tag, keep, _refuse).read()
    return LaunchList(tuple(found.values()), is_counted)


def find_launches(
    client: ServiceClient,
    tag: str,
    sought: Collection[str],
    *,
    observe_unreadable: Callable[[Unreadable], None],
    observe_record: Callable[[StatRecord], None],
) -> None:
    """Pass on the sought launches that the service knows, each once.

    A few launches of a long list are asked for one by one.

    Args:
        client: the service.
        tag: the project tag.
        sought: `project_launch_guid`s; the service may write them in another case.
        observe_unreadable: called with each unreadable record, perhaps repeatedly.
        observe_record: called with each sought launch.
    """
    left = {normalize_guid(guid): guid for guid in sought}

    def keep(stat: StatRecord) -> None:
        guid = left.pop(normalize_guid(stat.project_launch_guid), None)
        if guid is not None:
            observe_record(replace(stat, project_launch_guid=guid))

    def note(record: Unreadable) -> None:
        guid = record.project_launch_guid
        observe_unreadable(replace(record, project_launch_guid=left.get(normalize_guid(guid), guid)))

    # A service may keep the tag in lower case.
    for spelling in dict.fromkeys((tag, tag.casefold())):
        if left:
            _Search(client, spelling, keep, note, left).read()


@dataclass(slots=True)
class _Search:
    """A search through a tag's launches for all of them, or until none is `left` of the sought ones."""

    client: ServiceClient
    tag: str | None
    keep: Callable[[StatRecord], None]
    observe_unreadable: Callable[[Unreadable], None]
    left: dict[str, str] | None = None
    _seen: set[str | int] = field(default_factory=set, init=False)

    @property
    def _where(self) -> str:
        return "under all tags" if self.tag is None else f"under the tag {self.tag!r}"

    @property
    def _is_done(self) -> bool:
        return self.left is not None and not self.left

    def read(self) -> bool:
        """Read until all are found; return True if their number equals the list's count."""
        fruitless = 0
        counted: int | None = None
        for _ in range(_TRIES):
            before = len(self._seen)
            self._read_once()
            if self._is_done:
                return True
            counted = self.client.count_launches(self.tag)
            if counted is not None and len(self._seen) >= counted:
                return len(self._seen) == counted
            fruitless = 0 if len(self._seen) > before else fruitless + 1
            if fruitless and counted is None:
                return False
            if fruitless == _FRUITLESS_TRIES:
                break
        counts = "there are always new ones" if counted is None else f"it counts {counted:,} of them"
        raise UnusableListError(
            f"the service's launches {self._where} cannot all be read: {counts}, "
            f"and lists {len(self._seen):,}",
            hint="try again when nothing is sent under this tag",
        )

    def _read_once(self) -> None:
        walk = ListWalk(partial(self.client.read_stats, self.tag), most=MOST_LAUNCHES)
        fruitless = 0
        while not self._is_done and (page := walk.read_page()):
            fruitless = 0 if self._take(page) else fruitless + 1
            if fruitless:
                walk.turn()
            if fruitless > _FRUITLESS_PAGES + 2 * len(self._seen) // max(1, page.size):
                return
            if self.left is not None and len(self.left) < walk.pages_left:
                self._ask_for_each(self.left)

    def _ask_for_each(self, left: dict[str, str]) -> None:
        for name, guid in sorted(left.items()):
            stat = self.client.read_stat(guid)
            if isinstance(stat, Unreadable):
                self.observe_unreadable(stat)
            elif stat is not None:
                self.keep(stat)
            # Launches that are asked for by guid are not searched for in the list.
            left.pop(name, None)

    def _take(self, page: Page[StatRecord]) -> bool:
        """Keep the launches of a page; return True if any was new."""
        before = len(self._seen)
        for stat in page.records:
            self._seen.add(stat.project_launch_guid)
            self.keep(stat)
        for record in page.unreadable:
            self._seen.add(record.project_launch_guid or record.position)
            self.observe_unreadable(record)
        return len(self._seen) > before


def _refuse(record: Unreadable) -> None:
    # A skipped launch would be taken for one that was not sent.
    launch = record.project_launch_guid or record.guid
    raise UnusableListError(
        record.problem,
        hint=f"look at the launch {launch or 'without a guid'} at the service: without it nobody knows who "
        "was sent to, so nothing is sent",
    )
