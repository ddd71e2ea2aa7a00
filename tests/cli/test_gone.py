"""Campaigns that were deleted: the last one leaves nothing to do, and what they have sent stays on record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]
    Serve = Callable[..., AbstractContextManager[dict[str, str]]]

CAMPAIGN = """\
version: 1
recipients: [{phone: "+14155550101"}]
messages: [{id: first, text: Hello}]
"""
NOTHING = "There is no campaign in {where}: nothing to do.\n"
GONE = (
    "pulse: its file is gone. What it has sent is still recorded (campaigns/pulse.sandbox.lock.json), and read for "
    "opt-outs.\n"
)


@pytest.fixture
def emptied(tmp_path: Path) -> Path:
    """A repository from which the last campaign was deleted, with what belongs to it left."""
    (tmp_path / "campaigns/audience").mkdir(parents=True)
    (tmp_path / "campaigns/targets.yaml").write_text("version: 1\ntargets: {}\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (("plan",), ""),
        (("plan", "campaigns"), ""),
        (("plan", "--detailed-exitcode"), ""),
        (("apply", "--auto-approve"), ""),
        (("apply", "--settle-only"), ""),
        (("reconcile",), ""),
        (("report",), ""),
        (("report", "--reconcile", "--format", "html", "--out", "reports"), ""),
        (("status",), ""),
        (("resolve",), "Nothing is unresolved.\n"),
        (("validate",), "Valid: 0 campaigns, 0 errors, 0 warnings.\n"),
    ],
    ids=" ".join,
)
def test_nothing_is_to_do_without_campaigns(
    emptied: Path, run: Run, command: tuple[str, ...], out: str
) -> None:
    """Hourly jobs go well once the last campaign was deleted, and say that there is nothing."""
    done = (
        run(*command, "--target", "sandbox", cwd=emptied)
        if command != ("validate",)
        else run(*command, cwd=emptied)
    )
    said = "" if command == ("validate",) else NOTHING.format(where="campaigns")
    assert (done.returncode, done.stdout, done.stderr) == (0, out, said)


def test_a_mistyped_path_stays_an_error(emptied: Path, run: Run) -> None:
    """A path that is not there, a folder of something else, and a repository without the default folder."""
    missing = run("plan", "campaign", cwd=emptied)
    assert missing.returncode == 64
    (emptied / "source").mkdir()
    for path in ("source", "campaigns/audience"):
        wrong = run("plan", path, cwd=emptied)
        assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (
            1,
            f"Error: there is no campaign in {path}",
        )
    (emptied / "campaigns").rename(emptied / "other")
    assert run("plan", cwd=emptied).returncode == 1


@pytest.mark.slow
def test_a_campaign_that_is_gone_is_named_and_left_alone(
    emptied: Path, run: Run, check_json: CheckJson
) -> None:
    """Its launches are read; nothing is planned; the exit code says that all went well."""
    (emptied / "campaigns/pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=emptied).returncode == 0
    (emptied / "campaigns/pulse.yaml").unlink()
    before = (emptied / "campaigns/pulse.sandbox.lock.json").read_bytes()
    reconciled = run("reconcile", cwd=emptied)
    assert reconciled.returncode == 0
    assert reconciled.stdout.startswith("pulse: 1 launch; ")
    assert reconciled.stderr == NOTHING.format(where="campaigns") + GONE
    document = check_json(run("reconcile", "--format", "json", cwd=emptied).stdout, "reconcile")
    assert (document["gone"], [one["name"] for one in document["campaigns"]]) == (["pulse"], ["pulse"])
    status = run("status", "--format", "json", cwd=emptied)
    assert check_json(status.stdout, "status") == {
        "format_version": "1.0",
        "campaigns": [],
        "gone": ["pulse"],
    }
    assert run("apply", "--auto-approve", cwd=emptied).returncode == 0
    assert (emptied / "campaigns/pulse.sandbox.lock.json").read_bytes() == before
    (emptied / "campaigns/other.yaml").write_text(
        "version: 1\nname: pulse\n" + CAMPAIGN[11:], encoding="utf-8"
    )
    assert "is gone" not in run("reconcile", cwd=emptied).stderr


def test_a_lockfile_that_stands_alone_and_cannot_be_read_is_named(emptied: Path, run: Run) -> None:
    """It keeps nobody else from going on."""
    (emptied / "campaigns/pulse.sandbox.lock.json").write_text("{", encoding="utf-8")
    (emptied / "campaigns/tea.yaml").write_text(CAMPAIGN, encoding="utf-8")
    done = run("reconcile", "--format", "json", cwd=emptied)
    assert (done.returncode, json.loads(done.stdout)["gone"]) == (0, [])
    assert done.stderr.startswith(
        "Warning: the campaign's file of a record is gone, and the lockfile "
        "campaigns/pulse.sandbox.lock.json is not JSON"
    )
