"""A service on its own, as a live one would be: the target, its credentials, and where they go."""

from __future__ import annotations

import json
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    Serve = Callable[..., Any]


@pytest.mark.parametrize("missing", [["RUNNER_USERNAME", "RUNNER_API_KEY"], ["RUNNER_API_KEY"]])
def test_a_plan_needs_no_credentials(folder: Path, run: Run, missing: list[str]) -> None:
    """It is made from the record: the service gets no connection, and what it may know is said to be unknown."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        environment = {
            "RUNNER_BASE_URL": f"http://127.0.0.1:{listener.getsockname()[1]}",
            "RUNNER_USERNAME": "ada",
            "RUNNER_API_KEY": "secret",
            **dict.fromkeys(missing, ""),
        }
        planned = run("plan", "--out", "plan.json", cwd=folder, env=environment)
        assert planned.returncode == 0
        assert "To send to live: 4 people now, " in planned.stdout
        with pytest.raises(BlockingIOError):
            listener.accept()
    applied = run("apply", "--plan", "plan.json", cwd=folder, env=environment)
    assert applied.returncode == 1
    assert applied.stderr == (f"Error: the target 'live' has no credentials\n  set {' and '.join(missing)}\n")


def test_a_target_of_the_file_is_used_by_name(folder: Path, run: Run, serve: Serve) -> None:
    """`--target` takes a target of targets.yaml with its limits and its own credential variables."""
    with serve(folder, "--db", "service.sqlite") as environment:
        (folder / "campaigns/targets.yaml").write_text(
            "version: 1\n"
            "targets:\n"
            "  staging:\n"
            f"    base_url: {environment['RUNNER_BASE_URL']}\n"
            "    username_env: RUNNER_STAGING_USERNAME\n"
            "    api_key_env: STAGING_KEY\n"
            "    limits: {concurrency: 2, rate: 1000/s, recipients_per_send: 2}\n",
            encoding="utf-8",
        )
        own = {
            "RUNNER_STAGING_USERNAME": environment["RUNNER_USERNAME"],
            "STAGING_KEY": environment["RUNNER_API_KEY"],
            "RUNNER_CREDENTIAL_VARIABLES": "OTHER_KEY, STAGING_KEY",
            "RUNNER_SETTLE_WINDOW": environment["RUNNER_SETTLE_WINDOW"],
        }
        done = run("apply", "--target", "staging", "--auto-approve", "--format", "json", cwd=folder, env=own)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["campaigns"][0]["recipients_sent"] == 4
        assert (folder / "campaigns/pulse.staging.lock.json").is_file()
        by_variable = run("plan", "--detailed-exitcode", cwd=folder, env={**own, "RUNNER_TARGET": "staging"})
        assert by_variable.returncode == 0


def test_each_target_has_a_record_of_its_own(folder: Path, run: Run, serve: Serve) -> None:
    """Who was texted on the sandbox is still to be texted on a live target."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    with serve(folder, "--db", "service.sqlite") as environment:
        assert run("plan", "--detailed-exitcode", cwd=folder, env=environment).returncode == 2


def test_the_targets_yaml_that_counts_is_validated(folder: Path, run: Run) -> None:
    """Each is that holds: beside the campaigns, and in the default folder; one that is right is not mentioned."""
    (folder / "eu").mkdir()
    (folder / "eu/pulse.yaml").write_bytes((folder / "campaigns/pulse.yaml").read_bytes())
    (folder / "eu/audience").symlink_to(folder / "campaigns/audience")
    (folder / "eu/targets.yaml").write_text("version: 1\ntargets: {}\n", encoding="utf-8")
    assert run("validate", "eu", cwd=folder).stdout == "Valid: 1 campaign, 0 errors, 0 warnings.\n"
    (folder / "eu/targets.yaml").write_text("version: 1\ntargets: 3\n", encoding="utf-8")
    done = run("validate", "eu/pulse.yaml", cwd=folder)
    assert done.returncode == 1
    wrong = "targets.yaml:2:10: error: `targets` must be a mapping, not the number 3 "
    assert done.stdout.startswith(f"eu/{wrong}")
    for own in ("version: 1\ntargets: {}\n", None):
        (folder / "campaigns/targets.yaml").write_text("version: 1\ntargets: 3\n", encoding="utf-8")
        (folder / "eu/targets.yaml").unlink()
        if own is not None:
            (folder / "eu/targets.yaml").write_text(own, encoding="utf-8")
        done = run("validate", "eu", cwd=folder)
        assert done.stdout.startswith(f"campaigns/{wrong}")
        assert done.stdout.endswith("Invalid: 1 campaign, 1 error, 0 warnings.\n")


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["RUNNER_STATE_KEY", "GITHUB_TOKEN", "RUNNER_LEDGER", "HOME"])
def test_no_other_secret_is_sent_as_a_credential(
    folder: Path, run: Run, serve_process: Serve, variable: str
) -> None:
    """A target of a pull request that names another secret for its credential gets nothing."""
    with serve_process(folder, "--db", "service.sqlite") as environment:
        (folder / "campaigns/targets.yaml").write_text(
            f"version: 1\ntargets:\n  live:\n    base_url: {environment['RUNNER_BASE_URL']}\n"
            f"    api_key_env: {variable}\n",
            encoding="utf-8",
        )
        env = {"RUNNER_USERNAME": "jane-doe", "GITHUB_TOKEN": "s3cret", "RUNNER_STATE_KEY": "s3cret"}
        done = run("apply", "--target", "live", "--auto-approve", cwd=folder, env=env)
    assert done.returncode == 1
    is_known = variable != "HOME"
    words = (
        "names a variable that has no credential of the service: it is runner's own, or the platform's"
        if is_known
        else "names a variable that is not known to have a credential"
    )
    hint = (
        "keep the credential in a variable of its own, and name that"
        if is_known
        else "call it RUNNER_API_KEY or RUNNER_*_API_KEY, or list it in RUNNER_CREDENTIAL_VARIABLES outside of "
        "the repository"
    )
    assert done.stderr == (
        f"campaigns/targets.yaml:5:18: error: `targets.live.api_key_env` {words} [targets-variable]\n"
        f"    {hint}\nError: 1 error: nothing was done\n"
    )


def test_a_target_is_one_service_in_a_repository(folder: Path, run: Run) -> None:
    """Two folders that mean two services by one name would share opt-outs and the state ref: it is refused."""
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / ".github/workflows").mkdir(parents=True)
    workflow = '    defaults:\n      run:\n        working-directory: "eu"\n'
    (folder / ".github/workflows/campaigns-send-eu.yml").write_text(workflow, encoding="utf-8")
    for place, address in (("campaigns", "http://127.0.0.1:9"), ("eu/campaigns", "http://127.0.0.1:8/")):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "targets.yaml").write_text(
            f"version: 1\ntargets:\n  live: {{base_url: {address}}}\n", encoding="utf-8"
        )
    done = run("plan", "--target", "live", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: 'live' is http://127.0.0.1:9 in campaigns/targets.yaml, and http://127.0.0.1:8/ in "
        "eu/campaigns/targets.yaml\n"
        "  a repository has one record for a target's name: give one of the two another name\n"
    )


def test_an_address_that_contradicts_the_file_is_said(folder: Path, run: Run) -> None:
    """RUNNER_BASE_URL beats `targets.yaml`: with another address there it is said before anything is sent."""
    (folder / "campaigns/targets.yaml").write_text(
        "version: 1\ntargets:\n  eu: {base_url: http://127.0.0.1:9}\n", encoding="utf-8"
    )
    env = {"RUNNER_BASE_URL": "http://127.0.0.1:8"}
    assert run("plan", "--target", "eu", cwd=folder, env=env).stderr.endswith(
        "Warning: RUNNER_BASE_URL leads eu to http://127.0.0.1:8, and not to http://127.0.0.1:9, as in "
        "targets.yaml\n"
    )
