"""Consent of a day that has not come yet is none, and the last row of a phone decides: the plan says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
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
    planner = Planner(campaign, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext(now))
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


ROWS_YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
    consent: {source_column: source, date_column: agreed}
  - csv: plain.csv
  - csv: later.csv
    consent: {source_column: source}
  - phone: "+14155550109"
    consent: {source: INLINE}
policy: {consent: required}
messages: [{id: ask, text: "Hello {{ name }}"}]
vars: {name: all}
"""
HINT = "write newer rows below older ones, and newer sources below older ones"


def plan_rows(
    load: Load, folder: Path, people: str, later: str = "", plain: str = "", inline: str = "web"
) -> tuple[MessagePlan, list[tuple[str, int, str]], Planner]:
    """Plan for what stands in three files, and return the notes with their places."""
    (folder / "people.csv").write_text(f"phone,source,agreed,name\n{people}", encoding="utf-8")
    (folder / "plain.csv").write_text(f"phone\n{plain}", encoding="utf-8")
    (folder / "later.csv").write_text(f"phone,source\n{later}", encoding="utf-8")
    campaign = load(ROWS_YAML.replace("INLINE", inline))
    planner = Planner(campaign, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), PlanContext(NOW))
    made = planner.make_plan(problems := Problems())
    assert made is not None, list(problems)
    message = made.messages[0]
    assert message.rows == message.duplicates + message.recipients
    assert message.recipients == message.no_consent + message.to_send
    notes = [one for one in problems if one.code == "recipient-consent-changed"]
    assert all(one.hint == HINT and one.severity == "note" for one in notes)
    return message, [(one.file.name, one.line, one.message) for one in notes], planner


@pytest.mark.parametrize(
    ("rows", "to_send", "notes"),
    [
        ("web,2026-03-01 no, web,2026-04-01", 1, []),
        (",2026-03-01 web,2026-04-01 revoked,2026-05-01", 0, []),
        ("web,2026-03-01 ,2026-03-01 no,2026-03-01", 0, ["line 4 of people.csv says no consent"]),
        ("web,2026-03-01 web,", 0, ["line 3 of people.csv says no consent"]),
        ("web,2026-03-01 web,2026-11-21", 0, ["line 3 of people.csv says consent from a day to come"]),
        ("web,2026-11-21 web,2026-03-01", 1, ["line 3 of people.csv says consent"]),
    ],
)
def test_only_the_last_row_decides(
    campaign: Load, tmp_path: Path, rows: str, to_send: int, notes: list[str]
) -> None:
    """However often it changed before: what agrees with the first row needs no note."""
    people = "".join(f"+14155550101,{row},Ada\n" for row in rows.split())
    message, found, _ = plan_rows(campaign, tmp_path, people, inline="no")
    assert (message.to_send, message.no_consent) == (to_send, 2 - to_send)
    end = " of the same phone: the last row decides"
    assert found == [("people.csv", 2, f"{note}{end}") for note in notes]


def test_a_source_without_consent_says_nothing_of_it(campaign: Load, tmp_path: Path) -> None:
    """A list that doesn't say who agreed neither takes consent away nor gives it."""
    message, notes, _ = plan_rows(
        campaign,
        tmp_path,
        "+14155550101,web,2026-03-01,Ada\n+14155550102,no,,Bo\n",
        plain="+14155550101\n+14155550102\n+14155550103\n+14155550104\n",
        later="+14155550103,web\n",
    )
    assert (message.to_send, message.no_consent) == (3, 2)
    words = "line 2 of later.csv says consent of the same phone: the last row decides"
    assert notes == [("plain.csv", 4, words)]


@pytest.mark.parametrize(
    "says", ["1.0", "form no. 5", "Nova shop", "opt-in form", "0800 hotline", "noted on a form", "2026-03-01"]
)
def test_a_source_that_only_looks_like_a_no_is_consent(campaign: Load, tmp_path: Path, says: str) -> None:
    """Words for no count as words of their own."""
    message, _, _ = plan_rows(campaign, tmp_path, f"+14155550101,{says},2026-03-01,Ada\n")
    assert (message.no_consent, message.to_send) == (0, 2)
