"""Report figures other than results: audiences, sends by day, sessions, opt-outs, the service's plan."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, case, func, select

from runner.ledger.database import insert_or_update, read_info, write_info
from runner.ledger.report_model import AppliedStep, AudienceRow, OptOutReply, ServicePlan
from runner.ledger.tables import (
    ANSWER,
    are_of,
    audiences,
    deliveries,
    label_message,
    launch_stats,
    launches,
    name_target,
    opt_outs,
    results,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sqlalchemy import ColumnElement, Select

    from runner.campaign.answers import Endings
    from runner.ledger.model import CampaignLaunches

_PORTION = 5000
BEGAN = func.coalesce(func.nullif(launch_stats.c.project_launch_start, ""), launches.c.outcome_at)
"""The start of a launch by the service's clock; if unknown, the time of its answer."""


@dataclass(frozen=True, slots=True)
class SentCount:
    """The recipients of one message since a moment: those texted, and those whose texts were rejected."""

    recipients: int = 0
    rejected: int = 0


def count_sent(connection: Connection, asked: CampaignLaunches, since: str) -> dict[str, SentCount]:
    """Return the sends of each message since a moment (UTC, ISO 8601, to the second)."""
    is_sent, recipients = launches.c.state == "sent", launches.c.recipients
    sums = (case((is_sent, recipients), else_=0), case((is_sent, 0), else_=recipients))
    query = (
        select(label_message(asked), *map(func.sum, sums))
        .where(are_of(asked), launches.c.state.in_(("sent", "rejected")), launches.c.outcome_at >= since)
        .group_by("current_id")
    )
    return {message: SentCount(*map(int, counts)) for message, *counts in connection.execute(query)}


def store_audiences(
    connection: Connection, campaign_id: int, rows: Iterable[AudienceRow], step: AppliedStep | None = None
) -> None:
    """Replace the audiences of messages, and the open step, with those that an `apply` found."""
    found = [(asdict(row), json.dumps(dict(row.dispositions), sort_keys=True)) for row in rows]
    entered = [{**row, "campaign_id": campaign_id, "dispositions": written} for row, written in found]
    insert_or_update(connection, audiences, entered)
    told = "" if step is None else json.dumps([step.number, step.steps, str(step.share), step.people])
    if told or read_info(connection, f"rollout/{campaign_id}"):
        write_info(connection, f"rollout/{campaign_id}", told)


def store_audience_trace(connection: Connection, campaign_id: int, trace: str) -> None:
    """Store what a campaign's audience is like in an `apply`, as text."""
    write_info(connection, f"audience/{campaign_id}", trace)


def read_step(connection: Connection, campaign_id: int) -> AppliedStep | None:
    """Return the open step in a campaign's last `apply`; None if it has no rollout, or that is not known."""
    told = read_info(connection, f"rollout/{campaign_id}")
    if not told:
        return None
    number, steps, share, people = json.loads(told)
    return AppliedStep(number, steps, Fraction(share), people)


def read_audience_trace(connection: Connection, campaign_id: int) -> str | None:
    """Return what a campaign's audience was like in the last `apply`; None if that is not known."""
    return read_info(connection, f"audience/{campaign_id}")


def read_audiences(connection: Connection, asked: CampaignLaunches) -> list[AudienceRow]:
    """Return the audience of each message in its latest `apply`, under any of its ids."""
    own = select(audiences).where(audiences.c.campaign_id == asked.campaign_id)
    found = {}
    for row in connection.execute(own.order_by(audiences.c.planned_at)):
        message = asked.message_ids.get(row.message, row.message)
        found[message] = AudienceRow(message, row.planned_at, row.recipients, json.loads(row.dispositions))
    return list(found.values())


def was_planned(connection: Connection, campaign_id: int, *, is_shared: bool) -> bool:
    """Return whether a run with this ledger has come to sending.

    In a ledger shared by all machines (`is_shared`), a run of any campaign counts.
    """
    query = select(audiences.c.campaign_id)
    found = connection.execute(
        (query if is_shared else query.where(audiences.c.campaign_id == campaign_id)).limit(1)
    )
    return found.first() is not None


def note_behind(connection: Connection, campaign_id: int, *, is_behind: bool) -> None:
    """Record that a ledger lacked launches of a lockfile, or that the service was asked for all since."""
    write_info(connection, f"behind/{campaign_id}", "true" if is_behind else "")


def is_behind(connection: Connection, campaign_id: int) -> bool:
    """Return whether the ledger may lack launches of a campaign, as `note_behind` has recorded."""
    return bool(read_info(connection, f"behind/{campaign_id}"))


def count_results(
    connection: Connection,
    asked: CampaignLaunches,
    condition: ColumnElement[bool],
    count: ColumnElement[int] | None = None,
) -> Counter[str]:
    """Return the number of results with a condition, or another count, by message id."""
    query = (
        select(label_message(asked), func.count() if count is None else count)
        .join(results, results.c.launch_id == launches.c.id)
        .where(are_of(asked), condition)
    )
    return count_by_message(connection, query)


def count_answered(
    connection: Connection, asked: CampaignLaunches, refused: Collection[str] = ()
) -> Counter[str]:
    """Return the participants with at least one answer, by message id.

    Confirmed opt-outs by reply, and the `refused` results, by their `result_guid`, are no answers.
    """
    is_refusal = is_confirmed_refusal(asked.campaign_id)
    is_answer = and_(results.c.non_answer == "", ~is_refusal, results.c.result_guid.not_in(refused))
    people = func.count(results.c.participant.distinct())
    return count_results(connection, asked, is_answer, people)


def count_completed(connection: Connection, asked: CampaignLaunches, endings: Endings) -> int:
    """Return the number of people with an answer that ends a survey, each once."""
    columns = launches.c.message, results.c.question_tag, ANSWER, results.c.participant
    query = (
        select(*columns)
        .join(launches, launches.c.id == results.c.launch_id)
        .where(are_of(asked), results.c.question_tag.in_(endings.questions))
        .where(results.c.non_answer == "", ~is_confirmed_refusal(asked.campaign_id))
    )
    people = set[str]()
    for message, question, response, person in connection.execute(query.execution_options(yield_per=1000)):
        if endings.ends(asked.message_ids.get(message, message), question, response):
            people.add(person)
    return len(people)


def is_confirmed_refusal(campaign_id: int) -> ColumnElement[bool]:
    """Return the condition for results of a campaign that are confirmed opt-outs."""
    return is_evidence(
        opt_outs.c.target == name_target(campaign_id),
        opt_outs.c.source == "reply",
        opt_outs.c.state == "confirmed",
    )


def is_evidence(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition for results that are evidence of opt-outs with the given ones."""
    # Without an index on the left side SQLite reads each result once, not each opt-out in each launch.
    return (results.c.result_guid + "").in_(select(opt_outs.c.evidence).where(*conditions))


def iterate_opt_out_replies(connection: Connection, campaign_id: int) -> Iterator[OptOutReply]:
    """Yield a campaign's results that are evidence of opt-outs, without reading all results."""
    by_reply = opt_outs.c.target == name_target(campaign_id), opt_outs.c.source == "reply"
    if not connection.execute(select(opt_outs.c.evidence).where(*by_reply).limit(1)).first():
        return  # without reading all deliveries
    messages = select(launches.c.message).where(launches.c.campaign_id == campaign_id).distinct()
    is_theirs = and_(
        deliveries.c.campaign_id == campaign_id,
        deliveries.c.message.in_(messages),
        deliveries.c.fingerprint == opt_outs.c.fingerprint,
    )
    is_it = and_(results.c.launch_id == deliveries.c.launch_id, results.c.result_guid == opt_outs.c.evidence)
    query = (
        select(
            *(results.c[name] for name in ("launch_id", "result_guid", "result_response")), opt_outs.c.state
        )
        .select_from(opt_outs)
        .join(deliveries, is_theirs)
        .join(results, is_it)
        .where(*by_reply)
        .execution_options(yield_per=_PORTION)
    )
    yield from map(OptOutReply._make, connection.execute(query))


def count_left_out(connection: Connection, asked: CampaignLaunches) -> Counter[str]:
    """Return the results that are not kept because their participants were forgotten, by message id."""
    query = (
        select(label_message(asked), func.sum(launch_stats.c.forgotten_results))
        .join(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .where(are_of(asked), launch_stats.c.forgotten_results > 0)
    )
    return count_by_message(connection, query)


def count_by_message(connection: Connection, query: Select[Any]) -> Counter[str]:
    """Return the counts of a query, which selects `label_message` and a count, by message id."""
    rows = connection.execute(query.group_by("current_id"))
    return Counter({message: int(count) for message, count in rows})


def store_service_plan(connection: Connection, target: str, plan: ServicePlan) -> None:
    """Store limits and price of the service's plan."""
    write_info(connection, f"service_plan_{target}", json.dumps(asdict(plan)))


def read_service_plan(connection: Connection, target: str) -> ServicePlan | None:
    """Return limits and price of a target's plan; None if it was never read."""
    written = read_info(connection, f"service_plan_{target}")
    return None if written is None else ServicePlan(**json.loads(written))
