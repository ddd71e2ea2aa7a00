"""Follow-ups whose `to` goes by answers that were read too early: who may have answered since is not reminded."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, get_args

import pytest

from runner.reasons import Disposition
from runner.source.diagnostic import Problems
from tests.plan.worlds import WAIT, Person, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign
    from runner.plan.model import MessagePlan

    Load = Callable[..., Campaign]

UNREAD = "whether they have answered was not read since the `wait` was over: run `runner reconcile` first"
SECOND = timedelta(seconds=1)


def plan_nudge(load: Load, to: str, *people: Person) -> MessagePlan:
    """Return the counts of the follow-up."""
    problems = Problems()
    plan = World(people, to=to).plan(load).make_plan(problems)
    assert plan is not None, list(problems)
    return plan.messages[1]


def test_a_stale_reading_of_answers_reminds_nobody(campaign: Load) -> None:
    """Those who may have answered between the reading and the end of the wait wait for the next reading."""
    old = Person(asked=timedelta(days=3), reconciled=timedelta(hours=25))
    fresh = Person(asked=timedelta(days=3), reconciled=timedelta(hours=23))
    message = plan_nudge(campaign, "unanswered", old, fresh)
    assert (message.to_send, message.awaiting) == (1, 1)
    assert message.reasons == {UNREAD: 1}


@pytest.mark.parametrize(
    ("to", "person", "why"),
    [
        ("unanswered", Person(asked=WAIT), "to_send"),
        ("unanswered", Person(asked=WAIT, reconciled=SECOND), "awaiting"),
        ("unanswered", Person(asked=WAIT, reconciled=SECOND, answered=True), "not_qualified"),
        ("unanswered", Person(asked=WAIT - SECOND, reconciled=SECOND), "deferred"),
        ("answered", Person(asked=WAIT, reconciled=SECOND, answered=True), "to_send"),
        ("everyone", Person(asked=WAIT, reconciled=SECOND), "to_send"),
    ],
)
def test_the_reading_that_counts_is_one_after_the_wait(
    campaign: Load, to: str, person: Person, why: str
) -> None:
    """To the second; an answer that was read stays one, and before the wait is over there is nothing to read."""
    message = plan_nudge(campaign, to, person)
    assert {name for name in get_args(Disposition) if getattr(message, name)} == {why}


@pytest.mark.parametrize(("asked", "reasons"), [(WAIT, {UNREAD: 1}), (WAIT - SECOND, {})])
@pytest.mark.parametrize("to", ["answered", "unanswered"])
def test_answers_that_were_never_read_are_missed_when_it_is_time(
    campaign: Load, to: str, asked: timedelta, reasons: dict[str, int]
) -> None:
    """That nobody has reconciled yet is said as soon as it keeps somebody from the follow-up."""
    message = plan_nudge(campaign, to, Person(asked=asked, reconciled=None))
    assert (message.awaiting, message.reasons) == (1, reasons)
