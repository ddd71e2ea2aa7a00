"""A team with an account, an empty repository on GitHub, and an empty folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.sandbox.web.server import running_service
from tests.forge.github_server import running_github
from tests.gitops.forge import Environment, Forge
from tests.gitops.team import Team, git
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    (tmp_path / "machines").mkdir()
    with running_service(tmp_path / "service.sqlite") as service, running_github() as github:
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
            environment={"GITHUB_API_URL": github.url, "GIT_CONFIG_NOSYSTEM": "1"},
            requests=github.requests,
        )
        credentials = f"username={service.username}&api_key={service.api_key}"
        yield Team(tmp_path, forge, github, service.url, credentials)
