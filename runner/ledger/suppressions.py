"""Brings the ledger and the file of suppressions together: each learns what the other knows.

What the ledger knows is written to the file as a function of the ledger; what the file tells is entered
before anything is planned. Of two decisions about one thing the later one counts, as between two files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, delete, func, inspect, or_, select

from runner.errors import SuppressionsError
from runner.ledger.database import exclude_others, insert_into
from runner.ledger.draft import write_whole
from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.moment import find_later_moment
from runner.ledger.opt_out_entry import entering, in_state, says
from runner.ledger.opt_outs import OptOut, Suppressions, iterate_opt_outs, read_suppressions, write_rows
from runner.ledger.suppression_file import DIGEST_SIZE, Book, BookText, Entry, settle, write_book
from runner.ledger.tables import campaign_pauses, info, opt_outs
from runner.ledger.target_key import read_target_key, record_target_key
from runner.ledger.told_holds import iterate_holds, keep_told

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
"""Takes over what was decided later, or at the same time and with more caution."""
_PAUSE_COLUMNS = [column.name for column in campaign_pauses.c]


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's word that a campaign is to wait.

    Attributes:
        at: when it was said; UTC, ISO 8601.
        reason: why; may be empty.
    """

    at: str
    reason: str

    def describe(self) -> str:
        """Return it in words."""
        return f"on hold since {self.at[:16].replace('T', ' ')} UTC" + (
            f": {self.reason}" if self.reason else ""
        )


@dataclass(frozen=True, slots=True)
class Told:
    """Who is not to be texted, and which campaigns wait, as ledger and files say together.

    Attributes:
        suppressions: the people.
        pauses: the campaigns that are paused, by name.
        holds: entries about people whom launches hold that no record explains.
    """

    suppressions: Suppressions
    pauses: dict[str, Pause]
    holds: tuple[Entry, ...]


def read_told(
    connection: Connection | None, books: Sequence[BookText], target: str, state_key: str | None
) -> Told:
    """Return who is not to be texted; writes nothing.

    Args:
        connection: reads the ledger, which may be of an older version; None if there is none yet.
        books: what files say.
        target: the target's name.
        state_key: the user's secret; None if there is none.

    Raises:
        LedgerError: the ledger's key is not at hand.
        SuppressionsError: a file proves nothing, or is of another key than the ledger.
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
    """Enter what a file says and the ledger doesn't.

    Args:
        connection: commits after this.
        text: the file.
        target: the target that it must be of.
        state_key: the user's secret; None if there is none.

    Raises:
        LedgerError: the ledger's key is not at hand.
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
    """Write what the ledger knows to a target's file; what the file tells is entered first.

    Args:
        connection: in a transaction that keeps others from writing.
        file: where it stands.
        people: of the target: what is to be written needs a key.
        text: what the file holds by now; None if there is none, or if it makes no difference.

    Returns:
        Whether the file has changed.

    Raises:
        LedgerError: the ledger's key is not at hand.
        SuppressionsError: as for `read_told`; or it cannot be written.
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
    """Yield what the ledger has to say in a file of suppressions: unsealed, in the file's order.

    Args:
        connection: reads the ledger, which may be of an older version.
        target: the target's name.
    """
    yield from iterate_holds(connection, target)
    if inspect(connection).has_table(opt_outs.name):
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
    """Pause a campaign, or let it go on.

    Args:
        connection: commits after this.
        people: of the target: what is to be written to its file needs a key.
        campaign: its name.
        reason: why it is paused; None to let it go on.
        at: UTC, ISO 8601.

    Returns:
        Whether that is new.
    """
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
    _store_pause(connection, row)
    return True


def is_absorbed(connection: Connection, target: str, text: BookText) -> bool:
    """Return whether the ledger has all that a target's file says, as it stands."""
    digest, count, _ = _read_mark(connection, target, text.file)
    return digest == text.digest and count <= _count(connection, target)


def _read_mark(connection: Connection, target: str, file: Path) -> tuple[str, int, str]:
    """Return what was noted of a file: its digest, the number of entries, and of what it was written."""
    query = select(info.c.value).where(info.c.name == _name_mark(target, file))
    value = connection.execute(query).scalar() if inspect(connection).has_table(info.name) else None
    digest, count, state = (value or " 0 ").split(" ")
    return digest, int(count), state


def _note_absorbed(connection: Connection, target: str, file: Path, digest: str, state: str = "") -> None:
    # With their number: a copy of the ledger that lacks them has not taken them in.
    value = f"{digest} {_count(connection, target)} {state}"
    entered = insert_into(connection, info).values(name=_name_mark(target, file), value=value)
    connection.execute(entered.on_conflict_do_update(index_elements=["name"], set_={"value": value}))


def _digest_entries(connection: Connection, target: str, key: TargetKey) -> str:
    """Return what tells whether a file has to be written anew: cheaper than to write it."""
    digest = hashlib.blake2b((key.seal(key.name) or key.name).encode(), digest_size=DIGEST_SIZE)
    for entry in iterate_entries(connection, target):
        digest.update(repr(tuple(entry.values())).encode())
    return digest.hexdigest()


def _count(connection: Connection, target: str) -> int:
    count = 0
    for table in (opt_outs, campaign_pauses):
        if inspect(connection).has_table(table.name):
            query = select(func.count()).select_from(table).where(table.c.target == target)
            count += connection.execute(query).scalar_one()
    return count


def _name_mark(target: str, file: Path) -> str:
    place = hashlib.blake2b(str(file.resolve()).encode(), digest_size=8).hexdigest()
    return f"suppressions_{place}_{target}"


def _agree_on_key(
    own: TargetKey | None, books: Sequence[Book], target: str, state_key: str | None
) -> TargetKey | None:
    """Return the key of ledger and files, which must be one."""
    for book in books:
        theirs = book.open_key(target, state_key)
        if own is not None and own.name != theirs.name:
            raise SuppressionsError(
                f"{book.file} and the ledger have opt-outs that were written with different keys: nobody can "
                "tell whose they are",
                hint="move the ledger away: it is filled from the lockfiles and this file, and "
                "`runner reconcile --full` finds replies again; people who were entered by hand, enter again "
                "with `runner optouts add`",
            )
        own = theirs
    return own


def _read_opt_out(entry: Entry) -> OptOut:
    return OptOut(*(entry[name] for name in ("fingerprint", "evidence", "source", "state", "at")))


def _remove_replaced(connection: Connection, target: str) -> None:
    """Remove what other ledgers had of people who were forgotten, as forgetting them does."""
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
        _store_pause(connection, {"target": target, **{name: latest[name] for name in _PAUSE_COLUMNS[1:]}})


def _store_pause(connection: Connection, row: dict[str, Any]) -> None:
    entered = insert_into(connection, campaign_pauses).values(row)
    changed = {name: row[name] for name in ("state", "at", "reason")}
    connection.execute(entered.on_conflict_do_update(index_elements=["target", "campaign"], set_=changed))


def _iterate_pauses(connection: Connection, target: str) -> Iterator[Entry]:
    if not inspect(connection).has_table(campaign_pauses.name):
        return
    query = select(campaign_pauses).where(campaign_pauses.c.target == target)
    for row in connection.execute(query.order_by(campaign_pauses.c.campaign)).all():
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
