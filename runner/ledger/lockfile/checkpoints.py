"""Checkpoints: the tallies of a campaign's recipients that a lockfile with counts may hold.

Such a lockfile holds a tally of each message instead of fingerprints. It may be older than the ledger, after
a crash or a checkout. So the ledger keeps every tally that a lockfile may hold (`lockfile_marks`), and the
launches that the last one counts (`launches.mark`). A ledger that has a lockfile's tally, and still has the
people of its last tallies, lacks nobody in the lockfile. Functions that remove or move people for good update
the last tallies.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, and_, delete, func, select, update

from runner.errors import LockfileError
from runner.ledger.bulk import divide
from runner.ledger.database import insert_missing, insert_or_update
from runner.ledger.fingerprint import PeopleTally
from runner.ledger.model import SummaryLine
from runner.ledger.record.deliveries import find_campaign
from runner.ledger.record.recorded import summarize_deliveries
from runner.ledger.tables import campaigns, deliveries, launches, lockfile_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from runner.ledger.lockfile.format import Lockfile
    from runner.ledger.record.recorded import RecordSummary


_GROUP = 10_000
_ASKED = 500
"""Launches in one query."""
_FEW = 20_000
"""The number of launches above which one query of all deliveries is cheaper than queries by launch."""
_IS_MARKED = and_(launches.c.mark.is_not(None), launches.c.state == "sent")
_HINT = (
    "the lockfile holds counts (`lockfile: summary`) and cannot fill a ledger: restore the newest copy of "
    "the ledger, or fill a new one with `runner ledger copy --from URL`. If there is none, move the lockfile "
    "away: `runner apply` then asks the service for what the ledger lacks"
)


class Checkpoint(NamedTuple):
    """A tally of a message that a lockfile may hold; the highest `number` is its last."""

    message: str
    number: int
    tally: PeopleTally


def read_checkpoints(connection: Connection, campaign_id: int) -> list[Checkpoint]:
    """Return a campaign's checkpoints, the earliest first."""
    query = select(lockfile_marks).where(lockfile_marks.c.campaign_id == campaign_id)
    rows = connection.execute(query.order_by(lockfile_marks.c.number)).all()
    return [Checkpoint(row.message, row.number, PeopleTally.read(row.recipients, row.digest)) for row in rows]


def add_checkpoints(connection: Connection, campaign_id: int) -> None:
    """Count the launches sent since the last checkpoint; to be committed before the lockfile is written.

    The cost depends on the new launches alone.
    """
    last, number = _begin_checkpoint(connection, campaign_id)
    is_new = and_(
        launches.c.campaign_id == campaign_id, launches.c.state == "sent", launches.c.mark.is_(None)
    )
    if connection.execute(update(launches).where(is_new).values(mark=number)).rowcount:
        added = _tally_new(connection, campaign_id, number)
        _enter(connection, campaign_id, number, {name: last[name] + added[name] for name in added})


def renew_checkpoints(connection: Connection, campaign_id: int) -> None:
    """Recount all sent launches after deliveries were moved, if there are checkpoints."""
    last, number = _begin_checkpoint(connection, campaign_id)
    if not last:
        return
    is_sent = and_(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    connection.execute(update(launches).where(is_sent).values(mark=number))
    counted = tally_checkpointed(connection, campaign_id)
    gone = {name: PeopleTally() for name in last.keys() - counted.keys()}
    _enter(connection, campaign_id, number, {**gone, **counted})


def rename_checkpoints(connection: Connection, campaign_id: int, renames: Mapping[str, str]) -> None:
    """Move checkpoints to the current ids of messages; `renew_checkpoints` must follow."""
    is_old = and_(lockfile_marks.c.campaign_id == campaign_id, lockfile_marks.c.message.in_(renames))
    moved = [
        {**row, "message": renames[row["message"]]}
        for row in connection.execute(select(lockfile_marks).where(is_old)).mappings().all()
    ]
    if moved:
        connection.execute(delete(lockfile_marks).where(is_old))
        insert_missing(connection, lockfile_marks, moved)


def remove_people(
    connection: Connection, campaign_id: int, launch_ids: Collection[int], fingerprint: str
) -> None:
    """Remove a person from the last checkpoints, before deliveries by some hundred launches at most go."""
    theirs = and_(
        launches.c.id.in_(launch_ids),
        _IS_MARKED,
        deliveries.c.released.is_(False),
        deliveries.c.fingerprint == fingerprint,
    )
    query = select(deliveries.c.message, deliveries.c.fingerprint).join(
        launches, launches.c.id == deliveries.c.launch_id
    )
    rows = connection.execute(query.where(theirs)).all()
    if not rows:
        return
    last, number = _begin_checkpoint(connection, campaign_id)
    changed = {row.message: last[row.message] for row in rows}
    for row in rows:
        changed[row.message].remove(row.fingerprint)
    _enter(connection, campaign_id, number, changed)


def tally_checkpointed(connection: Connection, campaign_id: int) -> dict[str, PeopleTally]:
    """Return tallies of the recipients of counted launches, by the recorded message id."""
    return _tally(connection, campaign_id, lambda state, mark: state == "sent" and mark is not None)


def _tally_new(connection: Connection, campaign_id: int, number: int) -> dict[str, PeopleTally]:
    """Return tallies of the recipients of launches that were counted just now."""
    is_new = and_(launches.c.campaign_id == campaign_id, launches.c.mark == number)
    ids = connection.execute(select(launches.c.id).where(is_new).limit(_FEW + 1)).scalars().all()
    if len(ids) > _FEW:
        return _tally(connection, campaign_id, lambda _, mark: mark == number)
    found: defaultdict[str, PeopleTally] = defaultdict(PeopleTally)
    for group in divide(ids, _ASKED):
        query = select(deliveries.c.message, deliveries.c.fingerprint).where(
            deliveries.c.campaign_id == campaign_id,
            deliveries.c.launch_id.in_(group),
            deliveries.c.released.is_(False),
        )
        for message, fingerprint in connection.execute(query):
            found[message].add(fingerprint)
    return found


def _tally(
    connection: Connection, campaign_id: int, is_wanted: Callable[[str, int | None], bool]
) -> dict[str, PeopleTally]:
    found: defaultdict[str, PeopleTally] = defaultdict(PeopleTally)
    # Filtered here: a server whose statistics are older than the checkpoints expects few launches to match,
    # and would go through all of them for each delivery.
    query = (
        select(deliveries.c.message, deliveries.c.fingerprint, launches.c.state, launches.c.mark)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, deliveries.c.released.is_(False))
        .execution_options(yield_per=_GROUP)
    )
    for message, fingerprint, state, mark in connection.execute(query):
        if is_wanted(state, mark):
            found[message].add(fingerprint)
    return found


def list_lines(connection: Connection, campaign_id: int) -> list[SummaryLine]:
    """Return a lockfile's message lines as of the last checkpoint, sorted by message."""
    last = last_tallies(read_checkpoints(connection, campaign_id))
    is_own = and_(launches.c.campaign_id == campaign_id, _IS_MARKED)
    tags: defaultdict[str, list[str]] = defaultdict(list)
    for row in connection.execute(select(launches.c.message, launches.c.tag).where(is_own).distinct()):
        tags[row.message].append(row.tag)
    outcome = launches.c.outcome_at
    query = select(launches.c.message, func.count(), func.min(outcome), func.max(outcome)).where(is_own)
    lines = []
    for message, count, first, final in connection.execute(query.group_by(launches.c.message)):
        tally = last.get(message, PeopleTally())
        sums = (count, tally.recipients, tally.digest, first, final)
        lines.append(SummaryLine(message, tuple(sorted(tags[message])), *sums))
    return sorted(lines)


def last_tallies(marks: Iterable[Checkpoint]) -> defaultdict[str, PeopleTally]:
    """Return the last tally of each message from checkpoints in order."""
    found: defaultdict[str, PeopleTally] = defaultdict(PeopleTally)
    found.update({mark.message: mark.tally for mark in marks})
    return found


def _begin_checkpoint(connection: Connection, campaign_id: int) -> tuple[defaultdict[str, PeopleTally], int]:
    """Return the last tallies and the next number, and lock the campaign until the transaction ends."""
    # Launches that are entered meanwhile refer to the row: neither has to wait for the other.
    row = select(campaigns.c.id).where(campaigns.c.id == campaign_id)
    connection.execute(row.with_for_update(key_share=True))
    checkpoints = read_checkpoints(connection, campaign_id)
    return last_tallies(checkpoints), max((mark.number for mark in checkpoints), default=0) + 1


def _enter(connection: Connection, campaign_id: int, number: int, tallies: Mapping[str, PeopleTally]) -> None:
    rows = [
        {
            "campaign_id": campaign_id,
            "message": message,
            "digest": tally.digest,
            "recipients": tally.recipients,
            "number": number,
        }
        for message, tally in tallies.items()
    ]
    insert_or_update(connection, lockfile_marks, rows, changed=["number"])


def has_summaries(lockfiles: Mapping[Path, Lockfile]) -> bool:
    """Return whether any lockfile sums up deliveries."""
    return any(line.recipients for lockfile in lockfiles.values() for line in lockfile.lines)


def require_coverage(
    connection: Connection | None,
    campaign_id: int | None,
    lockfiles: Mapping[Path, Lockfile],
    message_ids: Mapping[str, str],
    forgotten: Collection[str],
) -> None:
    """Ensure that the ledger has all people that lockfiles count; for use before it changes.

    `forgotten` has the fingerprints of forgotten people from all sources.

    Raises:
        LockfileError: it lacks some, or they cannot be shown to be the same.
    """
    if not has_summaries(lockfiles):
        return
    held = _Held(connection, campaign_id, message_ids, forgotten)
    for file, lockfile in lockfiles.items():
        for line in lockfile.lines:
            if not held.contains(line):
                raise LockfileError(
                    f"the ledger is not the one that the lockfile {file} sums up: of the message "
                    f"{line.message!r} that has {line.recipients:,} recipients, the ledger "
                    f"{held.describe(line.message)}",
                    hint=_HINT,
                )


def is_told(connection: Connection, lockfile: Lockfile) -> bool:
    """Return whether a lockfile's tallies are checkpoints of the ledger.

    Cheap, and enough for counting. `require_coverage` ensures that the ledger still has the people.
    """
    row = find_campaign(connection, lockfile.target, lockfile.campaign)
    tallies = [] if row is None else [mark.tally for mark in read_checkpoints(connection, row.id)]
    return all(PeopleTally.read(line.recipients, line.digest) in tallies for line in lockfile.lines)


class _Held:
    """A campaign's deliveries in the ledger, by current message ids."""

    def __init__(
        self,
        connection: Connection | None,
        campaign_id: int | None,
        message_ids: Mapping[str, str],
        forgotten: Collection[str],
    ) -> None:
        self._told: dict[str, list[PeopleTally]] = {}
        self._altered: set[str] = set()
        self._sums: list[RecordSummary] | None = [] if connection is None or campaign_id is None else None
        if connection is None or campaign_id is None:
            return
        self._summarize = partial(summarize_deliveries, connection, campaign_id, message_ids)
        self._forgotten = forgotten
        marks, current = read_checkpoints(connection, campaign_id), message_ids
        marked = tally_checkpointed(connection, campaign_id) if marks else {}
        for message, tally in last_tallies(marks).items():
            if marked.get(message, PeopleTally()) != tally:
                self._altered.add(current.get(message, message))
        for mark in marks:
            self._told.setdefault(current.get(mark.message, mark.message), []).append(mark.tally)

    def contains(self, line: SummaryLine) -> bool:
        """Return whether the ledger has all people that a line counts."""
        wanted = PeopleTally.read(line.recipients, line.digest)
        told = [] if line.message in self._altered else self._told.get(line.message, [])
        return not wanted or wanted in told or wanted in self._list_present(line.message)

    def describe(self, message: str) -> str:
        """Describe the number of recipients of a message, for an error."""
        count = max((tally.recipients for tally in self._list_present(message)), default=0)
        return f"has {count:,}, not all of them the same" if count else "has none"

    def _list_present(self, message: str) -> list[PeopleTally]:
        """Return tallies of a message's recipients, with and without forgotten people."""
        if self._sums is None:
            # Scans all deliveries, so only if the checkpoints don't decide.
            self._sums = [self._summarize()]
            self._sums += [self._summarize(self._forgotten)] if self._forgotten else []
        return [one.messages[message].sent for one in self._sums if message in one.messages]
