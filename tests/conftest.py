"""What every test shares: a quiet environment, the same random examples each time, the real command."""

from __future__ import annotations

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
    deadline=None,
    # A fixture such as `tmp_path` only gives a place to write: sharing it among examples is meant.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
)
settings.load_profile("ci")

# Before anyone imports Dask. Its processes look at themselves fifty times a second and more: those that wait
# for the next test would keep a core busy together.
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
)
"""Variables of the machine that would change what a command writes."""
_FOREIGN_BEGINNINGS = ("RUNNER_", "GITHUB_")
"""With the second, a test of `runner comment` in this project's own CI would comment there."""


_LONGEST = ("tests/torture/", "tests/gitops/test_story.py", "tests/test_readme.py", "tests/test_wheel.py")
"""What takes longest by far comes first, so that no worker is left alone with it at the end."""


def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` means: half as many again as cores, since many tests wait."""
    cores = os.cpu_count() or 1
    return cores + cores // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the longest tests to the front; the others stay as they are."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the torture added up to: a proof is as good as what it went through."""
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


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of the tests' own; where none is installed, its tests are skipped."""
    programs = find_postgres()
    if programs is None:
        assert "REQUIRE_POSTGRES" not in os.environ, "PostgreSQL is required here, and not installed"
        pytest.skip("PostgreSQL is not installed, as with: apt-get install postgresql")
    with run_postgres(programs) as server:
        yield server


@pytest.fixture
def postgres_ledger(postgres: PostgresServer) -> str:
    """The URL of a ledger on PostgreSQL that has its tables, and nothing in them."""
    return postgres.url(postgres.create_ledger())


@pytest.fixture
def run_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command as a process: `run_process("plan", cwd=folder, env={...}, stdin="y")`."""

    def run_command(
        *arguments: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Return the finished process, whatever its exit code.

        Args:
            arguments: after `runner`.
            cwd: the current folder of the process.
            env: variables beside those of the test's own environment.
            stdin: what it can read; None for nothing.
            timeout: in seconds.
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
    """Run the real command; as a process, but where a folder of tests has a quicker way."""
    return run_process
