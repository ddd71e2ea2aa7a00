"""The open step of a rollout over any record, held against a re-computation that is plainly right."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import comb
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.campaign.variants import SHARES, draw_shares
from runner.ledger.fingerprint import KnownPeople, TargetKey
from runner.ledger.model import RecordedDeliveries, format_moment
from runner.ledger.people.history import EarlierLaunch, EarlierMessage
from runner.ledger.people.rollout import RolloutRecord
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.plan.survey import survey_audience
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign

    Load = Callable[..., Campaign]

KEY = TargetKey.of("sandbox", None)
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SHARES_OF_STEPS = (0.2, 0.5, 1.0)
HOLDS = (2, 5)
"""Hours."""
LIMIT = 0.1
PHONES = [f"+1415555{number}" for number in range(1000, 1040)]
DRAWS = {phone: draw_shares("campaign", "rollout")(phone) / SHARES for phone in PHONES}
YAML = """\
version: 1
name: campaign
recipients: [{csv: people.csv}]
rollout:
  steps: [{share: 20%, hold: 2h}, {share: 50%, hold: 5h}, {share: 100%}]
  guards: {opt_outs: 10%}
messages:
  - {id: ask, text: Hello}
  - {id: nudge, after: {message: ask, wait: 30d}, text: Still there?}
"""


@dataclass(frozen=True)
class Texted:
    """A person's text: how many hours ago it was sent, and was read; opt-outs come after it."""

    sent: int
    read: int | None
    is_out: bool


PEOPLE = st.builds(
    Texted,
    sent=st.integers(0, 9),
    read=st.none() | st.integers(0, 4),
    is_out=st.sampled_from([True, *[False] * 5]),
)
SOME = st.dictionaries(st.sampled_from(PHONES), PEOPLE, max_size=40)
STEPS_WHOLE = st.tuples(st.sampled_from(SHARES_OF_STEPS), PEOPLE).map(
    lambda one: {phone: one[1] for phone in PHONES if DRAWS[phone] < one[0]}
)
"""Records in which everybody of a step was texted at once, as most are."""
RECORDS = st.tuples(STEPS_WHOLE | st.just({}), SOME).map(lambda parts: parts[0] | parts[1])


def find_step(texted: dict[str, Texted]) -> tuple[int, bool]:
    """Return the number of the open step, and whether a guard stops it."""
    for number, (share, hold) in enumerate(zip(SHARES_OF_STEPS, HOLDS, strict=False), start=1):
        inside = [phone for phone in PHONES if DRAWS[phone] < share]
        have = [texted[phone] for phone in inside if phone in texted]
        beyond = [
            one.sent for phone, one in texted.items() if share <= DRAWS[phone] < SHARES_OF_STEPS[number]
        ]
        # The next step was open if the people of this one had their text when its first text was sent.
        if beyond and sum(one.sent >= max(beyond) for one in have) >= 0.9 * len(inside):
            continue
        if len(have) < len(inside):
            return number, False
        since = min(one.sent for one in have)
        is_read = all(one.read is not None and since - one.read >= hold for one in have)
        if since < hold or not is_read:
            return number, False
        out = sum(one.is_out for one in have)
        chances = (comb(len(have), n) * LIMIT**n * (1 - LIMIT) ** (len(have) - n) for n in range(out))
        if out > LIMIT * len(have) and 1 - sum(chances) <= 0.05:
            return number, True
    return 3, False


@pytest.mark.slow
@settings(max_examples=150)
@given(texted=RECORDS)
def test_the_open_step_follows_from_audience_and_record(campaign: Load, texted: dict[str, Texted]) -> None:
    """Nobody beyond it is to be sent to, whatever the record; a broken guard holds back everybody."""
    loaded = campaign(YAML, people="phone\n" + "\n".join(PHONES))
    people = {KEY.fingerprint(phone): one for phone, one in texted.items()}
    ago = {hours: NOW - timedelta(hours=hours) for hours in range(10)}
    launches = {
        one: EarlierLaunch(ago[text.sent], None if text.read is None else ago[text.read])
        for one, text in people.items()
    }
    out = sorted(one for one, text in people.items() if text.is_out)
    at = format_moment(NOW)
    record = RolloutRecord({"ask": EarlierMessage(launches)}, dict.fromkeys(out, at))
    known = RecordedDeliveries({"ask": set(people)} if people else {}, {})
    suppressions: KnownPeople[Any] | None = (
        KnownPeople.gather(KEY, [(one, "confirmed") for one in out]) or None
    )
    context = PlanContext(NOW, suppressions, earlier=dict(record.messages), rollout=record)
    context = survey_audience(loaded, known, KEY, context)
    plan = Planner(loaded, "sandbox", known, KEY, PlanOptions(), context).make_plan(Problems())
    assert plan is not None
    assert plan.rollout is not None
    number, is_broken = find_step(texted)
    assert (plan.rollout.number, plan.rollout.state == "broken") == (number, is_broken)
    assert (plan.pause is not None) is is_broken
    left = [phone for phone in PHONES if phone not in texted]
    inside = sum(DRAWS[phone] < SHARES_OF_STEPS[number - 1] for phone in left)
    (ask, nudge) = plan.messages
    assert (ask.to_send, ask.paused) == ((0, inside) if is_broken else (inside, 0))
    assert (ask.later_step, nudge.later_step) == (len(left) - inside, 0)
