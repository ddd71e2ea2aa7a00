"""A campaign, with the ledger and the service that know its launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.ledger.fingerprint import launch_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.locks.campaign_lock import CampaignLock
    from runner.service.client import ServiceClient


@dataclass(frozen=True, slots=True)
class CampaignRef:
    """One campaign on one target, by its number and name in the ledger."""

    ledger: Ledger
    target: str
    campaign_id: int
    campaign: str
    key: TargetKey

    def fingerprint(self, phone: str) -> str:
        """Return the fingerprint of a recipient of the campaign; the phone is E.164."""
        return self.key.fingerprint(phone)

    def name_launch(self, message: str, payload_digest: str, fingerprints: Iterable[str]) -> str:
        """Return the key of a launch of the campaign."""
        return launch_key(self.campaign, message, payload_digest, fingerprints)


@dataclass(frozen=True, slots=True)
class ListedCampaign(CampaignRef):
    """A campaign whose launches the service lists.

    `now` returns UTC, ISO 8601. No recipient is released without `lock`. The embedded sandbox lists launches
    at once.
    """

    client: ServiceClient
    now: Callable[[], str]
    lock: CampaignLock
    is_embedded: bool = False
