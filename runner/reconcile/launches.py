"""The service's account of a campaign's launches: counts, sessions, and opt-outs that it obeyed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.ledger.database import exclude_others
from runner.ledger.files.suppressions import OptOut
from runner.ledger.model import ENDED, StoredSession
from runner.ledger.people.opt_outs import add_replies, find_suppressed
from runner.ledger.record.deliveries import note_open, read_definitions
from runner.ledger.results.reconciled import (
    LaunchMeasure,
    find_unmeasured,
    list_accepted,
    store_measures,
    store_sessions,
    store_starts,
)
from runner.ledger.target_key import enter_key
from runner.plan.limits.cost import list_countries
from runner.service.model import COUNTS, StatRecord
from runner.service.paging import find_launches
from runner.text.outgoing import digest_filled, measure_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from runner.ledger.database import Ledger
    from runner.ledger.files.suppressions import Source
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.target_key import LedgerConnection
    from runner.service.client import ServiceClient
    from runner.service.model import Unreadable

_AT_ONCE = 5_000
"""Sessions stored together."""
_UNDER_WAY = frozenset({"ACTIVE", "QUEUED"})
"""The reference's names of states other than `ENDED` (3), which contradict counts by which all have ended.
Other words have no known meaning: then counts without open sessions decide."""


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """A campaign to reconcile, with the ledger, the client and the keys.

    Attributes:
        key: makes the fingerprints of people.
        at: the start of the run; UTC, ISO 8601.
        full: read every result again, to find edited ones and those that the counts hide.
        drops: remove the results that the service does not list any more.
        opt_out_words: the campaign's own opt-out words.
        has_prices: whether the target has prices, so that it is to be known what launches cost.
        observe_progress: gets the number of launches or results read since the last call.
    """

    ledger: Ledger
    client: ServiceClient
    key: TargetKey
    campaign_id: int
    at: str
    full: bool = False
    drops: bool = False
    opt_out_words: tuple[str, ...] = ()
    has_prices: bool = False
    observe_progress: Callable[[int], None] = lambda _steps: None

    def find_forgotten(self, connection: LedgerConnection, phones: Collection[str]) -> set[str]:
        """Return the phones of forgotten people."""
        return find_suppressed(connection, self.key, phones, "forgotten")


@dataclass(slots=True)
class ReadLaunch:
    """An accepted launch, and what the service says of it; the first fields are those of `list_accepted`.

    Attributes:
        before: results in the ledger when the reading began.
        counts: the service's counts; None if it is not listed.
        is_unreadable: its record cannot be read.
        is_short: fewer results are listed than the service counts, or than the list claims; None if its
            results were not read.
        shown: readable listed results; None if they were not read whole.
        claimed: the length that its list claims, if that has shown fewer.
        lost: unreadable listed results.
    """

    launch_id: int
    project_launch_guid: str
    tag: str
    recipients: int
    is_open: bool
    held: int
    forgotten: int
    before: int = field(init=False)
    counts: dict[str, int | None] | None = field(default=None, init=False)
    is_unreadable: bool = field(default=False, init=False)
    is_short: bool | None = field(default=None, init=False)
    shown: int | None = field(default=None, init=False)
    claimed: int | None = field(default=None, init=False)
    lost: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.before = self.held

    @property
    def num_results(self) -> int | None:
        """Results by the service's count; None if it gives none."""
        return None if self.counts is None else self.counts["num_results"]

    @property
    def lacks_count(self) -> bool:
        """True if not all of the service's counts are known."""
        return self.counts is None or None in self.counts.values()

    @property
    def accounted(self) -> int:
        """Results that the ledger holds, or is not to keep."""
        return self.held + self.forgotten

    @property
    def is_uneven(self) -> bool:
        """True if it is listed, and the ledger does not account for just the results counted."""
        return self.counts is not None and self.num_results != self.accounted

    @property
    def listed(self) -> int:
        """Readable listed results."""
        return self.accounted if self.shown is None else self.shown

    @property
    def most(self) -> int:
        """The most results by the service's count and the length of the launch's own list."""
        counted = self.listed + self.lost if self.num_results is None else self.num_results
        return max(counted, self.claimed or 0)

    @property
    def surplus(self) -> int:
        """Results in the ledger that are not listed any more."""
        return 0 if self.shown is None or self.is_short else max(0, self.accounted - self.shown)


@dataclass(slots=True)
class LaunchReader:
    """Reader of a campaign's launches into the ledger; `launches` are by `project_launch_guid`.

    `unreadable` are launches whose records cannot be read.
    """

    context: ReconcileContext
    launches: dict[str, ReadLaunch]
    unreadable: dict[str, Unreadable] = field(default_factory=dict, init=False)
    _waiting: dict[str, StatRecord] = field(default_factory=dict, init=False)
    _sessions: int = field(default=0, init=False)

    @classmethod
    def begin(cls, context: ReconcileContext, connection: LedgerConnection) -> LaunchReader:
        """Return a reader of the launches that are accepted now."""
        accepted = list_accepted(connection, context.campaign_id)
        return cls(context, {one.project_launch_guid: ReadLaunch(*one) for one in accepted})

    @property
    def tags(self) -> list[str]:
        """The tags of the launches."""
        return sorted({one.tag for one in self.launches.values()})

    def list_under(self, tag: str) -> list[ReadLaunch]:
        """Return the listed launches under a tag."""
        return [one for one in self.launches.values() if one.tag == tag and one.counts is not None]

    def read_all(self) -> None:
        """Read every launch, as far as the service knows it."""
        for tag in self.tags:
            self.read(tag, {guid for guid, one in self.launches.items() if one.tag == tag})

    def read(self, tag: str, sought: Collection[str]) -> None:
        """Read some launches under a tag."""
        unreadable: dict[str, Unreadable] = {}
        find_launches(
            self.context.client,
            tag,
            sought,
            observe_unreadable=lambda one: unreadable.update({one.project_launch_guid: one}),
            observe_record=self._observe,
        )
        self._keep()
        for guid in sorted(unreadable.keys() & set(sought)):
            self.launches[guid].is_unreadable = True
            self.unreadable[guid] = unreadable[guid]

    def read_again(self, launch: ReadLaunch) -> int | None:
        """Read one launch again, and return the service's count of its results, if it is known."""
        stat = self.context.client.read_stat(launch.project_launch_guid)
        if not isinstance(stat, StatRecord):
            return None
        self._observe(replace(stat, project_launch_guid=launch.project_launch_guid))
        self._keep()
        return stat.num_results

    def count_held(self, connection: LedgerConnection, launches: Iterable[ReadLaunch] | None = None) -> None:
        """Count the results in the ledger again, of all launches or of some."""
        numbers = None if launches is None else [one.launch_id for one in launches]
        for one in list_accepted(connection, self.context.campaign_id, numbers):
            if launch := self.launches.get(one.project_launch_guid):
                launch.held, launch.forgotten = one.held, one.forgotten

    def _observe(self, stat: StatRecord) -> None:
        self._waiting[stat.project_launch_guid] = stat
        self._sessions += 1 + len(stat.recipients)
        if self._sessions >= _AT_ONCE:
            self._keep()

    def _keep(self) -> None:
        """Store what waits, in a common order, so that runs with the same rows wait without deadlock."""
        waiting, self._waiting, self._sessions = self._waiting, {}, 0
        if not waiting:
            return
        self.context.observe_progress(len(waiting))
        read = [(self.launches[guid], stat) for guid, stat in waiting.items()]
        read.sort(key=lambda one: one[0].launch_id)
        with self.context.ledger.writing() as connection:
            exclude_others(connection)
            store_starts(connection, {one.launch_id: stat.project_launch_start for one, stat in read})
            self._store_people(connection, read)
            if self.context.has_prices:
                _store_measures(connection, read, self.context.key)
            note_ends(connection, read)
        for launch, stat in read:
            launch.counts = {name: getattr(stat, name) for name in COUNTS}

    def _store_people(
        self, connection: LedgerConnection, read: Collection[tuple[ReadLaunch, StatRecord]]
    ) -> None:
        """Store the sessions of people who are not forgotten, and opt-outs that the service itself reports.

        It lists no result for these. Earlier ones are on its list already: they were not a reply to this
        launch. Of several sessions of a person, the one still open is stored.
        """
        key, at = self.context.key, self.context.at
        phones = {phone for _, stat in read for phone in stat.recipients}
        forgotten = self.context.find_forgotten(connection, phones)
        people = {phone: key.fingerprint(phone) for phone in phones - forgotten}
        rows, replies = dict[tuple[int, str], StoredSession](), list[OptOut]()
        for launch, stat in read:
            for phone, status, ending in zip(stat.recipients, stat.statuses, stat.endings, strict=True):
                if (person := people.get(phone)) is None:
                    continue
                is_blocked = ending == "BLOCKED"
                if is_blocked or ending == "OPTED_OUT":
                    source: Source = "import" if is_blocked else "reply"
                    replies.append(OptOut(person, stat.project_launch_guid, source, "confirmed", at))
                known = rows.get((launch.launch_id, person))
                if known is None or known.status == ENDED:
                    ends = is_blocked or ending == "OPTED_OUT", is_blocked, ending == "REPLACED"
                    rows[launch.launch_id, person] = StoredSession(launch.launch_id, person, status, *ends)
        if replies:
            enter_key(connection, key)
            add_replies(connection, key.target, replies)
        store_sessions(connection, list(rows.values()))


def _store_measures(
    connection: LedgerConnection, read: Iterable[tuple[ReadLaunch, StatRecord]], key: TargetKey
) -> None:
    """Store the countries and the segments of launches that the service lists with all their people.

    Of a launch of another machine, the service's copy of the texts counts, if it is just what was sent.
    """
    whole = {one.launch_id: stat for one, stat in read if len(set(stat.recipients)) >= one.recipients}
    lacking = find_unmeasured(connection, whole)
    own = read_definitions(connection, lacking)
    rows = []
    for number, digest in lacking.items():
        listed = {name: value for name, value in whole[number].project_definition.items() if value != ""}
        sent = own.get(number) or (listed if key.matches_payload(digest, digest_filled(listed)) else None)
        sizes = None if sent is None else measure_texts(sent)
        rows.append(LaunchMeasure(number, list_countries(whole[number].recipients), *(sizes or (None, None))))
    store_measures(connection, rows)


def note_ends(connection: LedgerConnection, read: Iterable[tuple[ReadLaunch, StatRecord]]) -> None:
    """Record launches whose sessions have all ended: their people can be sent to without a queue."""
    opened, closed = set[int](), set[int]()
    for launch, stat in read:
        if not launch.is_open:
            # A launch known only from a lockfile may not have been known to ask something.
            if not (stat.num_active_sessions or stat.num_queued_sessions):
                continue
            opened.add(launch.launch_id)
            launch.is_open = True
        is_idle = stat.num_active_sessions == stat.num_queued_sessions == 0
        have_ended = is_idle and (stat.num_complete_sessions or 0) >= launch.recipients
        if have_ended and _UNDER_WAY.isdisjoint(stat.statuses):
            closed.add(launch.launch_id)
            launch.is_open = False
    note_open(connection, sorted(opened), is_open=True)
    note_open(connection, sorted(closed), is_open=False)
