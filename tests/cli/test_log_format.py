"""`--log-format json`: standard error as one JSON object a line, standard output as ever."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.deliver.conftest import FaultyService, faulty

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

__all__ = ["faulty"]

JSON = ("--log-format", "json")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
BUG = """
import sys
import runner.workflow.plan
from runner.cli.main import run
def fail(*_):
    raise ZeroDivisionError("+14155550101")
runner.workflow.plan.plan_project = fail
sys.exit(run(["plan", "--log-format", "json"]))
"""


def read_records(text: str) -> list[dict[str, Any]]:
    """Return the records of standard error without their times, each of which is checked."""
    records = [json.loads(line) for line in text.splitlines()]
    for record in records:
        assert TIMESTAMP.fullmatch(record.pop("timestamp"))
        assert {"level", "message"} <= record.keys()
    return records


def test_notes_become_records(run: Run, folder: Path) -> None:
    """What a run remarks is a record with its level and campaign; standard output stays the same."""
    done = run("apply", "--auto-approve", "-v", *JSON, cwd=folder)
    assert (done.returncode, done.stdout) == (0, "pulse: 4 recipients texted in 4 launches.\n")
    target, *sent = read_records(done.stderr)
    assert not re.search("555010|Ada|Acme", done.stderr)
    assert target["message"].startswith("Target: sandbox.")
    assert sent == [{"level": "info", "message": "sent: 1 recipient", "campaign": "pulse"}] * 4


def test_a_variable_chooses_the_format_for_all_commands(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUNNER_LOG_FORMAT holds for mistakes on the command line, too; the option beats it."""
    monkeypatch.setenv("RUNNER_LOG_FORMAT", "json")
    (record,) = read_records(run("aply", cwd=folder).stderr)
    message = "there is no command aply: did you mean `runner apply`?"
    assert record == {"level": "error", "message": message, "exit_code": 64}
    done = run("apply", "--only", "none", "--log-format", "text", cwd=folder)
    assert done.stderr == "Error: no campaign has a message 'none'\n  known: ask\n"


def test_problems_have_their_place(run: Run, folder: Path) -> None:
    """A problem of a file is a record with code, file, line and column, and no whole phone."""
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text().replace("+14155550101", "+1415555010199999"), encoding="utf-8")
    done = run("plan", *JSON, cwd=folder)
    problem, end = read_records(done.stderr)
    assert (problem["level"], problem["code"]) == ("error", "recipient-phone-invalid")
    assert (problem["file"], problem["line"], problem["column"]) == ("campaigns/pulse.yaml", 6, 12)
    assert end["message"] == "1 error: nothing was done"
    assert "555010" not in done.stderr
    file.write_text(file.read_text().replace("+1415555010199999", "4155550101"), encoding="utf-8")
    problem, _ = read_records(run("plan", *JSON, cwd=folder).stderr)
    assert problem["hint"].startswith("write it as in +14155550101, ")


def test_left_out_campaigns_are_named(run: Run, folder: Path) -> None:
    """A campaign that is left out is a record of its own, and the others go on."""
    text = (folder / "campaigns/pulse.yaml").read_text()
    other = text.replace("pulse", "other").replace('text: "Why?"', 'text: "{{ nothing }}"')
    (folder / "campaigns/other.yaml").write_text(other, encoding="utf-8")
    done = run("apply", "--auto-approve", *JSON, cwd=folder)
    assert done.returncode == 3
    (left,) = [record for record in read_records(done.stderr) if record.get("left_out")]
    assert (left["level"], left["exit_code"]) == ("error", 1)
    assert "other.yaml" in left["message"]


def test_a_bug_is_one_record(folder: Path) -> None:
    """A fault of the program is told by its class and place, without the words of the error."""
    environment = {**os.environ}
    done = subprocess.run(
        [sys.executable, "-c", BUG], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    (record,) = read_records(done.stderr)
    assert record["message"].startswith("ZeroDivisionError at ")
    assert (record["level"], record["exit_code"]) == ("error", 1)


@pytest.mark.slow
def test_an_interrupt_is_told_in_records(folder: Path, faulty: FaultyService) -> None:
    """Ctrl-C amid sending: each line is a record, and the last one says that all is recorded."""
    faulty.decide = lambda _number, _request: {"end": "hold"}
    environment = {
        **os.environ,
        "RUNNER_BASE_URL": faulty.url,
        "RUNNER_USERNAME": "acme",
        "RUNNER_API_KEY": "secret",
        "RUNNER_SETTLE_WINDOW": "0s",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", "apply", "--auto-approve", *JSON],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 100
        while not faulty.requests and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        faulty.open_gate()
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 130
    records = read_records(err)
    assert records[0]["message"].startswith("Stopping: waiting for the sends in flight.")
    assert (records[-1]["level"], records[-1]["exit_code"]) == ("error", 130)
