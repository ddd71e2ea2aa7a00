"""A ledger in a real file, and values to put into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.ledger.database import Ledger
from runner.ledger.deliveries import add_intents, enter_campaign, record_outcomes
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.model import Intent, LaunchRecord, Outcome
from runner.ledger.record import Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.ledger.model import LaunchState

SALT = "0123456789abcdef" * 2
KEY = FingerprintKey.from_salt(SALT)
AT = "2026-11-20T12:00:00.000000Z"


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    """Where the ledger is."""
    return f"sqlite:///{tmp_path / '.runner' / 'ledger.sqlite'}"


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """An open ledger with its tables."""
    with Ledger(ledger_url) as opened:
        opened.prepare()
        yield opened


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    """The campaign `pulse` on the target `live`."""
    return Identity("pulse", tmp_path / "pulse.yaml", "live")


@pytest.fixture
def make_record() -> Callable[..., LaunchRecord]:
    """Make an accepted launch of the phones with these numbers; its key and guid grow from `name`."""

    def make(name: str, *numbers: int, message: str = "ask") -> LaunchRecord:
        recipients = (KEY.fingerprint("pulse", f"+1415555{number:04}") for number in numbers)
        return LaunchRecord(
            message, f"key-{name}", "pulse-2026", "d1g35t", f"guid-{name}", AT, tuple(sorted(recipients))
        )

    return make


@pytest.fixture
def deliver(ledger: Ledger) -> Callable[..., list[int]]:
    """Enter launches into the ledger, each with an outcome; return their numbers."""

    def enter(*records: LaunchRecord, state: LaunchState = "sent") -> list[int]:
        with ledger.writing() as connection:
            campaign_id = enter_campaign(connection, "live", "pulse", KEY)
            intents = [
                Intent(r.message, r.key, r.tag, r.payload_digest, '{"text": "Hello"}', r.recipients)
                for r in records
            ]
            ids = add_intents(connection, campaign_id, intents, AT)
            outcomes = [
                Outcome(launch_id, state, AT, record.project_launch_guid if state == "sent" else None)
                for launch_id, record in zip(ids, records, strict=True)
            ]
            record_outcomes(connection, outcomes if state != "intent" else [])
        return ids

    return enter
