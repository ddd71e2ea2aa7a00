"""Synchronization between the ledger and the file of suppressions.

The file is a function of the ledger, and its entries are read into the ledger before anything is planned. Of
two decisions about one thing the later counts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select

from runner.errors import SuppressionsError
from runner.ledger.atomic_write import write_whole
from runner.ledger.database import (
    exclude_others,
    insert_or_update,
    read_info,
    write_info,
)
from runner.ledger.fingerprint import FingerprintSet
from runner.ledger.model import find_later_moment
from runner.ledger.people.opt_outs import (
    OptOut,
    Suppressions,
    entering,
    in_state,
    iterate_opt_outs,
    read_suppressions,
    says,
    write_rows,
)
from runner.ledger.people.suppression_file import DIGEST_SIZE, Book, BookText, Entry, settle, write_book
from runner.ledger.record.unexplained import iterate_holds, keep_told
from runner.ledger.tables import campaign_pauses, opt_outs
from runner.ledger.target_key import read_target_key, record_target_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from runner.ledger.target_key import KeySource, TargetKey

_LATER = entering(
    lambda new: or_(
        new.excluded.at > opt_outs.c.at,
        and_(
            new.excluded.at == opt_outs.c.at,
            or_(
                and_(says(new, "confirmed"), ~in_state("confirmed")),
                and_(says(new, "doubtful"), in_state("dismissed")),
            ),
        ),
    )
)
"""Enters later decisions, and more cautious ones of the same moment."""
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


@dataclass(frozen=True, slots=True)
class Told:
    """Suppressed people, paused campaigns and holds for unexplained launches, of ledger and files."""

    suppressions: Suppressions
    pauses: dict[str, Pause]
    holds: tuple[Entry, ...]


def read_told(
    connection: Connection | None, books: Sequence[BookText], target: str, state_key: str | None
) -> Told:
    """Return the people who must not be texted, without writing anything.

    Raises:
        LedgerError: the ledger's key is missing.
        SuppressionsError: a file has invalid seals, or another key than the ledger.
    """
    key = None if connection is None else read_target_key(connection, target, state_key)
    new = [one.parse() for one in books if connection is None or not is_absorbed(connection, target, one)]
    key = _agree_on_key(key, new, target, state_key)
    if connection is not None and not new:
        pauses = _find_paused(_iterate_pauses(connection, target))
        return Told(read_suppressions(connection, key), pauses, tuple(iterate_holds(connection, target)))
    entries = [] if connection is None else list(iterate_entries(connection, target))
    people: dict[str, list[str]] = {"confirmed": [], "doubtful": [], "dismissed": []}
    others: dict[str, list[Entry]] = {"pause": [], "hold": []}
    for entry in settle(chain(entries, *(book.entries for book in new))):
        if entry["kind"] != "opt_out":
            others[entry["kind"]].append(entry)
        elif people[entry["state"]][-1:] != [entry["fingerprint"]]:
            people[entry["state"]].append(entry["fingerprint"])
    confirmed, doubtful = FingerprintSet(people["confirmed"]), FingerprintSet(people["doubtful"])
    return Told(Suppressions(key, confirmed, doubtful), _find_paused(others["pause"]), tuple(others["hold"]))


def absorb_book(connection: Connection, text: BookText, target: str, state_key: str | None) -> None:
    """Enter the entries of a file that the ledger lacks.

    Raises:
        LedgerError: the ledger's key is missing.
        SuppressionsError: as for `read_told`.
    """
    exclude_others(connection)
    own = read_target_key(connection, target, state_key)
    if is_absorbed(connection, target, text):
        return
    book = text.parse()
    key = _agree_on_key(own, [book], target, state_key)
    if own is None and key is not None:
        record_target_key(connection, key)
    found = (_read_opt_out(entry) for entry in book.list_kind("opt_out"))
    for rows in write_rows(target, found):
        _LATER.run(connection, rows)
    _remove_replaced(connection, target)
    for entry in book.list_kind("pause"):
        _enter_pause(connection, target, entry)
    keep_told(connection, target, book.list_kind("hold"))
    _note_absorbed(connection, target, text.file, text.digest)


def write_suppressions(connection: Connection, file: Path, people: KeySource, text: BookText | None) -> bool:
    """Write the ledger's entries to a target's file, after entering those of the file.

    The connection's transaction must keep others from writing. `text` is the current file; None if there is
    none, or to ignore it. Returns True if the file has changed.

    Raises:
        LedgerError: the ledger's key is missing.
        SuppressionsError: as for `read_told`; or the file cannot be written.
    """
    exclude_others(connection)
    target = people.target
    if text is not None:
        absorb_book(connection, text, target, people.state_key)
    is_empty = not _count(connection, target) and next(iterate_holds(connection, target), None) is None
    if is_empty and not file.exists():
        return False
    key = people.enter(connection)
    state = _digest_entries(connection, target, key)
    if text is not None and _read_mark(connection, target, file)[::2] == (text.digest, state):
        return False
    digests: list[str] = []
    entries = iterate_entries(connection, target)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        changed = write_whole(file, lambda stream: digests.append(write_book(stream, key, entries)))
    except OSError as error:
        raise SuppressionsError(
            f"{file} cannot be written: {error.strerror}",
            hint="the ledger has everything: run the same command again when this is mended",
        ) from None
    _note_absorbed(connection, target, file, digests[0], state)
    return changed


def iterate_entries(connection: Connection, target: str) -> Iterator[Entry]:
    """Yield the ledger's entries for a file of suppressions: unsealed, in the file's order."""
    yield from iterate_holds(connection, target)
    for item in iterate_opt_outs(connection, target):
        yield {
            "kind": "opt_out",
            "at": item.at,
            "evidence": item.evidence,
            "fingerprint": item.fingerprint,
            "source": item.source,
            "state": item.state,
        }
    yield from _iterate_pauses(connection, target)


def set_pause(connection: Connection, people: KeySource, campaign: str, reason: str | None, at: str) -> bool:
    """Pause a campaign, or resume it if `reason` is None; return True if that is a change."""
    exclude_others(connection)
    people.enter(connection)
    state = "resumed" if reason is None else "paused"
    known = {entry["campaign"]: entry for entry in _iterate_pauses(connection, people.target)}.get(campaign)
    if known is None and reason is None:
        return False
    if known is not None and (known["state"], known["reason"]) == (state, reason or ""):
        return False
    at = find_later_moment(at, None if known is None else known["at"])
    row = {"target": people.target, "campaign": campaign, "state": state, "at": at, "reason": reason or ""}
    insert_or_update(connection, campaign_pauses, [row])
    return True


def find_pause(connection: Connection, target: str, names: Iterable[str]) -> Pause | None:
    """Return a person's decision to pause a campaign, known by several names; None if there is none."""
    paused = _find_paused(_iterate_pauses(connection, target))
    return next((paused[name] for name in names if name in paused), None)


def is_absorbed(connection: Connection, target: str, text: BookText) -> bool:
    """Return whether the ledger has all entries of a target's file."""
    digest, count, _ = _read_mark(connection, target, text.file)
    return digest == text.digest and count <= _count(connection, target)


def _read_mark(connection: Connection, target: str, file: Path) -> tuple[str, int, str]:
    """Return the note on a file: its digest, the number of entries, the digest of the ledger's entries."""
    value = read_info(connection, _name_mark(target, file))
    digest, count, state = (value or " 0 ").split(" ")
    return digest, int(count), state


def _note_absorbed(connection: Connection, target: str, file: Path, digest: str, state: str = "") -> None:
    # With their number, so that a copy of the ledger that lacks some of them reads the file again.
    value = f"{digest} {_count(connection, target)} {state}"
    write_info(connection, _name_mark(target, file), value)


def _digest_entries(connection: Connection, target: str, key: TargetKey) -> str:
    """Return a digest that shows whether the file must be rewritten; cheaper than writing it."""
    digest = hashlib.blake2b(key.seal(key.name).encode(), digest_size=DIGEST_SIZE)
    for entry in iterate_entries(connection, target):
        digest.update(repr(tuple(entry.values())).encode())
    return digest.hexdigest()


def _count(connection: Connection, target: str) -> int:
    count = 0
    for table in (opt_outs, campaign_pauses):
        query = select(func.count()).select_from(table).where(table.c.target == target)
        count += connection.execute(query).scalar_one()
    return count


def _name_mark(target: str, file: Path) -> str:
    place = hashlib.blake2b(str(file.resolve()).encode(), digest_size=8).hexdigest()
    return f"suppressions_{place}_{target}"


def _agree_on_key(
    own: TargetKey | None, books: Sequence[Book], target: str, state_key: str | None
) -> TargetKey | None:
    """Return the key of ledger and files, which must be the same."""
    for book in books:
        theirs = book.open_key(target, state_key)
        if own is not None and own.name != theirs.name:
            raise SuppressionsError(
                f"{book.file} and the ledger have opt-outs that were written with different keys, so their "
                "people cannot be matched",
                hint="move the ledger away: it is filled from the lockfiles and this file, and "
                "`runner reconcile --full` finds replies again; people who were entered by hand, enter again "
                "with `runner optouts add`",
            )
        own = theirs
    return own


def _read_opt_out(entry: Entry) -> OptOut:
    return OptOut(*(entry[name] for name in ("fingerprint", "evidence", "source", "state", "at")))


def _remove_replaced(connection: Connection, target: str) -> None:
    """Remove entries of forgotten people."""
    theirs = opt_outs.alias()
    was_forgotten = (
        select(theirs.c.target)
        .where(
            theirs.c.target == opt_outs.c.target,
            theirs.c.fingerprint == opt_outs.c.fingerprint,
            theirs.c.source == "forgotten",
            theirs.c.at >= opt_outs.c.at,
        )
        .exists()
    )
    connection.execute(
        delete(opt_outs).where(opt_outs.c.target == target, opt_outs.c.source != "forgotten", was_forgotten)
    )


def _enter_pause(connection: Connection, target: str, entry: Entry) -> None:
    known = next(
        (one for one in _iterate_pauses(connection, target) if one["campaign"] == entry["campaign"]), None
    )
    said = {name: entry[name] for name in ("kind", "at", "campaign", "reason", "state")}
    (latest,) = settle([said] if known is None else [known, said])
    if latest != known:
        row = {"target": target, **{name: latest[name] for name in _PAUSE_COLUMNS[1:]}}
        insert_or_update(connection, campaign_pauses, [row])


def _iterate_pauses(connection: Connection, target: str) -> Iterator[Entry]:
    for row in connection.execute(_PAUSES, {"b_target": target}).all():
        yield {
            "kind": "pause",
            "at": row.at,
            "campaign": row.campaign,
            "reason": row.reason,
            "state": row.state,
        }


def _find_paused(entries: Iterable[Entry]) -> dict[str, Pause]:
    return {
        entry["campaign"]: Pause(entry["at"], entry["reason"])
        for entry in entries
        if entry["state"] == "paused"
    }
