"""Entry of launches with their recipients: before sending, or when found to have been sent.

A reservation that the ledger doesn't know is of a lost machine. Its launches are entered as intents of a dead
run, and settled like those.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Integer,
    bindparam,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    update,
)

from runner.errors import RunLockedError, RunnerError
from runner.ledger.bulk import BulkStatement, divide
from runner.ledger.database import find_absorbed, insert_into, insert_missing, note_absorbed
from runner.ledger.fingerprint import launch_key
from runner.ledger.model import LaunchEntry, Outcome, ReservedLaunch, on_occasion
from runner.ledger.people.opt_outs import read_forgotten
from runner.ledger.record.deliveries import (
    LOCKFILE_COLUMNS,
    describe_entry,
    describe_sessions,
    record_outcomes,
)
from runner.ledger.record.unsettled import (
    ADOPTED,
    OPEN,
    UNEXPLAINED,
    drop_unexplained,
    find_owner,
    iterate_launches,
)
from runner.ledger.results.runs import enter_runs
from runner.ledger.tables import deliveries, dismissed_launches, launches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from runner.ledger.model import Intent, LaunchRecord, RecordedDeliveries, Reservation, Unsettled
    from runner.ledger.record.unsettled import Claim


_CLAIMED = [column.name for column in deliveries.c]
_UNANSWERED = {
    **dict.fromkeys(("definition", "definition_digest", "project_launch_guid", "outcome_at", "detail")),
    "state": "intent",
    "ends_others": False,
}
_Item = TypeVar("_Item", bound="LaunchEntry")
_ADD_LAUNCHES = BulkStatement(
    lambda connection: insert_into(connection, launches), [column.name for column in launches.c]
)
_IN_PART = "it was listed without all of its recipients"
BARE = "other launches have its recipients"
_NEXT_IDS = select(func.nextval(func.pg_get_serial_sequence(launches.name, launches.c.id.name))).select_from(
    func.generate_series(1, bindparam("b_count", type_=Integer))
)
_LAST_ID = select(func.coalesce(func.max(launches.c.id), 0))


_IS_RELEASED = deliveries.c.released.is_(True)
# Literals: the statement's parameters are those of its rows.
_UNRESOLVED: list[ColumnElement[str]] = [literal_column(f"'{state}'") for state in (*OPEN, UNEXPLAINED)]
_IS_UNRESOLVED = deliveries.c.launch_id.in_(select(launches.c.id).where(launches.c.state.in_(_UNRESOLVED)))


def _taking(is_free: ColumnElement[bool] | None) -> Callable[[Connection], Insert]:
    """Return the insert of deliveries that takes over recorded ones where a condition holds."""

    def compose(connection: Connection) -> Insert:
        statement = insert_into(connection, deliveries)
        return statement.on_conflict_do_update(
            index_elements=list(deliveries.primary_key),
            set_={"launch_id": statement.excluded.launch_id, "released": false()},
            where=is_free,
        )

    return compose


CLAIM = BulkStatement(_taking(_IS_RELEASED), _CLAIMED)
"""Takes deliveries that are new or released; leaves the others untouched."""
_ADOPT = BulkStatement(_taking(or_(_IS_RELEASED, _IS_UNRESOLVED)), _CLAIMED)
"""Takes those of unresolved launches as well, since this launch has certainly reached them."""
_TAKE_OVER = BulkStatement(_taking(None), _CLAIMED)
"""Takes deliveries from any launch."""


def add_intents(connection: Connection, campaign_id: int, intents: Sequence[Intent], at: str) -> list[int]:
    """Record launches (at least one) before they are sent, and return their numbers in order.

    No request may be sent before the caller's commit.

    Raises:
        RunLockedError: another run has recorded one of the recipients in the meantime.
    """
    ids, rows = enter_launches(
        connection,
        campaign_id,
        intents,
        lambda intent: {
            "definition": intent.definition,
            **describe_sessions(intent.definition),
            "intent_at": at,
        },
    )
    # Rows that another launch holds stay untouched, which the count shows.
    if CLAIM.run(connection, rows) != len(rows):
        raise RunLockedError(
            "another run is sending this campaign: it has recorded some of the same recipients",
            hint="wait until it has ended, then run the same command again",
        )
    return ids


def absorb_launches(connection: Connection, campaign_id: int, records: Iterable[LaunchRecord]) -> int:
    """Enter launches that only a lockfile has, without forgotten people, and return their number.

    They override the ledger's data of their recipients: a lockfile holds accepted launches only. Their runs
    must have been entered.
    """
    told, forgotten = list(records), read_forgotten(connection, campaign_id)
    present = _read_accepted(connection, campaign_id)
    missing = {
        record.project_launch_guid: record for record in told if record.project_launch_guid not in present
    }
    drop_unexplained(connection, campaign_id, missing)
    for portion in divide(missing.values()):
        rows = [
            row
            for row in _add_accepted(connection, campaign_id, portion)
            if row["fingerprint"] not in forgotten
        ]
        if rows:
            _TAKE_OVER.run(connection, rows)
    known = _read_accepted(connection, campaign_id)
    for record in told:
        row = known[record.project_launch_guid]
        if row.run is None and record.run is not None:
            connection.execute(update(launches).where(launches.c.id == row.id).values(run=record.run))
        # The key is a digest of the people: another machine has found more, or has them under a former id.
        if (row.message, row.launch_key) != (record.message, record.key):
            people = list_deliveries(campaign_id, record.message, row.id, record.recipients, record.occasion)
            _adopt_people(connection, campaign_id, people)
    return len(missing)


def _read_accepted(connection: Connection, campaign_id: int) -> dict[str, Any]:
    columns = (launches.c[name] for name in ("project_launch_guid", "id", "message", "launch_key", "run"))
    is_sent = launches.c.project_launch_guid.is_not(None) & (launches.c.state != UNEXPLAINED)
    query = select(*columns).where(launches.c.campaign_id == campaign_id, is_sent)
    return {row.project_launch_guid: row for row in connection.execute(query)}


def enter_adopted(
    connection: Connection, campaign_id: int, record: LaunchRecord, definition: dict[str, Any]
) -> None:
    """Enter a launch of a lost run that only the service has.

    Recipients recorded as reached stay with their launch; those of an unknown outcome move to this one.
    """
    # In ASCII: JSON can hold half a surrogate pair, and no database can.
    text = json.dumps(definition)
    drop_unexplained(connection, campaign_id, [record.project_launch_guid])
    rows = _add_accepted(connection, campaign_id, [record], text)
    _adopt_people(connection, campaign_id, rows)


def add_recipients(connection: Connection, campaign_id: int, launch: Claim, people: Collection[str]) -> int:
    """Enter people whom an adopted launch has reached as well, unless on record; return their number."""
    rows = list_deliveries(campaign_id, launch.message, launch.launch_id, sorted(people), launch.occasion)
    return _adopt_people(connection, campaign_id, rows)


def adopt_in_part(
    connection: Connection, campaign: str, launch: Unsettled, guid: str, at: str, reached: frozenset[str]
) -> None:
    """Record that an unsettled launch was sent, to others than its intent names as well.

    People of the intent whom the service does not list count as reached: a list proves little. If the guid
    is on record for another launch, that one gets the people.
    """
    query = select(launches.c.campaign_id, launches.c.payload_digest).where(launches.c.id == launch.id)
    campaign_id, digest = connection.execute(query).one()
    drop_unexplained(connection, campaign_id, [guid])
    owner = find_owner(connection, campaign_id, guid)
    everybody = sorted(launch.recipients | reached)
    if owner is None:
        key = launch_key(campaign, launch.message, digest, everybody, launch.occasion)
        record_outcomes(connection, [Outcome(launch.id, "sent", at, guid, ADOPTED)])
        changed = {"launch_key": key, "recipients": len(everybody)}
    elif owner.message == launch.message:
        changed = {"state": "not_sent", "detail": BARE}
    else:
        raise RunnerError(
            f"the service has named a launch of the message {owner.message!r} {guid}, and that is on record",
            hint=f"if nobody got {launch.message!r}, have it sent: "
            f"runner resolve --launch {launch.key} --not-sent",
        )
    connection.execute(update(launches).where(launches.c.id == launch.id).values(changed))
    holder = launch.id if owner is None else owner.id
    rows = list_deliveries(campaign_id, launch.message, holder, everybody, launch.occasion)
    _adopt_people(connection, campaign_id, rows)


def _adopt_people(connection: Connection, campaign_id: int, rows: Iterable[dict[str, Any]]) -> int:
    """Enter deliveries that were certainly, or may have been, made; leave out forgotten people."""
    forgotten = read_forgotten(connection, campaign_id)
    kept = [row for row in rows if row["fingerprint"] not in forgotten]
    return _ADOPT.run(connection, kept) if kept else 0


def _add_accepted(
    connection: Connection, campaign_id: int, records: Sequence[LaunchRecord], definition: str | None = None
) -> list[dict[str, Any]]:
    """Enter launches that were sent, and return the rows of their deliveries."""
    _, rows = enter_launches(
        connection,
        campaign_id,
        records,
        lambda record: {
            "definition": definition,
            **({"asks": record.asks} if definition is None else describe_sessions(definition)),
            "state": "sent",
            "project_launch_guid": record.project_launch_guid,
            "intent_at": record.sent_at,
            "outcome_at": record.sent_at,
            "detail": None if definition is None else ADOPTED,
        },
    )
    return rows


def enter_launches(
    connection: Connection,
    campaign_id: int,
    items: Sequence[_Item],
    describe: Callable[[_Item], dict[str, Any]],
) -> tuple[list[int], list[dict[str, Any]]]:
    """Enter launches, and return their numbers in order, and the rows of their deliveries.

    `describe` returns the columns in which a record differs from an intent without an outcome.
    """
    ids = _reserve_ids(connection, len(items))
    pairs = list(zip(ids, items, strict=True))
    described = [
        {
            "id": launch_id,
            "campaign_id": campaign_id,
            "message": item.message,
            "occasion": item.occasion,
            "launch_key": item.key,
            "tag": item.tag,
            "payload_digest": item.payload_digest,
            "arm": item.arm,
            "recipients": len(item.recipients),
            "run": item.run,
            **_UNANSWERED,
            **describe(item),
        }
        for launch_id, item in pairs
    ]
    for row in described:
        row["is_open"] = row["asks"]
    _ADD_LAUNCHES.run(connection, described)
    return ids, [
        row
        for launch_id, item in pairs
        for row in list_deliveries(campaign_id, item.message, launch_id, item.recipients, item.occasion)
    ]


def list_deliveries(
    campaign_id: int, message: str, launch_id: int, people: Iterable[str], occasion: str
) -> Iterator[dict[str, Any]]:
    """Return the rows of people's deliveries by a launch."""
    delivery = {"campaign_id": campaign_id, "message": message, "occasion": occasion}
    shared = {**delivery, "launch_id": launch_id, "released": False}
    return ({**shared, "fingerprint": fingerprint} for fingerprint in people)


def _reserve_ids(connection: Connection, count: int) -> list[int]:
    """Return numbers for new launches: asking for them afterwards would cost a statement for each."""
    if connection.dialect.name == "postgresql":
        return list(connection.execute(_NEXT_IDS, {"b_count": count}).scalars())
    # SQLite has one writer at a time: these stay free until this transaction has ended.
    last: int = connection.execute(_LAST_ID).scalar_one()
    return list(range(last + 1, last + 1 + count))


def list_unknown(connection: Connection, told: Collection[Reservation]) -> list[Reservation]:
    """Return the reservations that the ledger doesn't know."""
    known = find_absorbed(connection, [one.id for one in told])
    return [one for one in told if one.id not in known]


def absorb_reservations(
    connection: Connection, campaign_id: int, told: Collection[Reservation], message_ids: Mapping[str, str]
) -> None:
    """Enter the launches of unknown reservations as intents of a dead run.

    Launches recorded as sent stay so. Recipients of open launches move to the reservation: it was made later,
    by a run that knew their outcomes.
    """
    unknown = list_unknown(connection, told)
    for reservation in unknown:
        current = [
            msgspec.structs.replace(one, message=message_ids.get(one.message, one.message))
            for one in reservation.launches
        ]
        enter_runs(connection, reservation.runs)
        for portion in divide(current):
            _, rows = enter_launches(
                connection,
                campaign_id,
                portion,
                lambda one: {
                    "definition_digest": one.definition_digest,
                    "asks": one.asks,
                    "intent_at": one.reserved_at,
                },
            )
            _adopt_people(connection, campaign_id, rows)
        note_absorbed(connection, [reservation.id])
    if not unknown:
        return
    held = exists().where(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(False))
    is_bare = (launches.c.campaign_id == campaign_id) & launches.c.state.in_(OPEN) & ~held
    connection.execute(update(launches).where(is_bare).values(state="not_sent", detail=BARE))


def add_reserved(
    known: RecordedDeliveries, told: Iterable[Reservation], message_ids: Mapping[str, str]
) -> None:
    """Add the recipients of unknown reservations to the `known` deliveries as unresolved."""
    for launch in (launch for reservation in told for launch in reservation.launches):
        message = message_ids.get(launch.message, launch.message)
        people = {on_occasion(person, launch.occasion) for person in launch.recipients}
        known.unresolved.setdefault(message, set()).update(people - known.sent.get(message, set()))


def list_open(
    connection: Connection, campaign_id: int, digest: Callable[[dict[str, Any]], str]
) -> Sequence[ReservedLaunch]:
    """Return the launches of unknown outcome, for other machines, and rejected ones without proof."""
    found = []
    columns = *LOCKFILE_COLUMNS, "definition", "definition_digest", "intent_at"
    for states, is_released in ((OPEN, False), (("rejected",), True)):
        is_open = (launches.c.campaign_id == campaign_id) & launches.c.state.in_(states)
        for row, held in iterate_launches(connection, columns, is_open, is_released=is_released):
            recipients = tuple(person for message, person in held if message == row.message)
            # Launches without recipients hold nobody, here or elsewhere.
            if recipients:
                written = None if row.definition is None else digest(json.loads(row.definition))
                entry = describe_entry(row, recipients) | {"reserved_at": row.intent_at}
                entry["definition_digest"] = written or row.definition_digest or ""
                found.append(ReservedLaunch(**entry))
    return sorted(found, key=attrgetter("message", "key"))


@dataclass(frozen=True, slots=True)
class UnexplainedLaunch:
    """A launch that the service lists under a campaign's tags and no record explains.

    A lost run may have sent it: its people count as unresolved for each message that it may have been
    (`held`: fingerprints by message) until a person decides, also where a later list lacks it. `tag`,
    `started_at` (UTC, ISO 8601) and `definition` are as listed. Unless it `is_whole`, recipients were missing
    from the list, and all that it may have reached are held. `occasion` is the campaign's when it was found.
    """

    project_launch_guid: str
    tag: str
    started_at: str
    definition: dict[str, Any] = field(repr=False)
    held: Mapping[str, Collection[str]] = field(repr=False)
    is_whole: bool = True
    occasion: str = ""

    @property
    def people(self) -> set[str]:
        """The fingerprints of all people that it holds."""
        return {fingerprint for people in self.held.values() for fingerprint in people}


def hold_people(connection: Connection, campaign_id: int, launch: UnexplainedLaunch) -> None:
    """Enter an unexplained launch, and hold its people who have no other delivery on record."""
    # In ASCII: JSON can hold half a surrogate pair, and no database can.
    definition = json.dumps(launch.definition)
    # It has no key or payload of ours: the service's guid stands for both.
    message, guid = next(iter(launch.held), ""), launch.project_launch_guid
    entry = LaunchEntry(message, guid, launch.tag, guid, tuple(launch.people), occasion=launch.occasion)
    (launch_id,), _ = enter_launches(
        connection,
        campaign_id,
        [entry],
        lambda _: {
            "definition": definition,
            **describe_sessions(definition),
            "state": UNEXPLAINED,
            "project_launch_guid": guid,
            "intent_at": launch.started_at,
            "detail": None if launch.is_whole else _IN_PART,
        },
    )
    rows = [
        row
        for message, people in launch.held.items()
        for row in list_deliveries(campaign_id, message, launch_id, sorted(people), launch.occasion)
    ]
    if rows:
        CLAIM.run(connection, rows)


def list_unexplained(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> list[UnexplainedLaunch]:
    """Return a campaign's unexplained launches, the earliest first."""
    current = message_ids or {}
    are_theirs = launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED
    columns = "project_launch_guid", "tag", "intent_at", "definition", "detail", "occasion"
    found = []
    for row, held in iterate_launches(
        connection, columns, *are_theirs, order=(launches.c.intent_at, launches.c.id)
    ):
        people: dict[str, set[str]] = {}
        for message, person in held:
            people.setdefault(current.get(message, message), set()).add(person)
        definition, is_whole = json.loads(row.definition or "{}"), row.detail != _IN_PART
        guid, at = row.project_launch_guid, row.intent_at
        found.append(UnexplainedLaunch(guid, row.tag, at, definition, people, is_whole, row.occasion))
    return found


def dismiss_launches(connection: Connection, campaign_id: int, guids: Iterable[str]) -> None:
    """Record that launches are not the campaign's, and release their people."""
    dismissed = sorted(set(guids))
    if dismissed:
        rows = [{"campaign_id": campaign_id, "project_launch_guid": guid} for guid in dismissed]
        insert_missing(connection, dismissed_launches, rows)
        drop_unexplained(connection, campaign_id, dismissed)


def read_dismissed(connection: Connection, campaign_id: int) -> set[str]:
    """Return the `project_launch_guid`s of launches that a person has dismissed."""
    query = select(dismissed_launches.c.project_launch_guid)
    return set(connection.execute(query.where(dismissed_launches.c.campaign_id == campaign_id)).scalars())
