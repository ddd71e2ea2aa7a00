"""Launches of unknown outcome, and launches found to be ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, or_, select, update

from runner.ledger.model import Unsettled
from runner.ledger.tables import campaigns, deliveries, launches, reserved_launches
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy import Connection

OPEN = ("intent", "unknown")
"""The states of launches that may or may not have been sent."""
UNEXPLAINED = "unexplained"
"""The state of launches that the service lists and no record explains (`ledger.record.unexplained`)."""


def list_unsettled(connection: Connection, campaign_id: int) -> list[Unsettled]:
    """Return the launches that may or may not have been sent, the oldest first.

    For use under the campaign's lock: then an intent without an outcome was left by a dead run.
    """
    query = (
        select(launches, deliveries.c.fingerprint, reserved_launches.c.definition_digest)
        .outerjoin(reserved_launches, reserved_launches.c.launch_id == launches.c.id)
        .outerjoin(
            deliveries, and_(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(False))
        )
        .where(launches.c.campaign_id == campaign_id, launches.c.state.in_(OPEN))
        .order_by(launches.c.id)
    )
    recipients: dict[int, set[str]] = {}
    rows = {}
    for row in connection.execute(query):
        rows[row.id] = row
        shelf = recipients.setdefault(row.id, set())
        if row.fingerprint is not None:
            shelf.add(row.fingerprint)
    return [
        Unsettled(
            id=launch_id,
            message=row.message,
            key=row.launch_key,
            tag=row.tag,
            definition=None if row.definition is None else json.loads(row.definition),
            recipients=frozenset(recipients[launch_id]),
            intent_at=row.intent_at,
            detail=row.detail,
            definition_digest=row.definition_digest or "",
        )
        for launch_id, row in rows.items()
    ]


def count_unsettled(connection: Connection, campaign_id: int) -> int:
    """Return the number of deliveries that may or may not have been made, unexplained ones included."""
    query = (
        select(func.count())
        .select_from(deliveries)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(
            deliveries.c.campaign_id == campaign_id,
            deliveries.c.released.is_(False),
            launches.c.state.in_((*OPEN, UNEXPLAINED)),
        )
    )
    return int(connection.execute(query).scalar_one())


@dataclass(frozen=True, slots=True)
class HeldCount:
    """The number of people who may have got a message, held until that is known.

    If not `is_explained`, the service lists the launches and no record does.
    """

    campaign: str
    message: str
    launches: int
    recipients: int
    is_explained: bool = True


def count_held(connection: Connection, target: str) -> list[HeldCount]:
    """Return the numbers of held people on a target by campaign and message."""
    message = func.coalesce(deliveries.c.message, launches.c.message)
    query = (
        select(
            campaigns.c.name,
            message,
            launches.c.state,
            func.count(launches.c.id.distinct()),
            func.count(deliveries.c.fingerprint),
        )
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .outerjoin(
            deliveries, and_(deliveries.c.launch_id == launches.c.id, deliveries.c.released.is_(False))
        )
        .where(
            campaigns.c.target == target,
            # An unexplained launch without deliveries holds nobody.
            or_(
                launches.c.state.in_(OPEN),
                and_(launches.c.state == UNEXPLAINED, deliveries.c.fingerprint.is_not(None)),
            ),
        )
        .group_by(campaigns.c.name, message, launches.c.state)
    )
    found: dict[tuple[str, str, bool], tuple[int, int]] = {}
    for campaign, name, state, count, people in connection.execute(query):
        place = campaign, name, state == UNEXPLAINED
        before = found.get(place, (0, 0))
        found[place] = before[0] + count, before[1] + people
    return [
        HeldCount(campaign, name, *counts, not is_unexplained)
        for (campaign, name, is_unexplained), counts in sorted(found.items())
    ]


def list_claimed(connection: Connection, target: str, *, explained_only: bool = True) -> set[str]:
    """Return the guids of all recorded launches on a target, written as by `normalize_guid`.

    With `explained_only`, unexplained launches are left out.
    """
    query = (
        select(launches.c.project_launch_guid)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(campaigns.c.target == target, launches.c.project_launch_guid.is_not(None))
    )
    if explained_only:
        query = query.where(launches.c.state != UNEXPLAINED)
    return set(map(normalize_guid, connection.execute(query).scalars()))


@dataclass(frozen=True, slots=True)
class KnownLaunch:
    """A launch that the service accepted, and when (UTC, ISO 8601)."""

    project_launch_guid: str
    sent_at: str


def list_known(connection: Connection, target: str, tags: Collection[str], since: str) -> list[KnownLaunch]:
    """Return the launches on a target under some project tags that are recorded as sent.

    They are those since a moment (UTC, ISO 8601), and the last one before it.
    """
    query = (
        select(launches.c.project_launch_guid, launches.c.outcome_at)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(campaigns.c.target == target, launches.c.tag.in_(list(tags)), launches.c.state == "sent")
    )
    seconds = since[: len("2026-11-20T12:00:00")]
    recent = connection.execute(query.where(launches.c.outcome_at >= seconds)).all()
    before = query.where(launches.c.outcome_at < seconds).order_by(launches.c.outcome_at.desc()).limit(1)
    return [KnownLaunch(*row) for row in (*recent, *connection.execute(before))]


def list_tags(connection: Connection, campaign_id: int) -> dict[str, set[str]]:
    """Return the recorded project tags of a campaign's messages, by message id."""
    query = select(launches.c.message, launches.c.tag).where(
        launches.c.campaign_id == campaign_id, launches.c.state != UNEXPLAINED
    )
    found: dict[str, set[str]] = {}
    for message, tag in connection.execute(query.distinct()):
        found.setdefault(message, set()).add(tag)
    return found


def _list_forms(guids: Collection[str]) -> list[str]:
    """Return guids in the forms that records may have: unchanged, in upper and in lower case."""
    return list({form for guid in guids for form in (guid, guid.lower(), guid.upper())})


def count_known(connection: Connection, target: str, tag: str) -> int:
    """Return the number of launches under a project tag recorded as sent, of any campaign on a target."""
    query = (
        select(func.count(launches.c.project_launch_guid.distinct()))
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(campaigns.c.target == target, launches.c.tag == tag, launches.c.state == "sent")
    )
    return int(connection.execute(query).scalar_one())


def read_recipients(
    connection: Connection, campaign_id: int, guids: Collection[str]
) -> dict[str, frozenset[str]]:
    """Return the recipients' fingerprints of recorded launches by guid, written as by `normalize_guid`."""
    query = (
        select(launches.c.project_launch_guid, deliveries.c.fingerprint)
        .join(deliveries, deliveries.c.launch_id == launches.c.id)
        .where(
            launches.c.campaign_id == campaign_id,
            launches.c.project_launch_guid.in_(_list_forms(guids)),
            deliveries.c.released.is_(False),
        )
    )
    found: dict[str, set[str]] = {}
    for guid, fingerprint in connection.execute(query):
        found.setdefault(normalize_guid(guid), set()).add(fingerprint)
    return {guid: frozenset(people) for guid, people in found.items()}


def adopt_launch(connection: Connection, launch_id: int, guid: str, at: str) -> None:
    """Record that an unsettled launch was sent."""
    connection.execute(
        update(launches)
        .where(launches.c.id == launch_id)
        .values(state="sent", project_launch_guid=guid, outcome_at=at, detail=None)
    )


def release_launch(connection: Connection, launch_id: int, at: str, detail: str) -> None:
    """Record that an unsettled launch was not sent, and free its recipients; keep any other outcome."""
    is_open = (launches.c.id == launch_id) & launches.c.state.in_(OPEN)
    released = update(launches).where(is_open).values(state="not_sent", outcome_at=at, detail=detail)
    if connection.execute(released).rowcount:
        connection.execute(
            update(deliveries).where(deliveries.c.launch_id == launch_id).values(released=True)
        )


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
