"""Which campaign's launches the service is asked about, and where what it says is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.ledger.fingerprint import launch_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.run_lock import RunLock
    from runner.service.client import ServiceClient


@dataclass(frozen=True, slots=True)
class Subject:
    """One campaign on one target, with the two that know of its launches.

    Attributes:
        ledger: where what is found out goes.
        client: the service.
        target: the target's name.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: the key of its fingerprints.
        now: returns UTC, ISO 8601.
        lock: the campaign's: nobody is set free without it.
        is_embedded: whether the service is the embedded sandbox, which lists what it has at once.
    """

    ledger: Ledger
    client: ServiceClient
    target: str
    campaign_id: int
    campaign: str
    key: FingerprintKey
    now: Callable[[], str]
    lock: RunLock
    is_embedded: bool = False

    def fingerprint(self, phone: str) -> str:
        """Return the fingerprint of a recipient of the campaign; the phone is E.164."""
        return self.key.fingerprint(self.campaign, phone)

    def name_launch(self, message: str, payload_digest: str, fingerprints: Iterable[str]) -> str:
        """Return the key of a launch of the campaign."""
        return launch_key(self.key.lasting_name(self.campaign), message, payload_digest, fingerprints)
