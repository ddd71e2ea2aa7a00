"""The record of one campaign on one target: its identity, and its deliveries or their counts.

Lockfiles are written from the ledger, which is filled from all record files before a command asks
(`runner.workflow.workspace`): what is read here is the whole record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import func, select

from runner.errors import LockfileError
from runner.ledger.database import exclude_others, find_absorbed, note_absorbed
from runner.ledger.files.lockfile import (
    LOCKFILE,
    CountedLaunches,
    dump_lockfile,
    lockfile_path,
    parse_lockfile,
)
from runner.ledger.files.sealed import digest_text
from runner.ledger.fingerprint import digest_people
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.forgotten import remove_lingering
from runner.ledger.people.history import EarlierMessage, read_earlier
from runner.ledger.people.opt_outs import read_forgotten
from runner.ledger.record.deliveries import find_record, iterate_accepted, read_known
from runner.ledger.record.entry import (
    absorb_launches,
    absorb_reservations,
    add_reserved,
    dismiss_launches,
    list_unknown,
    read_dismissed,
)
from runner.ledger.record.renaming import (
    enter_under_names,
    list_former_names,
    read_message_names,
    rename_messages,
    require_current_ids,
)
from runner.ledger.record.unsettled import find_owner, reopen_rejected
from runner.ledger.results.runs import enter_runs, read_runs
from runner.ledger.results.sendings import note_behind
from runner.ledger.tables import deliveries, label_message, launches
from runner.ledger.target_key import enter_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.files.lockfile import Lockfile
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import Reservation


_GROUP = 10_000


@dataclass(frozen=True, slots=True)
class Identity:
    """The campaign and target of a record.

    `file` is the campaign file; `renamed_from` has former names; with `keeps_counts` the lockfile holds
    counts only (`lockfile: counts`).
    """

    name: str
    file: Path
    key: TargetKey
    renamed_from: tuple[str, ...] = ()
    message_ids: Mapping[str, str] = field(default_factory=dict)
    keeps_counts: bool = False

    @property
    def target(self) -> str:
        """The target's name."""
        return self.key.target

    @property
    def lockfile(self) -> Path:
        """The path of the lockfile."""
        return lockfile_path(self.file, self.target)

    @property
    def names(self) -> tuple[str, ...]:
        """The campaign's names: the current one first."""
        return (self.name, *(name for name in self.renamed_from if name != self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A record without its deliveries: enough to send, and to write the lockfile.

    `campaign_id` is None if the ledger lacks the campaign; `key`, if nothing is recorded.
    """

    campaign_id: int | None
    key: TargetKey | None

    def require_entered(self) -> tuple[int, TargetKey]:
        """Return the ledger's number and the key of a campaign that was entered."""
        if self.campaign_id is None or self.key is None:
            raise ValueError("this record was only read")
        return self.campaign_id, self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(CampaignRecord):
    """The recorded deliveries of a campaign; only counted where they may be too large for memory."""

    deliveries: RecordedDeliveries | RecordSummary

    @property
    def known(self) -> RecordedDeliveries:
        """All deliveries."""
        if isinstance(self.deliveries, RecordedDeliveries):
            return self.deliveries
        raise ValueError("of this record only the counts were read")

    @property
    def digest(self) -> str:
        """The digest of the people who got each message, or may have: machines may differ in which it is."""
        known = self.deliveries
        if isinstance(known, RecordSummary):
            return known.digest
        nobody = set[str]()
        return digest_people(
            (message, person)
            for message in sorted(known.messages)
            for person in sorted(known.sent.get(message, nobody) | known.unresolved.get(message, nobody))
        )

    def is_empty(self) -> bool:
        """Return whether nobody is recorded as texted."""
        return self.deliveries.is_empty()

    def count_texted(self) -> Mapping[str, tuple[int, int]]:
        """Return the numbers of people who got each message, and who may have, by message id."""
        return self.deliveries.count_texted()

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return any(unresolved for _, unresolved in self.count_texted().values())


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """The numbers of a campaign's certain and possible recipients by message id, and the digest of all."""

    counts: Mapping[str, tuple[int, int]]
    digest: str

    def is_empty(self) -> bool:
        """Return whether nobody is recorded as texted."""
        return not self.counts

    def count_texted(self) -> Mapping[str, tuple[int, int]]:
        """Return the numbers of people who got each message, and who may have, by message id."""
        return self.counts


def summarize_deliveries(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> RecordSummary:
    """Return the counts and the digest of a campaign's deliveries, in constant memory."""
    sent, unresolved = Counter[str](), Counter[str]()
    query = (
        select(label_message(message_ids, deliveries.c.message), deliveries.c.fingerprint, launches.c.state)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, deliveries.c.released.is_(False))
        .order_by("current_id", deliveries.c.fingerprint)
        .execution_options(yield_per=_GROUP)
    )

    def iterate_people() -> Iterator[tuple[str, str]]:
        # A person recorded under two ids of one message counts once.
        for (message, person), rows in groupby(connection.execute(query), lambda row: (row[0], row[1])):
            shelf = sent if any(row.state == "sent" for row in rows) else unresolved
            shelf[message] += 1
            yield message, person

    digest = digest_people(iterate_people())
    return RecordSummary({name: (sent[name], unresolved[name]) for name in sent | unresolved}, digest)


def read_record(
    ledger: Ledger, identity: Identity, reserved: Collection[Reservation] = (), *, counts_only: bool = False
) -> Record:
    """Return the record of a campaign, and write nothing.

    `reserved` has launches of other machines, which count as unresolved.
    """
    known: RecordedDeliveries | RecordSummary = RecordedDeliveries({}, {})
    with ledger.reading() as connection:
        row = find_record(connection, identity.target, identity.names)
        campaign_id = None if row is None else row.id
        if campaign_id is not None:
            require_current_ids(connection, campaign_id, identity.message_ids)
            read = summarize_deliveries if counts_only else read_known
            known = read(connection, campaign_id, identity.message_ids)
        reserved = list_unknown(connection, reserved)
    if reserved and isinstance(known, RecordedDeliveries):
        add_reserved(known, reserved, identity.message_ids)
    has_key = campaign_id is not None or bool(reserved)
    return Record(campaign_id=campaign_id, key=identity.key if has_key else None, deliveries=known)


def read_earlier_messages(
    connection: Connection, identity: Identity, wanted: Collection[str]
) -> dict[str, EarlierMessage]:
    """Return the record of messages that others come after, by id."""
    row = find_record(connection, identity.target, identity.names) if wanted else None
    if row is None:
        return {message: EarlierMessage() for message in wanted}
    return read_earlier(connection, row.id, identity.message_ids, wanted)


def find_campaign_id(ledger: Ledger, identity: Identity) -> int | None:
    """Return the ledger's number of a campaign; None if the ledger has none."""
    with ledger.reading() as connection:
        row = find_record(connection, identity.target, identity.names)
    return None if row is None else row.id


def enter_record(
    ledger: Ledger,
    identity: Identity,
    reserved: Collection[Reservation] = (),
    *,
    counts_only: bool = False,
    reopens_rejected: bool = False,
) -> Record:
    """Return the record of a campaign, entered under its current names if it is new or renamed.

    `reserved` has launches of other machines, which are entered: this run must hold the state remote. With
    `reopens_rejected`, rejected launches become unresolved (`unsettled.reopen_rejected`).
    """
    with ledger.writing() as connection:
        campaign_id = _enter(connection, ledger, identity, reserved)
        if reopens_rejected:
            reopen_rejected(connection, campaign_id)
        read = summarize_deliveries if counts_only else read_known
        known = read(connection, campaign_id)
    return Record(campaign_id=campaign_id, key=identity.key, deliveries=known)


def enter_head(ledger: Ledger, identity: Identity) -> CampaignRecord:
    """Return the record as `enter_record` does, without the deliveries."""
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
    campaign_id = enter_under_names(connection, identity.target, identity.names, row, ())
    require_current_ids(connection, campaign_id, identity.message_ids)
    rename_messages(connection, campaign_id, identity.message_ids)
    remove_lingering(connection, campaign_id, identity.name)
    absorb_reservations(connection, campaign_id, reserved, identity.message_ids)
    return campaign_id


def absorb_lockfile(connection: Connection, file: Path, lockfile: Lockfile, key: TargetKey) -> None:
    """Enter everything in a lockfile that the ledger lacks."""
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
    is_there = find_owner(connection, campaign_id, counted.project_launch_guid) is not None
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
    """
    with ledger.writing() as connection:
        exclude_others(connection)
        try:
            text = LOCKFILE.read(identity.lockfile)
            if text is not None and not find_absorbed(connection, [digest_text(text)]):
                lockfile = parse_lockfile(identity.lockfile, text, identity.key).lockfile
                absorb_lockfile(connection, identity.lockfile, lockfile, identity.key)
        except LockfileError as error:
            hint = f"the ledger has all that was sent; {error.hint}"
            raise LockfileError(error.message, hint=hint) from None
        return _save(connection, identity, record, keeps_empty=False)


def write_lockfile(ledger: Ledger, identity: Identity, *, keeps_counts: bool) -> bool:
    """Write a lockfile anew, whatever is in it now; return True if it changed."""
    with ledger.writing() as connection:
        row = find_record(connection, identity.target, [identity.name], takes_heirs=True)
        if row is None:
            return False
        present = replace(identity, name=row.name, keeps_counts=keeps_counts)
        record = CampaignRecord(campaign_id=row.id, key=identity.key)
        return _save(connection, present, record, keeps_empty=True)


def _save(connection: Connection, identity: Identity, record: CampaignRecord, *, keeps_empty: bool) -> bool:
    pieces = _compose(connection, identity, record, keeps_empty=keeps_empty)
    if pieces is None:
        return False
    changed, digest = LOCKFILE.save(identity.lockfile, pieces)
    note_absorbed(connection, [digest])
    return changed


def compose_lockfile(
    connection: Connection, identity: Identity, record: CampaignRecord, *, is_needed: bool
) -> str | None:
    """Return the current text of the lockfile; None if nothing was sent, unless `is_needed`."""
    pieces = _compose(connection, identity, record, keeps_empty=is_needed)
    return None if pieces is None else "".join(pieces)


def _compose(
    connection: Connection, identity: Identity, record: CampaignRecord, *, keeps_empty: bool
) -> Iterator[str] | None:
    if record.campaign_id is None:
        return None
    campaign_id = record.campaign_id
    dismissed = read_dismissed(connection, campaign_id)
    further = (dismissed, list_former_names(connection, campaign_id), read_runs(connection, campaign_id))
    count, last = _count_launches(connection, campaign_id)
    if identity.keeps_counts and last is not None:
        return dump_lockfile(identity.name, identity.key, None, [CountedLaunches(count, last)], *further)
    if not (count or dismissed or keeps_empty):
        return None
    accepted = iterate_accepted(connection, campaign_id, read_forgotten(connection, campaign_id))
    return dump_lockfile(identity.name, identity.key, accepted, (), *further)
