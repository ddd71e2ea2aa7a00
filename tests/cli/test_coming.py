"""What a plan says of later runs, and the conversations that a pull request's comment shows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from freezegun import freeze_time

from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NIGHT = "2026-11-20T06:00:00+00:00"
"""One in the morning in New York, ten in the evening in California."""
DAY = "2026-11-20T18:00:00+00:00"
"""Early afternoon in New York, ten in the morning in California."""
YAML = """\
version: 1
name: pulse
vars: {company: Acme @home}
recipients:
  - {phone: "+12125550101", vars: {name: Zebulon, points: "7"}}
  - {phone: "+14155550102", vars: {name: Quentin, points: "8"}}
messages:
  - id: ask
    introduction: "Hi {{ name }}, a word about {{ company }}?"
    questions:
      - {tag: nps, text: "How was it, {{ name }}?", responses: ["*Good*", "Bad"]}
    conclusion: "{{ points | int + 1 }} points are yours."
  - {id: nudge, after: {message: ask, wait: 2d}, to: unanswered, text: "Still there, {{ name }}?"}
variants: {seed: s, of: nudge, arms: [{id: short}, {id: warm, text: "Hello again, {{ name }}, from {{ company }}!"}]}
schedule: {send_between: ["09:00", "19:00"]}
"""
TABLE = """\
| when | message | why | people | segments |
|---|---|---|---|---|
| 2026-11-20 14:00 to 17:00 UTC | ask | deferred | 2 | 4 to 6 |
"""
LATER = "up to 4 texts later (2 more people), from 2026-11-20 14:00 UTC"


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a command at a moment in a repository with one campaign; return what it wrote."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/pulse.yaml").write_text(YAML, encoding="utf-8")

    def run_at(*arguments: str, at: str = NIGHT) -> str:
        with freeze_time(datetime.fromisoformat(at), tick=True, real_asyncio=True):
            code = run_command(arguments)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run_at


def test_the_comment_says_what_comes_before_the_hours(run: Callable[..., str]) -> None:
    """At night nothing is sent now; the first line says how much comes later, and from when on."""
    said = run("ci", "comment")
    assert (f"**1 campaign · 0 people to text · 0 segments · {LATER} · 0 errors") in said
    assert (
        f"\n{TABLE}| from 2026-11-22 14:00 UTC | nudge | 2d after ask, to those who have not answered" in said
    )


def test_plans_for_people_say_what_comes(run: Callable[..., str]) -> None:
    """The table of what comes stands in the human plan and in Markdown, below each campaign."""
    markdown = run("plan", "--format", "markdown")
    assert TABLE in markdown
    assert f"**Nothing to send now; {LATER}.**" in markdown
    human = run("plan")
    for words in (
        "2026-11-20 14:00 to 17:00 UTC",
        "from 2026-11-22 14:00 UTC",
        f"Nothing to send now; {LATER}.\n",
    ):
        assert words in human


def test_plans_say_when_a_follow_up_comes_before_and_after_its_message_is_sent(
    run: Callable[..., str],
) -> None:
    """The start of a follow-up is in the forecast, and on record once its message is sent, answers read or not."""
    row = "\n| from 2026-11-22 18:00 UTC | nudge | 2d after ask, to those who have not answered ("
    assert row in run("plan", "--format", "markdown", at=DAY)
    run("apply", "--auto-approve", at=DAY)
    assert row in run("plan", "--format", "markdown", at=DAY)


def test_plans_for_programs_say_what_comes(
    run: Callable[..., str], check_json: Callable[[str, str], dict[str, Any]]
) -> None:
    """The JSON has the campaign's sums, each person once, and of each message why, when and how much."""
    (campaign,) = check_json(run("plan", "--format", "json"), "plan")["campaigns"]
    assert (campaign["people"], campaign["people_later"]) == (0, {"least": 2, "most": 2})
    ask, nudge = campaign["messages"]
    assert [one["why"] for one in (*ask["coming"], *nudge["coming"])] == ["deferred", "awaiting"]
    assert sum(nudge["coming"][0]["arms"].values()) == 2


def test_the_comment_shows_each_conversation_and_nobodys_data(run: Callable[..., str]) -> None:
    """A conversation of each message and arm: variables of recipients by their names, choices without power."""
    said = run("ci", "comment")
    start = said.index("<details><summary>pulse: what is sent, with variables by their names</summary>")
    shown = said[start:]
    # A text that computes with a variable stands as its template.
    for words in (
        "#### ask (SMS, tag pulse)\n",
        "Hi ‹name›, a word about Acme @home?\n",
        "How was it, ‹name›?\n1. *Good*\n2. Bad\n",
        "- &quot;\\*Good\\*&quot; or &quot;Bad&quot; → conclusion\n",
        "{{ points | int + 1 }} points are yours.\n",
        "#### nudge (SMS, tag pulse, arm short)\n",
        "Still there, ‹name›?\n",
        "#### nudge (SMS, tag pulse, arm warm)\n",
        "Hello again, ‹name›, from Acme @home!\n",
    ):
        assert words in shown
    for personal in ("Zebulon", "Quentin", "2125550101", "4155550102"):
        assert personal not in said
