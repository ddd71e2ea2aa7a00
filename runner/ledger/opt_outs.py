"""Statements about opt-outs: who is not to be texted by any campaign on a target, and what says so.

Each row is one piece of evidence. A person is suppressed as long as one of them is confirmed; a doubtful one
waits for a decision. Nothing is deleted when a person is let in again: the rows are dismissed, so that
reconciling the same reply once more does not bring back what a person has decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, func, inspect, or_, select, update

from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.moment import find_later_moment
from runner.ledger.opt_out_entry import RENEW, entering, in_state, says
from runner.ledger.tables import opt_outs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.ledger.target_key import TargetKey

Source = Literal["reply", "import", "person", "forgotten"]
"""`reply`: reconciling found it; `import`: a list; `person`: by hand; `forgotten`: their data was removed."""
State = Literal["confirmed", "doubtful", "dismissed"]

_GROUP = 1000


@dataclass(frozen=True, slots=True)
class OptOut:
    """One thing that says that a person opted out.

    Attributes:
        fingerprint: the person's, on the target.
        evidence: the reply's `result_guid`, or, of a reply that the service kept to itself, the
            `project_launch_guid`; else the source's own name.
        source: where it comes from.
        state: `confirmed` ones count, `dismissed` ones don't, `doubtful` ones wait for a person's decision.
        at: when it was entered, or decided; UTC, ISO 8601.
    """

    fingerprint: str
    evidence: str
    source: Source
    state: State
    at: str


@dataclass(frozen=True, slots=True)
class Suppressions:
    """Who is not to be texted on a target, as one state of the ledger has it.

    Attributes:
        key: makes the fingerprints; None if nobody is on record.
        confirmed: those who opted out.
        doubtful: those of whom a person must say whether they did.
    """

    key: TargetKey | None
    confirmed: FingerprintSet
    doubtful: FingerprintSet

    def find(self, phone: str) -> Literal["confirmed", "doubtful"] | None:
        """Return why a person is not to be texted now; None if they may be.

        Args:
            phone: E.164.
        """
        if self.key is None or not (self.confirmed or self.doubtful):
            return None
        fingerprint = self.key.fingerprint(phone)
        if fingerprint in self.confirmed:
            return "confirmed"
        return "doubtful" if fingerprint in self.doubtful else None


# Doubtful until better rules, or the service's own correction, make it certain; never back.
_ADD_REPLIES = entering(lambda new: and_(in_state("doubtful"), says(new, "confirmed")))
_ADD_DECIDED = entering(lambda _: or_(in_state("doubtful"), in_state("dismissed")))


def add_replies(connection: Connection, target: str, replies: Iterable[OptOut]) -> int:
    """Enter replies that opt out; what was decided here stays decided.

    Args:
        connection: commits after this, at best with the results themselves.
        target: the target's name; its key is on record.
        replies: with their evidence.

    Returns:
        How many are new, or have become certain.
    """
    return sum(_ADD_REPLIES.run(connection, rows) for rows in write_rows(target, replies))


def add_opt_outs(
    connection: Connection, key: TargetKey, phones: Iterable[str], source: Source, at: str
) -> int:
    """Enter people who opted out by other ways than a reply; who is on record so did it once more.

    Args:
        connection: commits after this.
        key: on record.
        phones: E.164; streamed.
        source: any but `reply`.
        at: UTC, ISO 8601.

    Returns:
        How many of them were not on record as confirmed by that source.
    """
    found = (OptOut(key.fingerprint(phone), source, source, "confirmed", at) for phone in phones)
    added = 0
    for rows in write_rows(key.target, found):
        added += _ADD_DECIDED.run(connection, rows)
        RENEW.run(connection, rows)
    return added


def keep_decision(connection: Connection, target: str, decided: OptOut) -> None:
    """Enter what a person decided about a reply that asks to be texted again.

    Args:
        connection: commits after this.
        target: the target's name; its key is on record.
        decided: `dismissed` lets its author in, `confirmed` does not.
    """
    for rows in write_rows(target, [decided]):
        _ADD_DECIDED.run(connection, rows)


def write_rows(target: str, items: Iterable[OptOut]) -> Iterator[list[dict[str, Any]]]:
    """Yield opt-outs as rows of a target, some at a time."""
    waiting = iter(items)
    while group := list(islice(waiting, _GROUP)):
        yield [_write_row(target, item) for item in group]


def _write_row(target: str, item: OptOut) -> dict[str, Any]:
    return {
        "target": target,
        "fingerprint": item.fingerprint,
        "evidence": item.evidence,
        "source": item.source,
        "state": item.state,
        "at": item.at,
    }


def remove_opt_out(connection: Connection, key: TargetKey, phone: str, at: str) -> int:
    """Let a person in again: everything that says that they opted out is dismissed.

    Args:
        connection: commits after this.
        key: on record.
        phone: E.164.
        at: UTC, ISO 8601.

    Returns:
        How many rows said so.
    """
    return dismiss_opt_outs(connection, key.target, key.fingerprint(phone), at)


def dismiss_opt_outs(connection: Connection, target: str, fingerprint: str, at: str) -> int:
    """Dismiss everything that says that a person opted out, and return how many rows said so.

    Args:
        connection: commits after this.
        target: the target's name.
        fingerprint: the person's, on the target.
        at: UTC, ISO 8601.
    """
    is_theirs = and_(opt_outs.c.target == target, opt_outs.c.fingerprint == fingerprint)
    at = find_next_moment(connection, is_theirs, at)
    changed = update(opt_outs).where(is_theirs, opt_outs.c.state != "dismissed")
    return connection.execute(changed.values(state="dismissed", at=at)).rowcount


def find_next_moment(connection: Connection, condition: ColumnElement[bool], at: str) -> str:
    """Return a moment, or a later one if rows are newer than it: a clock that was set back undoes nothing.

    Args:
        connection: reads the ledger.
        condition: that the rows meet.
        at: UTC, ISO 8601.
    """
    latest = connection.execute(select(func.max(opt_outs.c.at)).where(condition)).scalar()
    return find_later_moment(at, latest)


def decide_reply(connection: Connection, target: str, result_guid: str, state: State, at: str) -> bool:
    """Enter what a person decided about a reply.

    Args:
        connection: commits after this.
        target: the target's name.
        result_guid: of the reply.
        state: `confirmed` or `dismissed`.
        at: UTC, ISO 8601.

    Returns:
        Whether there is such a reply.
    """
    is_it = and_(
        opt_outs.c.target == target, opt_outs.c.evidence == result_guid, opt_outs.c.source == "reply"
    )
    at = find_next_moment(connection, is_it, at)
    return connection.execute(update(opt_outs).where(is_it).values(state=state, at=at)).rowcount > 0


def iterate_opt_outs(connection: Connection, target: str, *states: State) -> Iterator[OptOut]:
    """Yield what is on record, by fingerprint and evidence.

    Args:
        connection: reads the ledger.
        target: the target's name.
        states: those that are wanted; none for all.
    """
    query = (
        select(*(opt_outs.c[name] for name in ("fingerprint", "evidence", "source", "state", "at")))
        .where(opt_outs.c.target == target, *([opt_outs.c.state.in_(states)] if states else []))
        .order_by(opt_outs.c.fingerprint, opt_outs.c.evidence)
        .execution_options(yield_per=_GROUP)
    )
    for row in connection.execute(query):
        yield OptOut(*row)


def count_opt_outs(connection: Connection, target: str) -> dict[State, int]:
    """Return the number of rows in each state that there is; the ledger may be of an older version."""
    if not inspect(connection).has_table(opt_outs.name):
        return {}
    query = (
        select(opt_outs.c.state, func.count().label("number"))
        .where(opt_outs.c.target == target)
        .group_by(opt_outs.c.state)
    )
    return {row.state: row.number for row in connection.execute(query)}


def read_suppressions(connection: Connection, key: TargetKey | None) -> Suppressions:
    """Return who is not to be texted: streamed, then 16 bytes a person.

    Args:
        connection: reads the ledger, which may be of an older version.
        key: as `read_target_key` returns it.
    """
    if key is None or not inspect(connection).has_table(opt_outs.name):
        return Suppressions(None, FingerprintSet(), FingerprintSet())
    return Suppressions(
        key,
        FingerprintSet(_iterate_people(connection, key.target, "confirmed")),
        FingerprintSet(_iterate_people(connection, key.target, "doubtful")),
    )


def _iterate_people(connection: Connection, target: str, state: State) -> Iterator[str]:
    query = (
        select(opt_outs.c.fingerprint)
        .where(opt_outs.c.target == target, opt_outs.c.state == state)
        .distinct()
        .order_by(opt_outs.c.fingerprint)
        .execution_options(yield_per=_GROUP)
    )
    return iter(connection.execute(query).scalars())
