"""Each campaign of a command stands for itself: one that is broken is left out, and its neighbours go on."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import (
    CampaignError,
    LimitError,
    RunLockedError,
    RunnerError,
    ServiceError,
    StateLockedError,
    UnusableListError,
)
from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock
from runner.workflow.failures import Failures

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    Serve = Callable[..., Any]
    CheckJson = Callable[[str, str], dict[str, Any]]

NAMES = ("alpha", "beat", "gamma")
BEAT = Path("campaigns/beat.yaml")
SENT = "{}: 2 people texted.\n"
GOOD = SENT.format("alpha") + SENT.format("gamma")
LIMIT_HINT = "  check audience and campaign: limits are in the campaign, rules in targets.yaml\n"
LOCKED = (
    "Left out: beat on sandbox is being sent by another run: process 1 on elsewhere since now\n"
    "  wait until that run has ended, or have this one wait with --lock-timeout\n"
)
CLAIMED = (
    "Left out: campaigns/{0}.yaml: the name or record 'beat' is claimed by campaigns/{1}.yaml, too\n"
    "  deliveries are known by the campaign's name: let one campaign alone have it, as name or in renamed_from\n"
)
SHORT = ("--settle-window", "100ms")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A folder with three campaigns of two people each."""
    (tmp_path / "campaigns").mkdir()
    for number, name in enumerate(NAMES, 1):
        rows = "".join(f"+1415555{number:02}{person:02}\n" for person in (1, 2))
        (tmp_path / f"campaigns/{name}.csv").write_text(f"phone\n{rows}", encoding="utf-8")
        (tmp_path / f"campaigns/{name}.yaml").write_text(
            f"version: 1\nname: {name}\nrecipients: [{{csv: {name}.csv}}]\n"
            f"messages: [{{id: hello, text: Hello from {name}}}]\n",
            encoding="utf-8",
        )
    return tmp_path


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)


def break_file(folder: Path) -> None:
    append(folder / BEAT, "colour: red\n")


def break_audience(folder: Path) -> None:
    append(folder / "campaigns/beat.csv", "12\n13\n")


def break_limit(folder: Path) -> None:
    append(folder / BEAT, "limits: {recipients: 1}\n")


def break_lockfile(folder: Path) -> None:
    (folder / "campaigns/beat.sandbox.lock.json").write_text("{", encoding="utf-8")


def break_name(folder: Path) -> None:
    copy = folder / "campaigns/a-copy.yaml"
    copy.write_text((folder / BEAT).read_text(encoding="utf-8"), encoding="utf-8")


BREAKS: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "file": (break_file, 3, "Left out: campaigns/beat.yaml: 1 error\n"),
    "audience": (break_audience, 3, "Left out: campaigns/beat.yaml: 2 errors\n"),
    "limit": (
        break_limit,
        5,
        f"Left out: beat: it would text 2 recipients, and limits.recipients is 1\n{LIMIT_HINT}",
    ),
    "lockfile": (
        break_lockfile,
        3,
        "Left out: beat: the lockfile campaigns/beat.sandbox.lock.json is not JSON",
    ),
    "name": (break_name, 3, CLAIMED.format("a-copy", "beat") + CLAIMED.format("beat", "a-copy")),
}
UNREADABLE = ("file", "lockfile", "name")


@pytest.fixture(params=BREAKS)
def broken(request: pytest.FixtureRequest, three: Path) -> tuple[Path, int, str]:
    """The folder with one campaign broken, the exit code, and what is said of it."""
    function, code, words = BREAKS[request.param]
    function(three)
    return three, code, words


def count_texts(folder: Path) -> dict[str, int]:
    """Return how many texts the sandbox has accepted, by phone."""
    with closing(sqlite3.connect(folder / ".runner/sandbox/service.sqlite")) as connection:
        query = "SELECT phone, count(*) FROM session JOIN participant ON participant.id = participant_id GROUP BY 1"
        return dict(connection.execute(query).fetchall())


def hold(folder: Path, stack: ExitStack, *names: str) -> None:
    """Hold locks of campaigns as another run does."""
    ledger = stack.enter_context(Ledger(f"sqlite:///{folder / '.runner/ledger.sqlite'}"))
    for name in names:
        other = LockHolder("elsewhere", 1, None, "now")
        stack.enter_context(hold_campaign_lock(ledger, "sandbox", [name], other))


def test_apply_sends_the_neighbours(broken: tuple[Path, int, str], run: Run) -> None:
    """The neighbours of a broken campaign are sent once, the exit code is the gravest, and it is said why."""
    folder, code, words = broken
    done = run("apply", "--auto-approve", cwd=folder)
    assert (done.returncode, done.stdout) == (code, GOOD), done.stderr
    assert words in done.stderr
    assert "Error:" not in done.stderr
    again = run("apply", "--auto-approve", cwd=folder)
    assert (again.returncode, again.stdout) == (code, "alpha: nothing sent.\ngamma: nothing sent.\n")
    assert sorted(count_texts(folder).values()) == [1, 1, 1, 1]


def test_plan_shows_the_neighbours(broken: tuple[Path, int, str], run: Run, check_json: CheckJson) -> None:
    """A plan is made of what can be planned; what cannot is in the JSON, under its name, with its reason."""
    folder, code, words = broken
    done = run("plan", "--detailed-exitcode", "--format", "json", cwd=folder)
    assert done.returncode == code
    assert words in done.stderr
    document = check_json(done.stdout, "plan")
    planned = {campaign["name"]: campaign["refusals"] for campaign in document["campaigns"]}
    failed = {failure["campaign"] for failure in document["failures"]}
    assert set(planned) - {"beat"} == {"alpha", "gamma"}
    assert failed <= {None, "beat"}
    assert bool(failed) != bool(planned.get("beat"))


def test_a_saved_plan_is_of_the_neighbours(three: Path, run: Run) -> None:
    """What is left out of a plan is not in what is saved, and the saved plan is sent whole."""
    break_file(three)
    assert run("plan", "--out", "plan.json", cwd=three).returncode == 3
    done = run("apply", "--plan", "plan.json", cwd=three)
    assert (done.returncode, done.stdout, done.stderr) == (0, GOOD, "")


def test_nothing_is_saved_of_no_plan(three: Path, run: Run, check_json: CheckJson) -> None:
    """If no campaign can be planned, nothing is saved or drawn, and the exit code is 1."""
    for name in NAMES:
        append(three / f"campaigns/{name}.yaml", "colour: red\n")
    done = run("plan", "--out", "plan.json", cwd=three)
    assert (done.returncode, done.stdout) == (1, "")
    assert not (three / "plan.json").exists()
    told = run("apply", "--auto-approve", "--format", "json", cwd=three)
    assert told.returncode == 1
    document = check_json(told.stdout, "apply")
    assert document["campaigns"] == []
    assert [failure["file"] for failure in document["failures"]] == [
        f"campaigns/{name}.yaml" for name in NAMES
    ]


def test_a_saved_plan_is_refused_whole(three: Path, run: Run) -> None:
    """What was approved is the whole: if one campaign has become invalid since, nothing of the plan is sent."""
    assert run("plan", "--out", "plan.json", cwd=three).returncode == 0
    break_audience(three)
    done = run("apply", "--plan", "plan.json", cwd=three)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(
        "Left out: campaigns/beat.yaml: 2 errors\n"
        "Error: the plan plan.json is out of date: campaigns/beat.yaml: 2 errors\n"
        "  nothing was sent; make a new plan, as with `runner plan --out FILE`, and review that\n"
    )
    assert not (three / "campaigns/alpha.sandbox.lock.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--auto-approve",), ("--plan", "plan.json")])
def test_a_campaign_that_another_run_holds_is_left_to_it(
    three: Path, run: Run, options: tuple[str, ...]
) -> None:
    """The neighbours of a campaign that another run is sending are sent, by a saved plan as well."""
    assert run("apply", "--auto-approve", "--limit", "1", BEAT, cwd=three).returncode == 0
    assert run("plan", "--out", "plan.json", cwd=three).returncode == 0
    with ExitStack() as stack:
        hold(three, stack, "beat")
        done = run("apply", *options, cwd=three)
    assert (done.returncode, done.stdout, done.stderr) == (3, GOOD, LOCKED)
    rest = run("apply", "--auto-approve", cwd=three)
    assert (rest.returncode, rest.stdout) == (
        0,
        "alpha: nothing sent.\nbeat: 1 person texted.\ngamma: nothing sent.\n",
    )
    assert sorted(count_texts(three).values()) == [1] * 6


@pytest.mark.slow
def test_a_list_that_proves_nothing_keeps_its_own_campaign(
    three: Path, run: Run, check_json: CheckJson, serve: Serve
) -> None:
    """If the service no longer lists what a campaign has sent, neighbours that have begun are sent all the same."""
    with serve(three, "--db", "service.sqlite") as environment:
        first = run("apply", "--auto-approve", "--limit", "1", *SHORT, cwd=three, env=environment)
        assert first.returncode == 0, first.stderr
        with closing(sqlite3.connect(three / "service.sqlite")) as connection:
            connection.execute("DELETE FROM launch WHERE project_tag = 'beat'")
            connection.commit()
        options = ("apply", "--auto-approve", "--format", "json", *SHORT)
        done = run(*options, cwd=three, env=environment)
    assert done.returncode == 3, done.stderr
    document = check_json(done.stdout, "apply")
    assert [(run["name"], run["recipients_sent"]) for run in document["campaigns"]] == [
        ("alpha", 1),
        ("gamma", 1),
    ]
    assert document["failures"] == [
        {
            "campaign": "beat",
            "file": "campaigns/beat.yaml",
            "exit_code": 1,
            "message": "beat: the service does not list a launch that it is known to have accepted: its list "
            "does not show what a lost run may have sent. Nothing was sent",
            "hint": "run the same command again later; if it stays so, ask the service's provider",
        }
    ]


def test_what_is_left_out_takes_nobodys_turn(three: Path, run: Run) -> None:
    """A frequency cap counts what is about to be sent, not what a campaign beyond its limit would send."""
    break_limit(three)
    people = (three / "campaigns/beat.csv").read_text(encoding="utf-8")
    (three / "campaigns/gamma.csv").write_text(people, encoding="utf-8")
    append(three / "campaigns/gamma.yaml", "policy: {frequency_cap: {messages: 1, within: 7d}}\n")
    done = run("apply", "--auto-approve", cwd=three)
    assert (done.returncode, done.stdout) == (5, GOOD)


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNREADABLE)
def test_reconcile_and_report_do_the_neighbours(
    three: Path, run: Run, check_json: CheckJson, kind: str
) -> None:
    """What the neighbours of a broken campaign got is read, and reported."""
    assert run("apply", "--auto-approve", cwd=three).returncode == 0
    function, code, words = BREAKS[kind]
    function(three)
    done = run("reconcile", "--format", "json", cwd=three)
    assert done.returncode == code
    assert words in done.stderr
    document = check_json(done.stdout, "reconcile")
    assert [campaign["name"] for campaign in document["campaigns"]] == ["alpha", "gamma"]
    assert {failure["exit_code"] for failure in document["failures"]} == {1}
    for options in ((), ("--reconcile",)):
        told = run("report", *options, "--out", "reports", "--format", "json", cwd=three)
        assert told.returncode == code
        assert words in told.stderr
        assert sorted(file.name for file in (three / "reports").iterdir()) == ["alpha.json", "gamma.json"]


@pytest.mark.parametrize("command", [("apply", "--auto-approve"), ("reconcile",)])
def test_a_service_that_is_gone_ends_the_command(three: Path, run: Run, command: tuple[str, ...]) -> None:
    """What concerns all campaigns is said once, and ends the command."""
    environment = {
        "RUNNER_BASE_URL": "http://127.0.0.1:9",
        "RUNNER_USERNAME": "ada",
        "RUNNER_API_KEY": "secret",
    }
    done = run(*command, *(SHORT if command[0] == "apply" else ()), cwd=three, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("Error: the service cannot be asked") == 1
    assert "Left out" not in done.stderr


@pytest.mark.parametrize(
    ("errors", "others", "code"),
    [
        ((CampaignError("a"),), 0, 3),
        ((CampaignError("a"),), None, 1),
        ((CampaignError("a"), RunLockedError("b")), None, 1),
        ((RunLockedError("a"), RunLockedError("b")), None, 6),
        ((RunLockedError("a"),), 0, 3),
        ((LimitError("a"), CampaignError("b")), 0, 5),
        ((LimitError("a"),), 4, 4),
        ((CampaignError("a"),), 4, 4),
        ((CampaignError("a"),), 3, 3),
        ((CampaignError("a"),), 1, 1),
        ((UnusableListError("a"),), 0, 3),
        ((), 2, 2),
        ((), 0, 0),
    ],
)
def test_the_exit_code_is_the_gravest(errors: tuple[RunnerError, ...], others: int | None, code: int) -> None:
    """4 before 5 before 3; where nothing went well, what all have in common, else 1."""
    failures = Failures()
    failures.total = 9
    for number, error in enumerate(errors):
        failures.add(Path(f"{number}.yaml"), None, error)
    assert failures.find_exit_code(others) == code


@pytest.mark.parametrize("error", [ServiceError("gone"), StateLockedError("held")])
def test_what_concerns_all_is_never_one_campaigns(error: RunnerError) -> None:
    """A service that is gone and a state remote that is held end the command."""
    failures = Failures()
    failures.total = 9
    with pytest.raises(type(error)):
        failures.add(Path("a.yaml"), "a", error)
