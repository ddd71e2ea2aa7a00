"""Deliveries of a campaign: their outcomes, their launches, and the definitions that were sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    String,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)

from runner.errors import LockfileError
from runner.ledger.bulk import BulkStatement, divide, iterate_rows
from runner.ledger.database import insert_into
from runner.ledger.fingerprint import launch_key
from runner.ledger.model import LaunchRecord, Outcome, RecordedDeliveries, on_occasion
from runner.ledger.record.unsettled import OPEN, UNEXPLAINED, iterate_launches
from runner.ledger.tables import (
    are_of,
    campaigns,
    deliveries,
    former_names,
    label_message,
    launches,
    select_held,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from runner.ledger.model import CampaignLaunches


LOCKFILE_COLUMNS = (
    *("message", "occasion", "launch_key", "tag", "payload_digest", "project_launch_guid", "outcome_at"),
    *("asks", "arm", "run"),
)
_REACHED_NOBODY = ("not_sent", "rejected")
_GROUP = 5_000
_FEW = 500
_RECORD_OUTCOMES = BulkStatement(
    lambda _: (
        update(launches)
        .where(
            launches.c.id == bindparam("b_id"),
            # Literal: a bulk statement's parameters are those of its rows.
            or_(
                *[launches.c.state == literal_column(f"'{state}'") for state in OPEN],
                bindparam("b_state", type_=String) == literal_column("'sent'"),
            ),
        )
        .values(
            state=bindparam("b_state"),
            project_launch_guid=bindparam("b_guid"),
            outcome_at=bindparam("b_at"),
            detail=bindparam("b_detail"),
        )
    )
)
_FREED = select(launches.c.id).where(
    launches.c.id.in_(bindparam("b_ids", expanding=True)), launches.c.state.in_(_REACHED_NOBODY)
)
_RELEASE = (
    update(deliveries)
    .where(
        deliveries.c.launch_id == bindparam("b_id"),
        # Not `in_`: a statement that runs for many rows cannot contain a list.
        exists().where(
            launches.c.id == bindparam("b_id"), or_(*[launches.c.state == state for state in _REACHED_NOBODY])
        ),
    )
    .values(released=True)
)


def find_record(
    connection: Connection, target: str, names: Sequence[str], *, takes_heirs: bool = False
) -> Row[Any] | None:
    """Return number and name of a campaign by its names, the first of which is its current one, or None.

    A row with launches is preferred. `takes_heirs`: one of the names may be a former one in the ledger, as in
    an older file.
    """
    # Unexplained launches were found at the service: they may be another campaign's.
    has_launches = exists().where(
        launches.c.campaign_id == campaigns.c.id, launches.c.state != literal_column(f"'{UNEXPLAINED}'")
    )
    is_former = and_(former_names.c.message == "", former_names.c.name.in_(names))
    heirs = select(former_names.c.campaign_id).where(is_former)
    former = select(func.min(former_names.c.name)).where(
        former_names.c.campaign_id == campaigns.c.id, is_former
    )
    columns = campaigns.c.id, campaigns.c.name, has_launches.label("has_launches"), former.scalar_subquery()
    query = select(*columns).where(
        campaigns.c.target == target, or_(campaigns.c.name.in_(names), campaigns.c.id.in_(heirs))
    )
    rows = connection.execute(query.order_by(campaigns.c.name)).all()
    found = [row for row in rows if row.name in names and row.has_launches]
    if not found:
        found = [row for row in rows if row.name not in names]
        if found and not takes_heirs:
            new, old = found[0].name, found[0][-1]
            raise LockfileError(
                f"the ledger knows the campaign {old!r} as {new!r} now",
                hint="update this checkout, it is older than the rename; or rename back: "
                f"`renamed_from: [{new}]`",
            )
    if len(found) > 1:
        made = ", ".join(row.name for row in found)
        raise LockfileError(
            f"the campaign {names[0]!r} has several records, made under the names {made}",
            hint="one record cannot take in another: nothing is sent as long as it is unclear who was "
            "texted; keep them as campaigns of their own, each with its name",
        )
    return next(iter([*found, *(row for row in rows if row.name == names[0])]), None)


def enter_campaign(connection: Connection, target: str, name: str) -> int:
    """Enter a campaign that is not on record, and return the ledger's number of it."""
    statement = insert_into(connection, campaigns).values(target=target, name=name)
    entered = statement.on_conflict_do_update(
        index_elements=[campaigns.c.target, campaigns.c.name], set_={"name": statement.excluded.name}
    )
    campaign_id: int = connection.execute(entered.returning(campaigns.c.id)).scalar_one()
    return campaign_id


def read_known(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str] | None = None
) -> RecordedDeliveries:
    """Return a campaign's deliveries that are sent, or may have been.

    `message_ids` maps former ids of messages to current ones.
    """
    current = message_ids or {}
    known = RecordedDeliveries({}, {})
    columns = deliveries.c.message, deliveries.c.fingerprint, deliveries.c.occasion, launches.c.state
    query = select_held(*columns).where(deliveries.c.campaign_id == campaign_id)
    for name, fingerprint, occasion, state in connection.execute(query):
        message = current.get(name, name)
        reached = known.sent if state == "sent" else known.unresolved
        delivery = on_occasion(fingerprint, occasion)
        reached.setdefault(message, set()).add(delivery)
        if state == UNEXPLAINED:
            known.unexplained.setdefault(message, set()).add(delivery)
    for shelf in (known.unresolved, known.unexplained):
        for message in shelf:
            shelf[message] -= known.sent.get(message, set())
    return known


def record_outcomes(connection: Connection, outcomes: Sequence[Outcome]) -> None:
    """Record the outcomes of launches; recipients that were certainly not reached are free again.

    A launch that another run has settled stays as it is. But if the service accepted it, its recipients are
    taken again, except those that another launch has taken since.
    """
    if not outcomes:
        return
    if sent := [o.launch_id for o in outcomes if o.state == "sent"]:
        freed = connection.execute(_FREED, {"b_ids": sent}).scalars().all()
        if freed:
            theirs = deliveries.c.launch_id.in_(freed)
            connection.execute(update(deliveries).where(theirs).values(released=False))
    _RECORD_OUTCOMES.run(
        connection,
        [
            {
                "b_id": o.launch_id,
                "b_state": o.state,
                "b_guid": o.project_launch_guid,
                "b_at": o.at,
                "b_detail": o.detail,
            }
            for o in outcomes
        ],
    )
    free = [{"b_id": o.launch_id} for o in outcomes if o.state in _REACHED_NOBODY]
    if free:
        connection.execute(_RELEASE, free)


def iterate_accepted(
    connection: Connection, campaign_id: int, forgotten: Collection[str] = ()
) -> Iterator[LaunchRecord]:
    """Yield a campaign's accepted launches in the order of the lockfile: by message and key.

    Recipients entered under another launch are left out, and forgotten people.
    """
    is_accepted = and_(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    for row, recipients in iterate_held(connection, is_accepted):
        kept = tuple(one for one in recipients if one not in forgotten) if forgotten else recipients
        sent = {"project_launch_guid": row.project_launch_guid, "sent_at": row.outcome_at}
        yield LaunchRecord(**describe_entry(row, kept), **sent)


def iterate_held(
    connection: Connection, *conditions: ColumnElement[bool]
) -> Iterator[tuple[Row[Any], tuple[str, ...]]]:
    """Yield the launches that match conditions, by message and key, each with its recipients."""
    order = launches.c.message, launches.c.launch_key, launches.c.id
    for row, held in iterate_launches(connection, LOCKFILE_COLUMNS, *conditions, order=order):
        # Others are under a message's former id, too.
        yield row, tuple(person for message, person in held if message == row.message)


def describe_entry(row: Row[Any], recipients: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a `LaunchEntry` from a row with `LOCKFILE_COLUMNS`."""
    names = ("message", "occasion", "tag", "payload_digest", "arm", "asks", "run")
    return {"key": row.launch_key, "recipients": recipients, **{name: getattr(row, name) for name in names}}


def renew_launch_keys(
    connection: Connection, campaign: str, *conditions: ColumnElement[bool]
) -> list[tuple[int, int]]:
    """Renew the keys of launches that match conditions from the people that they hold now.

    Returns the launches' numbers, each with that of its people.
    """
    held = list(iterate_held(connection, *conditions))
    if held:
        statement = update(launches).where(launches.c.id == bindparam("b_id"))
        renewed = [
            {
                "b_id": row.id,
                "b_key": launch_key(campaign, row.message, row.payload_digest, people, row.occasion),
            }
            for row, people in held
        ]
        connection.execute(statement.values(launch_key=bindparam("b_key")), renewed)
    return [(row.id, len(people)) for row, people in held]


def count_states(connection: Connection, asked: CampaignLaunches) -> dict[tuple[str, str], int]:
    """Return the number of recipients by message and the state of their latest launch."""
    # By launch, so that an index alone is read.
    people = select(func.count()).where(deliveries.c.launch_id == launches.c.id).scalar_subquery()
    query = (
        select(label_message(asked), launches.c.state, func.sum(people))
        .where(are_of(asked))
        .group_by("current_id", launches.c.state)
    )
    return {(message, state): int(count) for message, state, count in connection.execute(query) if count}


def read_digests(
    connection: Connection, campaign_id: int, people: Collection[str]
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield what some people, by fingerprint, got or may have got.

    That is the message, fingerprint, occasion, payload's digest, and state of the launch.
    """
    messages = select(launches.c.message).distinct().where(launches.c.campaign_id == campaign_id)
    person = deliveries.c.message, deliveries.c.fingerprint, deliveries.c.occasion
    # By the whole primary key.
    is_theirs = and_(deliveries.c.campaign_id == campaign_id, deliveries.c.message.in_(messages))
    query = select_held(*person, launches.c.payload_digest, launches.c.state).where(is_theirs)
    yield from map(tuple, iterate_rows(connection, query, deliveries.c.fingerprint, people))


def read_definitions(connection: Connection, launch_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the recorded definitions of launches, some hundreds at most."""
    query = select(launches.c.id, launches.c.definition).where(
        launches.c.id.in_(launch_ids), launches.c.definition.is_not(None)
    )
    return {row.id: json.loads(row.definition) for row in connection.execute(query)}


def note_tried_again(connection: Connection, freed: Collection[int], detail: str) -> None:
    """Record in `detail` that unsent launches no longer count, since their recipients are retried."""
    for group in divide(sorted(freed), _GROUP):
        are_free = and_(launches.c.id.in_(group), launches.c.state == "not_sent")
        connection.execute(update(launches).where(are_free).values(detail=detail))


def describe_sessions(definition: str) -> dict[str, bool]:
    """Return the columns of a launch on sessions: whether its own stay open, and whether it ends others."""
    sent = json.loads(definition)
    return {"asks": "questions" in sent, "ends_others": sent.get("complete_existing_sessions") is True}


def note_open(connection: Connection, launch_ids: Iterable[int], *, is_open: bool) -> None:
    """Record that sessions of some launches are open, or that all have ended."""
    for group in divide(launch_ids, _FEW):
        are_these = and_(launches.c.id.in_(group), launches.c.is_open.is_not(is_open))
        connection.execute(update(launches).where(are_these).values(is_open=is_open))
