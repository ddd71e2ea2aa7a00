"""Workers that are unfit, fail, join late or die while a campaign is planned: the others plan it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import runner
from tests.cluster.schedulers import DaskScheduler, free_port
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

PEOPLE = 40
WHOLE = f"To send to sandbox: {PEOPLE} people now, {PEOPLE} segments.\n"


@dataclass(slots=True)
class Site:
    """A repository with a campaign, and a scheduler whose workers have the secrets of `environment`."""

    folder: Path
    scheduler: DaskScheduler
    environment: dict[str, str]

    def plan(self) -> tuple[int, str, str]:
        """Run `runner plan` on the cluster; return its exit code, its output, and its messages in one line."""
        done = subprocess.run(
            [sys.executable, "-m", "runner", "plan", "--cluster", self.scheduler.address],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout, " ".join(done.stderr.split())

    def add(self, **changes: str) -> None:
        """Start a worker with some variables changed, and wait until the scheduler knows it."""
        self.scheduler.add_worker({**self.environment, **changes})
        self.scheduler.wait_for_workers()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site whose cluster has one fit worker, until a test adds others."""
    (tmp_path / "campaigns").mkdir()
    people = "".join(
        f"  - {{phone: '+1415555{number}', vars: {{name: P{number}}}}}\n"
        for number in range(1000, 1000 + PEOPLE)
    )
    (tmp_path / "campaigns" / "pulse.yaml").write_text(
        f"version: 1\nname: pulse\nrecipients:\n{people}messages:\n  - {{id: ask, text: 'Hello {{{{ name }}}}!'}}\n",
        encoding="utf-8",
    )
    with DaskScheduler(free_port()) as scheduler:
        site = Site(tmp_path, scheduler, {"RUNNER_STATE_KEY": STATE_KEY})
        site.add()
        yield site


def copy_package(folder: Path, version: str) -> str:
    """Make a copy of the program of another version; return the path to import it from."""
    copied = folder / "other"
    (copied / "runner").mkdir(parents=True)
    package = Path(runner.__file__).parent
    for item in package.iterdir():
        if item.name not in {"version.py", "__pycache__"}:
            (copied / "runner" / item.name).symlink_to(item)
    text = (package / "version.py").read_text(encoding="utf-8")
    (copied / "runner" / "version.py").write_text(
        re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', text), encoding="utf-8"
    )
    return os.pathsep.join((str(copied), *sys.path))


@pytest.mark.parametrize(
    "changes",
    [{"RUNNER_STATE_KEY": ""}, {"PYTHONPATH": "version"}],
)
def test_a_worker_that_is_unfit_is_put_aside(site: Site, tmp_path: Path, changes: dict[str, str]) -> None:
    """The others plan everything."""
    if changes.get("PYTHONPATH") == "version":
        changes = {"PYTHONPATH": copy_package(tmp_path, "0.0.9")}
    site.add(**changes)
    code, out, err = site.plan()
    assert (code, out.endswith(WHOLE)) == (0, True), err


def test_without_a_fit_worker_all_reasons_are_told(site: Site) -> None:
    """If no worker is fit, the command ends at once, with the reason of each."""
    site.scheduler.kill_worker()
    site.add(RUNNER_STATE_KEY="another key of somebody who is elsewhere")
    site.add(RUNNER_STATE_KEY="")
    code, _, err = site.plan()
    assert code == 1
    assert err.startswith("Error: none of the cluster's workers is fit: ")
    reason = r"the worker tcp://127.0.0.1:\d+ fails: RUNNER_STATE_KEY is not set as for the command"
    assert re.search(f"{reason}; {reason}", err)
