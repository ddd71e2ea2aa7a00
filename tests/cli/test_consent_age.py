"""`consent: {not_older_than: …}`: consent counts up to an age, on the day of sending, on people's own clocks."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from freezegun import freeze_time

from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Plan = Callable[[str], dict[str, Any]]

ADA, BOB = "+12125550101", "+12125550102"
OLD = "their consent is older than 730 days"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Plan at a moment, and return the message."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaigns").mkdir()

    def make(at: str) -> dict[str, Any]:
        with freeze_time(datetime.fromisoformat(at), tick=True, real_asyncio=True):
            code = run_command(["plan", "--format", "json"])
        done = capsys.readouterr()
        assert code == 0, done.err
        message: dict[str, Any] = json.loads(done.out)["campaigns"][0]["messages"][0]
        return message

    return make


def write(folder: Path, table: str, *others: str) -> None:
    """Write a campaign with an audience file, and further entries."""
    entries = "".join(f"  - {one}\n" for one in others)
    (folder / "campaigns/people.csv").write_text(f"phone,source,since\n{table}", encoding="utf-8")
    (folder / "campaigns/pulse.yaml").write_text(
        "version: 1\nname: pulse\nrecipients:\n  - csv: people.csv\n"
        "    consent: {source_column: source, date_column: since, not_older_than: 730d}\n"
        f"{entries}messages:\n  - {{id: ask, text: Hello}}\npolicy: {{consent: required}}\n",
        encoding="utf-8",
    )


def list_reasons(message: dict[str, Any]) -> dict[str, int]:
    return {one["reason"]: one["recipients"] for one in message["reasons"]}


def test_consent_counts_up_to_its_age_on_peoples_own_clocks(plan: Plan, tmp_path: Path) -> None:
    """On the 730th day it counts until midnight in New York; the day after it does not, and the plan says so."""
    write(tmp_path, f"{ADA},web,2024-11-27\n{BOB},web,2026-01-01\n")
    assert plan("2026-11-27T23:59:00-05:00")["to_send"] == 2
    after = plan("2026-11-28T00:00:00-05:00")
    assert (after["to_send"], after["no_consent"], list_reasons(after)) == (1, 1, {OLD: 1})


def test_consent_without_a_date_has_no_age(plan: Plan, tmp_path: Path) -> None:
    """A blank date is no consent, and is told apart from an old one; one reason for all of an age."""
    write(tmp_path, f"{ADA},web,\n{BOB},web,2020-01-01\n+12125550103,web,2021-02-02\n")
    message = plan("2026-11-27T12:00:00-05:00")
    assert (message["no_consent"], list_reasons(message)) == (3, {OLD: 2})


def test_the_last_row_decides_by_its_own_age(plan: Plan, tmp_path: Path) -> None:
    """Consent that was given again counts, and an old row below a new one takes it back."""
    write(
        tmp_path,
        f"{ADA},web,2020-01-01\n{BOB},web,2026-01-01\n{ADA},web,2026-01-01\n{BOB},web,2020-01-01\n",
    )
    message = plan("2026-11-27T12:00:00-05:00")
    assert (message["to_send"], list_reasons(message)) == (1, {OLD: 1})


def test_a_phone_of_the_file_has_an_age_of_its_own(plan: Plan, tmp_path: Path) -> None:
    """An entry with `date` and `not_older_than` ages by itself; without the latter it never does."""
    write(
        tmp_path,
        "",
        f'{{phone: "{ADA}", consent: {{source: web, date: 2026-10-01, not_older_than: 4w}}}}',
        f'{{phone: "{BOB}", consent: {{source: web, date: 2010-10-01}}}}',
    )
    message = plan("2026-11-27T12:00:00-05:00")
    assert (message["to_send"], list_reasons(message)) == (1, {"their consent is older than 28 days": 1})


def test_a_sample_is_drawn_of_people_whose_consent_counts(plan: Plan, tmp_path: Path) -> None:
    """Somebody with an old consent takes no place in it."""
    write(tmp_path, f"{ADA},web,2020-01-01\n{BOB},web,2026-01-01\n")
    with (tmp_path / "campaigns/pulse.yaml").open("a", encoding="utf-8") as stream:
        stream.write("sample: {size: 1, seed: a}\n")
    assert plan("2026-11-27T12:00:00-05:00")["to_send"] == 1
