"""Lockfiles, made from the ledger."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from runner.ledger.forgotten import iterate_remembered, read_forgotten
from runner.ledger.line_macs import LineMacs
from runner.ledger.lockfile_writer import LockfileContents, dump_lockfile, write_lockfile
from runner.ledger.marks import list_lines, mark_launches
from runner.ledger.runs import read_runs
from runner.ledger.unexplained import read_dismissed

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.identity import Identity
    from runner.ledger.recorded import RecordHead


def rewrite_lockfile(ledger: Ledger, identity: Identity, record: RecordHead) -> bool:
    """Write the lockfile from the ledger, if anything was sent; to be called under the campaign's lock.

    Args:
        ledger: open for writing: what a lockfile is about to sum up is noted in it first.
        identity: the campaign on its target; says where the lockfile stands, and of which kind it is.
        record: as it was entered.

    Returns:
        Whether the file has changed.

    Raises:
        LockfileError: it cannot be written.
        LedgerError: the ledger cannot be written.
    """
    if identity.keeps_summary and record.campaign_id is not None:
        with ledger.writing() as connection:
            mark_launches(connection, record.campaign_id)
    with ledger.reading() as connection:
        return refresh_lockfile(connection, identity, record)


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
    if identity.keeps_summary:
        return _gather_sums(connection, identity, record, keeps_empty=keeps_empty)
    first_name = record.key.lasting_name(identity.name)
    launches = iterate_remembered(connection, record.campaign_id, first_name)
    first, dismissed = next(launches, None), read_dismissed(connection, record.campaign_id)
    if first is None and not dismissed and not keeps_empty:
        return None
    return LockfileContents(
        identity.name,
        identity.target,
        record.key,
        launches if first is None else chain([first], launches),
        read_forgotten(connection, record.campaign_id),
        read_runs(connection, record.campaign_id),
        dismissed=dismissed,
        macs=_make_macs(identity, record),
    )


def _gather_sums(
    connection: Connection, identity: Identity, record: RecordHead, *, keeps_empty: bool
) -> LockfileContents | None:
    campaign_id, key = record.require_entered()
    lines, dismissed = list_lines(connection, campaign_id), read_dismissed(connection, campaign_id)
    if not lines and not dismissed and not keeps_empty:
        return None
    forgotten, runs = read_forgotten(connection, campaign_id), read_runs(connection, campaign_id)
    macs = _make_macs(identity, record)
    return LockfileContents(identity.name, identity.target, key, (), forgotten, runs, lines, dismissed, macs)


def _make_macs(identity: Identity, record: RecordHead) -> LineMacs | None:
    if identity.state_key is None or record.key is None:
        return None
    return LineMacs(identity.state_key, identity.target, record.key.lasting_name(identity.name))
