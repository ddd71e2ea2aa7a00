"""Statements about launches whose outcome is not known, and about launches that are found to be ours."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, func, or_, select, update

from runner.ledger.marks import take_out
from runner.ledger.model import Unsettled
from runner.ledger.tables import campaigns, deliveries, launches, reserved_launches
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

_NAMED_TWICE = "the service named a later launch so, too"
OPEN = ("intent", "unknown")
"""The states of launches that may or may not have been sent."""
UNEXPLAINED = "unexplained"
"""The state of launches that the service lists and no record explains (`runner.ledger.unexplained`)."""


def list_unsettled(connection: Connection, campaign_id: int) -> list[Unsettled]:
    """Return the launches that may or may not have been sent, the oldest first.

    To be called by the run that holds the campaign's lock: an intent without an outcome is then
    what a run left that has died.
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
    """How many people may have got a message, and are held until it is known.

    Attributes:
        campaign: its name.
        message: the message's id.
        launches: that may have reached them.
        recipients: the people.
        is_explained: whether the launches are on record; else the service lists them and no record does.
    """

    campaign: str
    message: str
    launches: int
    recipients: int
    is_explained: bool = True


def count_held(connection: Connection, target: str) -> list[HeldCount]:
    """Return how many people are held on a target, of all campaigns in the ledger, by campaign and message.

    Args:
        connection: reads the ledger.
        target: the target's name.
    """
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
            # One whose people another one holds holds nobody.
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
    """Return the guids on a target that any campaign has on record, as `fold_guid` writes them.

    Args:
        connection: reads the ledger.
        target: the target's name.
        explained_only: leave out launches that no record explains.
    """
    query = (
        select(launches.c.project_launch_guid)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(campaigns.c.target == target, launches.c.project_launch_guid.is_not(None))
    )
    if explained_only:
        query = query.where(launches.c.state != UNEXPLAINED)
    return set(map(fold_guid, connection.execute(query).scalars()))


@dataclass(frozen=True, slots=True)
class KnownLaunch:
    """A launch that the service is known to have accepted.

    Attributes:
        project_launch_guid: the service's name for it.
        sent_at: when; UTC, ISO 8601.
    """

    project_launch_guid: str
    sent_at: str


def list_known(connection: Connection, target: str, tags: Collection[str], since: str) -> list[KnownLaunch]:
    """Return the launches under some project tags that any campaign on a target has on record as sent.

    Args:
        connection: reads the ledger.
        target: the target's name.
        tags: the tags.
        since: those of this time, and the latest one before it; UTC, ISO 8601.
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
    """Return the project tags that a campaign's messages are on record with, by message id."""
    query = select(launches.c.message, launches.c.tag).where(
        launches.c.campaign_id == campaign_id, launches.c.state != UNEXPLAINED
    )
    found: dict[str, set[str]] = {}
    for message, tag in connection.execute(query.distinct()):
        found.setdefault(message, set()).add(tag)
    return found


def find_claimed(
    connection: Connection, target: str, guids: Collection[str]
) -> dict[str, tuple[int, str | None]]:
    """Return which of some `project_launch_guid`s any campaign on a target has on record.

    Returns:
        By the guid, as `fold_guid` writes it, the ledger's number of the launch, and the run that sent it,
        as far as that is known.
    """
    on_target = select(campaigns.c.id).where(campaigns.c.target == target)
    query = select(launches.c.project_launch_guid, launches.c.id, launches.c.run).where(
        launches.c.campaign_id.in_(on_target), launches.c.project_launch_guid.in_(_list_forms(guids))
    )
    return {fold_guid(row.project_launch_guid): (row.id, row.run) for row in connection.execute(query)}


def _list_forms(guids: Collection[str]) -> list[str]:
    """Return guids in the forms in which they may be on record: as they are, and in either case."""
    return list({form for guid in guids for form in (guid, guid.lower(), guid.upper())})


def count_known(connection: Connection, target: str, tag: str) -> int:
    """Return how many launches under a project tag are on record as sent, by any campaign on a target."""
    query = (
        select(func.count(launches.c.project_launch_guid.distinct()))
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .where(campaigns.c.target == target, launches.c.tag == tag, launches.c.state == "sent")
    )
    return int(connection.execute(query).scalar_one())


def dispute_launches(connection: Connection, campaign_id: int, guids: Collection[str]) -> None:
    """Record that the service has given a guid twice: what became of the launch that has it is not known."""
    for guid in guids:
        # In whatever case it was recorded.
        is_it = (launches.c.campaign_id == campaign_id) & (
            func.lower(launches.c.project_launch_guid) == fold_guid(guid)
        )
        query = select(launches.c.id).where(is_it)
        take_out(connection, campaign_id, connection.execute(query).scalars().all())
        connection.execute(
            update(launches)
            .where(is_it)
            .values(
                state="unknown", project_launch_guid=None, detail="the service named a later launch so, too"
            )
        )


def read_recipients(
    connection: Connection, campaign_id: int, guids: Collection[str]
) -> dict[str, frozenset[str]]:
    """Return the fingerprints of those whom some of a campaign's launches hold.

    By `project_launch_guid`, as `fold_guid` writes it.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        guids: the launches; those that are not on record are left out.
    """
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
        found.setdefault(fold_guid(guid), set()).add(fingerprint)
    return {guid: frozenset(people) for guid, people in found.items()}


def adopt_launch(connection: Connection, launch_id: int, guid: str, at: str) -> None:
    """Record that an unsettled launch was sent.

    Args:
        connection: commits after this.
        launch_id: the ledger's number of the launch.
        guid: the service's name for it.
        at: when the service started it; UTC, ISO 8601.
    """
    connection.execute(
        update(launches)
        .where(launches.c.id == launch_id)
        .values(state="sent", project_launch_guid=guid, outcome_at=at, detail=None)
    )


def release_launch(connection: Connection, launch_id: int, at: str, detail: str) -> None:
    """Record that an unsettled launch was not sent: its recipients are free again.

    One that has an outcome by now keeps it.

    Args:
        connection: commits after this.
        launch_id: the ledger's number of the launch.
        at: UTC, ISO 8601.
        detail: how that is known.
    """
    is_open = (launches.c.id == launch_id) & launches.c.state.in_(OPEN)
    released = update(launches).where(is_open).values(state="not_sent", outcome_at=at, detail=detail)
    if connection.execute(released).rowcount:
        connection.execute(
            update(deliveries).where(deliveries.c.launch_id == launch_id).values(released=True)
        )
