"""Suppressions in the ledger and in the files that carry them to other ledgers.

The file is a function of the ledger, and its entries are read into the ledger before anything is planned. Of
two decisions about one thing the later counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection, bindparam, delete, exists, select

from runner.ledger.database import insert_or_update, note_absorbed
from runner.ledger.files.suppressions import BOOK, HoldLine, OptOut, PauseLine, seal_book, settle
from runner.ledger.model import find_later_moment
from runner.ledger.people.opt_outs import decide, iterate_opt_outs
from runner.ledger.record.deliveries import enter_campaign, find_record
from runner.ledger.record.entry import (
    CLAIM,
    UnexplainedLaunch,
    hold_people,
    list_deliveries,
    list_unexplained,
    read_dismissed,
)
from runner.ledger.record.unsettled import UNEXPLAINED, find_owner, list_claimed
from runner.ledger.tables import campaign_pauses, campaigns, launches, of_target, opt_outs
from runner.ledger.target_key import enter_key
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from runner.ledger.files.suppressions import Book, Entry
    from runner.ledger.fingerprint import TargetKey

ROLLOUT = "rollout step "
"""The beginning of the reason of a pause that a broken guard of a rollout has caused."""
_PAUSE_COLUMNS = [column.name for column in campaign_pauses.c]
# Built once: a send asks for each of its groups.
_PAUSES = (
    select(campaign_pauses)
    .where(campaign_pauses.c.target == bindparam("b_target"))
    .order_by(campaign_pauses.c.campaign)
)


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's decision to pause a campaign.

    Attributes:
        at: when; UTC, ISO 8601.
        reason: why, in words; may be empty.
    """

    at: str
    reason: str

    def describe(self) -> str:
        """Describe the pause in words."""
        return f"paused since {self.at[:16].replace('T', ' ')} UTC" + (
            f": {self.reason}" if self.reason else ""
        )


def absorb_book(connection: Connection, book: Book, key: TargetKey) -> None:
    """Enter the entries of a file that the ledger lacks."""
    enter_key(connection, key)
    decide(connection, key.target, book.pick(OptOut))
    _remove_replaced(connection, key.target)
    known = _read_pauses(connection, key.target)
    for pause in book.pick(PauseLine):
        before = known.get(pause.campaign)
        (latest,) = settle([pause] if before is None else [before, pause])
        _store_pause(connection, key.target, latest)
    for hold in book.pick(HoldLine):
        absorb_hold(connection, key.target, hold)


def save_suppressions(connection: Connection, file: Path, key: TargetKey) -> bool:
    """Write the ledger's entries to a target's file, of which it must have all; return True if that changed.

    The connection's transaction must keep others from writing.
    """
    entries = list(iterate_entries(connection, key.target))
    if not entries and not file.exists():
        return False
    enter_key(connection, key)
    changed, digest = BOOK.save(file, seal_book(key, entries))
    note_absorbed(connection, [digest])
    return changed


def compose_suppressions(connection: Connection, key: TargetKey) -> str | None:
    """Return the text of a target's file of suppressions; None if that is empty."""
    entries = list(iterate_entries(connection, key.target))
    return "".join(seal_book(key, entries)) if entries else None


def iterate_entries(connection: Connection, target: str) -> Generator[Entry]:
    """Yield the ledger's entries for a file of suppressions, in the file's order."""
    yield from iterate_holds(connection, target)
    yield from iterate_opt_outs(connection, target)
    yield from _read_pauses(connection, target).values()


def absorb_hold(connection: Connection, target: str, hold: HoldLine, campaign_id: int | None = None) -> None:
    """Hold the people that a file names, unless the ledger knows the launch: then it decides about them.

    `campaign_id` is None for the campaign that it names.
    """
    if campaign_id is None:
        row = find_record(connection, target, [hold.campaign], takes_heirs=True)
        campaign_id = enter_campaign(connection, target, hold.campaign) if row is None else row.id
    guid = normalize_guid(hold.launch)
    dismissed = set(map(normalize_guid, read_dismissed(connection, campaign_id)))
    if guid in dismissed | list_claimed(connection, target):
        return
    known = find_owner(connection, campaign_id, hold.launch)
    if known is None:
        held = {hold.message: hold.fingerprints}
        launch = UnexplainedLaunch(hold.launch, hold.tag, hold.at, {}, held, hold.whole, hold.occasion)
        hold_people(connection, campaign_id, launch)
    else:
        rows = list_deliveries(campaign_id, hold.message, known.id, hold.fingerprints, hold.occasion)
        CLAIM.run(connection, list(rows))


def iterate_holds(connection: Connection, target: str) -> Iterator[HoldLine]:
    """Yield the holds of a target, in the order of the file."""
    holding = of_target(select(campaigns.c.id, campaigns.c.name).select_from(launches), target)
    holding = holding.where(launches.c.state == UNEXPLAINED).distinct()
    found = [
        HoldLine(
            row.name,
            launch.project_launch_guid,
            message,
            launch.tag,
            tuple(sorted(people)),
            launch.is_whole,
            launch.started_at,
            launch.occasion,
        )
        for row in connection.execute(holding).all()
        for launch in list_unexplained(connection, row.id)
        for message, people in launch.held.items()
    ]
    yield from sorted(found, key=lambda one: one.identity)


def set_pause(connection: Connection, key: TargetKey, campaign: str, reason: str | None, at: str) -> bool:
    """Pause a campaign, or resume it if `reason` is None; return True if that is a change.

    Resuming after a broken guard keeps the reason: a person has accepted its figures.
    """
    enter_key(connection, key)
    known = _read_pauses(connection, key.target).get(campaign)
    if reason is None and (known is None or known.state == "resumed"):
        return False
    if known is not None and (known.state, known.reason) == ("paused", reason):
        return False
    kept = known.reason if known is not None and known.reason.startswith(ROLLOUT) else ""
    state: Literal["paused", "resumed"] = "resumed" if reason is None else "paused"
    at = find_later_moment(at, None if known is None else known.at)
    _store_pause(connection, key.target, PauseLine(campaign, kept if reason is None else reason, state, at))
    return True


def read_accepted(connection: Connection, target: str, names: Iterable[str]) -> str:
    """Return the reason of a broken guard's pause that a person has ended since; empty if there is none."""
    known = _read_pauses(connection, target)
    lines = (known[name] for name in names if name in known)
    return next((line.reason for line in lines if line.state == "resumed" and line.reason), "")


def read_pauses(connection: Connection, target: str) -> dict[str, Pause]:
    """Return the paused campaigns of a target, by name."""
    known = _read_pauses(connection, target).values()
    return {one.campaign: Pause(one.at, one.reason) for one in known if one.state == "paused"}


def find_pause(connection: Connection, target: str, names: Iterable[str]) -> Pause | None:
    """Return a person's decision to pause a campaign, known by several names; None if there is none."""
    paused = read_pauses(connection, target)
    return next((paused[name] for name in names if name in paused), None)


def _remove_replaced(connection: Connection, target: str) -> None:
    """Remove entries of forgotten people."""
    theirs = opt_outs.alias()
    was_forgotten = exists().where(
        theirs.c.target == opt_outs.c.target,
        theirs.c.fingerprint == opt_outs.c.fingerprint,
        theirs.c.source == "forgotten",
        theirs.c.at >= opt_outs.c.at,
    )
    connection.execute(
        delete(opt_outs).where(opt_outs.c.target == target, opt_outs.c.source != "forgotten", was_forgotten)
    )


def _store_pause(connection: Connection, target: str, pause: Entry) -> None:
    row = {"target": target, **{name: getattr(pause, name) for name in _PAUSE_COLUMNS[1:]}}
    insert_or_update(connection, campaign_pauses, [row])


def _read_pauses(connection: Connection, target: str) -> dict[str, PauseLine]:
    rows = connection.execute(_PAUSES, {"b_target": target})
    return {row.campaign: PauseLine(row.campaign, row.reason, row.state, row.at) for row in rows}
