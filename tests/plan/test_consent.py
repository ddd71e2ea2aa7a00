"""Consent of a day that has not come yet is none: the plan, which knows what day it is, says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from runner.ledger.model import Known
from runner.plan.circumstances import Circumstances
from runner.plan.model import PlanOptions
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.plan.model import MessagePlan

    Load = Callable[[str], Campaign]

YAML = """\
version: 1
name: pulse
recipients:
  - phone: "+14155550101"
    consent: {source: web, date: "DAY"}
  - csv: people.csv
    consent: {source_column: source, date_column: agreed}
policy: {consent: POLICY}
messages: [{id: ask, text: Hello}]
"""
NOW = datetime(2026, 11, 20, 9, 59, tzinfo=UTC)
"""One minute before the 21st begins on the islands where it begins first."""


def plan(load: Load, folder: Path, day: str, now: datetime | None, policy: str = "required") -> MessagePlan:
    """Plan for two people who agreed on that day, and one who agreed on the same day without a source."""
    rows = f"+14155550102,shop,{day}\n+14155550103,,{day}\n"
    (folder / "people.csv").write_text(f"phone,source,agreed\n{rows}", encoding="utf-8")
    campaign = load(YAML.replace("DAY", day).replace("POLICY", policy))
    circumstances = None if now is None else Circumstances(now)
    planner = Planner(campaign, "sandbox", Known({}, {}), None, PlanOptions(), circumstances)
    made = planner.make_plan(problems := Problems())
    assert made is not None, list(problems)
    assert sum(len(launch.phones) for launch in planner.iterate_launches()) == made.messages[0].to_send
    return made.messages[0]


@pytest.mark.parametrize(
    ("day", "now", "to_send", "reasons"),
    [
        ("2026-11-20", NOW, 2, {}),
        ("2026-11-20T23:59:00-11:00", NOW, 2, {}),
        ("2026-11-21", NOW, 0, {"their consent is dated in the future, after 2026-11-20": 2}),
        ("2026-11-21", NOW.replace(hour=10), 2, {}),
        ("2099-01-01", NOW, 0, {"their consent is dated in the future, after 2026-11-20": 2}),
        ("2099-01-01", datetime(2099, 1, 1, 12, tzinfo=UTC), 2, {}),
        ("9999-12-31", datetime(9999, 12, 31, 23, tzinfo=UTC), 2, {}),
        ("2099-01-01", None, 2, {}),
    ],
)
def test_consent_counts_from_its_day(
    campaign: Load, tmp_path: Path, day: str, now: datetime | None, to_send: int, reasons: dict[str, int]
) -> None:
    """It is none before its day has begun anywhere; without a clock, as in `validate`, no day is to come."""
    message = plan(campaign, tmp_path, day, now)
    assert (message.to_send, message.no_consent, message.reasons) == (to_send, 3 - to_send, reasons)


def test_where_no_consent_is_required_its_day_makes_no_difference(campaign: Load, tmp_path: Path) -> None:
    """What the policy does not ask for is not looked at."""
    message = plan(campaign, tmp_path, "2099-01-01", NOW, "not_required")
    assert (message.to_send, message.reasons) == (3, {})
