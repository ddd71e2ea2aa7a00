"""`runner ledger copy`: sending goes on in another database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


def sent_by(run: Run, folder: Path, **env: str) -> int:
    """Return how many launches an `apply` has sent."""
    applied = run("apply", "--auto-approve", "--format", "json", cwd=folder, env=env)
    assert applied.returncode == 0, applied.stderr
    return int(json.loads(applied.stdout)["campaigns"][0]["sent"])


def move_away(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    for file in (folder / ".runner").glob("ledger.sqlite*"):
        file.rename(folder / name / file.name)


@pytest.mark.slow
def test_sending_goes_on_with_the_copy(
    folder: Path, run: Run, check_json: Callable[[str, str], dict[str, Any]], postgres_ledger: str
) -> None:
    """A copy on a server alone knows who was texted, then its copy in a file: nobody is texted again."""
    lockfile = folder / "campaigns/pulse.sandbox.lock.json"
    assert sent_by(run, folder) == 4
    move_away(folder, "old")
    lockfile.unlink()
    command = ("ledger", "copy", "--from", "sqlite:///old/ledger.sqlite")
    copied = run(*command, "--format", "json", cwd=folder, env={"RUNNER_LEDGER": postgres_ledger})
    document = check_json(copied.stdout, "ledger")
    assert (document["source"], document["rows"]["deliveries"]) == ("sqlite:///old/ledger.sqlite", 4)
    assert ":s3cret@" not in copied.stdout
    assert sent_by(run, folder, RUNNER_LEDGER=postgres_ledger) == 0
    with (folder / "campaigns/audience/people.csv").open("a", encoding="utf-8") as people:
        people.write("Fay,4155550106\n")
    assert sent_by(run, folder, RUNNER_LEDGER=postgres_ledger) == 1
    lockfile.unlink()
    back = run("ledger", "copy", "--from", postgres_ledger, cwd=folder)
    assert back.stdout.endswith(": 1 campaign, 5 launches, 5 deliveries, 0 results.\n")
    assert sent_by(run, folder) == 0
    again = run("ledger", "copy", "--from", postgres_ledger, cwd=folder)
    assert again.returncode == 1
    assert again.stderr == (
        "Error: the ledger is not empty\n"
        "  a copy fills an empty ledger: name a new one with --ledger or RUNNER_LEDGER\n"
    )


def test_what_cannot_be_copied(folder: Path, run: Run, postgres_ledger: str) -> None:
    """A source that is missing, or no ledger, is named with --from; nothing is made."""
    (folder / "empty.sqlite").touch()
    (folder / "people.csv").write_text("phone\n" * 1000, encoding="utf-8")
    missing = postgres_ledger.replace("/test_", "/missing_")
    for source, said, hint in (
        ("sqlite:///none.sqlite", "there is no ledger sqlite:///none.sqlite", "check --from"),
        ("sqlite:///empty.sqlite", "there is no ledger sqlite:///empty.sqlite", "check --from"),
        ("sqlite:///people.csv", "file is not a database", "move it away"),
        (missing, "does not exist", "check that the server runs"),
        ("none.sqlite", "the ledger's URL is not one that can be used here", "as in sqlite:///"),
    ):
        done = run("ledger", "copy", "--from", source, cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        message, remedy = done.stderr.splitlines()
        assert said in message
        assert remedy.strip().startswith(hint)
        assert not (folder / ".runner").exists()
        assert not (folder / "none.sqlite").exists()


def test_a_password_with_an_at_sign_is_not_printed(folder: Path, run: Run) -> None:
    """Nothing of the URL is said where the end of its password cannot be told."""
    for command in (("plan", "-v"), ("apply", "--auto-approve")):
        done = run(*command, cwd=folder, env={"RUNNER_LEDGER": "postgresql://ada:s3@cret@127.0.0.1:9/ledger"})
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "Error: the ledger's URL has more than one `@`, so the end of its password is unclear\n"
            "  write %40 for an `@` in the user's name or the password, in --ledger or RUNNER_LEDGER\n"
        )
