"""Launches of unknown outcome, launches found to be ours, and records that no file claims."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, delete, exists, func, literal_column, or_, select, update

from runner.ledger.bulk import divide
from runner.ledger.model import Unsettled
from runner.ledger.tables import campaigns, deliveries, launches, of_target, opt_outs, select_held
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

_GROUP = 5_000
OPEN = ("intent", "unknown")
"""The states of launches that may or may not have been sent."""
ADOPTED = "the service lists it"
"""The detail of launches that count as sent since a list had them: no answer said so."""
UNEXPLAINED = "unexplained"
"""The state of launches that the service lists and no record explains (`ledger.record.entry`)."""
REACHED = (*OPEN, "sent", UNEXPLAINED)
"""The states of launches that may have been sent."""
_UNSETTLED = (
    *("message", "occasion", "launch_key", "tag", "definition", "definition_digest", "intent_at", "detail"),
)


def list_unsettled(connection: Connection, campaign_id: int) -> list[Unsettled]:
    """Return the launches that may or may not have been sent, the oldest first.

    For use under the campaign's lock: then an intent without an outcome was left by a dead run.
    """
    are_theirs = launches.c.campaign_id == campaign_id, launches.c.state.in_(OPEN)
    return [
        Unsettled(
            id=row.id,
            message=row.message,
            key=row.launch_key,
            tag=row.tag,
            definition=None if row.definition is None else json.loads(row.definition),
            recipients=frozenset(person for _, person in held),
            intent_at=row.intent_at,
            detail=row.detail,
            definition_digest=row.definition_digest or "",
            occasion=row.occasion,
        )
        for row, held in iterate_launches(connection, _UNSETTLED, *are_theirs)
    ]


def iterate_launches(
    connection: Connection,
    columns: Iterable[str],
    *conditions: ColumnElement[bool],
    is_released: bool = False,
    order: Sequence[ColumnElement[Any]] = (launches.c.id,),
) -> Iterator[tuple[Row[Any], list[tuple[str, str]]]]:
    """Yield the launches that match conditions, each with its deliveries: pairs of message and fingerprint.

    `columns` are of the launches, beside `id`. With `is_released`, the deliveries are those of people who are
    free again, and have no later launch.
    """
    held = and_(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(is_released))
    query: Select[Any] = (
        select(
            *(launches.c[name] for name in ("id", *columns)),
            deliveries.c.message.label("held_as"),
            deliveries.c.fingerprint,
        )
        .outerjoin(deliveries, held)
        .where(*conditions)
        .order_by(*order, deliveries.c.fingerprint)
    )
    for _, group in groupby(connection.execute(query), attrgetter("id")):
        rows = list(group)
        yield rows[0], [(row.held_as, row.fingerprint) for row in rows if row.fingerprint is not None]


class HeldCount(NamedTuple):
    """The number of people who may have got a message, held until that is known.

    If not `is_explained`, the service lists the launches and no record does.
    """

    campaign: str
    message: str
    recipients: int
    is_explained: bool = True


def is_settled(connection: Connection, target: str) -> bool:
    """Return whether a run on a target would ask the service about no launch on record."""
    is_doubtful = launches.c.state.in_((*OPEN, UNEXPLAINED, "rejected"))
    query = select(launches.c.id).join(campaigns, campaigns.c.id == launches.c.campaign_id)
    return connection.execute(query.where(campaigns.c.target == target, is_doubtful).limit(1)).first() is None


def count_held(connection: Connection, target: str) -> list[HeldCount]:
    """Return the numbers of held people on a target by campaign and message."""
    groups = campaigns.c.name, deliveries.c.message, launches.c.state != literal_column(f"'{UNEXPLAINED}'")
    query = of_target(select_held(*groups, func.count()), target).group_by(*groups)
    query = query.where(launches.c.state.in_((*OPEN, UNEXPLAINED)))
    rows = connection.execute(query.order_by(groups[0], groups[1], groups[2].desc()))
    return [HeldCount(name, message, count, bool(known)) for name, message, known, count in rows]


def list_claimed(connection: Connection, target: str, *, explained_only: bool = True) -> set[str]:
    """Return the guids of all recorded launches on a target, written as by `normalize_guid`.

    With `explained_only`, unexplained launches are left out.
    """
    guid = launches.c.project_launch_guid
    query = of_target(select(guid), target).where(guid.is_not(None))
    if explained_only:
        query = query.where(launches.c.state != UNEXPLAINED)
    return set(map(normalize_guid, connection.execute(query).scalars()))


def list_known(connection: Connection, target: str, tags: Collection[str] | None, since: str) -> list[Any]:
    """Return the launches on a target under some project tags (None for all) that are recorded as sent.

    They are those since a moment (UTC, ISO 8601), and the last one before it: `project_launch_guid`s, and
    when the service accepted them (`sent_at`).
    """
    sent_at = launches.c.outcome_at.label("sent_at")
    query = of_target(select(launches.c.project_launch_guid, sent_at), target)
    query = query.where(launches.c.state == "sent")
    if tags is not None:
        query = query.where(launches.c.tag.in_(list(tags)))
    seconds = since[: len("2026-11-20T12:00:00")]
    recent = connection.execute(query.where(launches.c.outcome_at >= seconds)).all()
    before = query.where(launches.c.outcome_at < seconds).order_by(launches.c.outcome_at.desc()).limit(1)
    return [*recent, *connection.execute(before)]


def list_tags(connection: Connection, campaign_id: int) -> dict[str, set[str]]:
    """Return the recorded project tags of a campaign's messages, by message id."""
    query = select(launches.c.message, launches.c.tag).where(
        launches.c.campaign_id == campaign_id, launches.c.state != UNEXPLAINED
    )
    found: dict[str, set[str]] = {}
    for message, tag in connection.execute(query.distinct()):
        found.setdefault(message, set()).add(tag)
    return found


def list_forms(guids: Collection[str]) -> list[str]:
    """Return guids in the forms that records may have: unchanged, in upper and in lower case."""
    return list({form for guid in guids for form in (guid, guid.lower(), guid.upper())})


@dataclass(frozen=True, slots=True)
class Claim:
    """The record of a listed launch, with the fingerprints of its people so far by its campaign's key.

    If it `is_adopted`, no answer of the service named it, but a list.
    """

    launch_id: int
    campaign_id: int
    is_adopted: bool
    people: frozenset[str]
    message: str = ""
    project_launch_guid: str = ""
    occasion: str = ""


def read_claims(connection: Connection, target: str, guids: Collection[str]) -> dict[str, Claim]:
    """Return the records of some guids, written as by `normalize_guid`; unexplained launches have none."""
    found: dict[str, Claim] = {}
    own = select(campaigns.c.id).where(campaigns.c.target == target)
    is_explained = launches.c.campaign_id.in_(own) & (launches.c.state != UNEXPLAINED)
    for group in divide(list_forms(guids), _GROUP):
        for claim in _iterate_claims(connection, is_explained, launches.c.project_launch_guid.in_(group)):
            guid = normalize_guid(claim.project_launch_guid)
            before = found[guid].people if guid in found else frozenset()
            found[guid] = replace(claim, people=claim.people | before)
    return found


def list_adopted(connection: Connection, campaign_id: int) -> list[Claim]:
    """Return a campaign's launches that count as sent since a list had them."""
    is_adopted = (launches.c.state == "sent") & (launches.c.detail == ADOPTED)
    return list(_iterate_claims(connection, launches.c.campaign_id == campaign_id, is_adopted))


def _iterate_claims(connection: Connection, *conditions: ColumnElement[bool]) -> Iterator[Claim]:
    columns = "campaign_id", "message", "project_launch_guid", "occasion", "detail"
    for row, held in iterate_launches(connection, columns, *conditions):
        people = frozenset(person for _, person in held)
        is_adopted, named = row.detail == ADOPTED, (row.message, row.project_launch_guid, row.occasion)
        yield Claim(row.id, row.campaign_id, is_adopted, people, *named)


def find_owner(connection: Connection, campaign_id: int, guid: str) -> Row[Any, Any] | None:
    """Return number and message of the launch of a campaign that a guid is on record for, or None."""
    query = select(launches.c.id, launches.c.message).where(
        launches.c.campaign_id == campaign_id, launches.c.project_launch_guid.in_(list_forms([guid]))
    )
    return connection.execute(query).first()


def reopen_rejected(connection: Connection, campaign_id: int) -> None:
    """Hold the people of rejected launches until lists prove that these were not sent.

    A gateway may reject what the service has accepted. People whom another launch has since are left out.
    """
    theirs = (deliveries.c.launch_id == launches.c.id) & deliveries.c.released.is_(True)
    is_unproven = and_(
        launches.c.campaign_id == campaign_id, launches.c.state == "rejected", exists().where(theirs)
    )
    found = connection.execute(select(launches.c.id).where(is_unproven)).scalars().all()
    for group in divide(found, _GROUP):
        connection.execute(update(deliveries).where(deliveries.c.launch_id.in_(group)).values(released=False))
        connection.execute(update(launches).where(launches.c.id.in_(group)).values(state="unknown"))


def drop_unexplained(connection: Connection, campaign_id: int, guids: Iterable[str] | None = None) -> None:
    """Remove launches that are explained now, and the deliveries that they hold."""
    query = select(launches.c.id, launches.c.project_launch_guid).where(
        launches.c.campaign_id == campaign_id, launches.c.state == UNEXPLAINED
    )
    rows = connection.execute(query).all()
    wanted = set(map(normalize_guid, guids)) if rows and guids is not None else None
    for launch_id, guid in rows:
        if wanted is None or normalize_guid(guid) in wanted:
            connection.execute(delete(deliveries).where(deliveries.c.launch_id == launch_id))
            connection.execute(delete(launches).where(launches.c.id == launch_id))


def list_unclaimed(
    connection: Connection, target: str, claimed: Collection[str]
) -> list[tuple[int, str, str, int]]:
    """Return the numbers and names of a target's campaigns that are not `claimed`, with their tags.

    Each tag comes with the number of recipients who were reached under it, or may have been.
    """
    columns = campaigns.c.id, campaigns.c.name, launches.c.tag, func.sum(launches.c.recipients)
    query = (
        of_target(select(*columns), target)
        .where(campaigns.c.name.not_in(claimed), launches.c.state.in_(REACHED))
        .group_by(campaigns.c.id, campaigns.c.name, launches.c.tag)
    )
    return [(*row, int(count)) for *row, count in connection.execute(query)]


def has_own_launches(connection: Connection, campaign_id: int) -> bool:
    """Return whether a run has sent launches of a campaign, or may have: found ones have no run."""
    query = select(launches.c.id).where(
        launches.c.campaign_id == campaign_id, launches.c.state.in_(REACHED), launches.c.run.is_not(None)
    )
    return connection.execute(query.limit(1)).first() is not None


def list_targets(connection: Connection, own: str, names: Collection[str] | None) -> set[str]:
    """Return the targets with launches or opt-outs on record.

    `own` counts only with launches; others, if `names` are given, only with launches of these campaigns.
    """
    has_launches = exists().where(launches.c.campaign_id == campaigns.c.id, launches.c.state.in_(REACHED))
    query = select(campaigns.c.target).distinct().where(has_launches)
    if names is not None:
        query = query.where(or_(campaigns.c.target == own, campaigns.c.name.in_(names)))
    found = set(connection.execute(query).scalars())
    if names is None:
        opted_out = select(opt_outs.c.target).distinct().where(opt_outs.c.target != own)
        found |= set(connection.execute(opted_out).scalars())
    return found
