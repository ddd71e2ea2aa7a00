"""How opt-outs are entered: statements for very many of them, and what they do with those that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, Insert, and_, case, literal_column

from runner.ledger.bulk import BulkStatement
from runner.ledger.database import insert_into
from runner.ledger.tables import opt_outs

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.dialects import postgresql, sqlite

    New = sqlite.Insert | postgresql.Insert

_COLUMNS = [column.name for column in opt_outs.c]
_KEY = [column.name for column in opt_outs.primary_key]


def in_state(state: str) -> ColumnElement[bool]:
    """Return the condition that a row is in a state."""
    # As a part of the text: the parameters are the row's alone.
    return opt_outs.c.state == literal_column(f"'{state}'")


def says(new: New, state: str) -> ColumnElement[bool]:
    """Return the condition that what is to be entered is in a state."""
    is_it: ColumnElement[bool] = new.excluded.state == literal_column(f"'{state}'")
    return is_it


def entering(condition: Callable[[New], ColumnElement[bool]]) -> BulkStatement:
    """Return the statement that enters rows, and gives those that there are its state and its moment.

    Args:
        condition: under which it does so.
    """

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
"""Notes that people have said again what is on record: no other ledger takes them for let in since."""
