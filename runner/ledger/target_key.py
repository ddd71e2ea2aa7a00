"""The recorded keys of targets' fingerprints."""

from __future__ import annotations

from typing import TypeAlias

from sqlalchemy import Connection, select

from runner.errors import LedgerError, MissingKeyError
from runner.ledger.database import exclude_others, read_info, write_info
from runner.ledger.fingerprint import TargetKey
from runner.ledger.tables import campaign_pauses, info, launches, of_target, opt_outs

LedgerConnection: TypeAlias = Connection
"""The connection that `Ledger` yields, for callers without SQLAlchemy."""


_KEY = "key of "


def require_key(connection: Connection, key: TargetKey) -> bool:
    """Ensure that a target's records were written with a key; return whether there are any."""
    name = read_key_name(connection, key.target)
    if name in (None, key.name):
        return name is not None
    if not _has_records(connection, key.target):
        return False
    hint = "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new"
    if not key.is_secret:
        raise MissingKeyError(
            f"the ledger's record of {key.target} was written with a RUNNER_STATE_KEY, and none is set",
            hint=hint,
        )
    if name == TargetKey.of(key.target, None).name:
        raise LedgerError(
            f"the ledger's record of {key.target} was written without a RUNNER_STATE_KEY, and now there "
            "is one",
            hint="`runner key rotate` moves the records to the key; until then nothing is sent",
        )
    raise LedgerError(
        f"the ledger's record of {key.target} was written with another RUNNER_STATE_KEY", hint=hint
    )


def enter_key(connection: Connection, key: TargetKey) -> None:
    """Record the key of a target, unless it is recorded."""
    exclude_others(connection)
    if not require_key(connection, key):
        record_key(connection, key)


def record_key(connection: Connection, key: TargetKey) -> None:
    """Record the key of a target, in the place of another one."""
    write_info(connection, f"{_KEY}{key.target}", key.name)


def read_key_name(connection: Connection, target: str) -> str | None:
    """Return the fingerprint of the key of a target's records; None if there are none."""
    return read_info(connection, f"{_KEY}{target}")


def _has_records(connection: Connection, target: str) -> bool:
    for table in (opt_outs, campaign_pauses):
        if connection.execute(select(table.c.target).where(table.c.target == target).limit(1)).first():
            return True
    return connection.execute(of_target(select(launches.c.id), target).limit(1)).first() is not None


def list_keys(connection: Connection) -> dict[str, str]:
    """Return the fingerprint of each recorded key, by target, in order."""
    rows = connection.execute(select(info).where(info.c.name.startswith(_KEY)).order_by(info.c.name))
    return {row.name.removeprefix(_KEY): row.value for row in rows}
