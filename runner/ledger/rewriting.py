"""Lockfiles, made from the ledger."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from runner.ledger.forgotten import iterate_remembered, read_forgotten
from runner.ledger.lockfile_writer import LockfileContents, dump_lockfile, write_lockfile
from runner.ledger.runs import read_runs

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from runner.ledger.identity import Identity
    from runner.ledger.recorded import RecordHead


def refresh_lockfile(connection: Connection, identity: Identity, record: RecordHead) -> bool:
    """Write the lockfile from the ledger, if anything was sent.

    Args:
        connection: reads the ledger.
        identity: the campaign on its target; says where the lockfile stands.
        record: as it was entered.

    Returns:
        Whether the file has changed.

    Raises:
        LockfileError: it cannot be written.
    """
    contents = _gather_contents(connection, identity, record, keeps_empty=False)
    return contents is not None and write_lockfile(identity.lockfile, *contents)


def compose_lockfile(
    connection: Connection, identity: Identity, record: RecordHead, *, is_needed: bool
) -> str | None:
    """Return the text of the lockfile as of now, for another place than its own; None if there would be none.

    Args:
        connection: reads the ledger.
        identity: the campaign on its target.
        record: as it was entered.
        is_needed: whether it is needed also if nothing was sent: for the key that it names.
    """
    contents = _gather_contents(connection, identity, record, keeps_empty=is_needed)
    return None if contents is None else dump_lockfile(contents)


def _gather_contents(
    connection: Connection, identity: Identity, record: RecordHead, *, keeps_empty: bool
) -> LockfileContents | None:
    if record.campaign_id is None or record.key is None:
        return None
    first_name = record.key.lasting_name(identity.name)
    launches = iterate_remembered(connection, record.campaign_id, first_name)
    first = next(launches, None)
    if first is None and not keeps_empty:
        return None
    return LockfileContents(
        identity.name,
        identity.target,
        record.key,
        launches if first is None else chain([first], launches),
        read_forgotten(connection, record.campaign_id),
        read_runs(connection, record.campaign_id),
    )
