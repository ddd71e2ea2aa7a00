"""Reading of an account's results by time, whatever launches they belong to.

Replies to launches that are lost, unexplained or on no record here opt out, too; and a service may overwrite
an answer with a later one, which no count shows. So the newest results are read again in each run, and those
of the last 30 days once a day.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from runner.ledger.model import parse_moment
from runner.ledger.people.replies import AccountMark, read_account_mark, settle_placed, write_account_mark
from runner.ledger.results.result_feed import read_version
from runner.optout.reply import find_offered
from runner.reconcile.ingest import Owners, ResultIngest, leave_out_strangers
from runner.reconcile.replies import ReplyScreen
from runner.service.paging import ListWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.reconcile.launches import ReconcileContext
    from runner.service.client import ServiceClient
    from runner.service.model import Page, ResultRecord

_HISTORY = timedelta(days=30)
"""The time for which results are read for opt-outs."""
_WHOLE_EVERY = timedelta(days=1)
_OVERLAP = timedelta(hours=1)
_PAGES_AGAIN = 5
"""The newest pages, which are read in each run."""
_PASSES = 40
_FRUITLESS_PASSES = 3


@dataclass(slots=True)
class AccountReading:
    """The reading of one account's results; `contexts` are of the campaigns on record, by their number.

    Attributes:
        at: the start of the run; UTC, ISO 8601.
        elsewhere: results met of launches on no record here.
        lacking: results that the list counts and does not show.
    """

    ledger: Ledger
    client: ServiceClient
    key: TargetKey
    at: str
    contexts: Mapping[int, ReconcileContext]
    elsewhere: int = field(default=0, init=False)
    lacking: int = field(default=0, init=False)
    _screen: ReplyScreen = field(init=False)
    _met: set[int] = field(default_factory=set, init=False)
    _owners: Owners = field(init=False)
    _ingests: dict[int, ResultIngest] = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing met."""
        self._screen = ReplyScreen(self.ledger, self.client, self.key, self.at, (), self._find_offered)
        self._owners = Owners(self.ledger, self.key.target)
        self._ingests = {number: ResultIngest(one, self._owners) for number, one in self.contexts.items()}

    def read(self, just_read: int, *, accept: bool) -> None:
        """Read results until nothing new can be among them, and note how far the account was read.

        `just_read` is the number of results that this run has read already; with `accept`, a list that shows
        fewer results than it counts is taken as complete.
        """
        with self.ledger.reading() as connection:
            mark = read_account_mark(connection, self.key.target)
            revision = read_version(connection).revision
        now = datetime.fromisoformat(self.at)
        is_whole = mark is None or now - mark.whole_at >= _WHOLE_EVERY
        first = self.client.read_results({}, 0)
        newest = None if mark is None else mark.newest
        if not (is_whole and just_read and just_read == first.total_count):
            since = now - _HISTORY if is_whole or mark is None else (newest or mark.read_at) - _OVERLAP
            pages = 1 if is_whole else _PAGES_AGAIN
            known = None if is_whole or mark is None or mark.total is None else mark.total + just_read
            newest = self._read_since(first, since, pages, is_known=known == first.total_count) or newest
            for context in self.contexts.values():
                leave_out_strangers(context, revision)
        accepted = self.lacking if accept else min(self.lacking, 0 if mark is None else mark.accepted)
        self.lacking -= accepted
        if self.lacking:
            return
        done = AccountMark(
            now, now if is_whole or mark is None else mark.whole_at, newest, accepted, first.total_count
        )
        with self.ledger.writing() as connection:
            settle_placed(connection, self.key.target)
            write_account_mark(connection, self.key.target, done)

    def _read_since(
        self, first: Page[ResultRecord], since: datetime, pages: int, *, is_known: bool
    ) -> datetime | None:
        """Read the list's newest pages, all as new as `since` among them; return the newest moment met."""
        newest: datetime | None = None
        fruitless = 0
        for _ in range(_PASSES):
            before, walk = len(self._met), ListWalk(partial(self._read_page, first))
            for page in _iterate_newest(walk, since, pages, is_known=is_known):
                self._take(page)
                newest = max(filter(None, (newest, *_find_moments(page))), default=None)
                counted = page.total_count
            self.lacking = max(0, (counted or 0) - len(self._met)) if walk.is_over else 0
            fruitless = 0 if len(self._met) > before else fruitless + 1
            if not self.lacking or fruitless == _FRUITLESS_PASSES:
                break
        return newest

    def _read_page(self, first: Page[ResultRecord], offset: int) -> Page[ResultRecord]:
        return first if offset == 0 and not self._met else self.client.read_results({}, offset)

    def _take(self, page: Page[ResultRecord]) -> None:
        """Store the results of campaigns on record, and look through the others for opt-outs."""
        names = [(one.project_launch_guid, one.result_guid) for one in page.records]
        names += [(one.project_launch_guid, one.guid or str(one.position)) for one in page.unreadable]
        # Two of one hash, in one of 37 million sets of a million, only make a list seem to lack a result.
        self._met.update(map(hash, names))
        records = (*page.records, *page.partial)
        owners = self._owners.find(one.project_launch_guid for one in records)
        ours = {guid: one.campaign_id for guid, one in owners.items() if one.campaign_id in self._ingests}
        for number in sorted(set(ours.values())):
            self._ingests[number].store(page.records, page.partial)
        self._screen_others([one for one in records if one.project_launch_guid not in ours])

    def _screen_others(self, records: Sequence[ResultRecord]) -> None:
        """Look for opt-outs in results of launches that no campaign of this run has on record."""
        self.elsewhere += len(records)
        asking = [one.record for one in self._screen.find_requests(records)]
        certain, others = self._screen.judge(*self._screen.place(asking))
        if certain:
            with self.ledger.writing() as connection:
                self._screen.enter(connection, certain)
        self._screen.hold(others)

    def _find_offered(self, record: ResultRecord) -> tuple[str, ...]:
        stat = self._screen.read_launch(record.project_launch_guid)
        definition = {} if stat is None else stat.project_definition
        return find_offered(definition, record.question_tag, record.question_text)


def _iterate_newest(
    walk: ListWalk[ResultRecord], since: datetime, pages: int, *, is_known: bool
) -> Iterator[Page[ResultRecord]]:
    """Yield a list's pages from its newest end, at least `pages` of them, until they are older than `since`.

    If the list is not in the order of time, yield all of them, unless it `is_known` to have nothing new.
    """
    first = walk.read_page()
    if first is None:
        return
    yield first
    walk.turn()
    page = walk.read_page()
    earlier, later = _find_span(first), None if page is None else _find_span(page)
    is_ordered = earlier is not None and later is not None
    if page is not None:
        yield page
    if earlier is not None and later is not None:
        if later[1] <= earlier[0]:
            walk.turn()
            later = earlier
        elif later[0] < earlier[1]:
            is_ordered = False
    count = 1
    while page := walk.read_page():
        span = _find_span(page)
        is_ordered = is_ordered and span is not None and later is not None and span[1] <= later[0]
        later, count = span, count + 1
        yield page
        is_old = is_known if not is_ordered or span is None else span[1] < since
        if count >= pages and is_old:
            return


def _find_moments(page: Page[ResultRecord]) -> list[datetime | None]:
    return [parse_moment(record.created) for record in page.records]


def _find_span(page: Page[ResultRecord]) -> tuple[datetime, datetime] | None:
    """Return the oldest and the newest moment of a page; None if one is not known."""
    moments = _find_moments(page)
    known = [moment for moment in moments if moment is not None]
    return (min(known), max(known)) if known and len(known) == len(moments) else None
