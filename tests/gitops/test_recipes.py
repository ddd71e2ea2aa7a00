"""The README's recipes for GitLab and for cron: what stands there is run here, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from runner.sandbox.web.server import running_service
from tests.cli.inside import run_inside
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Iterator

README = (Path(__file__).parent.parent.parent / "README.md").read_text(encoding="utf-8")
CAMPAIGN = """\
version: 1
name: coffee
recipients:
  - csv: guests.csv
messages:
  - {id: taste, text: "Hi {{ name }}, try our new coffee! Reply STOP to opt out."}
"""


def read_recipe(name: str) -> str:
    found = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A machine whose credentials are for a service that is run beside it."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    with running_service(tmp_path / "service.sqlite") as service:
        yield {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": str(settings),
            "RUNNER_USERNAME": service.username,
            "RUNNER_API_KEY": service.api_key,
            "URL": service.url,
        }


@pytest.fixture
def clone(tmp_path: Path, environment: dict[str, str]) -> Path:
    """A clone on main, whose remote has one commit more than its parent: one guest, then two."""
    remote, clone = tmp_path / "remote.git", tmp_path / "clone"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    assert run_inside("init", "clone", "--base-url", environment["URL"], cwd=tmp_path).returncode == 0
    git(clone, "remote", "add", "origin", f"file://{remote}")
    git(clone, "config", "user.name", "Ada")
    (clone / "campaigns/first-order.yaml").unlink()
    (clone / "campaigns/coffee.yaml").write_text(CAMPAIGN, encoding="utf-8")
    for rows in ("Ada,+14155550101\n", "Ada,+14155550101\nBob,+14155550102\n"):
        (clone / "campaigns/guests.csv").write_text(f"name,phone\n{rows}", encoding="utf-8")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "--message", "Ask them in")
    git(clone, "push", "--quiet", "--set-upstream", "origin", "main")
    return clone


def run_script(lines: list[str], cwd: Path, environment: dict[str, str]) -> str:
    """Run a script as GitLab does: the shell ends at the first line that fails."""
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
        cwd=cwd,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_recipe_for_gitlab_sends_the_tip_and_records_it(clone: Path, environment: dict[str, str]) -> None:
    """Also when an old job is run again, which checks out its own commit, without a branch."""
    recipe: dict[str, Any] = yaml.safe_load(read_recipe(".gitlab-ci.yml"))
    # That is run for real in test_installing.py.
    assert recipe["default"]["before_script"] == [
        "pip install --require-hashes --only-binary :all: -r .github/requirements.lock",
        "pip install --no-deps --no-build-isolation -r .github/requirements.txt",
    ]
    leave_free_ref(clone)
    git(clone, "checkout", "--quiet", "--detach", "main~1")
    environment |= {
        "CI_DEFAULT_BRANCH": "main",
        "CI_COMMIT_BRANCH": "main",
        "CI_JOB_URL": "https://gitlab.example/acme/texts/-/jobs/9",
        "GITLAB_USER_LOGIN": "ada",
    }
    reviewed = run_script(recipe["review"]["script"], clone, environment)
    assert "Valid: 1 campaign" in reviewed
    send = recipe["send"]
    environment |= send["variables"]
    sent = run_script(send["script"], clone, environment)
    assert "coffee: 2 recipients texted in 2 launches." in sent
    run_script(send["after_script"], clone, environment)
    assert git(clone, "log", "-1", "--format=%B", "origin/main").splitlines()[-2:] == [
        "Run: https://gitlab.example/acme/texts/-/jobs/9",
        "Triggered-By: ada",
    ]
    assert all((clone / path).exists() for path in send["artifacts"]["paths"])


def test_the_recipe_for_cron_sends_and_records(clone: Path, environment: dict[str, str]) -> None:
    """The script ends as `apply` does."""
    environment["RUNNER_TARGET"] = "live"
    sent = run_script(read_recipe("send.sh").splitlines(), clone, environment)
    assert "coffee: 2 recipients texted in 2 launches." in sent
    assert git(clone, "log", "-1", "--format=%s", "origin/main") == "Record 2 texts of coffee on live"
    assert git(clone, "status", "--porcelain") == ""
