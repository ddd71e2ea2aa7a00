"""Opt-outs: the people that no campaign on a target may text, and the evidence for each.

Each row is one piece of evidence. A person is suppressed while one is confirmed; a doubtful one waits for a
decision. Letting a person in dismisses the rows instead of deleting them, so that reconciling the same reply
again does not undo the decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    update,
)

from runner.audience.renumbering import list_forms
from runner.ledger.bulk import BulkStatement, divide, iterate_rows
from runner.ledger.database import insert_into
from runner.ledger.files.suppressions import OptOut
from runner.ledger.fingerprint import FingerprintSet
from runner.ledger.model import find_later_moment
from runner.ledger.tables import campaigns, opt_outs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from sqlalchemy.dialects import postgresql, sqlite

    from runner.ledger.files.suppressions import Book, Source, State
    from runner.ledger.fingerprint import TargetKey

    New = sqlite.Insert | postgresql.Insert

_COLUMNS = [column.name for column in opt_outs.c]
_FIELDS = [name for name in _COLUMNS if name != "target"]
_KEY = [column.name for column in opt_outs.primary_key]
_GROUP = 1000
# Built once: a send asks for each of its groups.
_ANYONE = select(opt_outs.c.target).where(opt_outs.c.target == bindparam("b_target")).limit(1)


def in_state(state: str) -> ColumnElement[bool]:
    """Return the condition that a row is in a state."""
    # A literal: the statement's parameters are those of its rows.
    return opt_outs.c.state == literal_column(f"'{state}'")


def says(new: New, state: str) -> ColumnElement[bool]:
    """Return the condition that a new row is in a state."""
    is_it: ColumnElement[bool] = new.excluded.state == literal_column(f"'{state}'")
    return is_it


def entering(condition: Callable[[New], ColumnElement[bool]]) -> BulkStatement:
    """Return the statement that inserts rows, and updates state and moment of existing ones."""

    def compose(connection: Connection) -> Insert:
        statement = insert_into(connection, opt_outs)
        return statement.on_conflict_do_update(
            index_elements=_KEY,
            # A clock that was set back must not make a decision look older than the one before.
            set_={
                "state": statement.excluded.state,
                "at": case(
                    (statement.excluded.at > opt_outs.c.at, statement.excluded.at), else_=opt_outs.c.at
                ),
            },
            where=condition(statement),
        )

    return BulkStatement(compose, _COLUMNS)


RENEW = entering(
    lambda new: and_(in_state("confirmed"), says(new, "confirmed"), new.excluded.at > opt_outs.c.at)
)
"""Updates the moment of repeated opt-outs, so that they are later than other ledgers' dismissals."""


# A new opt-out overrides any earlier decision. A reply stays decided: reading it again makes it no newer.
_TAKE_OVER = entering(
    lambda new: and_(
        says(new, "confirmed"),
        or_(
            in_state("doubtful"),
            and_(
                in_state("dismissed"),
                opt_outs.c.source != literal_column("'reply'"),
                new.excluded.at >= opt_outs.c.at,
            ),
        ),
    )
)
NOBODY = "0" * 20
"""Stands for the people of a launch whom the service does not list: while it is held, all texts wait."""


@dataclass(frozen=True, slots=True)
class Suppressions:
    """People who must not be texted on a target, in one state of the ledger."""

    key: TargetKey
    confirmed: FingerprintSet
    doubtful: FingerprintSet

    def find(self, phone: str) -> Literal["confirmed", "doubtful"] | None:
        """Return the state of a person's opt-outs; None if they may be texted."""
        if not (self.confirmed or self.doubtful):
            return None
        fingerprint = self.key.fingerprint(phone)
        if fingerprint in self.confirmed:
            return "confirmed"
        return "doubtful" if fingerprint in self.doubtful else None


# Doubtful until better rules, or the service's own correction, make it certain; never back.
_ADD_REPLIES = entering(lambda new: and_(in_state("doubtful"), says(new, "confirmed")))
_ADD_DECIDED = entering(lambda _: or_(in_state("doubtful"), in_state("dismissed")))


def add_replies(connection: Connection, target: str, replies: Iterable[OptOut]) -> int:
    """Enter replies that opt out, and return the number of new or newly certain ones; decisions stay."""
    return sum(_ADD_REPLIES.run(connection, rows) for rows in write_rows(target, replies))


def add_opt_outs(
    connection: Connection, key: TargetKey, phones: Iterable[str], source: Source, at: str
) -> int:
    """Enter people who opted out by other ways than a reply, and return the number of new ones.

    Recorded people have opted out once more. `phones` (E.164) are streamed.
    """
    found = (OptOut(key.fingerprint(phone), source, source, "confirmed", at) for phone in phones)
    added = 0
    for rows in write_rows(key.target, found):
        added += _ADD_DECIDED.run(connection, rows)
        RENEW.run(connection, rows)
    return added


@dataclass(frozen=True, slots=True)
class Imported:
    """The numbers of entered opt-outs, and of those left out because a later decision here dismissed them."""

    entered: int = 0
    left_out: int = 0


def import_opt_outs(connection: Connection, book: Book, key: TargetKey) -> Imported:
    """Enter the opt-outs of an exported file.

    People who were let in here, and opted out elsewhere at the same time or later, have opted out. Decisions
    about replies stay, and a file lets in nobody who has opted out here.
    """
    entered = left_out = 0
    for rows in write_rows(key.target, book.pick(OptOut)):
        entered += _TAKE_OVER.run(connection, rows)
        RENEW.run(connection, rows)
        said = {(row["fingerprint"], row["evidence"]) for row in rows if row["state"] != "dismissed"}
        query = select(opt_outs.c.fingerprint, opt_outs.c.evidence).where(
            opt_outs.c.target == key.target,
            opt_outs.c.fingerprint.in_({fingerprint for fingerprint, _ in said}),
            opt_outs.c.state == "dismissed",
        )
        left_out += sum(tuple(row) in said for row in connection.execute(query))
    return Imported(entered, left_out)


def keep_decision(connection: Connection, target: str, decided: OptOut) -> None:
    """Enter a decision about a reply that asks for texts again.

    `dismissed` lets its author in, `confirmed` does not. The target's key must be on record.
    """
    for rows in write_rows(target, [decided]):
        _ADD_DECIDED.run(connection, rows)


def write_rows(target: str, items: Iterable[OptOut]) -> Iterator[list[dict[str, Any]]]:
    """Yield opt-outs as rows of a target, in portions."""
    for group in divide(items, _GROUP):
        yield [{"target": target, **{name: getattr(item, name) for name in _FIELDS}} for item in group]


def remove_opt_out(connection: Connection, key: TargetKey, phone: str, at: str) -> int:
    """Let a person in again: dismiss all evidence that they opted out, and return the number of rows."""
    return dismiss_opt_outs(connection, key.target, key.fingerprint(phone), at)


def dismiss_opt_outs(connection: Connection, target: str, fingerprint: str, at: str) -> int:
    """Dismiss all evidence that a person opted out, and return the number of rows."""
    is_theirs = and_(opt_outs.c.target == target, opt_outs.c.fingerprint == fingerprint)
    at = find_next_moment(connection, is_theirs, at)
    changed = update(opt_outs).where(is_theirs, opt_outs.c.state != "dismissed")
    return connection.execute(changed.values(state="dismissed", at=at)).rowcount


def find_next_moment(connection: Connection, condition: ColumnElement[bool], at: str) -> str:
    """Return a moment, or a later one if rows are newer: a clock that was set back undoes nothing."""
    latest = connection.execute(select(func.max(opt_outs.c.at)).where(condition)).scalar()
    return find_later_moment(at, latest)


def decide_reply(connection: Connection, target: str, result_guid: str, state: State, at: str) -> bool:
    """Enter a person's decision about a reply; return True if the reply exists."""
    is_it = and_(
        opt_outs.c.target == target,
        opt_outs.c.evidence == result_guid,
        opt_outs.c.source.in_(("reply", "launch")),
    )
    at = find_next_moment(connection, is_it, at)
    return connection.execute(update(opt_outs).where(is_it).values(state=state, at=at)).rowcount > 0


def iterate_opt_outs(connection: Connection, target: str, *states: State) -> Iterator[OptOut]:
    """Yield opt-outs, by fingerprint and evidence."""
    query = (
        select(*(opt_outs.c[name] for name in ("fingerprint", "evidence", "source", "state", "at")))
        .where(opt_outs.c.target == target, *([opt_outs.c.state.in_(states)] if states else []))
        .order_by(opt_outs.c.fingerprint, opt_outs.c.evidence)
        .execution_options(yield_per=_GROUP)
    )
    with connection.execute(query) as found:
        for row in found:
            yield OptOut(*row)


def count_opt_outs(connection: Connection, target: str) -> dict[State, int]:
    """Return the number of rows by state."""
    query = (
        select(opt_outs.c.state, func.count().label("number"))
        .where(opt_outs.c.target == target)
        .group_by(opt_outs.c.state)
    )
    return {row.state: row.number for row in connection.execute(query)}


def read_suppressions(
    connection: Connection, key: TargetKey, phones: Iterable[str] | None = None
) -> Suppressions:
    """Return the people who must not be texted: streamed, at 16 bytes each.

    `phones` (E.164) limits the people; None means all.
    """
    if phones is None:
        people = (_iterate_people(connection, key.target, state) for state in ("confirmed", "doubtful"))
    else:
        found = _find_states(connection, key.target, list(map(key.fingerprint, phones)))
        people = (sorted(found[state]) for state in ("confirmed", "doubtful"))
    return Suppressions(key, *map(FingerprintSet, people))


def _iterate_people(connection: Connection, target: str, state: str) -> Iterable[str]:
    query = (
        select(opt_outs.c.fingerprint)
        .where(opt_outs.c.target == target, opt_outs.c.state == state)
        .distinct()
        .order_by(opt_outs.c.fingerprint)
        .execution_options(yield_per=_GROUP)
    )
    return connection.execute(query).scalars()


def _find_states(
    connection: Connection, target: str, asked: Collection[str], source: Source | None = None
) -> dict[State, set[str]]:
    """Return those of some fingerprints that have opted out, certainly or perhaps, by the state of a row."""
    found: dict[State, set[str]] = {"confirmed": set(), "doubtful": set()}
    query = select(opt_outs.c.fingerprint, opt_outs.c.state).where(
        opt_outs.c.target == target, opt_outs.c.state != "dismissed"
    )
    if source is not None:
        query = query.where(opt_outs.c.source == source)
    for row in iterate_rows(connection, query, opt_outs.c.fingerprint, asked):
        found[row.state].add(row.fingerprint)
    return found


def find_suppressed(
    connection: Connection, key: TargetKey, phones: Iterable[str], source: Source | None = None
) -> set[str]:
    """Return the phones of people who have opted out of a target, for certain or perhaps.

    `source` limits the evidence: `forgotten` for people whose data was removed.
    """
    # Most ledgers have no opt-outs, and every group of launches asks.
    if connection.execute(_ANYONE, {"b_target": key.target}).first() is None:
        return set()
    asked = {key.fingerprint(form): phone for phone in phones for form in list_forms(phone)}
    found = _find_states(connection, key.target, asked, source)
    return {asked[fingerprint] for people in found.values() for fingerprint in people}


def read_forgotten(connection: Connection, campaign_id: int) -> set[str]:
    """Return the fingerprints of the forgotten people of a campaign's target who were not let in again."""
    target = select(campaigns.c.target).where(campaigns.c.id == campaign_id).scalar_subquery()
    query = select(opt_outs.c.fingerprint).where(
        opt_outs.c.target == target, opt_outs.c.source == "forgotten", opt_outs.c.state == "confirmed"
    )
    return set(connection.execute(query).scalars())
