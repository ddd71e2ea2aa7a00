"""Runs that start their own workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.inside import run_inside

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

UNCLEAR = 4
CAMPAIGN = """\
version: 1
name: pulse
tag: pulse-2026
recipients:
  - {phone: '+14155550101', vars: {name: Ada}}
  - {phone: '+14155550102', vars: {name: Grace}}
messages:
  - {id: ask, text: 'Hello {{ name }}!'}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a campaign, which the sandbox gets."""
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_campaign_goes_from_file_to_report_on_processes_of_this_machine(
    run_process: Callable[..., subprocess.CompletedProcess[str]], site: Path
) -> None:
    """With `local:N` workers plan, and this process sends; saved plans are those of one process."""
    cluster = ("--quiet", "--cluster", "local:2")
    assert run_process("plan", "--out", "plan.json", *cluster, cwd=site, timeout=300).returncode == 0
    one = run_process("plan", "--format", "json", "--quiet", cwd=site)
    saved = json.loads((site / "plan.json").read_text(encoding="utf-8"))
    assert json.loads(one.stdout)["plan_digest"] == saved["plan_digest"]
    done = run_process("apply", "--plan", "plan.json", *cluster, cwd=site, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "pulse: 2 people texted.\n",
        "",
    )
    assert (site / "campaigns" / "pulse.sandbox.lock.json").exists()
    assert run_inside("sandbox", "simulate", cwd=site).returncode == 0
    done = run_process(
        "report", "--reconcile", "--format", "json", "--out", "out", "--quiet", cwd=site, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    (report,) = json.loads((site / "out" / "pulse.json").read_text(encoding="utf-8"))["messages"]
    assert (report["sent"], report["recipients"]) == (2, 2)
    assert not list((site / ".runner" / "cluster").iterdir())
