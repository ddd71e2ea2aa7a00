"""The record of one campaign on one target: its names, its deliveries or their counts, and its lockfile.

A declared rename moves the record to the new name or id; the old ones are kept, as old checkouts use them.

Lockfiles are written from the ledger, which is filled from all record files before a command asks
(`runner.workflow.workspace`): what is read here is the whole record.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, delete, exists, func, or_, select, update

from runner.errors import LockfileError
from runner.ledger.database import exclude_others, find_absorbed, insert_missing, note_absorbed
from runner.ledger.files.lockfile import (
    LOCKFILE,
    CountedLaunches,
    dump_lockfile,
    lockfile_path,
    parse_lockfile,
)
from runner.ledger.files.sealed import digest_text
from runner.ledger.model import RecordedDeliveries
from runner.ledger.people.forgotten import remove_lingering
from runner.ledger.people.history import EarlierMessage, read_earlier
from runner.ledger.people.opt_outs import read_forgotten
from runner.ledger.people.suppressions import absorb_hold, iterate_holds
from runner.ledger.record.deliveries import enter_campaign, find_record, iterate_accepted, read_known
from runner.ledger.record.entry import (
    absorb_launches,
    absorb_reservations,
    add_reserved,
    dismiss_launches,
    list_unknown,
    read_dismissed,
)
from runner.ledger.record.unsettled import drop_unexplained, find_owner, reopen_rejected
from runner.ledger.results.result_feed import renew_edition
from runner.ledger.results.runs import enter_runs, read_runs
from runner.ledger.results.sendings import note_behind
from runner.ledger.tables import audiences, campaigns, deliveries, dismissed_launches, former_names, launches
from runner.ledger.target_key import enter_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, Row

    from runner.campaign.answers import AnswerReader
    from runner.ledger.database import Ledger
    from runner.ledger.files.lockfile import Lockfile
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import Reservation


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


@dataclass(frozen=True, slots=True)
class Record:
    """The recorded deliveries of a campaign; `campaign_id` is None if the ledger lacks it."""

    campaign_id: int | None
    known: RecordedDeliveries

    @property
    def digest(self) -> str:
        """The digest of the people who got each message, or may have: machines may differ in which it is."""
        known, nobody, digest = self.known, set[str](), hashlib.blake2b(digest_size=16)
        for message in sorted(known.messages):
            for person in sorted(known.sent.get(message, nobody) | known.unresolved.get(message, nobody)):
                digest.update(f"{message}\0{person}\n".encode())
        return digest.hexdigest()

    def require_entered(self) -> int:
        """Return the ledger's number of a campaign that was entered."""
        if self.campaign_id is None:
            raise ValueError("this record was only read")
        return self.campaign_id

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return any(unresolved for _, unresolved in self.known.count_texted().values())


def read_record(ledger: Ledger, identity: Identity, reserved: Collection[Reservation] = ()) -> Record:
    """Return the record of a campaign, and write nothing.

    `reserved` has launches of other machines, which count as unresolved.
    """
    known = RecordedDeliveries({}, {})
    with ledger.reading() as connection:
        row = find_record(connection, identity.target, identity.names)
        campaign_id = None if row is None else row.id
        if campaign_id is not None:
            require_current_ids(connection, campaign_id, identity.message_ids)
            known = read_known(connection, campaign_id, identity.message_ids)
        reserved = list_unknown(connection, reserved)
    if reserved:
        add_reserved(known, reserved, identity.message_ids)
    return Record(campaign_id, known)


def read_earlier_messages(
    connection: Connection,
    identity: Identity,
    wanted: Collection[str],
    questions: Collection[str] = (),
    read: AnswerReader | None = None,
) -> dict[str, EarlierMessage]:
    """Return the record of messages that others come after, by id, with the answers to some questions."""
    row = find_record(connection, identity.target, identity.names) if wanted else None
    if row is None:
        return {message: EarlierMessage() for message in wanted}
    return read_earlier(connection, row.id, identity.message_ids, wanted, questions, read)


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
        known = read_known(connection, campaign_id)
    return Record(campaign_id, known)


def enter_identity(ledger: Ledger, identity: Identity, reserved: Collection[Reservation] = ()) -> int:
    """Enter a campaign as `enter_record` does, and return the ledger's number of it."""
    with ledger.writing() as connection:
        return _enter(connection, ledger, identity, reserved)


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


def enter_under_names(
    connection: Connection, target: str, names: Sequence[str], row: Row[Any] | None, former: Iterable[str]
) -> int:
    """Enter a campaign under its current name, the first one, and return the ledger's number of it.

    `row` is its row so far; `former` has other names that it had.
    """
    former = set(former) - {names[0]}
    if row is None:
        campaign_id = enter_campaign(connection, target, names[0])
    else:
        campaign_id = row.id
        if row.name != names[0]:
            former.add(row.name)
            _take_in(connection, target, names[0], campaign_id)
            connection.execute(update(campaigns).where(campaigns.c.id == campaign_id).values(name=names[0]))
            # Renamed back: the name is a former one no more.
            back = and_(_is_former(campaign_id), former_names.c.name == names[0])
            connection.execute(delete(former_names).where(back))
    for name in sorted({*former, *names[1:]} - {names[0]}):
        _take_in(connection, target, name, campaign_id)
    rows = [{"campaign_id": campaign_id, "message": "", "name": name} for name in former]
    insert_missing(connection, former_names, rows)
    return campaign_id


def _take_in(connection: Connection, target: str, name: str, campaign_id: int) -> None:
    """Move what is recorded under another name without launches: dismissed and unexplained launches."""
    query = select(campaigns.c.id).where(campaigns.c.target == target, campaigns.c.name == name)
    blank = connection.execute(query).scalar()
    if blank is None or blank == campaign_id:
        return
    dismissed = read_dismissed(connection, blank)
    holds = [one for one in iterate_holds(connection, target) if one.campaign == name]
    drop_unexplained(connection, blank)
    for table in (audiences, dismissed_launches, former_names):
        connection.execute(delete(table).where(table.c.campaign_id == blank))
    connection.execute(delete(campaigns).where(campaigns.c.id == blank))
    dismiss_launches(connection, campaign_id, dismissed)
    for hold in holds:
        absorb_hold(connection, target, hold, campaign_id)


def list_former_names(connection: Connection, campaign_id: int) -> list[str]:
    """Return the former names of a campaign, in order."""
    query = select(former_names.c.name).where(_is_former(campaign_id)).order_by(former_names.c.name)
    return list(connection.execute(query).scalars())


def _is_former(campaign_id: int, *, of_messages: bool = False) -> ColumnElement[bool]:
    """Return the condition for former names of a campaign, or for former ids of its messages."""
    is_kind = former_names.c.message != "" if of_messages else former_names.c.message == ""
    return and_(former_names.c.campaign_id == campaign_id, is_kind)


def require_current_ids(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
    """Ensure that no message of a campaign has an id that is a former one in the ledger."""
    used = set(message_ids.values())
    for old, new in read_message_names(connection, campaign_id).items():
        if old in used and message_ids.get(new) != old:
            raise LockfileError(
                f"the ledger knows the message {old!r} as {new!r} now",
                hint="update this checkout, it is older than the rename; or rename back: "
                f"`renamed_from: [{new}]`; a message of its own needs an id of its own",
            )


def rename_messages(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> None:
    """Move the records of messages to their current ids, and record the old ones."""
    renames = {old: new for old, new in message_ids.items() if old != new}
    if not renames:
        return
    is_own = launches.c.campaign_id == campaign_id
    entered = set[str]()
    for table in (launches, deliveries):
        theirs = (table.c.campaign_id == campaign_id, table.c.message.in_(renames))
        entered.update(connection.execute(select(table.c.message).where(*theirs).distinct()).scalars())
    for old in sorted(entered):
        _move_deliveries(connection, campaign_id, old, renames[old])
        connection.execute(
            update(launches).where(is_own, launches.c.message == old).values(message=renames[old])
        )
    if entered:
        renew_edition(connection)
    _remember(connection, campaign_id, renames)


def _move_deliveries(connection: Connection, campaign_id: int, old: str, new: str) -> None:
    """Move deliveries to another id. Of two of one person the more certain one stays."""
    other = deliveries.alias()
    sent = select(launches.c.id).where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    is_same = (other.c[name] == deliveries.c[name] for name in ("fingerprint", "occasion"))
    is_twin = and_(other.c.campaign_id == campaign_id, *is_same)
    is_weaker = or_(
        deliveries.c.released.is_(True),
        and_(other.c.launch_id.in_(sent), deliveries.c.launch_id.not_in(sent)),
    )
    is_outdone = exists().where(is_twin, other.c.message == old, other.c.released.is_(False), is_weaker)
    has_twin = exists().where(is_twin, other.c.message == new)
    is_own = deliveries.c.campaign_id == campaign_id
    connection.execute(delete(deliveries).where(is_own, deliveries.c.message == new, is_outdone))
    connection.execute(delete(deliveries).where(is_own, deliveries.c.message == old, has_twin))
    connection.execute(update(deliveries).where(is_own, deliveries.c.message == old).values(message=new))


def _remember(connection: Connection, campaign_id: int, renames: Mapping[str, str]) -> None:
    before = read_message_names(connection, campaign_id)
    # Messages that were renamed twice have the newest id.
    after = {**{old: renames.get(new, new) for old, new in before.items()}, **renames}
    after = {old: new for old, new in after.items() if old not in renames.values()}
    if after == before:
        return
    connection.execute(delete(former_names).where(_is_former(campaign_id, of_messages=True)))
    rows = [{"campaign_id": campaign_id, "message": new, "name": old} for old, new in after.items()]
    insert_missing(connection, former_names, rows)


def read_message_names(connection: Connection, campaign_id: int) -> dict[str, str]:
    """Return the current ids of a campaign's renamed messages, by former ones."""
    query = select(former_names.c.name, former_names.c.message)
    of_messages = _is_former(campaign_id, of_messages=True)
    return {row.name: row.message for row in connection.execute(query.where(of_messages))}


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


def rewrite_lockfile(ledger: Ledger, identity: Identity, campaign_id: int) -> bool:
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
        return _save(connection, identity, campaign_id, keeps_empty=False)


def write_lockfile(ledger: Ledger, identity: Identity, *, keeps_counts: bool) -> bool:
    """Write a lockfile anew, whatever is in it now; return True if it changed."""
    with ledger.writing() as connection:
        row = find_record(connection, identity.target, [identity.name], takes_heirs=True)
        if row is None:
            return False
        present = replace(identity, name=row.name, keeps_counts=keeps_counts)
        return _save(connection, present, row.id, keeps_empty=True)


def _save(connection: Connection, identity: Identity, campaign_id: int, *, keeps_empty: bool) -> bool:
    pieces = compose_lockfile(connection, identity, campaign_id, keeps_empty=keeps_empty)
    if pieces is None:
        return False
    changed, digest = LOCKFILE.save(identity.lockfile, pieces)
    note_absorbed(connection, [digest])
    return changed


def compose_lockfile(
    connection: Connection, identity: Identity, campaign_id: int, *, keeps_empty: bool
) -> Iterator[str] | None:
    """Return the current lockfile in pieces; None if nothing was sent, unless it `keeps_empty`."""
    dismissed = read_dismissed(connection, campaign_id)
    further = (dismissed, list_former_names(connection, campaign_id), read_runs(connection, campaign_id))
    count, last = _count_launches(connection, campaign_id)
    if identity.keeps_counts and last is not None:
        return dump_lockfile(identity.name, identity.key, None, [CountedLaunches(count, last)], *further)
    if not (count or dismissed or keeps_empty):
        return None
    accepted = iterate_accepted(connection, campaign_id, read_forgotten(connection, campaign_id))
    return dump_lockfile(identity.name, identity.key, accepted, (), *further)
