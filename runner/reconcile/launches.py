"""The service's account of a campaign's launches: counts, sessions, and opt-outs that it obeyed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.ledger.database import exclude_others
from runner.ledger.files.suppressions import OptOut
from runner.ledger.model import COUNTS, ENDED, LaunchStats, StoredSession
from runner.ledger.people.opt_outs import add_replies, find_suppressed
from runner.ledger.record.deliveries import note_open
from runner.ledger.results.reconciled import store_sessions, store_starts
from runner.ledger.target_key import enter_key
from runner.service.model import StatRecord
from runner.service.paging import find_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from runner.ledger.database import Ledger
    from runner.ledger.files.suppressions import Source
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import AcceptedLaunch
    from runner.ledger.results.readings import DueLaunch, Reading
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
    observe_progress: Callable[[int], None] = lambda _steps: None

    def find_forgotten(self, connection: LedgerConnection, phones: Collection[str]) -> set[str]:
        """Return the phones of forgotten people."""
        return find_suppressed(connection, self.key, phones, "forgotten")


@dataclass(slots=True)
class LaunchReader:
    """Reader of the launches of one reading into the ledger.

    `unreadable` are launches whose records cannot be read, by `project_launch_guid`.
    """

    context: ReconcileContext
    reading: Reading
    unreadable: dict[str, Unreadable] = field(default_factory=dict, init=False)
    _waiting: dict[str, StatRecord] = field(default_factory=dict, init=False)
    _sessions: int = field(default=0, init=False)

    def read_all(self) -> None:
        """Read every launch, as far as the service knows it."""
        with self.context.ledger.reading() as connection:
            tags = self.reading.list_tags(connection)
        for tag in tags:
            with self.context.ledger.reading() as connection:
                sought = self.reading.list_sought(connection, tag)
            self.read(tag, sought)

    def read(self, tag: str, sought: set[str]) -> None:
        """Read some launches under a tag."""
        unreadable: dict[str, Unreadable] = {}
        find_launches(
            self.context.client,
            tag,
            sought,
            observe_unreadable=lambda one: unreadable.update({one.project_launch_guid: one}),
            observe_record=self._observe,
        )
        self._keep({guid: one for guid, one in unreadable.items() if guid in sought})

    def read_again(self, launch: DueLaunch) -> int | None:
        """Read one launch again, and return the service's count of its results, if it is known."""
        stat = self.context.client.read_stat(launch.project_launch_guid)
        if not isinstance(stat, StatRecord):
            return None
        self._observe(replace(stat, project_launch_guid=launch.project_launch_guid))
        self._keep({})
        return stat.num_results

    def _observe(self, stat: StatRecord) -> None:
        self._waiting[stat.project_launch_guid] = stat
        self._sessions += 1 + len(stat.recipients)
        if self._sessions >= _AT_ONCE:
            self._keep({})

    def _keep(self, unreadable: Mapping[str, Unreadable]) -> None:
        """Store what waits, in a common order, so that runs with the same rows wait without deadlock."""
        stats, self._waiting, self._sessions = self._waiting, {}, 0
        if not stats and not unreadable:
            return
        self.context.observe_progress(len(stats))
        with self.context.ledger.writing() as connection:
            exclude_others(connection)
            launches = self.reading.find_launches(connection, [*stats, *unreadable])
            lost = unreadable.keys() & launches.keys()
            self.unreadable |= {guid: unreadable[guid] for guid in sorted(lost)}
            self.reading.note_unreadable(connection, lost)
            ours = {
                one.launch_id: (one, stats[guid])
                for guid, one in sorted(launches.items(), key=lambda item: item[1].launch_id)
                if guid in stats
            }
            texts = {number: stat.project_definition for number, (_, stat) in ours.items()}
            self.reading.store(
                connection, [_count(number, stat) for number, (_, stat) in ours.items()], texts
            )
            store_starts(
                connection, {number: stat.project_launch_start for number, (_, stat) in ours.items()}
            )
            self._store_people(connection, ours)
            note_ends(connection, ours.values())

    def _store_people(
        self, connection: LedgerConnection, ours: Mapping[int, tuple[AcceptedLaunch, StatRecord]]
    ) -> None:
        """Store the sessions of people who are not forgotten, and opt-outs that the service itself reports.

        It lists no result for these. Earlier ones are on its list already: they were not a reply to this
        launch. Of several sessions of a person, the one still open is stored.
        """
        key, at = self.context.key, self.context.at
        phones = {phone for _, stat in ours.values() for phone in (*stat.recipients, *stat.stopped)}
        forgotten = self.context.find_forgotten(connection, phones)
        people = {phone: key.fingerprint(phone) for phone in phones - forgotten}
        rows, replies = dict[tuple[int, str], StoredSession](), list[OptOut]()
        for number, (_, stat) in ours.items():
            blocked = frozenset(stat.blocked)
            ended = frozenset(stat.stopped), blocked, frozenset(stat.replaced)
            for phone in filter(people.__contains__, stat.stopped):
                source: Source = "import" if phone in blocked else "reply"
                replies.append(OptOut(people[phone], stat.project_launch_guid, source, "confirmed", at))
            for phone, status in zip(stat.recipients, stat.statuses, strict=True):
                known = rows.get((number, phone))
                if phone in people and (known is None or known.status == ENDED):
                    rows[number, phone] = StoredSession(
                        number, people[phone], status, *(phone in them for them in ended)
                    )
        if replies:
            enter_key(connection, key)
            add_replies(connection, key.target, replies)
        store_sessions(connection, list(rows.values()))


def note_ends(connection: LedgerConnection, read: Iterable[tuple[AcceptedLaunch, StatRecord]]) -> None:
    """Record launches whose sessions have all ended: their people can be sent to without a queue."""
    opened, closed = set[int](), set[int]()
    for launch, stat in read:
        if not launch.is_open:
            # A launch known only from a lockfile may not have been known to ask something.
            if not (stat.num_active_sessions or stat.num_queued_sessions):
                continue
            opened.add(launch.launch_id)
        if _have_ended(stat, launch) and _UNDER_WAY.isdisjoint(stat.statuses):
            closed.add(launch.launch_id)
    note_open(connection, sorted(opened), is_open=True)
    note_open(connection, sorted(closed), is_open=False)


def _have_ended(stat: StatRecord, launch: AcceptedLaunch) -> bool:
    """Return whether all sessions of a launch have ended, by the service's counts."""
    is_idle = stat.num_active_sessions == stat.num_queued_sessions == 0
    return is_idle and (stat.num_complete_sessions or 0) >= launch.recipients


def _count(launch_id: int, stat: StatRecord) -> LaunchStats:
    counts = {name: getattr(stat, name) for name in COUNTS}
    return LaunchStats(launch_id, **counts)
