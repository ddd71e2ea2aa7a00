"""Targets whose names change: opt-outs and deliveries are known by the name, so a new one beside a lost one is held."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.deliver.test_renamed import change, lose_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.deliver.conftest import Applied, FaultyService, Repository

PEOPLE = 3


@pytest.fixture
def targets(
    repository: Repository, faulty: FaultyService, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Write targets.yaml: a name with its keys each; the address is the service's."""
    monkeypatch.delenv("RUNNER_BASE_URL")

    def write(**entries: str) -> None:
        repository.folder.joinpath("campaigns").mkdir(exist_ok=True)
        lines = [
            f"  {name}:\n    base_url: {faulty.url}\n    limits: {{settle_window: 1ms}}\n{more}"
            for name, more in entries.items()
        ]
        text = f"version: 1\ndefault: {next(iter(entries))}\ntargets:\n{''.join(lines)}"
        (repository.folder / "campaigns/targets.yaml").write_text(text, encoding="utf-8")

    return write


def send(repository: Repository, targets: Callable[..., None]) -> None:
    """Send to three people of the target `eu`; one of them opts out."""
    targets(eu="")
    phones = repository.write_campaign(PEOPLE)
    applied = repository.apply()
    assert applied.code == 0, applied.err
    assert repository.run("optouts", "add", phones[0]).code == 0


def assert_held(applied: Applied, faulty: FaultyService) -> None:
    """Hold the service to one text each."""
    assert applied.code == 4, applied.err
    assert faulty.accepted.total() == PEOPLE


@pytest.mark.parametrize("is_lost", [False, True], ids=["ledger kept", "ledger lost"])
def test_a_renamed_target_is_held(
    repository: Repository, faulty: FaultyService, targets: Callable[..., None], *, is_lost: bool
) -> None:
    """Another name for the account, tag and text changed with it: nothing is sent until the name is back."""
    send(repository, targets)
    if is_lost:
        lose_ledger(repository)
    targets(west="")
    change(repository.campaign, "tag: pulse-2026", "tag: other")
    change(repository.campaign, "how are you", "how is it")
    applied = repository.apply()
    assert_held(applied, faulty)
    assert applied.err == (
        "Error: the target 'west' has no record, and there is one of 'eu', which targets.yaml does not define: "
        "if it is the same account, people who were texted or opted out under that name would be texted again. "
        "Nothing is sent\n"
        "  put the name 'eu' back in targets.yaml; if 'west' is another account, add `renamed_from: none` to its "
        "entry there\n"
    )
    targets(eu="")
    again = repository.apply()
    assert again.code == 0, again.err
    assert faulty.accepted.total() == PEOPLE


def test_what_is_settled_makes_no_record_of_a_renamed_target(
    repository: Repository, faulty: FaultyService, targets: Callable[..., None]
) -> None:
    """Launches found at the service would end the hold, and opt-outs are known by the other name alone."""
    send(repository, targets)
    targets(west="")
    for _ in range(2):
        assert_held(repository.run("apply", "--settle-only"), faulty)
        assert_held(repository.apply(), faulty)
    assert not list(repository.folder.rglob("*.west.lock.json"))


def test_opt_outs_alone_hold_a_new_target(
    repository: Repository, faulty: FaultyService, targets: Callable[..., None]
) -> None:
    """A file of suppressions of a target that is gone is enough."""
    send(repository, targets)
    lose_ledger(repository)
    (repository.folder / "campaigns/pulse.eu.lock.json").unlink()
    targets(west="")
    assert_held(repository.apply(), faulty)


def test_a_target_of_another_account_says_so(
    repository: Repository, faulty: FaultyService, targets: Callable[..., None]
) -> None:
    """A target that is `renamed_from: none` is sent to, though another one is gone."""
    send(repository, targets)
    targets(west="    renamed_from: none\n")
    faulty.launches.clear()
    applied = repository.apply()
    assert applied.code == 0, applied.err
    assert set(faulty.accepted.values()) == {2}


def test_a_second_target_is_sent_to_beside_the_first(
    repository: Repository,
    faulty: FaultyService,
    targets: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two targets that are both defined, with users of their own, either is sent to."""
    send(repository, targets)
    faulty.launches.clear()
    monkeypatch.setenv("RUNNER_WEST_USERNAME", "somebody@example.com")
    monkeypatch.setenv("RUNNER_WEST_API_KEY", os.environ["RUNNER_API_KEY"])
    targets(
        west="    username_env: RUNNER_WEST_USERNAME\n    api_key_env: RUNNER_WEST_API_KEY\n",
        eu="",
    )
    applied = repository.apply()
    assert applied.code == 0, applied.err
    assert set(faulty.accepted.values()) == {2}


def test_an_account_has_one_name(
    repository: Repository, faulty: FaultyService, targets: Callable[..., None]
) -> None:
    """Two targets with the same address and user are refused before anything is sent."""
    send(repository, targets)
    targets(west="", eu="")
    for command in (("plan",), ("apply", "--auto-approve"), ("apply", "--auto-approve", "--target", "eu")):
        applied = repository.run(*command)
        assert applied.code == 1
        assert "'west'" in applied.err
        assert "are one account" in applied.err
    assert faulty.accepted.total() == PEOPLE
    targets(eu="")
    assert repository.apply().code == 0


def test_live_is_gone_where_a_target_is_named(
    repository: Repository,
    faulty: FaultyService,
    targets: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was sent to `live`, by RUNNER_BASE_URL, holds a first target in targets.yaml."""
    monkeypatch.setenv("RUNNER_BASE_URL", faulty.url)
    repository.write_campaign(PEOPLE)
    assert repository.apply().code == 0
    monkeypatch.delenv("RUNNER_BASE_URL")
    targets(west="")
    assert_held(repository.apply(), faulty)
    targets(live="")
    assert repository.apply().code == 0
    assert faulty.accepted.total() == PEOPLE
