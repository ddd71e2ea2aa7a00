"""Marks: what of a campaign's deliveries the ledger has told, or was about to tell, a lockfile that sums up.

Such a lockfile holds a tally of each message instead of everybody's fingerprint. It may be older than the
ledger: a run may have died before it wrote the file, and an old commit may be checked out. So the ledger
keeps every tally that a lockfile may hold (`lockfile_marks`), and which launches the last of them are of
(`launches.mark`). A ledger that has a lockfile's tally among its own, and still has the people of its last
ones, lacks nobody of the lockfile's; one that was lost, restored from an older copy, or is another's, has
not. What takes people out for good, or moves them, keeps the last tallies right as it does so.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, and_, delete, func, inspect, select, update

from runner.ledger.database import insert_into
from runner.ledger.model import SummaryLine
from runner.ledger.tables import campaigns, deliveries, launches, lockfile_marks
from runner.ledger.tally import PeopleTally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

_GROUP = 10_000
_ASKED = 500
"""Launches that are asked for by their numbers at once."""
_FEW = 20_000
"""Up to how many launches to ask for them by their numbers costs less than to go through all deliveries."""
_IS_MARKED = and_(launches.c.mark.is_not(None), launches.c.state == "sent")


class Mark(NamedTuple):
    """A tally of a message that a lockfile may hold; that of the highest `number` is its last."""

    message: str
    number: int
    tally: PeopleTally


def read_marks(connection: Connection, campaign_id: int) -> list[Mark]:
    """Return a campaign's marks, the earliest first.

    Args:
        connection: reads the ledger, which may be of an older version.
        campaign_id: the ledger's number of the campaign.
    """
    if not inspect(connection).has_table(lockfile_marks.name):
        return []
    query = select(lockfile_marks).where(lockfile_marks.c.campaign_id == campaign_id)
    rows = connection.execute(query.order_by(lockfile_marks.c.number)).all()
    return [Mark(row.message, row.number, PeopleTally.read(row.recipients, row.digest)) for row in rows]


def mark_launches(connection: Connection, campaign_id: int) -> None:
    """Mark the launches that were sent since the last time: the lockfile may tell of them now.

    Costs what is new, whatever there is.

    Args:
        connection: commits after this, and before the lockfile is written.
        campaign_id: the ledger's number of the campaign.
    """
    last, number = _begin(connection, campaign_id)
    is_new = and_(
        launches.c.campaign_id == campaign_id, launches.c.state == "sent", launches.c.mark.is_(None)
    )
    if connection.execute(update(launches).where(is_new).values(mark=number)).rowcount:
        added = _tally_new(connection, campaign_id, number)
        _enter(connection, campaign_id, number, {name: last[name] + added[name] for name in added})


def renew_marks(connection: Connection, campaign_id: int) -> None:
    """Count everything anew that was or can be marked, after deliveries were moved; nothing without marks."""
    last, number = _begin(connection, campaign_id)
    if not last:
        return
    is_sent = and_(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    connection.execute(update(launches).where(is_sent).values(mark=number))
    counted = tally_marked(connection, campaign_id)
    gone = {name: PeopleTally() for name in last.keys() - counted.keys()}
    _enter(connection, campaign_id, number, {**gone, **counted})


def rename_marks(connection: Connection, campaign_id: int, renames: Mapping[str, str]) -> None:
    """Enter marks under the ids that messages have now; `renew_marks` is to follow.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        renames: new ids by old ones.
    """
    is_old = and_(lockfile_marks.c.campaign_id == campaign_id, lockfile_marks.c.message.in_(renames))
    moved = [
        {**row, "message": renames[row["message"]]}
        for row in connection.execute(select(lockfile_marks).where(is_old)).mappings().all()
    ]
    if moved:
        connection.execute(delete(lockfile_marks).where(is_old))
        connection.execute(insert_into(connection, lockfile_marks).on_conflict_do_nothing(), moved)


def take_out(
    connection: Connection, campaign_id: int, launch_ids: Collection[int], fingerprint: str | None = None
) -> None:
    """Take people out of the last marks, before their deliveries go, or their launches are in doubt.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        launch_ids: those of which they are taken out; some hundreds at most.
        fingerprint: the person; None for everybody.
    """
    theirs = and_(launches.c.id.in_(launch_ids), _IS_MARKED, deliveries.c.released.is_(False))
    query = select(deliveries.c.message, deliveries.c.fingerprint).join(
        launches, launches.c.id == deliveries.c.launch_id
    )
    if fingerprint is not None:
        theirs = and_(theirs, deliveries.c.fingerprint == fingerprint)
    rows = connection.execute(query.where(theirs)).all()
    if fingerprint is None:
        connection.execute(update(launches).where(launches.c.id.in_(launch_ids)).values(mark=None))
    if not rows:
        return
    last, number = _begin(connection, campaign_id)
    changed = {row.message: last[row.message] for row in rows}
    for row in rows:
        changed[row.message].take_out(row.fingerprint)
    _enter(connection, campaign_id, number, changed)


def tally_marked(connection: Connection, campaign_id: int) -> dict[str, PeopleTally]:
    """Return whom marked launches hold, by the id under which the message is entered."""
    return _tally(connection, campaign_id, lambda state, mark: state == "sent" and mark is not None)


def _tally_new(connection: Connection, campaign_id: int, number: int) -> dict[str, PeopleTally]:
    """Return whom the launches hold that have just got a mark."""
    is_new = and_(launches.c.campaign_id == campaign_id, launches.c.mark == number)
    ids = connection.execute(select(launches.c.id).where(is_new).limit(_FEW + 1)).scalars().all()
    if len(ids) > _FEW:
        return _tally(connection, campaign_id, lambda _, mark: mark == number)
    found: defaultdict[str, PeopleTally] = defaultdict(PeopleTally)
    for start in range(0, len(ids), _ASKED):
        query = select(deliveries.c.message, deliveries.c.fingerprint).where(
            deliveries.c.campaign_id == campaign_id,
            deliveries.c.launch_id.in_(ids[start : start + _ASKED]),
            deliveries.c.released.is_(False),
        )
        for message, fingerprint in connection.execute(query):
            found[message].add(fingerprint)
    return found


def _tally(
    connection: Connection, campaign_id: int, is_wanted: Callable[[str, int | None], bool]
) -> dict[str, PeopleTally]:
    found: defaultdict[str, PeopleTally] = defaultdict(PeopleTally)
    # Launches are told apart here: a server that takes few of them for marked, as one does whose statistics
    # are older than the marks, would go through all launches for each delivery.
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
    """Return what a lockfile says of each message, as of the last marks: sorted by message."""
    last = last_tallies(read_marks(connection, campaign_id))
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


def last_tallies(marks: Iterable[Mark]) -> defaultdict[str, PeopleTally]:
    """Return the last tally of each message, of marks in their order."""
    found: defaultdict[str, PeopleTally] = defaultdict(PeopleTally)
    found.update({mark.message: mark.tally for mark in marks})
    return found


def _begin(connection: Connection, campaign_id: int) -> tuple[defaultdict[str, PeopleTally], int]:
    """Return the last tallies and the next number, which nobody else gets until the transaction has ended."""
    # Launches that are entered meanwhile refer to the row: neither has to wait for the other.
    row = select(campaigns.c.id).where(campaigns.c.id == campaign_id)
    connection.execute(row.with_for_update(key_share=True))
    marks = read_marks(connection, campaign_id)
    return last_tallies(marks), max((mark.number for mark in marks), default=0) + 1


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
    if rows:
        statement = insert_into(connection, lockfile_marks)
        key = list(lockfile_marks.primary_key)
        connection.execute(statement.on_conflict_do_update(index_elements=key, set_={"number": number}), rows)
