"""PostgreSQL's own clock, the one that all machines of a run can ask, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Double, cast, extract, func, select, true

if TYPE_CHECKING:
    from sqlalchemy import Connection

# Of the moment itself, and not of the transaction's start: a transaction may have waited for locks meanwhile.
SERVER_NOW = cast(extract("epoch", func.clock_timestamp()), Double)
"""Seconds since 1970 on PostgreSQL's clock, as of when a row is looked at."""


def set_locally(connection: Connection, name: str, value: str) -> None:
    """Change a setting of the session until its transaction ends."""
    connection.execute(select(func.set_config(name, value, true())))
