"""Schedules and quiet hours from the command line: at the changes of clocks, at midnight, between zones."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from freezegun import freeze_time

from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    CheckJson = Callable[[str, str], dict[str, Any]]

NEW_YORK, CALIFORNIA, FLORIDA, TOLL_FREE = "+12125550101", "+14155550101", "+18505550101", "+18005550101"
YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
    timezone_column: tz
messages:
  - {{id: ask, text: "Hello {{{{ name | default('you') }}}}"}}
{rules}
"""
DAYTIME = 'schedule: {timezone: America/New_York, send_between: ["09:00", "20:00"]}'
RULES_WITH_LAW = "policy: {quiet_hours: legal}"
OUT_OF_DATE = (
    "Error: the plan plan.json is out of date: pulse: {cause}\n"
    "  nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that\n"
)


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str


class Repository:
    """A folder with one campaign, in which commands run inside this process at any moment."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        self.folder = folder
        self._capture = capture
        self._check = check

    def write(self, rules: str, *rows: str) -> None:
        """Write the campaign: `rules` are YAML, each row is a phone, perhaps with a zone and a name."""
        (self.folder / "campaigns").mkdir(exist_ok=True)
        (self.folder / "campaigns/pulse.yaml").write_text(YAML.format(rules=rules), encoding="utf-8")
        table = "phone,tz,name\n" + "".join(row + "," * (2 - row.count(",")) + "\n" for row in rows)
        (self.folder / "campaigns/people.csv").write_text(table, encoding="utf-8")

    def run(self, at: str, *arguments: str, sends: bool | None = None) -> Done:
        """Run a command at a moment, ISO 8601 with its offset.

        The moment lasts as long as the command takes, unless it sends (None: if it may), which waits for servers.
        """
        with moment(at, ticks=arguments[0] == "apply" if sends is None else sends):
            code = run_command(arguments)
        out, err = self._capture.readouterr()
        return Done(code, out, err)

    def plan(self, at: str, *arguments: str) -> dict[str, Any]:
        """Return the counts of the message, as JSON that fits its schema."""
        done = self.run(at, "plan", "--format", "json", *arguments)
        assert done.code == 0, done.err
        message: dict[str, Any] = self._check(done.out, "plan")["campaigns"][0]["messages"][0]
        counts = ("opted_out", "timezone_unknown", "expired", "deferred", "to_send")
        assert message["recipients"] == sum(message[name] for name in counts)
        return message

    def apply(self, at: str, *arguments: str, sends: bool = True) -> dict[str, Any]:
        """Return what `apply` did, as JSON that fits its schema."""
        approval = () if "--plan" in arguments else ("--auto-approve",)
        done = self.run(at, "apply", *approval, "--format", "json", "--quiet", *arguments, sends=sends)
        assert (done.code, done.err) == (0, "")
        campaign: dict[str, Any] = self._check(done.out, "apply")["campaigns"][0]
        return campaign

    def status(self, at: str) -> dict[str, Any]:
        """Return the message's status, as JSON that fits its schema."""
        done = self.run(at, "status", "--format", "json")
        assert done.code == 0, done.err
        message: dict[str, Any] = self._check(done.out, "status")["campaigns"][0]["messages"][0]
        return message


@contextmanager
def moment(at: str, *, ticks: bool) -> Iterator[None]:
    """Let a moment be now; clocks go on from there if they tick."""
    # Whole: what the machine's own time zone makes of it must not matter.
    with freeze_time(datetime.fromisoformat(at), tick=ticks, real_asyncio=True):
        yield


@pytest.fixture
def repository(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check_json: CheckJson,
) -> Repository:
    """An empty repository."""
    monkeypatch.chdir(tmp_path)
    return Repository(tmp_path, capsys, check_json)


@pytest.mark.slow
def test_a_number_of_everywhere_is_refused_or_the_campaigns(repository: Repository) -> None:
    """A toll-free number's days have no hour in common: a column or the policy says whose clock counts."""
    hours = 'schedule: {timezone: America/New_York, send_between: ["09:00", "17:00"]}'
    noon = "2026-11-20T17:00:00+00:00"
    repository.write(hours, TOLL_FREE)
    message = repository.plan(noon)
    assert (message["timezone_unknown"], message["to_send"], message["next_due"]) == (1, 0, None)
    (reason,) = message["reasons"]
    assert reason["reason"] == (
        "the number may be in several time zones, and their sending hours have no moment in common: give one "
        "in a `timezone_column`, widen `send_between`, or set `timezone_unknown: campaign` in `policy`"
    )
    repository.write(f"{hours}\npolicy: {{timezone_unknown: campaign}}", TOLL_FREE)
    assert repository.plan(noon)["to_send"] == 1
    repository.write(hours, f"{TOLL_FREE},America/Chicago")
    assert repository.plan(noon)["to_send"] == 1
    assert repository.plan("2026-11-20T14:30:00+00:00")["next_due"] == "2026-11-20T15:00:00.000000Z"


@pytest.mark.slow
def test_between_start_and_end_of_the_campaign(repository: Repository) -> None:
    """Nothing leaves before `not_before` or after `expires`, and both are said."""
    repository.write(
        "schedule: {timezone: America/New_York, not_before: 2026-11-20T12:00, expires: 2026-11-21T02:00}",
        NEW_YORK,
    )
    early = repository.plan("2026-11-20T16:59:00+00:00")
    assert early["next_due"] == "2026-11-20T17:00:00.000000Z"
    assert early["reasons"] == [{"reason": "`not_before` is still to come", "recipients": 1}]
    assert repository.plan("2026-11-20T17:00:00+00:00")["to_send"] == 1
    assert repository.plan("2026-11-21T06:59:00+00:00")["to_send"] == 1
    late = repository.plan("2026-11-21T07:00:00+00:00")
    assert (late["expired"], late["to_send"], late["next_due"]) == (1, 0, None)
    assert late["reasons"] == [
        {
            "reason": "the campaign's `expires` comes before the next moment at which it may be sent: "
            "move `expires`, or start earlier",
            "recipients": 1,
        }
    ]


def test_the_law_is_cited(repository: Repository) -> None:
    """Whom the legal hours hold back is said with the law, on the clocks of their place, in all formats."""
    repository.write(RULES_WITH_LAW, "+13055550101", "+12035550101", CALIFORNIA)
    evening = "2026-11-20T20:30:00-05:00"
    message = repository.plan(evening)
    assert (message["deferred"], message["to_send"]) == (2, 1)
    assert {entry["reason"]: entry["recipients"] for entry in message["reasons"]} == {
        "outside the legal hours of their place: Conn. Gen. Stat. § 42-288a": 1,
        "outside the legal hours of their place: Fla. Stat. § 501.616(6)(a), (b)": 1,
    }
    assert message["due"] == [
        {"day": "2026-11-21", "hour": 8, "recipients": 1},
        {"day": "2026-11-21", "hour": 9, "recipients": 1},
    ]
    human = repository.run(evening, "plan", "-v").out
    for line in (
        "  ask: 2 people are deferred, the first due at 2026-11-21 13:00 UTC:\n",
        "    1: outside the legal hours of their place: Fla. Stat. § 501.616(6)(a), (b)\n",
    ):
        assert line in human
    markdown = repository.run(evening, "plan", "--format", "markdown").out
    assert "  - 1: outside the legal hours of their place: Conn. Gen. Stat. § 42-288a\n" in markdown


def test_the_law_narrows_the_schedule(repository: Repository) -> None:
    """Both windows have to be open; what both hold back is said of both."""
    repository.write(f'schedule: {{send_between: ["06:00", "23:00"]}}\n{RULES_WITH_LAW}', "+13055550101")
    early = repository.plan("2026-11-20T07:30:00-05:00")
    assert early["next_due"] == "2026-11-20T13:00:00.000000Z"
    night = repository.plan("2026-11-20T05:30:00-05:00")
    assert len(night["reasons"]) == 3
    assert {entry["recipients"] for entry in night["reasons"]} == {1}


def test_when_everybody_waits_the_plan_says_until_when(repository: Repository) -> None:
    """A plan without anything to send now names the first moment, and is nothing to send for scripts."""
    repository.write(DAYTIME, NEW_YORK, CALIFORNIA)
    done = repository.run("2026-11-20T05:00:00+00:00", "plan", "--detailed-exitcode")
    assert done.code == 0
    assert done.out.endswith(
        "Nothing to send now; up to 2 texts later (2 more people), from 2026-11-20 14:00 UTC.\n"
    )
    applied = repository.run("2026-11-20T05:00:00+00:00", "apply", "--auto-approve")
    first = "Fri 2026-11-20 09:00 (America/New_York)"
    assert (applied.code, applied.out) == (
        0,
        f"pulse: nothing sent, 2 people deferred, the first until {first}.\n",
    )
    assert not (repository.folder / "campaigns/pulse.sandbox.lock.json").exists()
    status = repository.run("2026-11-20T05:00:00+00:00", "status").out
    assert status.endswith("pulse/ask: the first of those deferred is due at 2026-11-20 14:00 UTC.\n")


def test_a_plan_can_be_made_as_of_another_moment(repository: Repository) -> None:
    """`--now` plans as of then, with an offset or in UTC; it sends nothing, whatever the time is."""
    repository.write(DAYTIME, NEW_YORK)
    night = "2026-11-20T05:00:00+00:00"
    for written in ("2026-11-20T15:00", "2026-11-20T15:00Z", "2026-11-20T10:00-05:00"):
        done = repository.run(night, "plan", "--format", "json", "--now", written)
        document = json.loads(done.out)
        assert document["now"] == "2026-11-20T15:00:00.000000Z"
        assert document["campaigns"][0]["messages"][0]["to_send"] == 1
    assert repository.plan(night)["to_send"] == 0
    refused = repository.run(night, "plan", "--now", "tomorrow")
    assert refused.code == 64
    assert "not a time in ISO 8601, as in 2026-12-01T09:00Z" in refused.err


class TestSavedPlan:
    """A plan that is reviewed in the evening and sent in the morning."""

    EVENING = "2026-11-20T22:00:00+00:00"  # five in New York, two in California
    MORNING = "2026-11-21T15:00:00+00:00"  # ten and seven

    @pytest.fixture
    def saved(self, repository: Repository) -> Repository:
        """A repository with a saved plan, made while two of three people are up."""
        repository.write(DAYTIME, NEW_YORK, CALIFORNIA, "+447400123456")
        done = repository.run(self.EVENING, "plan", "--out", "plan.json")
        assert done.code == 0, done.err
        return repository

    @pytest.mark.slow
    def test_who_may_be_texted_at_both_times_is(self, saved: Repository) -> None:
        """Who was not to be texted then is not texted now, and who may not be now waits for the next apply."""
        # New York was to be sent and may be; California was, and sleeps; London was not, and is up.
        done = saved.apply(self.MORNING, "--plan", "plan.json")
        assert (done["recipients_sent"], done["deferred"]) == (1, 2)
        rest = saved.apply("2026-11-21T17:00:00+00:00")
        assert (rest["recipients_sent"], rest["deferred"]) == (2, 0)

    @pytest.mark.slow
    def test_it_is_good_for_one_time(self, saved: Repository) -> None:
        """After it was sent it is out of date, for those whom it deferred, too."""
        saved.apply(self.MORNING, "--plan", "plan.json")
        again = saved.run("2026-11-21T17:00:00+00:00", "apply", "--plan", "plan.json")
        assert (again.code, again.err) == (
            1,
            OUT_OF_DATE.format(cause="something has been sent, or recorded, in the meantime"),
        )

    def test_another_audience_is_refused(self, saved: Repository) -> None:
        """Whoever joins or leaves meanwhile makes it another plan, whatever the time."""
        saved.write(DAYTIME, NEW_YORK, CALIFORNIA, "+447400123456", "+12125550102")
        refused = saved.run(self.MORNING, "apply", "--plan", "plan.json")
        cause = "audience, template, option or who may be texted changed: who gets what is not the same"
        assert (refused.code, refused.err) == (1, OUT_OF_DATE.format(cause=cause))
        assert saved.status(self.MORNING)["sent"] == 0

    @pytest.mark.slow
    def test_at_night_nobody_is_texted_and_it_stays_good(self, saved: Repository) -> None:
        """If nobody may be texted now, nothing is sent; in the morning the same plan still is."""
        assert saved.apply("2026-11-21T08:00:00+00:00", "--plan", "plan.json")["recipients_sent"] == 0
        assert saved.apply(self.MORNING, "--plan", "plan.json")["recipients_sent"] == 1

    def test_a_limit_lets_nobody_move_up(self, repository: Repository) -> None:
        """With --limit, who was beyond it stays so, though somebody before them is deferred now."""
        repository.write(DAYTIME, CALIFORNIA, NEW_YORK)
        repository.run(self.EVENING, "plan", "--limit", "1", "--out", "plan.json")
        assert repository.apply(self.MORNING, "--plan", "plan.json")["recipients_sent"] == 0
