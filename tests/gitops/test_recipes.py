"""The recipes for GitLab and for cron: what stands in the docs is run here, as it stands there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from runner.sandbox.web.server import running_service
from tests.cli.inside import run_inside
from tests.gitops.machine import PATH
from tests.keys import STATE_KEY
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
CAMPAIGN = """\
version: 1
name: coffee
recipients:
  - csv: guests.csv
messages:
  - {id: taste, text: "Hi {{ name }}, try our new coffee! Reply STOP to opt out."}
"""


def read_recipe(page: str, name: str) -> str:
    text = (HOW_TO / page).read_text(encoding="utf-8")
    found = re.search(rf'^```\w+ title="{re.escape(name)}"\n(.*?)^```$', text, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def environment(
    tmp_path: Path, warm_runner: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """A machine whose credentials are for a service that is run beside it."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Ada\n\temail = ada@example.com\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    with running_service(tmp_path / "service.sqlite") as service:
        yield {
            "PATH": f"{warm_runner}:{PATH}",
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": str(settings),
            "RUNNER_USERNAME": service.username,
            "RUNNER_API_KEY": service.api_key,
            "RUNNER_STATE_KEY": STATE_KEY,
            "RUNNER_SETTLE_WINDOW": "1s",
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
    for name in ("first-order.yaml", "tests/first-order.yaml"):
        (clone / "campaigns" / name).unlink()
    (clone / "campaigns/coffee.yaml").write_text(CAMPAIGN, encoding="utf-8")
    for rows in ("Ada,+14155550101\n", "Ada,+14155550101\nBob,+14155550102\n"):
        (clone / "campaigns/guests.csv").write_text(f"name,phone\n{rows}", encoding="utf-8")
        git(clone, "add", "--all")
        git(clone, "commit", "--quiet", "--message", "Ask them in")
    git(clone, "push", "--quiet", "--set-upstream", "origin", "main")
    return clone


def run_script(lines: list[str], cwd: Path, environment: dict[str, str], *, code: int = 0) -> str:
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
    assert done.returncode == code, done.stdout
    return done.stdout


class GitLab:
    """A project, and what its pipelines' jobs run; each in a new clone that is on no branch.

    Args:
        folder: where clones are made.
        remote: the project's repository.
        environment: what jobs are given.
    """

    def __init__(self, folder: Path, remote: str, environment: dict[str, str]) -> None:
        self._folder, self._remote = folder, remote
        self._recipe: dict[str, Any] = yaml.safe_load(read_recipe("gitlab.md", ".gitlab-ci.yml"))
        self._environment = environment | {
            "CI_DEFAULT_BRANCH": "main",
            "CI_COMMIT_BRANCH": "main",
            "CI_JOB_URL": "https://gitlab.example/acme/texts/-/jobs/9",
            "GITLAB_USER_LOGIN": "ada",
        }
        self._artifacts: dict[str, bytes] = {}

    def run(self, name: str, *, code: int = 0, ref: str = "main") -> str:
        """Run a job, with the files of the job that it needs, and return what it wrote."""
        job = self._recipe[name]
        job = {**self._recipe.get(job.get("extends"), {}), **job}
        clone = self._folder / f"clone-{len(list(self._folder.iterdir()))}"
        git(self._folder, "clone", "--quiet", self._remote, str(clone))
        git(clone, "checkout", "--quiet", "--detach", ref)
        for file, content in self._artifacts.items() if "needs" in job else ():
            (clone / file).parent.mkdir(parents=True, exist_ok=True)
            (clone / file).write_bytes(content)
        first, second, *before = job.get("before_script", self._recipe["default"]["before_script"])
        # These are run for real in test_installing.py.
        assert first == "pip install --require-hashes --only-binary :all: -r .github/requirements.lock"
        assert second == "pip install --no-deps --no-build-isolation -r .github/requirements.txt"
        variables = self._environment if "variables" in job else self._without_secrets()
        given = variables | job.get("variables", {})
        output = run_script([*before, *job["script"]], clone, given, code=code)
        for line in job.get("after_script", []):
            run_script([line], clone, given)
        for folder in (clone / path for path in job.get("artifacts", {}).get("paths", [])):
            files = [path for path in folder.rglob("*") if path.is_file()]
            self._artifacts = {path.relative_to(clone).as_posix(): path.read_bytes() for path in files}
        return output

    def _without_secrets(self) -> dict[str, str]:
        """Return what a merge request's job has: protected variables are for protected branches."""
        secrets = {"RUNNER_USERNAME", "RUNNER_API_KEY", "RUNNER_STATE_KEY"}
        kept = {name: value for name, value in self._environment.items() if name not in secrets}
        return kept | {"CI_MERGE_REQUEST_IID": "7", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}


def test_the_recipe_for_gitlab_sends_the_plan_that_somebody_has_approved(
    clone: Path, environment: dict[str, str]
) -> None:
    """Also when an old job is run again, which checks out its own commit, without a branch.

    A merge request can be reviewed before and after: its job lacks the key that the record is made with.
    """
    leave_free_ref(clone)
    gitlab = GitLab(clone.parent, git(clone, "remote", "get-url", "origin"), environment)
    reviewed = gitlab.run("review")
    assert "**1 campaign · 2 people to text · " in reviewed

    planned = gitlab.run("send", code=5, ref="main~1")
    assert "coffee is not approved: nothing was approved yet" in planned
    sent = gitlab.run("approve")
    assert "coffee: 2 people texted." in sent
    recorded = git(clone.parent / "remote.git", "log", "-1", "--format=%B", "main")
    assert {"Run: https://gitlab.example/acme/texts/-/jobs/9", "Triggered-By: ada"} <= {
        *recorded.splitlines()
    }
    assert "\nNothing to send.\n" in gitlab.run("send")
    assert "**1 campaign · 0 texts to send · 0 errors**" in gitlab.run("review")


def test_the_recipe_for_cron_sends_what_somebody_has_approved(
    clone: Path, environment: dict[str, str]
) -> None:
    """The script ends as `apply` does: with 5 as long as nobody has approved the plan."""
    script = read_recipe("cron.md", "send.sh").splitlines()
    environment["RUNNER_TARGET"] = "live"
    planned = run_script(script, clone, environment, code=5)
    assert "coffee is not approved: nothing was approved yet" in planned
    run_script(["runner ci approve --plan .runner/ci/plan/plan.json --by ada"], clone, environment)
    sent = run_script(script, clone, environment)
    assert "coffee: 2 people texted." in sent
    assert git(clone, "log", "-1", "--format=%s", "origin/main") == "Record 2 texts of coffee on live"
    assert git(clone, "status", "--porcelain") == ""


@pytest.mark.parametrize("fault", ["a rewritten main", "a file in the way", "no remote"])
def test_cron_sends_nothing_from_old_files(clone: Path, environment: dict[str, str], fault: str) -> None:
    """When the pull fails, the script ends with an error before anything is planned."""
    remote, other = clone.parent / "remote.git", clone.parent / "other"
    git(clone.parent, "clone", "--quiet", str(remote), str(other))
    (other / "campaigns/notes.txt").write_text("new", encoding="utf-8")
    git(other, "add", "--all")
    amend = ["--amend"] if fault == "a rewritten main" else []
    git(other, "-c", "user.email=b@example.com", "commit", *amend, "--quiet", "--message", "Notes")
    git(other, "push", "--quiet", "--force")
    if fault == "a file in the way":
        (clone / "campaigns/notes.txt").write_text("mine", encoding="utf-8")
    elif fault == "no remote":
        remote.rename(clone.parent / "away.git")
    environment["RUNNER_TARGET"] = "live"
    said = run_script([f"sh -c '{read_script()}'"], clone, environment, code=1)
    assert "To send" not in said
    assert not list((clone / "campaigns").glob("*.lock.json"))


def test_cron_hears_a_pause_that_main_does_not_have(clone: Path, environment: dict[str, str]) -> None:
    """Where main is protected, it is on the state remote; the plan knows it, and the exit code says so."""
    environment |= {"RUNNER_TARGET": "live", "RUNNER_STATE_REMOTE": "origin"}
    leave_free_ref(clone)
    run_script(read_recipe("cron.md", "send.sh").splitlines(), clone, environment, code=5)
    run_script(
        ["runner ci approve --plan .runner/ci/plan/plan.json --by ada", "runner ci record"],
        clone,
        environment,
    )
    hook = clone.parent / "remote.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\nwhile read o n ref; do [ $ref = refs/heads/main ] && exit 1; done; exit 0\n")
    hook.chmod(0o755)
    other = clone.parent / "other"
    git(clone.parent, "clone", "--quiet", str(clone.parent / "remote.git"), str(other))
    run_script(["runner pause coffee --reason wrong", "runner ci record"], other, environment)
    for _ in range(2):
        said = run_script([f"sh -c '{read_script()}'"], clone, environment, code=7)
        assert "texted" not in said
        assert "coffee is paused since" in said


def read_script() -> str:
    """Return the script for cron with its own exit code, whatever the shell around it does."""
    script = read_recipe("cron.md", "send.sh")
    assert "'" not in script
    return script
