"""Lockfiles and the ledger: a ledger is filled from them, and they are written from it."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import func, select

from runner.errors import LockfileError
from runner.ledger.database import exclude_others, find_absorbed, note_absorbed
from runner.ledger.files.lockfile import (
    CountedLaunches,
    LockfileContents,
    digest_text,
    dump_lockfile,
    parse_lockfile,
    read_text,
    save_lockfile,
)
from runner.ledger.people.opt_outs import read_forgotten
from runner.ledger.record.campaign_record import CampaignRecord
from runner.ledger.record.deliveries import find_record, iterate_accepted
from runner.ledger.record.entry import absorb_launches
from runner.ledger.record.renaming import enter_under_names, list_former_names, read_message_names
from runner.ledger.record.unexplained import dismiss_launches, read_dismissed
from runner.ledger.results.runs import enter_runs, read_runs
from runner.ledger.results.sendings import note_behind
from runner.ledger.tables import launches
from runner.ledger.target_key import enter_key
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.files.lockfile import Lockfile
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.record.campaign_record import Identity


def absorb_lockfile(connection: Connection, file: Path, lockfile: Lockfile, key: TargetKey) -> None:
    """Enter everything in a lockfile that the ledger lacks.

    Raises:
        LockfileError: the ledger lacks launches of which the lockfile holds the number only; or the
            campaign's names have several records.
        LedgerError: the ledger was written with another key.
    """
    enter_key(connection, key)
    row = find_record(connection, key.target, lockfile.names, takes_heirs=True)
    name, former = lockfile.campaign, set(lockfile.names)
    if row is not None and name in list_former_names(connection, row.id):
        # The file is older than the rename.
        name = row.name
    campaign_id = enter_under_names(connection, key.target, [name], row, former - {name})
    enter_runs(connection, lockfile.runs)
    dismiss_launches(connection, campaign_id, [one.project_launch_guid for one in lockfile.dismissed])
    current = read_message_names(connection, campaign_id)
    # The file may be older than a message's rename.
    told = [
        msgspec.structs.replace(one, message=current.get(one.message, one.message)) if current else one
        for one in lockfile.launches
    ]
    if absorb_launches(connection, campaign_id, told):
        note_behind(connection, campaign_id, is_behind=True)
    for counted in lockfile.counts:
        _require_counted(connection, campaign_id, file, counted)


def _require_counted(connection: Connection, campaign_id: int, file: Path, counted: CountedLaunches) -> None:
    """Ensure that the ledger is the one of a lockfile that holds the number of launches only."""
    count, _ = _count_launches(connection, campaign_id)
    query = select(launches.c.project_launch_guid).where(
        launches.c.campaign_id == campaign_id, launches.c.state == "sent"
    )
    wanted = normalize_guid(counted.project_launch_guid)
    is_there = any(normalize_guid(guid) == wanted for guid in connection.execute(query).scalars())
    if is_there and count >= counted.launches:
        return
    raise LockfileError(
        f"the ledger is not the one that the lockfile {file} counts: that has {counted.launches:,} launches "
        f"up to {counted.project_launch_guid}, and the ledger {count:,}",
        hint="the lockfile holds counts (`lockfile: counts`) and cannot fill a ledger: use the ledger that "
        "it was written with (RUNNER_LEDGER), or put back its newest backup. If there is none, move the "
        "lockfile away: `runner apply` then asks the service for what the ledger lacks",
    )


def _count_launches(connection: Connection, campaign_id: int) -> tuple[int, str | None]:
    """Return the number of a campaign's accepted launches, and the last one."""
    is_sent = (launches.c.campaign_id == campaign_id) & (launches.c.state == "sent")
    count: int = connection.execute(select(func.count()).where(is_sent)).scalar_one()
    last = select(launches.c.project_launch_guid).where(is_sent)
    ordered = last.order_by(launches.c.outcome_at.desc(), launches.c.id.desc()).limit(1)
    return count, connection.execute(ordered).scalar()


def rewrite_lockfile(ledger: Ledger, identity: Identity, record: CampaignRecord) -> bool:
    """Write the lockfile under the campaign's lock, if anything was sent; return True if it changed.

    What git has brought meanwhile is entered before.

    Raises:
        LockfileError: it cannot be written, or is no longer readable.
        LedgerError: the ledger cannot be written.
    """
    with ledger.writing() as connection:
        exclude_others(connection)
        try:
            text = read_text(identity.lockfile)
            if text is not None and not find_absorbed(connection, [digest_text(text)]):
                lockfile = parse_lockfile(identity.lockfile, text, identity.key).lockfile
                absorb_lockfile(connection, identity.lockfile, lockfile, identity.key)
        except LockfileError as error:
            hint = f"the ledger has all that was sent; {error.hint}"
            raise LockfileError(error.message, hint=hint) from None
        return _save(connection, identity, record, keeps_empty=False)


def write_lockfile(ledger: Ledger, identity: Identity, *, keeps_counts: bool) -> bool:
    """Write a lockfile anew, whatever is in it now; return True if it changed.

    Raises:
        LockfileError: it cannot be written.
    """
    with ledger.writing() as connection:
        row = find_record(connection, identity.target, [identity.name], takes_heirs=True)
        if row is None:
            return False
        present = replace(identity, name=row.name, keeps_counts=keeps_counts)
        record = CampaignRecord(campaign_id=row.id, key=identity.key)
        return _save(connection, present, record, keeps_empty=True)


def _save(connection: Connection, identity: Identity, record: CampaignRecord, *, keeps_empty: bool) -> bool:
    contents = _gather_contents(connection, identity, record, keeps_empty=keeps_empty)
    if contents is None:
        return False
    changed, digest = save_lockfile(identity.lockfile, contents)
    note_absorbed(connection, [digest])
    return changed


def compose_lockfile(
    connection: Connection, identity: Identity, record: CampaignRecord, *, is_needed: bool
) -> str | None:
    """Return the current text of the lockfile; None if nothing was sent, unless `is_needed`."""
    contents = _gather_contents(connection, identity, record, keeps_empty=is_needed)
    return None if contents is None else "".join(dump_lockfile(contents))


def _gather_contents(
    connection: Connection, identity: Identity, record: CampaignRecord, *, keeps_empty: bool
) -> LockfileContents | None:
    if record.campaign_id is None:
        return None
    campaign_id = record.campaign_id
    dismissed = read_dismissed(connection, campaign_id)
    further = (dismissed, list_former_names(connection, campaign_id), read_runs(connection, campaign_id))
    count, last = _count_launches(connection, campaign_id)
    if identity.keeps_counts and last is not None:
        return LockfileContents(identity.name, identity.key, None, [CountedLaunches(count, last)], *further)
    accepted = iterate_accepted(connection, campaign_id, read_forgotten(connection, campaign_id))
    first = next(accepted, None)
    if not (first or dismissed or keeps_empty):
        return None
    whole = accepted if first is None else chain([first], accepted)
    return LockfileContents(identity.name, identity.key, whole, (), *further)
