"""What commands write for pull requests and jobs."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from runner.cli.console import print_table
from runner.cli.encoding import fit_html
from runner.source.storage import shipped_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]


def test_github_format_annotates_and_appends_to_the_summary(run: Run, folder: Path) -> None:
    """`--format github` prints annotations, and Markdown behind what the summary already holds."""
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("version: 1", "version: 2"), encoding="utf-8")
    summary = folder / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    done = run("validate", "--format", "github", cwd=folder, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert done.returncode == 1
    assert done.stdout == (
        "::error file=campaigns/pulse.yaml,line=1,col=10,title=value-not-allowed::"
        "`version` must be 1, not 2%0Awrite `version: 1`\n"
    )
    assert summary.read_text(encoding="utf-8").startswith(
        "before\n## Invalid: 1 campaign, 1 error, 0 warnings\n"
    )


def test_a_table_in_a_pipe_cuts_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    """It is as wide as its words: what it shows can be copied, and columns can be told apart."""
    header = [f"a-column-with-the-number-{number}" for number in range(20)]
    print_table(header, [[f"{'x' * 40}{number}" for number in range(20)]])
    first, _, row = capsys.readouterr().out.splitlines()
    assert first.split() == header
    assert row.split() == [f"{'x' * 40}{number}" for number in range(20)]


def test_github_plan_goes_to_log_and_summary(run: Run, folder: Path) -> None:
    """A plan for GitHub stands in the log for people and in the summary as Markdown."""
    summary = folder / "summary.md"
    done = run("plan", "--format", "github", cwd=folder, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert "To send to sandbox: 4 people now, 8 to 16 segments; 1 excluded, 1 duplicate." in done.stdout
    assert "## pulse → sandbox" in summary.read_text(encoding="utf-8")


def test_a_summary_that_cannot_be_written_is_an_error(run: Run, folder: Path) -> None:
    """A wrong path of the summary is said."""
    done = run("plan", "--format", "github", cwd=folder, env={"GITHUB_STEP_SUMMARY": str(folder)})
    assert done.returncode == 1
    assert done.stderr == f"Error: the job summary {folder} cannot be written: Is a directory\n"


@pytest.mark.parametrize("command", ["validate", "plan", "status"])
def test_markdown_format_is_a_table(run: Run, folder: Path, command: str) -> None:
    """`--format markdown` writes Markdown that stands on its own."""
    done = run(command, "--format", "markdown", cwd=folder)
    assert done.returncode == 0
    assert ("## Valid: 1 campaign" if command == "validate" else "|---|") in done.stdout


@pytest.mark.parametrize("format_", ["human", "markdown"])
def test_each_campaign_has_its_own_columns(run: Run, folder: Path, format_: str) -> None:
    """A plan's table leaves out what is zero in its campaign, whatever others have."""
    text = "version: 1\nname: plain\nrecipients: [{phone: '+14155550177'}]\nmessages: [{id: hi, text: Hi}]\n"
    (folder / "campaigns/plain.yaml").write_text(text, encoding="utf-8")
    shown = run("plan", "--format", format_, cwd=folder).stdout.splitlines()
    headings = [line.strip("| ").replace(" | ", "  ") for line in shown if "rows" in line]
    assert headings == [
        "message  rows  to send  segments",
        "message  rows  duplicates  excluded  to send  segments",
    ]


@pytest.mark.slow
def test_remarks_of_a_plan_are_short_for_people(run: Run, tmp_path: Path) -> None:
    """What several messages have in common is said once, and of many sets of reasons the most frequent."""
    shutil.copytree(shipped_folder("campaigns"), tmp_path / "campaigns")
    plan = ("plan", "campaigns/anniversary-survey.yaml", "--now", "2026-11-23T12:00Z")
    people = run(*plan, cwd=tmp_path).stdout
    assert "\n  ask, nudge, thanks, each: 17 people have no consent on record\n" in people
    assert "\n  nudge, thanks, each: 205 people wait until `ask` is sent to them and " in people
    more = re.search(r"\n    \d+: (\d) more sets of reasons, which `--verbose` lists\n", people)
    assert more
    markdown = run(*plan, "-v", "--format", "markdown", cwd=tmp_path).stdout
    assert markdown.count("\n  - ") == 5 + int(more[1])


def test_plan_as_of_a_time(run: Run, folder: Path) -> None:
    """`--now` takes a time with or without a zone, and refuses what is none."""
    assert (
        '"now": "2026-12-01T08:00:00.000000Z"'
        in run("plan", "--now", "2026-12-01T09:00+01:00", "--format", "json", cwd=folder).stdout
    )
    refused = run("plan", "--now", "soon", cwd=folder)
    assert refused.returncode == 64
    assert "not a time in ISO 8601, as in 2026-12-01T09:00Z" in refused.stderr


def test_plan_launches_show_payloads_and_masked_phones(run: Run, folder: Path) -> None:
    """`--launches` adds what each launch would send, its phones masked."""
    done = run("plan", "--format", "json", "--launches", cwd=folder)
    assert '"introduction": "Hi Ada, a word about Acme?"' in done.stdout
    assert "+14•••••••01" in done.stdout
    assert "555010" not in done.stdout


def test_several_reports_need_a_folder(run: Run, folder: Path) -> None:
    """Several documents do not go to one standard output."""
    done = run("report", "--format", "json", "--format", "csv", cwd=folder)
    assert done.returncode == 64
    assert done.stderr == "Error: standard output takes one document\n  name a folder with --out DIR\n"


def test_a_report_folder_that_cannot_be_written(run: Run, folder: Path) -> None:
    """A report that cannot be written says where and why."""
    (folder / "taken").write_text("", encoding="utf-8")
    done = run("report", "--out", "taken", cwd=folder)
    assert done.returncode == 64 or done.stderr.startswith("Error: the report cannot be written to taken")


def run_encoded(folder: Path, encoding: str, *arguments: str) -> bytes:
    """Return what the command writes to standard output and error in an encoding."""
    done = subprocess.run(
        [sys.executable, "-m", "runner", *arguments],
        cwd=folder, env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_an_output_without_unicode_gets_question_marks(folder: Path) -> None:
    """What the output's encoding lacks is a question mark for people, and escaped in JSON and HTML."""
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("Ada", "Zoë Ω 😀"), encoding="utf-8")
    shown = run_encoded(folder, "latin-1", "preview", "campaigns/pulse.yaml", "--phone", "+14155550101")
    assert b"pulse, as +14???????01 will see it\n" in shown
    assert "  ? Hi Zoë ? ?, a word about Acme?\n".encode("latin-1") in shown
    preview = ("preview", "campaigns/pulse.yaml", "--format", "json")
    escaped = run_encoded(folder, "cp850", *preview)
    assert rb"Hi Zo\u00eb \u03a9 \ud83d\ude00, a word" in escaped
    assert json.loads(escaped) == json.loads(run_encoded(folder, "utf-8", *preview))
    assert fit_html("<p>Zoë Ω</p>", io.TextIOWrapper(io.BytesIO(), "cp850")) == "<p>Zo&#235; &#937;</p>"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_output_is_no_fault(folder: Path, closed: str) -> None:
    """Whoever closes it wants to read nothing: the command does its work."""
    command = f'"{sys.executable}" -m runner apply --auto-approve {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, "Internal" in done.stdout + done.stderr) == (0, False)
    assert (folder / "campaigns/pulse.sandbox.lock.json").exists()
