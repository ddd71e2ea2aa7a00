"""Follow-ups that are due and wait for answers to be read: nobody knows yet for whom they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.console import count_words
from runner.plan.assigner import DIFFERS, UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.planning import PlannedHead
    from runner.plan.model import MessagePlan


def describe_unread(planned: Sequence[PlannedHead]) -> Iterator[str]:
    """Yield in words, for each follow-up, how many people it keeps waiting.

    Args:
        planned: the plans.
    """
    for item in planned:
        for message in item.plan.messages:
            for reason in filter(_is_of_answers, message.reasons):
                people = count_words(message.reasons[reason], "recipient waits", "recipients wait")
                yield f"{item.campaign.name}: {people} for `{message.id}`: {reason}"


def _is_of_answers(reason: str) -> bool:
    return reason == UNREAD or reason.startswith(DIFFERS)


def list_unread(campaign: Campaign, planned: Mapping[str, MessagePlan]) -> list[str]:
    """Return the messages whose answers were not read since a follow-up to them became due, by full name.

    Args:
        campaign: the campaign.
        planned: the counts of its messages, by id; those that are not planned are left out.
    """
    waiting = [message for message in campaign.messages if message.id in planned]
    after = [m.after.message for m in waiting if m.after is not None and UNREAD in planned[m.id].reasons]
    return [f"{campaign.name}/{message}" for message in dict.fromkeys(after)]
