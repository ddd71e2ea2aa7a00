"""Limits refuse with numbers, in exact words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from runner.campaign.model import AudienceLimit, Limits
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import MessagePlan, PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.plan_counts import find_refusals
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign

    Load = Callable[..., Campaign]

YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
messages:
  - id: ask
    introduction: Hello {{ name }}
    questions:
      - {tag: why, text: "Why? X150"}
    conclusion: Thanks
  - {id: bye, text: "Bye {{ name }}"}
limits: {segments_per_message: %d}
"""
PEOPLE = "phone,name\n+14155550101,Ada\n+14155550102,%s\n+14155550103,%s\n"


@pytest.mark.parametrize(
    ("most", "names", "refusals"),
    [
        (1, ("Bo", "Cy"), ()),
        (1, ("x" * 155, "Cy"), ("`ask` would send a recipient a text of up to 2 segments",)),
        (
            1,
            ("x" * 300, "x" * 400),
            (
                "`ask` would send 2 recipients a text of up to 3 segments",
                "`bye` would send 2 recipients a text of up to 3 segments",
            ),
        ),
        (3, ("x" * 300, "x" * 400), ()),
        (
            2,
            ("Bo", "Ğ" * 129),
            ("`ask` would send a recipient a text of up to 3 segments",),
        ),
    ],
    ids=["at the limit", "a person", "several", "wider", "dear characters"],
)
def test_a_text_of_too_many_segments(
    campaign: Load, most: int, names: tuple[str, str], refusals: tuple[str, ...]
) -> None:
    """The largest single text counts, not their sum; the limit itself passes; people are counted."""
    loaded = campaign(YAML.replace("X150", "x" * 150) % most, people=PEOPLE % names)
    plan = Planner(
        loaded, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext()
    ).make_plan(Problems())
    assert plan is not None
    assert plan.refusals == tuple(f"{words}, and limits.segments_per_message is {most}" for words in refusals)


def test_a_follow_up_is_refused_before_its_first_message_is_sent(campaign: Load) -> None:
    """A text of a follow-up that nobody can get yet counts, too: else its first message would leave."""
    loaded = campaign(
        "version: 1\nrecipients: [{csv: people.csv}]\nmessages:\n"
        "  - {id: ask, text: Hi}\n"
        '  - {id: nudge, after: {message: ask, wait: 2d}, text: "{{ name }}"}\n'
        "limits: {segments_per_message: 1}\n",
        people=f"phone,name\n+14155550101,{'Bo' * 90}\n+14155550102,x\n",
    )
    context = PlanContext(datetime(2026, 11, 20, 12, tzinfo=UTC))
    planner = Planner(loaded, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), context)
    plan = planner.make_plan(Problems())
    assert plan is not None
    assert [message.awaiting for message in plan.messages] == [0, 2]
    words = "`nudge` would send a recipient a text of up to 2 segments"
    assert plan.refusals == (f"{words}, and limits.segments_per_message is 1",)


def test_every_limit_says_its_numbers() -> None:
    """Numbers have separators, and all limits that break are said at once, message by message."""
    plans = [
        MessagePlan("ask", "t", renders_max=12_000, largest={1: 4_000, 3: 1_000, 12: 234}),
        MessagePlan("nudge", "t", renders_max=1, largest={3: 1}),
    ]
    limits = Limits(recipients=AudienceLimit(most=5_000), renders=10_000, segments_per_message=2)
    assert list(find_refusals(limits, plans, 5_234)) == [
        "it would text 5,234 recipients, and limits.recipients is 5,000",
        "it could cost 12,001 renders, and limits.renders is 10,000",
        "`ask` would send 1,234 recipients a text of up to 12 segments, and limits.segments_per_message is 2",
        "`nudge` would send a recipient a text of up to 3 segments, and limits.segments_per_message is 2",
    ]
    plans = [MessagePlan("ask", "t", renders_max=10, largest={2: 5})]
    # As much as is allowed is allowed, and no limit is no limit.
    for limits in (Limits(recipients=AudienceLimit(most=5), renders=10, segments_per_message=2), Limits()):
        assert list(find_refusals(limits, plans, 5)) == []
