"""Opt-outs: the people that no campaign on a target may text, and the evidence for each.

Each row is one piece of evidence. A person is suppressed while one is confirmed; a doubtful one waits for a
decision. Letting a person in dismisses the rows instead of deleting them, so that reconciling the same reply
again does not undo the decision.
"""

from __future__ import annotations

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
from runner.ledger.fingerprint import KnownPeople
from runner.ledger.model import find_later_moment
from runner.ledger.tables import name_target, opt_outs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from sqlalchemy import Select
    from sqlalchemy.dialects import postgresql, sqlite

    from runner.ledger.files.suppressions import Source, State
    from runner.ledger.fingerprint import TargetKey

    New = sqlite.Insert | postgresql.Insert
    Barred = Literal["confirmed", "doubtful"]

_COLUMNS = [column.name for column in opt_outs.c]
_FIELDS = [name for name in _COLUMNS if name != "target"]
_GROUP = 1000
NOBODY = "0" * 20
"""Stands for the people of a launch whom the service does not list: while it is held, all texts wait."""
# Built once: a send asks for each of its groups.
_ANYONE = select(opt_outs.c.target).where(opt_outs.c.target == bindparam("b_target")).limit(1)


def _entering(condition: Callable[[New], ColumnElement[bool]]) -> BulkStatement:
    """Return the statement that inserts rows, and updates state and moment of existing ones."""

    def compose(connection: Connection) -> Insert:
        statement = insert_into(connection, opt_outs)
        new, known = statement.excluded, opt_outs.c
        return statement.on_conflict_do_update(
            index_elements=list(opt_outs.primary_key),
            # A clock that was set back must not make a decision look older than the one before.
            set_={"state": new.state, "at": case((new.at > known.at, new.at), else_=known.at)},
            where=condition(statement),
        )

    return BulkStatement(compose, _COLUMNS)


def _weigh(state: ColumnElement[str]) -> ColumnElement[int]:
    # Literals: the statement's parameters are those of its rows.
    ranks = enumerate(("'dismissed'", "'doubtful'"))
    return case(
        *((state == literal_column(name), literal_column(str(rank))) for rank, name in ranks),
        else_=literal_column("2"),
    )


# Doubtful until better rules, or the service's own correction, make it certain; decisions stay.
_ADD_REPLIES = _entering(
    lambda new: and_(
        _weigh(opt_outs.c.state) == literal_column("1"), _weigh(new.excluded.state) == literal_column("2")
    )
)
_DECIDE = _entering(
    lambda new: or_(
        new.excluded.at > opt_outs.c.at,
        and_(new.excluded.at == opt_outs.c.at, _weigh(new.excluded.state) > _weigh(opt_outs.c.state)),
    )
)


def add_replies(connection: Connection, target: str, replies: Iterable[OptOut]) -> int:
    """Enter replies that opt out, and return the number of new or newly certain ones; decisions stay."""
    return sum(_ADD_REPLIES.run(connection, rows) for rows in _write_rows(target, replies))


def add_opt_outs(
    connection: Connection, key: TargetKey, phones: Iterable[str], source: Source, at: str
) -> int:
    """Enter people who opted out by other ways than a reply, and return the number of new ones.

    Recorded people have opted out once more. `phones` (E.164) are streamed.
    """
    before = count_opt_outs(connection, key.target).get("confirmed", 0)
    at = find_next_moment(connection, opt_outs.c.target == key.target, at)
    decide(
        connection,
        key.target,
        (OptOut(key.fingerprint(phone), source, source, "confirmed", at) for phone in phones),
    )
    return count_opt_outs(connection, key.target).get("confirmed", 0) - before


def decide(connection: Connection, target: str, decisions: Iterable[OptOut]) -> None:
    """Enter decisions: later ones, and more cautious ones of the same moment; the key must be on record."""
    for rows in _write_rows(target, decisions):
        _DECIDE.run(connection, rows)


def _write_rows(target: str, items: Iterable[OptOut]) -> Iterator[list[dict[str, Any]]]:
    """Yield opt-outs as rows of a target, in portions."""
    for group in divide(items, _GROUP):
        yield [{"target": target, **{name: getattr(item, name) for name in _FIELDS}} for item in group]


def dismiss_opt_outs(connection: Connection, target: str, fingerprint: str, at: str) -> int:
    """Let a person in again: dismiss all evidence that they opted out, and return the number of rows."""
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


def iterate_opt_outs(
    connection: Connection, target: str, *states: State, people: Collection[str] | None = None
) -> Iterator[OptOut]:
    """Yield opt-outs by fingerprint and evidence; `people` limits the fingerprints, None means all."""
    query = (
        select(*(opt_outs.c[name] for name in _FIELDS))
        .where(opt_outs.c.target == target, *([opt_outs.c.state.in_(states)] if states else []))
        .order_by(opt_outs.c.fingerprint, opt_outs.c.evidence)
        .execution_options(yield_per=_GROUP)
    )
    if people is not None:
        query = query.where(opt_outs.c.fingerprint.in_(people))
    with connection.execute(query) as found:
        for row in found:
            yield OptOut(*row)


def count_opt_outs(connection: Connection, target: str) -> dict[State, int]:
    """Return the number of rows by state."""
    counted = select(opt_outs.c.state, func.count()).where(opt_outs.c.target == target)
    return dict(map(tuple, connection.execute(counted.group_by(opt_outs.c.state))))


def read_suppressions(connection: Connection, key: TargetKey) -> KnownPeople[Barred]:
    """Return the people who must not be texted on a target, by the state of their opt-outs."""
    query = _select_barred(key.target).distinct().order_by(opt_outs.c.fingerprint)
    return KnownPeople.gather(key, map(tuple, connection.execute(query.execution_options(yield_per=1000))))


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
    query = _select_barred(key.target)
    if source is not None:
        query = query.where(opt_outs.c.source == source)
    return {asked[row.fingerprint] for row in iterate_rows(connection, query, opt_outs.c.fingerprint, asked)}


def _select_barred(target: str) -> Select[Any]:
    """Return the query of the people who have opted out, certainly or perhaps, and the state of a row."""
    query = select(opt_outs.c.fingerprint, opt_outs.c.state)
    return query.where(opt_outs.c.target == target, opt_outs.c.state != "dismissed")


def read_forgotten(connection: Connection, campaign_id: int) -> set[str]:
    """Return the fingerprints of the forgotten people of a campaign's target who were not let in again."""
    query = select(opt_outs.c.fingerprint).where(
        opt_outs.c.target == name_target(campaign_id),
        opt_outs.c.source == "forgotten",
        opt_outs.c.state == "confirmed",
    )
    return set(connection.execute(query).scalars())
