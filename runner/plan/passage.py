"""A pass over an audience, or over a part of it: everyone with what they get of every message."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import TYPE_CHECKING

from runner.campaign.model import DEFAULT_RECIPIENTS_PER_SEND
from runner.plan.assignment import Assignment, find_hopeless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date, datetime

    from runner.campaign.audience import Recipient
    from runner.campaign.model import Campaign
    from runner.campaign.row_problems import RowReporter
    from runner.ledger.unread_replies import UnreadReplies
    from runner.plan.assigner import Assigner
    from runner.plan.circumstances import Circumstances
    from runner.plan.model import Disposition, PlanOptions

_EASTMOST = timezone(timedelta(hours=14))
"""Where a day begins first: Pacific/Kiritimati, in the IANA time zone database."""

Assigned = tuple["Recipient", list[Assignment]]
"""A person with what they get, in the order of the messages."""


def iterate_assignments(
    people: Iterable[Recipient],
    assigner: Assigner,
    reporter: RowReporter,
    *,
    limit: int | None,
    last_day: date | None,
    is_paused: bool,
    unread: UnreadReplies | None,
) -> Iterator[Assigned]:
    """Yield everyone with what they get.

    Args:
        people: in the order of the audience, each once.
        assigner: says what they get.
        reporter: receives what is wrong with their rows.
        limit: the most who get something now; None for all.
        last_day: as `find_last_day` returns it.
        is_paused: whether nobody gets anything now, because a person has said so.
        unread: replies that everybody waits for, as `find_overdue` returns them.
    """
    served = 0
    for recipient in people:
        if last_day is None or recipient.consent_day is None or recipient.consent_day <= last_day:
            assignments = assigner.assign(recipient, reporter)
        else:
            found = assigner.assign(recipient._replace(has_consent=False), reporter)
            assignments = [_say_why(assignment, last_day) for assignment in found]
        if is_paused:
            assignments = [_hold_back(assignment, "on_hold") for assignment in assignments]
        elif unread is not None:
            assignments = [_wait_for(assignment, unread.reason) for assignment in assignments]
        if limit is not None and any(a.counts for a in assignments):
            if served == limit:
                assignments = [_hold_back(assignment, "over_limit") for assignment in assignments]
            else:
                served += 1
        if assigner.follows:
            assignments = find_hopeless(assignments, assigner.follows)
        if assigner.outlook is not None and not is_paused:
            assignments = assigner.outlook.mark(assignments, recipient.phone)
        yield recipient, assignments


def find_last_day(campaign: Campaign, circumstances: Circumstances | None) -> date | None:
    """Return the last day on which somebody can have agreed; None where nobody is asked for it.

    It is today wherever today is latest. The files alone know no day: to validate them takes none.
    """
    if circumstances is None or campaign.policy.consent != "required":
        return None
    try:
        return circumstances.now.astimezone(_EASTMOST).date()
    except OverflowError:  # in the last hours of the year 9999: no day is after that
        return None


def find_overdue(
    campaign: Campaign, unread: UnreadReplies | None, now: datetime, options: PlanOptions
) -> UnreadReplies | None:
    """Return the replies that a campaign's texts wait for; None if they don't.

    Args:
        campaign: whose policy says how long replies may be unread.
        unread: those of its target; None if there can be none.
        now: the moment for which is planned; any aware time.
        options: what the user asks of the plan.
    """
    if unread is None or options.ignore_time:
        return None
    return unread if unread.is_overdue(now, campaign.policy.read_replies_within) else None


def find_per_send(campaign: Campaign, options: PlanOptions) -> int:
    """Return the most recipients of one launch: what campaign and target allow."""
    limits = (campaign.limits.recipients_per_send, options.recipients_per_send)
    return min((limit for limit in limits if limit), default=DEFAULT_RECIPIENTS_PER_SEND)


def _say_why(assignment: Assignment, last_day: date) -> Assignment:
    """Say of who has agreed on a day to come why that is no consent."""
    if assignment.disposition != "no_consent":
        return assignment
    return assignment._replace(reasons=(f"their consent is dated in the future, after {last_day}",))


def _wait_for(assignment: Assignment, reason: str) -> Assignment:
    if not assignment.counts:
        return assignment
    # A limit stops what would be sent later, too.
    largest = assignment.payload.largest if assignment.payload is not None else 0
    return Assignment(
        assignment.message,
        "deferred",
        arm=assignment.arm,
        reasons=(reason,),
        largest=largest,
        coming=assignment.payload,
    )


def _hold_back(assignment: Assignment, disposition: Disposition) -> Assignment:
    if not assignment.counts:
        return assignment
    return Assignment(assignment.message, disposition, arm=assignment.arm, coming=assignment.payload)
