"""An experiment with a holdout and a reminder, as a user runs it, on the sandbox with its clock moved."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from runner.campaign.load import load_campaign
from runner.campaign.variants import Draw
from runner.cli.main import run as run_command
from runner.ledger.files.lockfile import parse_lockfile
from runner.ledger.fingerprint import TargetKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

YAML = """\
version: 1
tag: ab-2026
vars: {{company: Acme}}
recipients:
  - csv: people.csv
    timezone_column: tz
    consent: {{source_column: source}}
messages:
  - id: ask
    introduction: "Hi {{{{ first_name }}}}, a quick word about {{{{ company }}}}?"
    questions:
      - tag: nps
        text: How likely are you to recommend us, from 0 to 10?
        responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        scale: nps
    conclusion: Thanks!
  - id: nudge
    {tag}
    after: {{message: ask, wait: 2d}}
    to: unanswered
    complete_existing_sessions: true
    text: "Still there, {{{{ first_name }}}}? It is quick."
variants:
  seed: s1
  of: ask
  arms:
    - {{id: short, introduction: "{{{{ company }}}}: one quick question."}}
    - {{id: warm}}
  holdout: 0.2
schedule:
  timezone: America/New_York
  send_between: ["09:00", "20:00"]
policy:
  consent: required
  quiet_hours: legal
  frequency_cap: {{messages: 2, within: 7d}}
"""
COUNT = 60
PHONES = [f"+1{('212', '415')[number % 2]}55501{number:02}" for number in range(COUNT)]
NO_CONSENT = PHONES[7]
NEW_YORK = ZoneInfo("America/New_York")


class Loop:
    """A repository with the campaign, its sandbox, and what both know of each person."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        self.folder = folder
        self.lockfile = folder / "campaigns/ab.sandbox.lock.json"
        self.file = folder / "campaigns/ab.yaml"
        self._capture = capture
        self._check = check

    def write(self, tag: str = "") -> None:
        """Write the campaign; `tag` is the reminder's own, as a line of YAML."""
        self.file.parent.mkdir()
        self.file.write_text(YAML.format(tag=tag), encoding="utf-8")
        rows = "".join(
            # Several people of one name: they share their launches.
            f"{phone},P{number % 40},America/New_York,{'' if phone == NO_CONSENT else 'web'}\n"
            for number, phone in enumerate(PHONES)
        )
        table = f"phone,first_name,tz,source\n{rows}"
        (self.file.parent / "people.csv").write_text(table, encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """Run a command inside this process, which must succeed; return what it wrote."""
        code = run_command(arguments)
        out, err = self._capture.readouterr()
        assert code == 0, err
        return out

    def move_to_noon(self, days: int = 0) -> None:
        """Move the sandbox's clock to the next noon in New York, and some days further."""
        now = datetime.fromisoformat(json.loads(self.run("sandbox", "clock", "--format", "json"))["time"])
        local = now.astimezone(NEW_YORK)
        noon = local.replace(hour=12, minute=0, second=0, microsecond=0)
        noon += timedelta(days=days + (noon <= local))
        seconds = (noon.astimezone(UTC) - now).total_seconds()
        self.run("sandbox", "clock", f"+{round(seconds)}s")

    def plan(self) -> dict[str, dict[str, Any]]:
        """Return the counts of the messages, by id."""
        document = self._check(self.run("plan", "--format", "json"), "plan")
        return {message["id"]: message for message in document["campaigns"][0]["messages"]}

    def apply(self) -> dict[str, Any]:
        """Return what a run did."""
        done = self.run("apply", "--auto-approve", "--format", "json")
        campaign: dict[str, Any] = self._check(done, "apply")["campaigns"][0]
        return campaign

    def count_texts(self) -> Counter[tuple[str, str]]:
        """Return how often the service texted whom, by `ask` or `nudge` and phone."""
        sessions = self._ask_service(
            "SELECT CASE WHEN definition LIKE '%Still there%' THEN 'nudge' ELSE 'ask' END, phone FROM session "
            "JOIN launch ON launch.id = launch_id JOIN participant ON participant.id = participant_id"
        )
        return Counter(sessions)

    def list_answered(self) -> set[str]:
        """Return the phones of those who have answered."""
        return {phone for (phone,) in self._ask_service(
            "SELECT DISTINCT phone FROM result "
            "JOIN participant ON participant.id = participant_id"
        )}  # fmt: skip

    def _ask_service(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / ".runner/sandbox/service.sqlite")) as connection:
            return connection.execute(query).fetchall()

    def list_arms(self) -> dict[str, str | None]:
        """Return from the lockfile the arm in which each person got `ask`, by phone."""
        lockfile = parse_lockfile(self.lockfile, self.lockfile.read_text(encoding="utf-8")).lockfile
        key = TargetKey.of("sandbox", None)
        phones = {key.fingerprint(phone): phone for phone in PHONES}
        assert all(launch.arm is None for launch in lockfile.launches if launch.message == "nudge")
        return {
            phones[person]: launch.arm
            for launch in lockfile.launches
            if launch.message == "ask"
            for person in launch.recipients
        }

    def draw(self) -> tuple[set[str], dict[str, str]]:
        """Return who is in the control group, and the arm of everybody else who may be texted."""
        campaign, _ = load_campaign(self.file, current=self.folder)
        assert campaign is not None
        assert campaign.variants is not None
        draw = Draw(campaign.variants)
        held = {phone for phone in PHONES if draw.is_in_control_group(phone)}
        texted = [phone for phone in PHONES if phone not in held and phone != NO_CONSENT]
        arms = {phone: arm for phone in texted if (arm := draw.choose_arm(phone)) is not None}
        return held, arms

    def lose_ledger(self) -> None:
        """Remove the ledger, as on a new machine."""
        for file in (self.folder / ".runner").glob("ledger*"):
            file.unlink()

    def run_through(self) -> None:
        """Ask everybody, have some answer, and remind the others."""
        self.move_to_noon()
        self.apply()
        self.run("sandbox", "simulate", "--seed", "3", "--response-rate", "0.5")
        self.move_to_noon(days=2)
        self.run("reconcile")
        self.apply()


@pytest.fixture
def repository(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    check_json: CheckJson,
    monkeypatch: pytest.MonkeyPatch,
) -> Loop:
    """A repository without a campaign yet; its service lists a launch at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "0s")
    return Loop(tmp_path, capsys, check_json)


@pytest.fixture
def loop(repository: Loop) -> Loop:
    """A repository with the campaign, both of whose messages have one tag."""
    repository.write()
    return repository


@pytest.mark.slow
def test_an_experiment_with_a_reminder_runs_through(loop: Loop) -> None:
    """Everybody who may be is asked once, in their arm; who did not answer is reminded once; nobody else is."""
    loop.move_to_noon()
    held, arms = loop.draw()
    before = loop.plan()
    people = (before["ask"]["control_group"], before["ask"]["no_consent"], before["ask"]["to_send"])
    assert people == (len(held), 1, len(arms))
    assert before["ask"]["arms"] == Counter(arms.values())
    assert before["nudge"]["awaiting"] == len(arms)

    asked = loop.apply()
    assert (asked["recipients_sent"], asked["not_sent"], asked["unknown"]) == (len(arms), 0, 0)
    assert loop.count_texts() == Counter(("ask", phone) for phone in arms)
    assert loop.list_arms() == arms
    assert loop.plan()["nudge"]["awaiting"] == len(arms)
    assert loop.apply()["recipients_sent"] == 0

    loop.run("sandbox", "simulate", "--seed", "3", "--response-rate", "0.5")
    answered = loop.list_answered()
    assert 5 < len(answered) < len(arms) - 5
    assert loop.plan()["nudge"]["awaiting"] == len(arms)
    loop.run("reconcile")
    waiting = loop.plan()["nudge"]
    assert (waiting["awaiting"], waiting["not_qualified"]) == (0, len(answered))
    assert waiting["deferred"] + waiting["to_send"] == len(arms) - len(answered)

    loop.move_to_noon(days=2)
    loop.run("reconcile")
    reminded = loop.apply()
    assert (reminded["recipients_sent"], reminded["deferred"]) == (len(arms) - len(answered), 0)
    texts = loop.count_texts()
    assert texts == Counter(
        [("ask", phone) for phone in arms] + [("nudge", phone) for phone in arms.keys() - answered]
    )
    assert not {phone for _, phone in texts} & held
    assert loop.apply()["recipients_sent"] == 0
    assert loop.count_texts() == texts


@pytest.mark.slow
def test_a_reminder_waits_until_its_time(loop: Loop) -> None:
    """Two days have to pass, and answers be read after that: a run before sends nothing, and says when it is due."""
    loop.move_to_noon()
    loop.apply()
    loop.run("reconcile")
    loop.run("sandbox", "clock", "+47h")
    early = loop.plan()["nudge"]
    assert (early["to_send"], early["deferred"]) == (0, len(loop.draw()[1]))
    assert {entry["reason"] for entry in early["reasons"]} == {"the `wait` of the follow-up is not over"}
    assert loop.apply()["recipients_sent"] == 0
    status = loop.run("status")
    assert f"ab/nudge: the first of those deferred is due at {early['next_due'][:10]}" in status
    loop.run("sandbox", "clock", "+70m")
    assert loop.apply()["recipients_sent"] == 0
    loop.run("reconcile")
    assert loop.apply()["recipients_sent"] == len(loop.draw()[1])


BROKEN = """\
version: 1
recipients:
  - phone: "+14155550101"
    vars: {{first_name: Ada, nick: A}}
  - phone: "+14155550102"
    vars: {{first_name: Bob}}
messages:
  - {{id: ask, text: "Hello {{{{ first_name }}}}"}}
  - id: nudge
    after: {{message: ask, wait: 2d}}
    text: "{text}"
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Still there, {{ nick }}?",
            "there is no variable `nick` for the recipient in line 5 [template-variable-unknown]\n    known here: first_name\n",
        ),
        (
            "{{ nick | default('') }}",
            "this text comes out empty [text-empty]\n    first for the recipient in line 5 of pulse.yaml\n",
        ),
    ],
    ids=["variable", "empty"],
)
def test_a_broken_follow_up_keeps_back_its_first_message(
    tmp_path: Path, run: Run, text: str, told: str
) -> None:
    """What is wrong with a follow-up for one person is said before anybody gets the message that it follows."""
    file = tmp_path / "campaigns/pulse.yaml"
    file.parent.mkdir()
    file.write_text(BROKEN.format(text=text), encoding="utf-8")
    refused = run("apply", "--auto-approve", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    said, hint = told.split("\n", 1)
    line = f'  |     text: "{text}"\n  |           ^\n'
    problem = f"campaigns/pulse.yaml:11:11: error: {said}\n{line}{hint}"
    assert refused.stderr == f"{problem}Error: 1 error: nothing was done\n"
    assert list(file.parent.iterdir()) == [file]
    file.write_text(BROKEN.format(text="Still there?"), encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=tmp_path).stdout == "pulse: 2 people texted.\n"


@pytest.mark.slow
def test_a_reading_that_breaks_off_reminds_nobody(loop: Loop, tmp_path: Path, run_process: Run) -> None:
    """As long as answers could not be read, it is not known who has not answered: all of them wait."""
    loop.move_to_noon()
    loop.apply()
    loop.run("sandbox", "simulate", "--response-rate", "1")
    loop.move_to_noon(days=2)
    (tmp_path / "sitecustomize.py").write_text(
        "from runner.errors import ServiceError\n"
        "from runner.service.client import ServiceClient\n"
        "def break_off(self, *_query):\n"
        "    raise ServiceError('the connection was lost')\n"
        "ServiceClient.read_results = break_off\n",
        encoding="utf-8",
    )
    broken = run_process("reconcile", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert broken.returncode == 1, broken.stdout
    (tmp_path / "sitecustomize.py").unlink()
    plan = loop.plan()["nudge"]
    assert (plan["to_send"], plan["awaiting"]) == (0, len(loop.draw()[1]))
    loop.run("reconcile")
    assert loop.plan()["nudge"]["not_qualified"] == len(loop.list_answered())


def test_a_follow_up_that_comes_after_the_end_is_said_and_not_forecast(run: Run, tmp_path: Path) -> None:
    """Before anything was sent, the time that is left counts; afterwards the plan knows who is too late."""
    (tmp_path / "campaigns").mkdir()
    file = tmp_path / "campaigns/p.yaml"
    text = """\
version: 1
name: p
recipients: [{{phone: "+14155550101"}}]
messages:
  - id: ask
    questions: [{{tag: q, text: "How was it?", responses: ["Good", "Bad"]}}]
  - id: nudge
    after: {{message: ask, wait: 2d}}
    to: unanswered
    text: "Still curious."
    complete_existing_sessions: true
schedule: {{expires: "{expires:%Y-%m-%dT%H:%M}", timezone: UTC}}
"""
    warning = (
        "campaigns/p.yaml:8:22: warning: `nudge` is never sent: it comes due when the campaign has expired"
    )

    def validate(days: int) -> str:
        file.write_text(text.format(expires=datetime.now(UTC) + timedelta(days=days)), encoding="utf-8")
        done = run("validate", cwd=tmp_path)
        assert done.returncode == 0
        return done.stdout

    assert warning not in validate(3)
    assert warning in validate(1)
    messages = json.loads(run("plan", "--format", "json", cwd=tmp_path).stdout)["campaigns"][0]["messages"]
    assert [(one["to_send"], one["forecast"]) for one in messages] == [(1, 0), (0, 0)]
    assert run("apply", "--auto-approve", cwd=tmp_path).returncode == 0
    assert warning not in validate(1)
