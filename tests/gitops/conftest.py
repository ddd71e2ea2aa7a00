"""A team with an account, an empty repository on GitHub, and an empty folder."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from runner.sandbox.web.server import running_service
from tests.forge.github_server import running_github
from tests.gitops.forge import Environment, Forge
from tests.gitops.machine import PATH
from tests.gitops.team import HeldSends, Team, git
from tests.gitops.warm import running_warm_runner
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def warm_runner() -> Iterator[Path]:
    """A folder for PATH with a `runner` that has started already."""
    # A path of pytest's may be longer than a socket's may be.
    with TemporaryDirectory() as folder, running_warm_runner(Path(folder)) as found:
        yield found


@pytest.fixture
def team(tmp_path: Path, warm_runner: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    (tmp_path / "machines").mkdir()
    sends = HeldSends()
    with running_service(tmp_path / "service.sqlite", faults=sends) as service, running_github() as github:
        secrets = {
            "RUNNER_USERNAME": service.username,
            "RUNNER_API_KEY": service.api_key,
            "RUNNER_STATE_KEY": STATE_KEY,
        }
        forge = Forge(
            remote,
            tmp_path / "machines",
            {
                "campaigns": Environment(secrets, branch="main"),
                "campaigns-approval": Environment(has_reviewers=True),
            },
            environment={
                "GITHUB_API_URL": github.url,
                "GIT_CONFIG_NOSYSTEM": "1",
                "PATH": f"{warm_runner}:{PATH}",
            },
            requests=github.requests,
        )
        credentials = f"username={service.username}&api_key={service.api_key}"
        yield Team(tmp_path, forge, github, service.url, credentials, sends)
