"""Fixtures of all tests: a quiet environment, the same random examples each time, the real command."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import find_postgres, run_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.postgres import PostgresServer

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=50,
    deadline=None,
    # Examples may share a fixture such as `tmp_path`, which only gives a place to write.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
)
settings.load_profile("ci")

# Set before the first import of Dask. Its processes check on themselves fifty times a second and more:
# idle ones would keep a core busy together.
os.environ.update(
    {
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
        "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    }
)

_FOREIGN = (
    "CI",
    "GITLAB_CI",
    "TF_BUILD",
    "FORCE_COLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "COVERAGE_PROCESS_START",
    "TRACEPARENT",
)
"""Variables of the machine that would change a command's output."""
_FOREIGN_BEGINNINGS = ("RUNNER_", "GITHUB_", "OTEL_", "CAMPAIGNS_")
"""With the second, a test of `runner ci comment` in this project's own CI would comment there."""


_LONGEST = (
    "tests/torture/",
    "tests/second_hand/",
    "tests/gitops/test_story.py",
    "tests/gitops/test_jobs.py",
    "tests/gitops/test_installing.py",
    "tests/docs/",
    "tests/test_wheel.py",
)
"""The longest tests come first, so that no worker is left alone with one at the end."""


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: half as many again as cores, since many tests wait."""
    cores = os.cpu_count() or 1
    return cores + cores // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the longest tests to the front; the others stay as they are."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the totals of the torture tests: a proof is only as good as its extent."""
    for report in terminalreporter.getreports("passed"):
        for name, words in report.user_properties:
            if name == "torture":
                terminalreporter.write_line(f"{name}: {words}")


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test as on a fresh machine: no target, no colour, no CI job."""
    for name in os.environ:
        if name.startswith(_FOREIGN_BEGINNINGS) or name in _FOREIGN:
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands inside this process say nothing of how far they are, however long they take.

    After five seconds of sending or reading they would: a machine that stands still for as long would add a
    line to what tests compare.
    """
    monkeypatch.setattr("runner.cli.console._LINE_EVERY_S", math.inf)


@pytest.fixture
def unhurried_processes(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands in processes of their own say nothing of it, either."""
    folder = tmp_path_factory.mktemp("unhurried")
    text = "import math\nfrom runner.cli import console\nconsole._LINE_EVERY_S = math.inf\n"
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of the tests' own; without one installed, its tests are skipped."""
    programs = find_postgres()
    if programs is None:
        assert "REQUIRE_POSTGRES" not in os.environ, "PostgreSQL is required here, and not installed"
        pytest.skip("PostgreSQL is not installed, as with: apt-get install postgresql")
    with run_postgres(programs) as server:
        yield server


@pytest.fixture
def postgres_ledger(postgres: PostgresServer) -> str:
    """The URL of a ledger on PostgreSQL with empty tables."""
    return postgres.url(postgres.create_ledger())


@pytest.fixture
def run_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command as a process: `run_process("plan", cwd=folder, env={...}, stdin="y")`."""

    def run_command(
        *arguments: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run `runner` with these arguments and return the finished process, whatever its exit code.

        `env` is added to the test's own environment; without `stdin` the command can read nothing.
        """
        return subprocess.run(
            [sys.executable, "-m", "runner", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )

    return run_command


@pytest.fixture
def run(
    run_process: Callable[..., subprocess.CompletedProcess[str]],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command, as a process unless a folder of tests has a quicker way."""
    return run_process
