"""A worker's variables as tasks see them: its own, or those of one profile, and nothing of another."""

from __future__ import annotations

import pickle
import socket
from typing import TYPE_CHECKING

import pytest

from runner.cluster.worker_environment import OWN, WorkerEnvironment, parse_profile
from runner.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

ACME = WorkerEnvironment("acme")


def test_a_profile_takes_nothing_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that the profile lacks is missing, whatever the worker or another profile has."""
    for name in ("RUNNER_LEDGER", "RUNNER_API_KEY", "RUNNER_PROFILE_OTHER_API_KEY"):
        monkeypatch.setenv(name, "not ours")
    monkeypatch.setenv("RUNNER_PROFILE_ACME_LEDGER", "ours")
    assert (ACME.get("RUNNER_LEDGER"), ACME.get("RUNNER_API_KEY")) == ("ours", None)
    assert ACME.get("RUNNER_PROFILE_OTHER_API_KEY") is None


def test_the_variables_of_a_target_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `targets.yaml` names is found by that name, without RUNNER_ at its beginning."""
    monkeypatch.setenv("RUNNER_PROFILE_ACME_US_API_KEY", "key")
    monkeypatch.setenv("RUNNER_PROFILE_ACME_SMS_KEY", "listed")
    assert (ACME.get("RUNNER_US_API_KEY"), ACME.get("SMS_KEY")) == ("key", "listed")


def test_without_a_profile_none_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository cannot have the key of a profile sent to its own service by naming the variable."""
    monkeypatch.setenv("RUNNER_PROFILE_ACME_API_KEY", "key")
    monkeypatch.setenv("RUNNER_API_KEY", "own")
    assert (OWN.get("RUNNER_PROFILE_ACME_API_KEY"), OWN.get("RUNNER_API_KEY")) == (None, "own")


def test_the_machines_authorities_need_no_repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where certificates are is no secret: a profile has its own, or the machine's."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ca.pem")
    assert ACME.get("REQUESTS_CA_BUNDLE") == "/etc/ca.pem"
    monkeypatch.setenv("RUNNER_PROFILE_ACME_REQUESTS_CA_BUNDLE", "/etc/acme.pem")
    assert ACME.get("REQUESTS_CA_BUNDLE") == "/etc/acme.pem"


@pytest.mark.parametrize(("one", "other"), [("acme", "acme_us"), ("acme_us", "acme")])
def test_names_that_run_into_each_other_are_refused(
    monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    """RUNNER_PROFILE_ACME_US_API_KEY could be of `acme_us`, or of a target of `acme`: nobody gets it."""
    for name in (one, other):
        monkeypatch.setenv(f"RUNNER_PROFILE_{name.upper()}_LEDGER", name)
    monkeypatch.setenv("RUNNER_PROFILE_ACME_US_API_KEY", "key")
    with pytest.raises(ConfigurationError) as caught:
        WorkerEnvironment(one).get("RUNNER_US_API_KEY")
    assert caught.value.message == (
        f"a worker on {socket.gethostname()} has variables of the profiles {one} and {other}: which of them are "
        "whose cannot be told"
    )


def test_files_are_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One file a variable, as secrets are mounted, by links too; variables of the same profile are nothing then."""
    monkeypatch.setenv("RUNNER_PROFILE_DIR", str(tmp_path))
    monkeypatch.setenv("RUNNER_PROFILE_ACME_API_KEY", "variable")
    (tmp_path / "acme").mkdir()
    data = tmp_path / "..data"
    data.write_text("postgresql://acme\n")
    data.chmod(0o400)
    (tmp_path / "acme/RUNNER_LEDGER").symlink_to(data)
    assert (ACME.get("RUNNER_LEDGER"), ACME.get("RUNNER_API_KEY")) == ("postgresql://acme", None)
    assert ACME.get("../..data") is None
    data.chmod(0o600)
    data.write_text("postgresql://moved\n")
    assert ACME.get("RUNNER_LEDGER") == "postgresql://moved"
    monkeypatch.setenv("RUNNER_PROFILE_OTHER_API_KEY", "variable")
    assert WorkerEnvironment("other").get("RUNNER_API_KEY") == "variable"


def test_a_file_that_others_can_read_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A secret that everybody on the worker's machine can read is none; it is said, never shown."""
    monkeypatch.setenv("RUNNER_PROFILE_DIR", str(tmp_path))
    (tmp_path / "acme").mkdir()
    file = tmp_path / "acme/RUNNER_API_KEY"
    file.write_text("s3cret")
    file.chmod(0o644)
    with pytest.raises(ConfigurationError) as caught:
        ACME.get("RUNNER_API_KEY")
    assert caught.value.message == (
        f"the file {file} on {socket.gethostname()} has a secret that everybody on the machine can read"
    )


def test_an_order_carries_the_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What travels with a task has no value."""
    monkeypatch.setenv("RUNNER_PROFILE_ACME_API_KEY", "s3cret")
    assert ACME.get("RUNNER_API_KEY") == "s3cret"
    assert b"s3cret" not in pickle.dumps(ACME)


@pytest.mark.parametrize("text", ["", "a-b", "a/b", "..", "ä", "x" * 51, "a\n"])
def test_what_is_no_name_is_refused(text: str) -> None:
    """A name becomes a part of variables and of a path."""
    with pytest.raises(UsageError) as caught:
        parse_profile(text)
    assert caught.value.message == f"{text!r} is no name of a profile"


def test_case_makes_no_difference() -> None:
    """Variables are in capitals, so `Acme` and `acme` are one."""
    assert parse_profile("Acme_2") == "acme_2"
