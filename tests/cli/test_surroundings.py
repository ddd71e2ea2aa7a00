"""What is wrong around a campaign is named, with its remedy: secrets, proxies, git, file systems."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from runner.github.job_summary import SUMMARY_BYTES
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

CAMPAIGN = """\
version: 1
name: pulse
recipients: [{phone: "+14155550101"}]
messages: [{id: ask, text: "The shop opens at nine."}]
"""
LIVE = {
    "RUNNER_BASE_URL": "https://sms.example.com",
    "RUNNER_USERNAME": "acme",
    "RUNNER_API_KEY": "a-key",
    "RUNNER_STATE_KEY": STATE_KEY,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with one campaign."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("variable", [*LIVE, "RUNNER_LEDGER"])
def test_a_secret_that_ends_with_a_line_break_is_named(run: Run, place: Path, variable: str) -> None:
    """It was copied from a file, or printed by `echo`: the service would only say that it is wrong."""
    given = LIVE | {"RUNNER_LEDGER": "sqlite:///ledger.sqlite"}
    done = run("apply", "--auto-approve", cwd=place, env=given | {variable: f"{given[variable]}\n"})
    assert done.returncode != 0
    what = "the ledger's URL" if variable == "RUNNER_LEDGER" else variable
    assert done.stderr == (
        f"Error: {what} ends with a line break\n"
        "  set it again without: in a shell `printf %s` adds no line break, as `echo` does\n"
    )
    # The remedy.
    shown = subprocess.run(["sh", "-c", "printf %s value"], check=True, capture_output=True)
    assert shown.stdout == b"value"


def test_gits_remedy_for_a_repository_of_another_user_is_shown(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is one: with it, the same command works."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(place / "gitconfig"))
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    done = run("ci", "record", "--no-push", cwd=place)
    assert "dubious ownership" in done.stderr
    _, mark, remedy = done.stderr.rpartition("if you trust its owner: `")
    assert mark
    subprocess.run(remedy.strip().removesuffix("`"), cwd=place, check=True, shell=True)  # noqa: S602  git's
    assert "dubious" not in run("ci", "record", "--no-push", cwd=place).stderr


def test_a_campaign_file_with_too_long_a_name_is_named(run: Run, place: Path) -> None:
    """Its lockfile's name would be longer than file systems allow: nothing is sent, and `validate` says it."""
    file = (place / "campaigns/pulse.yaml").rename(place / f"campaigns/{'a' * 235}.yaml")
    done = run("validate", cwd=place)
    assert done.returncode == 1
    assert "the file's name is too long: its lockfile, which is named after it" in done.stdout
    assert "rename it: at most 200 bytes before its ending" in done.stdout
    file.rename(place / f"campaigns/{'a' * 200}.yaml")
    assert run("apply", "--auto-approve", cwd=place).returncode == 0


@pytest.mark.slow
def test_reports_are_cut_where_a_jobs_summary_ends(run: Run, place: Path) -> None:
    """GitHub shows none of a summary that is too long."""
    run("apply", "--auto-approve", cwd=place)
    summary = place / "summary.md"
    whole = run("report", "--format", "github", cwd=place, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.read_text(encoding="utf-8").strip() == whole.stdout.strip()
    summary.write_bytes(b"x" * (SUMMARY_BYTES - 150))
    environment = {"GITHUB_STEP_SUMMARY": str(summary)}
    run("report", "--format", "github", "--out", "reports", cwd=place, env=environment)
    assert [file.name for file in (place / "reports").iterdir()] == ["pulse.md"]
    assert summary.stat().st_size <= SUMMARY_BYTES
    assert summary.read_text(encoding="utf-8").endswith("a job summary ends at 1 MiB.**\n")
