"""What a report needs beside the results: audiences, sends by day, opt-outs, what the plan costs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, case, func, select

from runner.ledger.database import insert_into
from runner.ledger.report_model import AskedRow, AudienceRow, OptOutReply, SentRow, ServicePlan, SessionRow
from runner.ledger.tables import (
    audiences,
    campaigns,
    deliveries,
    forgotten_people,
    forgotten_results,
    launch_arms,
    launch_starts,
    launch_stats,
    launches,
    opt_outs,
    results,
    service_plans,
    sessions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import ColumnElement, Select

_DATE_LENGTH = len("2026-11-20")
_PORTION = 5000
BEGAN = func.coalesce(func.nullif(launch_starts.c.project_launch_start, ""), launches.c.outcome_at)
"""When a launch was sent: as the service says, which every ledger can learn; until it was asked, as the run
that sent it noted its answer."""


@dataclass(slots=True)
class SentCount:
    """What was sent of one message, and what of it since a moment.

    Attributes:
        launches: that were accepted since.
        recipients: of those launches.
        before: recipients of launches that were accepted earlier.
        rejected: recipients of launches that were refused since.
    """

    launches: int = 0
    recipients: int = 0
    before: int = 0
    rejected: int = 0

    def add_sent(self, recipients: int, *, is_since: bool) -> None:
        """Count one more launch."""
        if is_since:
            self.launches += 1
            self.recipients += recipients
        else:
            self.before += recipients


def count_sent(
    connection: Connection, campaign_id: int, since: str, message_ids: Mapping[str, str]
) -> dict[str, SentCount]:
    """Return what was sent of each message of a campaign.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        since: UTC, ISO 8601, to the second: `2026-11-20T12:00:00`.
        message_ids: the ids that messages have now, by those that they had before.
    """
    is_since = launches.c.outcome_at >= since
    query = (
        select(
            launches.c.message,
            launches.c.state,
            func.sum(case((is_since, 1), else_=0)),
            func.sum(case((is_since, launches.c.recipients), else_=0)),
            func.sum(launches.c.recipients),
        )
        .where(launches.c.campaign_id == campaign_id, launches.c.state.in_(("sent", "rejected")))
        .group_by(launches.c.message, launches.c.state)
    )
    found: dict[str, SentCount] = {}
    for message, state, count, recipients, all_recipients in connection.execute(query):
        one = found.setdefault(message_ids.get(message, message), SentCount())
        if state == "rejected":
            one.rejected += recipients
        else:
            one.launches += count
            one.recipients += recipients
            one.before += all_recipients - recipients
    return found


def store_audiences(connection: Connection, campaign_id: int, rows: Iterable[AudienceRow]) -> None:
    """Keep how an `apply` found the audience of messages, in the place of what was kept of them before.

    Args:
        connection: commits after this.
        campaign_id: the ledger's number of the campaign.
        rows: one a message.
    """
    for row in rows:
        values = {
            "planned_at": row.planned_at,
            "recipients": row.recipients,
            "dispositions": json.dumps(dict(row.dispositions), sort_keys=True),
        }
        statement = insert_into(connection, audiences).values(
            campaign_id=campaign_id, message=row.message, **values
        )
        connection.execute(
            statement.on_conflict_do_update(index_elements=["campaign_id", "message"], set_=values)
        )


def read_audiences(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str]
) -> list[AudienceRow]:
    """Return how the last `apply` found the audience of each message, the latest under any of its ids.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    query = select(audiences).where(audiences.c.campaign_id == campaign_id).order_by(audiences.c.planned_at)
    found = {}
    for row in connection.execute(query):
        message = message_ids.get(row.message, row.message)
        found[message] = AudienceRow(message, row.planned_at, row.recipients, json.loads(row.dispositions))
    return list(found.values())


def was_planned(connection: Connection, campaign_id: int, *, is_shared: bool) -> bool:
    """Return whether a run with this ledger has got as far as sending.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        is_shared: whether all machines use the ledger: a run of any campaign then tells that it is not a new
            one.
    """
    query = select(audiences.c.campaign_id)
    found = connection.execute(
        (query if is_shared else query.where(audiences.c.campaign_id == campaign_id)).limit(1)
    )
    return found.first() is not None


def count_sent_by_day(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str]
) -> list[SentRow]:
    """Return the recipients of accepted launches by message, arm and day, in that order.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    date = func.substr(BEGAN, 1, _DATE_LENGTH)
    query = (
        select(
            launches.c.message, func.coalesce(launch_arms.c.arm, ""), date, func.sum(launches.c.recipients)
        )
        .outerjoin(launch_arms, launch_arms.c.launch_id == launches.c.id)
        .outerjoin(launch_starts, launch_starts.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
        .group_by(launches.c.message, launch_arms.c.arm, date)
    )
    counted: Counter[tuple[str, str, str]] = Counter()
    for message, arm, day, recipients in connection.execute(query):
        counted[message_ids.get(message, message), arm, day] += int(recipients)
    return [SentRow(*key, recipients) for key, recipients in sorted(counted.items())]


def iterate_reached(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the message id and the fingerprint of every recipient of an accepted launch, in no order."""
    query = select_reached(campaign_id).execution_options(yield_per=_PORTION)
    for message, fingerprint in connection.execute(query):
        yield message_ids.get(message, message), fingerprint


def select_reached(campaign_id: int) -> Select[Any]:
    """Return the query for message id, as it was, and fingerprint of a campaign's recipients.

    Args:
        campaign_id: the ledger's number of the campaign.
    """
    return (
        select(launches.c.message, deliveries.c.fingerprint)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(
            launches.c.campaign_id == campaign_id,
            launches.c.state == "sent",
            deliveries.c.released.is_(False),
        )
    )


def iterate_asked(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str]
) -> Iterator[AskedRow]:
    """Yield every recipient of an accepted launch, in no order.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    query = (
        select_reached(campaign_id)
        .add_columns(
            func.coalesce(launch_arms.c.arm, ""),
            func.coalesce(launch_starts.c.project_launch_start, launches.c.outcome_at, ""),
            case((launch_stats.c.reconciled_at.is_(None), "0"), else_="1"),
        )
        .outerjoin(launch_arms, launch_arms.c.launch_id == launches.c.id)
        .outerjoin(launch_starts, launch_starts.c.launch_id == launches.c.id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
    )
    for message, *rest in connection.execute(query.execution_options(yield_per=_PORTION)):
        yield AskedRow(message_ids.get(message, message), *rest)


def list_replied_opt_outs(
    connection: Connection, target: str, campaign_id: int, message_ids: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return the message id and the pseudonym of everybody whose reply to it opts out."""
    query = (
        select(launches.c.message, results.c.participant)
        .join(results, results.c.launch_id == launches.c.id)
        .join(opt_outs, opt_outs.c.evidence == results.c.result_guid)
        .where(launches.c.campaign_id == campaign_id, *_list_confirmed(target))
        .distinct()
    )
    found = connection.execute(query)
    return sorted((message_ids.get(message, message), participant) for message, participant in found)


def count_replied_opt_outs(
    connection: Connection, target: str, campaign_id: int, message_ids: Mapping[str, str]
) -> Counter[str]:
    """Return the results of a campaign that opt out, by message id."""
    query = (
        select(launches.c.message, func.count())
        .join(results, results.c.launch_id == launches.c.id)
        .join(opt_outs, opt_outs.c.evidence == results.c.result_guid)
        .where(launches.c.campaign_id == campaign_id)
    )
    return _count_confirmed(connection, query, target, message_ids)


def iterate_opt_out_replies(
    connection: Connection, campaign_id: int, span: tuple[int, int] | None = None
) -> Iterator[OptOutReply]:
    """Yield the results of a campaign that evidence of opt-outs names, and all others of the same sessions.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        span: first and last of the ledger's numbers of the launches; None for all.
    """
    is_ours = launches.c.campaign_id == campaign_id
    if span is not None:
        is_ours = and_(is_ours, launches.c.id.between(*span))
    of_target = and_(
        opt_outs.c.evidence == results.c.result_guid,
        opt_outs.c.target == campaigns.c.target,
        opt_outs.c.source == "reply",
    )
    evident = (
        select(results.c.launch_id, results.c.participant)
        .join(launches, launches.c.id == results.c.launch_id)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .join(opt_outs, of_target)
        .where(is_ours)
        .distinct()
        .subquery()
    )
    is_theirs = and_(
        results.c.launch_id == evident.c.launch_id, results.c.participant == evident.c.participant
    )
    query = (
        select(
            results.c.launch_id,
            launches.c.message,
            results.c.result_guid,
            results.c.participant,
            opt_outs.c.state,
            results.c.result_response,
        )
        .select_from(evident)
        .join(results, is_theirs)
        .join(launches, launches.c.id == results.c.launch_id)
        .join(campaigns, campaigns.c.id == launches.c.campaign_id)
        .outerjoin(opt_outs, of_target)
        .execution_options(yield_per=_PORTION)
    )
    for row in connection.execute(query):
        yield OptOutReply(*row)


def count_sessions(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str]
) -> list[SessionRow]:
    """Return how the sessions of accepted launches stand, by message, in no order.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    is_ours = and_(launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    replied = (
        select(results.c.launch_id, results.c.participant)
        .join(launches, launches.c.id == results.c.launch_id)
        .where(is_ours)
        .distinct()
        .subquery()
    )
    stand = (sessions.c.status, sessions.c.stopped, sessions.c.blocked, replied.c.participant.is_not(None))
    query = (
        select(launches.c.message, *stand, func.count())
        .join(sessions, sessions.c.launch_id == launches.c.id)
        .outerjoin(
            replied,
            and_(
                replied.c.launch_id == sessions.c.launch_id, replied.c.participant == sessions.c.participant
            ),
        )
        .where(is_ours)
        .group_by(launches.c.message, *stand)
    )
    return [
        SessionRow(message_ids.get(message, message), status, stopped, bool(has_replied), count, blocked)
        for message, status, stopped, blocked, has_replied, count in connection.execute(query)
    ]


def count_reported_opt_outs(
    connection: Connection, target: str, campaign_id: int, message_ids: Mapping[str, str]
) -> Counter[str]:
    """Return the opt-outs that the service says ended a campaign's sessions, by message id."""
    query = (
        select(launches.c.message, func.count())
        .join(opt_outs, opt_outs.c.evidence == launches.c.project_launch_guid)
        .where(launches.c.campaign_id == campaign_id)
    )
    return _count_confirmed(connection, query, target, message_ids)


def count_left_out(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> Counter[str]:
    """Return the results that are not kept because their participants were forgotten, by message id."""
    query = (
        select(launches.c.message, func.sum(forgotten_results.c.results))
        .join(forgotten_results, forgotten_results.c.launch_id == launches.c.id)
        .where(launches.c.campaign_id == campaign_id)
        .group_by(launches.c.message)
    )
    found: Counter[str] = Counter()
    for message, count in connection.execute(query):
        found[message_ids.get(message, message)] += int(count)
    return found


def count_forgotten_people(connection: Connection, campaign_id: int) -> int:
    """Return how many people a campaign has forgotten, whichever of its messages they got."""
    is_theirs = (forgotten_people.c.campaign_id == campaign_id, forgotten_people.c.released.is_(False))
    query = select(func.count()).select_from(forgotten_people).where(*is_theirs)
    return connection.execute(query).scalar_one()


def _count_confirmed(
    connection: Connection, query: Select[Any], target: str, message_ids: Mapping[str, str]
) -> Counter[str]:
    found: Counter[str] = Counter()
    confirmed = query.where(*_list_confirmed(target)).group_by(launches.c.message)
    for message, count in connection.execute(confirmed):
        found[message_ids.get(message, message)] += count
    return found


def _list_confirmed(target: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for opt-outs of a target by reply that count."""
    return opt_outs.c.target == target, opt_outs.c.source == "reply", opt_outs.c.state == "confirmed"


def store_service_plan(connection: Connection, target: str, plan: ServicePlan, at: str) -> None:
    """Keep what the service's plan allows and costs, as just read.

    Args:
        connection: commits after this.
        target: the target's name.
        plan: as the service says it.
        at: UTC, ISO 8601.
    """
    values = {
        "name": plan.name,
        "price_usd": plan.price_usd,
        "renders_max": plan.renders_max,
        "renders_used": plan.renders_used,
        "read_at": at,
    }
    statement = insert_into(connection, service_plans).values(target=target, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["target"], set_=values))


def read_service_plan(connection: Connection, target: str) -> ServicePlan | None:
    """Return what a target's plan allows and costs; None if it was never read."""
    row = connection.execute(select(service_plans).where(service_plans.c.target == target)).first()
    return None if row is None else ServicePlan(row.name, row.price_usd, row.renders_max, row.renders_used)
