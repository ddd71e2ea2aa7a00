"""A campaign, with the ledger and the service that know its launches."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.fingerprint import launch_key
from runner.ledger.model import Intent

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.locks.campaign_lock import CampaignLock
    from runner.plan.model import PlannedLaunch
    from runner.service.client import ServiceClient


@dataclass(frozen=True, slots=True)
class CampaignRef:
    """One campaign on one target, by its number and name in the ledger, with its present wave, if any."""

    ledger: Ledger
    target: str
    campaign_id: int
    campaign: str
    key: TargetKey
    wave: str = field(default="", kw_only=True)

    def make_intent(self, launch: PlannedLaunch, run: str | None = None) -> Intent:
        """Return the intent of a planned launch, sent by `run`."""
        fingerprints = sorted(map(self.key.fingerprint, launch.phones))
        message, payload, occasion = launch.message, launch.payload, self.key.name_occasion(launch.occasion)
        digest = self.key.seal_payload(payload.digest)
        return Intent(
            message=message.id,
            occasion=occasion,
            key=launch_key(self.campaign, message.id, digest, fingerprints, occasion),
            tag=message.tag,
            payload_digest=digest,
            definition=json.dumps(payload.definition, ensure_ascii=False),
            recipients=tuple(fingerprints),
            arm=launch.arm,
            run=run,
        )


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
