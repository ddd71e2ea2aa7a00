"""What a task opens with its worker's own environment: nothing secret comes with its order."""

from __future__ import annotations

import pickle
import socket
from typing import TYPE_CHECKING

import pytest

from runner.cluster.worker_access import WorkerTarget, open_campaign_key, open_worker_ledger
from runner.errors import ConfigurationError, MissingKeyError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.record.deliveries import enter_campaign
from runner.service.target import Credentials, Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "correct horse battery staple"
TARGET = WorkerTarget(Target("live", "https://sms.example.com"), state_key="SURVEY_KEY")
SAME = "start all workers with the same one as the client; nobody was texted with another"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An open ledger with its tables."""
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as opened:
        opened.prepare()
        yield opened


def enter(ledger: Ledger, key: FingerprintKey) -> int:
    """Enter a campaign with a key; return its number."""
    with ledger.writing() as connection:
        return enter_campaign(connection, "live", "pulse", key)


def test_a_target_travels_without_its_secrets() -> None:
    """What tasks are given names the variables of credentials and key, and holds neither."""
    target = Target("live", "https://sms.example.com", Credentials("ada", "s3cret-api"), KEY)
    names = ("SMS_USER", "SMS_KEY", "SURVEY_KEY")
    packed = pickle.dumps(WorkerTarget.strip(target, names))
    assert not any(secret in packed for secret in (b"ada", b"s3cret-api", KEY.encode()))
    assert all(name.encode() in packed for name in names)


def test_the_key_is_the_workers_own(ledger: Ledger) -> None:
    """A campaign that was recorded with the user's secret is read with the one that the worker has."""
    campaign_id = enter(ledger, FingerprintKey.from_secret(KEY))
    key = open_campaign_key(ledger, campaign_id, TARGET, {"SURVEY_KEY": KEY})
    assert key == FingerprintKey.from_secret(KEY)


def test_a_salt_is_the_ledgers(ledger: Ledger) -> None:
    """A campaign that was recorded with a salt needs no key, whatever the worker has."""
    campaign_id = enter(ledger, FingerprintKey.from_salt("0123456789abcdef"))
    key = open_campaign_key(ledger, campaign_id, TARGET, {"SURVEY_KEY": KEY})
    assert key == FingerprintKey.from_salt("0123456789abcdef")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SURVEY_KEY": "another"}, "another SURVEY_KEY than the record was written with"),
        ({"RUNNER_STATE_KEY": KEY}, "no SURVEY_KEY"),
    ],
)
def test_a_wrong_key_on_a_worker_sends_nothing(
    ledger: Ledger, environment: dict[str, str], words: str
) -> None:
    """With another key everyone would look new: the task ends before it looks anybody up."""
    campaign_id = enter(ledger, FingerprintKey.from_secret(KEY))
    with pytest.raises(MissingKeyError) as caught:
        open_campaign_key(ledger, campaign_id, TARGET, environment)
    assert caught.value.message == f"a worker on {socket.gethostname()} has {words}"
    assert caught.value.hint == SAME


def test_a_worker_without_a_ledger_is_named() -> None:
    """A worker that joins without the client's variables says which one it lacks."""
    with pytest.raises(ConfigurationError) as caught, open_worker_ledger({}):
        pass
    assert caught.value.message == (
        f"a worker on {socket.gethostname()} has no RUNNER_LEDGER in its environment"
    )
    assert caught.value.hint == "start all workers with the variables that the client has"
