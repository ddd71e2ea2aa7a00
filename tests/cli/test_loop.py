"""The whole loop as a user types it, in a folder that is no repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

README = Path(__file__).parents[2] / "README.md"
LOCKFILE = "campaigns/pulse.sandbox.lock.json"


@pytest.mark.slow
def test_a_campaign_goes_from_file_to_report(folder: Path, run: Run, check_json: CheckJson) -> None:
    """Validate, plan, apply, answers and report work in turn, and their JSON fits its schemas."""
    valid = run("validate", "--format", "json", cwd=folder)
    assert (valid.returncode, check_json(valid.stdout, "validate")["valid"]) == (0, True)

    plan = run("plan", "--format", "json", "--detailed-exitcode", cwd=folder)
    assert plan.returncode == 2
    (message,) = check_json(plan.stdout, "plan")["campaigns"][0]["messages"]
    expected = {
        "id": "ask",
        "tag": "pulse-2026",
        "rows": 6,
        "duplicates": 1,
        "recipients": 5,
        "excluded": 1,
        "opted_out": 0,
        "already_sent": 0,
        "unresolved": 0,
        "deferred": 0,
        "over_limit": 0,
        "to_send": 4,
        "launches": 4,
        "segments": 8,
        "renders_min": 8,
        "renders_max": 16,
    }
    assert {name: message[name] for name in expected} == expected

    applied = run("apply", "--auto-approve", "--format", "json", cwd=folder)
    assert applied.returncode == 0, applied.stderr
    (sent,) = check_json(applied.stdout, "apply")["campaigns"]
    assert (sent["sent"], sent["rejected"], sent["unknown"], sent["recipients_sent"]) == (4, 0, 0, 4)
    assert {launch["outcome"] for launch in sent["launches"]} == {"sent"}

    simulated = run("sandbox", "simulate", "--response-rate", "1", cwd=folder)
    assert simulated.returncode == 0, simulated.stderr

    reported = run("report", "--reconcile", "--format", "json", "--out", "out", cwd=folder)
    assert reported.returncode == 0, reported.stderr
    text = (folder / "out/pulse.json").read_text(encoding="utf-8")
    (report,) = check_json(text, "report")["messages"]
    assert (report["sent"], report["participants_answered"], report["response_rate"]) == (4, 4, 1.0)
    assert sum(choice["count"] for choice in report["questions"][0]["distribution"]) == 4

    status = run("status", "--format", "json", cwd=folder)
    (row,) = check_json(status.stdout, "status")["campaigns"][0]["messages"]
    assert (row["planned"], row["sent"], row["answered"], row["unresolved"]) == (0, 4, 4, 0)

    reconciled = run("reconcile", "--format", "json", cwd=folder)
    (summary,) = check_json(reconciled.stdout, "reconcile")["campaigns"]
    assert summary["results"] == summary["expected_results"] > 0
    assert summary["new_results"] == 0


@pytest.mark.slow
def test_whoever_was_texted_is_not_texted_again(folder: Path, run: Run) -> None:
    """Neither the same command, nor an edited text, nor a lost ledger texts anybody again; a new row is texted alone."""

    def apply() -> tuple[int, str]:
        done = run("apply", "--auto-approve", cwd=folder)
        return done.returncode, done.stdout

    assert apply()[0] == 0
    lockfile, ledger = folder / LOCKFILE, folder / ".runner/ledger.sqlite"
    before = lockfile.read_bytes()
    assert apply() == (0, "pulse: nothing sent.\n")
    plan = run("plan", "--detailed-exitcode", cwd=folder)
    assert (plan.returncode, plan.stdout.endswith("Nothing to send.\n")) == (0, True)

    for file in (folder / ".runner").glob("ledger*"):
        file.unlink()
    assert run("plan", "--detailed-exitcode", cwd=folder).returncode == 0
    assert not ledger.exists()
    assert apply() == (0, "pulse: nothing sent.\n")
    assert lockfile.read_bytes() == before

    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("a word", "two words"), encoding="utf-8")
    assert apply() == (0, "pulse: nothing sent.\n")
    with (folder / "campaigns/audience/people.csv").open("a", encoding="utf-8") as rows:
        rows.write("Fay,415 555 0106\n")
    applied = json.loads(run("apply", "--auto-approve", "--format", "json", cwd=folder).stdout)
    assert applied["campaigns"][0]["recipients_sent"] == 1
    launches = json.loads(lockfile.read_text(encoding="utf-8"))["launches"]
    assert sum(len(launch["recipients"]) for launch in launches) == 5


@pytest.mark.slow
@pytest.mark.usefixtures("unhurried_processes")
def test_reconcile_leaves_the_lockfile_to_a_run(folder: Path, run: Run, run_process: Run) -> None:
    """While another run may put more into the lockfile, it is not replaced by what reconcile knows of."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    lockfile = folder / LOCKFILE
    content = lockfile.read_bytes()
    lockfile.unlink()
    other = LockHolder("elsewhere", 1, None, "now")
    with (
        Ledger(f"sqlite:///{folder / '.runner/ledger.sqlite'}") as ledger,
        hold_campaign_lock(ledger, "sandbox", ["pulse"], other),
    ):
        beside = run_process("reconcile", cwd=folder)
        assert run("reconcile", "--quiet", cwd=folder).stderr == ""
    assert beside.returncode == 0
    assert beside.stderr == (
        "pulse on sandbox is being sent by another run: process 1 on elsewhere since now; "
        "the lockfile is left to that run.\n"
    )
    assert not lockfile.exists()
    assert run("reconcile", cwd=folder).stderr == ""
    assert lockfile.read_bytes() == content


@pytest.mark.slow
def test_a_report_is_a_function_of_the_ledger(folder: Path, run: Run) -> None:
    """Written twice, every format of a report is byte for byte the same, and holds no phone."""
    run("apply", "--auto-approve", cwd=folder)
    run("sandbox", "simulate", cwd=folder)
    run("reconcile", cwd=folder)
    formats = [word for name in ("md", "html", "json", "csv") for word in ("--format", name)]
    for out in ("first", "second"):
        assert run("report", *formats, "--out", out, cwd=folder).returncode == 0
    for name in ("pulse.md", "pulse.html", "pulse.json", "pulse.csv"):
        content = (folder / "first" / name).read_bytes()
        assert content == (folder / "second" / name).read_bytes()
        assert b"555010" not in content


def test_report_prints_markdown_by_default(folder: Path, run: Run) -> None:
    """Without --out one document goes to standard output; before anything was sent it says so."""
    printed = run("report", cwd=folder)
    assert printed.returncode == 0
    assert printed.stdout.startswith("# pulse\n")
    assert "**Nobody has been texted yet.**" in printed.stdout


@pytest.mark.slow
def test_the_demo_runs_on_the_sandbox_alone(run_process: Run, tmp_path: Path) -> None:
    """From file to report of more than a thousand recipients, past a live service in the environment, in few lines."""
    environment = {
        "RUNNER_BASE_URL": "http://127.0.0.1:9",
        "RUNNER_USERNAME": "u",
        "RUNNER_API_KEY": "k",
        "RUNNER_TARGET": "live",
    }
    folder = tmp_path / "demo"
    demo = run_process("demo", "--dir", folder, cwd=tmp_path, env=environment)
    assert demo.returncode == 0, demo.stderr
    assert len((demo.stdout + demo.stderr).splitlines()) <= 120
    assert f"The report to show around: {folder / 'reports/customer-pulse.html'}\n" in demo.stdout
    assert demo.stdout.endswith(f"  runner sandbox serve --db {folder}/.runner/sandbox/service.sqlite\n")
    report = json.loads((folder / "reports/customer-pulse.json").read_text(encoding="utf-8"))
    assert report["messages"][0]["sent"] > 1000
    # The picture in the README is of this report.
    answers = report["messages"][0]["participants_answered"]
    assert f"\n- Answered: {answers} people, " in demo.stdout
    assert f"the Net Promoter Score of {answers} answers](.github/report.png)" in README.read_text(
        encoding="utf-8"
    )
    assert list(folder.rglob("*.sandbox.lock.json"))
    assert not list(folder.rglob("*.live.lock.json"))


def test_demo_refuses_a_folder_with_campaigns(run: Run, folder: Path) -> None:
    """The demo writes over nobody's campaigns."""
    demo = run("demo", "--dir", ".", cwd=folder)
    assert demo.returncode == 1
    assert demo.stderr == "Error: there is a campaigns already\n  name an empty folder with --dir\n"
