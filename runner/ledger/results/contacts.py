"""Everybody in the launches of a campaign, with what is known of whether the text has left the service.

A session queues behind the person's earlier one, and an opt-out, or a send that ends open surveys, ends both
at once. So a session that ended in one of these ways had no text if it was seen queued and the one before it
ended in the same way: that one was still open. If the one before it ended in another way, or there was none,
the session had begun. What remains is not known: nobody looked while it was open.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import and_, case, func, literal, or_, select, true

from runner.ledger.database import read_info
from runner.ledger.model import ENDED, QUEUED, SessionProgress
from runner.ledger.record.unsettled import OPEN, UNEXPLAINED
from runner.ledger.report_model import ContactRow
from runner.ledger.results.result_feed import RESULTS_EDITION
from runner.ledger.results.sendings import BEGAN
from runner.ledger.tables import (
    IS_SESSION,
    campaigns,
    deliveries,
    launch_stats,
    launches,
    name_target,
    sessions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement, Connection, FromClause

_PORTION = 5000
_HAS_REACHED = and_(launches.c.state.in_(("sent", *OPEN, UNEXPLAINED)), deliveries.c.released.is_(False))
# The ways in which all sessions of a person end at once, and other ends.
_STOPPED, _REPLACED, _DONE, _UNKNOWN = "stopped", "replaced", "done", "unknown"
_ENDING = case(
    (func.coalesce(sessions.c.status, "") != ENDED, _UNKNOWN),
    (sessions.c.stopped, _STOPPED),
    (sessions.c.replaced, _REPLACED),
    else_=_DONE,
)
_IS_DOUBTFUL = and_(
    _ENDING.in_((_STOPPED, _REPLACED)),
    sessions.c.blocked.is_(False),
    sessions.c.progress < SessionProgress.BEGUN,
)


def read_contact_mark(connection: Connection, campaign_id: int) -> str:
    """Return a text that differs if what `iterate_contacts` yields does, unless people were forgotten."""
    read = func.coalesce(launch_stats.c.reconciled_at, ""), func.coalesce(launches.c.outcome_at, "")
    query = (
        select(launches.c.state, func.count(), func.sum(launches.c.recipients), *map(func.max, read))
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id)
        .group_by(launches.c.state)
        .order_by(launches.c.state)
    )
    rows = [list(map(str, row)) for row in connection.execute(query)]
    if _has_doubts(connection, campaign_id):
        latest = select(func.max(launch_stats.c.reconciled_at))
        rows.append([str(connection.execute(latest).scalar())])
    return json.dumps([read_info(connection, RESULTS_EDITION), *rows])


def iterate_contacts(connection: Connection, campaign_id: int) -> Iterator[ContactRow]:
    """Yield everybody in each launch that has reached people, or may have, unordered."""
    flags = (launch_stats.c.reconciled_at.is_not(None), sessions.c.status.is_not(None))
    ends = (sessions.c.stopped, sessions.c.blocked, sessions.c.replaced)
    preceding = _list_preceding(campaign_id) if _has_doubts(connection, campaign_id) else None
    query = (
        select(
            launches.c.message,
            deliveries.c.fingerprint,
            func.coalesce(launches.c.arm, ""),
            func.coalesce(BEGAN, ""),
            func.coalesce(sessions.c.status, ""),
            *(case((flag, "1"), else_="0") for flag in (launches.c.state == "sent", *flags, *ends)),
            _tell_texted(preceding),
            launches.c.occasion,
        )
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .outerjoin(sessions, IS_SESSION)
        .where(launches.c.campaign_id == campaign_id, _HAS_REACHED)
    )
    if preceding is not None:
        is_it = and_(
            preceding.c.launch_id == deliveries.c.launch_id,
            preceding.c.fingerprint == deliveries.c.fingerprint,
        )
        query = query.outerjoin(preceding, is_it)
    yield from map(ContactRow._make, connection.execute(query.execution_options(yield_per=_PORTION)))


def _has_doubts(connection: Connection, campaign_id: int) -> bool:
    """Return whether a session has ended so that the one before it tells whether it had begun."""
    query = (
        select(literal(1))
        .select_from(launches)
        .join(sessions, sessions.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, _IS_DOUBTFUL)
        .limit(1)
    )
    return connection.execute(query).first() is not None


def _tell_texted(preceding: FromClause | None) -> ColumnElement[str]:
    """Return the expression for `ContactRow.was_texted`."""
    was_queued = sessions.c.progress == SessionProgress.QUEUED
    known = [
        (launch_stats.c.reconciled_at.is_(None), ""),
        (or_(sessions.c.blocked, sessions.c.status == QUEUED), "0"),
    ]
    if preceding is None:
        return case(*known, else_="1")
    before = preceding.c.before
    return case(
        *known,
        (~_IS_DOUBTFUL, "1"),
        # Its own launch ended what was open, so that nothing queued.
        (launches.c.ends_others, "1"),
        (and_(was_queued, before == _ENDING), "0"),
        # It queued behind a session that the ledger does not know.
        (and_(was_queued, before.is_(None)), ""),
        (or_(before == _UNKNOWN, before == _ENDING), ""),
        else_="1",
    )


def _list_preceding(campaign_id: int) -> FromClause:
    """Return how the session before each of those on the campaign's target ended: `before`, null for none.

    It is of people with a session of the campaign of which that tells something: few of all. Blocked sessions
    have kept no other one waiting.
    """
    doubtful = (
        select(sessions.c.participant)
        .join(launches, launches.c.id == sessions.c.launch_id)
        .where(launches.c.campaign_id == campaign_id, _IS_DOUBTFUL)
    )
    order = func.coalesce(BEGAN, ""), launches.c.id
    before = func.lag(_ENDING).over(partition_by=deliveries.c.fingerprint, order_by=order)
    return (
        select(deliveries.c.launch_id, deliveries.c.fingerprint, before.label("before"))
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .outerjoin(sessions, IS_SESSION)
        .where(
            campaigns.c.target == name_target(campaign_id),
            _HAS_REACHED,
            sessions.c.blocked.is_not(true()),
            deliveries.c.fingerprint.in_(doubtful),
        )
        .subquery("preceding")
    )
