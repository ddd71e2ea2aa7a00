"""One cluster for two teams: each run has its own ledger, service, API key and state key."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.cluster.schedulers import DaskScheduler, free_port
from tests.deliver.conftest import FaultyService
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres import PostgresServer

_COUNT = 24


@dataclass(slots=True)
class Team:
    """A team with a repository, a ledger and an account of its own."""

    name: str
    folder: Path
    database: str
    secrets: dict[str, str]
    service: FaultyService = field(default_factory=FaultyService)

    def write_campaign(self, first: int) -> None:
        """Write a campaign to phones from a number on."""
        people = "".join(
            f"  - {{phone: '+1415555{number:04}', vars: {{name: P{number}}}}}\n"
            for number in range(first, first + _COUNT)
        )
        file = self.folder / "campaigns" / "pulse.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(
            f"version: 1\nname: pulse\ntag: pulse-{self.name}\nrecipients:\n{people}"
            "messages:\n  - {id: ask, text: 'Hello {{ name }}'}\n",
            encoding="utf-8",
        )

    def start(self, cluster: str, *command: str, **changes: str) -> subprocess.Popen[str]:
        """Start a command of this team on a cluster, with some variables changed."""
        variables = {
            **self.secrets,
            "RUNNER_BASE_URL": self.service.url,
            "RUNNER_CLUSTER": cluster,
            "RUNNER_PROFILE": self.name,
            "RUNNER_SETTLE_WINDOW": "0s",
            "PATH": "/usr/bin:/bin",
            **changes,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "runner", *command],
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end of a command; return its exit code, its output and its messages."""
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


@pytest.fixture
def teams(postgres: PostgresServer, tmp_path: Path) -> Iterator[tuple[Team, Team]]:
    """Two teams, each with a service that listens."""
    databases = [postgres.create_database() for _ in range(2)]
    made = tuple(
        Team(
            name,
            tmp_path / name,
            database,
            {
                "RUNNER_LEDGER": postgres.url(database),
                "RUNNER_USERNAME": f"{name}@example.com",
                "RUNNER_API_KEY": f"key of {name}",
                "RUNNER_STATE_KEY": state_key,
            },
        )
        for name, database, state_key in zip(
            ("north", "south"), databases, (STATE_KEY, OTHER_STATE_KEY), strict=True
        )
    )
    for first, team in zip((100, 500), made, strict=True):
        team.write_campaign(first)
        team.service.start()
    try:
        yield made[0], made[1]
    finally:
        for team in made:
            team.service.close()


@pytest.fixture
def cluster(teams: tuple[Team, Team], tmp_path: Path) -> Iterator[str]:
    """A scheduler with two workers that have the first team's profile in variables, the second one's in files."""
    north, south = teams
    folder = tmp_path / "profiles" / south.name
    folder.mkdir(parents=True)
    for name, value in south.secrets.items():
        (folder / name).write_text(value, encoding="utf-8")
        (folder / name).chmod(0o400)
    variables = {
        name.replace("RUNNER_", f"RUNNER_PROFILE_{north.name.upper()}_"): value
        for name, value in north.secrets.items()
    }
    with DaskScheduler(free_port()) as scheduler:
        for _ in range(2):
            scheduler.add_worker({**variables, "RUNNER_PROFILE_DIR": str(folder.parent)})
        scheduler.wait_for_workers()
        yield scheduler.address


@pytest.mark.slow
def test_one_cluster_serves_two_teams_at_once(teams: tuple[Team, Team], cluster: str) -> None:
    """Two clients plan at the same time, with the ledgers and keys of their own, and send to their own services."""
    runs = [team.start(cluster, "apply", "--auto-approve", "--quiet") for team in teams]
    assert [finish(run) for run in runs] == [
        (0, f"pulse: {_COUNT} recipients texted in {_COUNT} launches.\n", "")
    ] * 2
    for first, team in zip((100, 500), teams, strict=True):
        phones = [f"+1415555{number:04}" for number in range(first, first + _COUNT)]
        assert dict(team.service.accepted) == dict.fromkeys(phones, 1)
    done = [finish(run) for run in [team.start(cluster, "plan", "--detailed-exitcode") for team in teams]]
    assert [code for code, _, _ in done] == [0, 0], done


@pytest.mark.slow
def test_who_lacks_a_profiles_secrets_is_refused(teams: tuple[Team, Team], cluster: str) -> None:
    """Workers with another ledger in the profile, or without it, do nothing; the hint names where it belongs."""
    north, south = teams
    for team, profile, state in (
        (south, "north", "another RUNNER_LEDGER than this process in its profile north"),
        (south, "west", "no RUNNER_LEDGER in its profile west"),
        (north, "", "no RUNNER_LEDGER"),
    ):
        changes = {"RUNNER_PROFILE": profile}
        code, out, err = finish(team.start(cluster, "apply", "--auto-approve", **changes))
        said, hint = err.splitlines()[-2:]
        assert (code, out) == (1, "")
        assert said.startswith("Error: none of the cluster's workers is fit: the worker tcp://127.0.0.1:")
        assert said.endswith(f" has {state}")
        variable = f"RUNNER_PROFILE_{profile.upper()}_LEDGER, or the file {profile}/RUNNER_LEDGER"
        assert hint == (
            "  check --profile and RUNNER_PROFILE; if the name is right, give it the RUNNER_LEDGER of this process as "
            f"{variable} in its RUNNER_PROFILE_DIR"
            if profile
            else "  start it with the RUNNER_LEDGER of this process"
        )
    assert (north.service.requests, south.service.requests) == ([], [])
