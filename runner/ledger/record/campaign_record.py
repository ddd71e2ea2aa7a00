"""The record of one campaign on one target.

Before a command asks, the ledger is filled from all record files (`runner.workflow.workspace`): what is read
here is the whole record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.database import exclude_others
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.earlier import EarlierMessage, read_earlier
from runner.ledger.people.forgotten import remove_lingering
from runner.ledger.record.deliveries import find_record, read_known
from runner.ledger.record.recorded import CampaignRecord, Record, RecordSummary, summarize_deliveries
from runner.ledger.record.renaming import (
    enter_record as enter_campaign_record,
)
from runner.ledger.record.renaming import rename_messages, require_current_ids
from runner.ledger.record.reservations import absorb_reservations, add_reserved, list_unknown
from runner.ledger.target_key import enter_key

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.model import Reservation
    from runner.ledger.record.recorded import Identity


def read_record(
    ledger: Ledger, identity: Identity, reserved: Collection[Reservation] = (), *, counts_only: bool = False
) -> Record:
    """Return the record of a campaign, and write nothing.

    `reserved` has launches of other machines, which count as unresolved. With `counts_only`, only counts and
    digests of the deliveries are read.

    Raises:
        LockfileError: the campaign's names have several records, or its file is older than a rename.
        LedgerError: the ledger cannot be read.
    """
    known: RecordedDeliveries | RecordSummary = RecordedDeliveries({}, {})
    with ledger.reading() as connection:
        campaign_id = _find(connection, identity)
        if campaign_id is not None and counts_only:
            known = summarize_deliveries(connection, campaign_id, identity.message_ids)
        elif campaign_id is not None:
            known = read_known(connection, campaign_id, identity.message_ids)
        reserved = list_unknown(connection, reserved)
    if reserved and isinstance(known, RecordedDeliveries):
        add_reserved(known, reserved, identity.message_ids)
    has_key = campaign_id is not None or bool(reserved)
    return Record(campaign_id=campaign_id, key=identity.key if has_key else None, deliveries=known)


def _find(connection: Connection, identity: Identity) -> int | None:
    row = find_record(connection, identity.target, identity.names)
    if row is None:
        return None
    require_current_ids(connection, row.id, identity.message_ids)
    return row.id


def read_earlier_messages(
    connection: Connection, identity: Identity, wanted: Collection[str]
) -> dict[str, EarlierMessage]:
    """Return the record of messages that others come after, by id."""
    row = find_record(connection, identity.target, identity.names) if wanted else None
    if row is None:
        return {message: EarlierMessage() for message in wanted}
    return read_earlier(connection, row.id, identity.message_ids, wanted)


def find_campaign_id(ledger: Ledger, identity: Identity) -> int | None:
    """Return the ledger's number of a campaign; None if the ledger has none.

    Raises:
        LedgerError: the ledger cannot be read.
        LockfileError: its names have several records.
    """
    with ledger.reading() as connection:
        row = find_record(connection, identity.target, identity.names)
    return None if row is None else row.id


def enter_record(
    ledger: Ledger, identity: Identity, reserved: Collection[Reservation] = (), *, counts_only: bool = False
) -> Record:
    """Return the record of a campaign, entered under its current names if it is new or renamed.

    `reserved` has launches of other machines, which are entered: this run must hold the state remote. With
    `counts_only`, only counts and digests of the deliveries are read.

    Raises:
        LockfileError: as for `read_record`; or the ledger cannot keep what the lockfile leaves out.
        LedgerError: the ledger cannot be written.
    """
    known: RecordedDeliveries | RecordSummary
    with ledger.writing() as connection:
        campaign_id = _enter(connection, ledger, identity, reserved)
        known = (
            summarize_deliveries(connection, campaign_id)
            if counts_only
            else read_known(connection, campaign_id)
        )
    return Record(campaign_id=campaign_id, key=identity.key, deliveries=known)


def enter_head(ledger: Ledger, identity: Identity) -> CampaignRecord:
    """Return the record as `enter_record` does, without the deliveries.

    Raises:
        LockfileError: as for `enter_record`.
        LedgerError: the ledger cannot be written.
    """
    with ledger.writing() as connection:
        return CampaignRecord(campaign_id=_enter(connection, ledger, identity, ()), key=identity.key)


def _enter(
    connection: Connection, ledger: Ledger, identity: Identity, reserved: Collection[Reservation]
) -> int:
    if identity.keeps_counts and ledger.file is not None:
        raise LockfileError(
            f"{identity.name}: `lockfile: counts` needs a ledger on PostgreSQL, which has backups and is "
            "shared by all machines",
            hint="set RUNNER_LEDGER=postgresql://…, or take `lockfile: counts` out of the campaign",
        )
    exclude_others(connection)
    enter_key(connection, identity.key)
    row = find_record(connection, identity.target, identity.names)
    campaign_id = enter_campaign_record(connection, identity.target, identity.names, row, ())
    require_current_ids(connection, campaign_id, identity.message_ids)
    rename_messages(connection, campaign_id, identity.message_ids)
    remove_lingering(connection, campaign_id, identity.name)
    absorb_reservations(connection, campaign_id, reserved, identity.message_ids)
    return campaign_id
