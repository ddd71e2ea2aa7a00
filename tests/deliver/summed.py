"""A delivery of launches that no run is named for, with what the ledger tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.delivery.campaign_ref import CampaignRef
from runner.delivery.delivery_summary import DeliverySummary
from runner.delivery.run import Delivery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from runner.ledger.database import Ledger
    from runner.plan.model import PlannedLaunch


@dataclass(slots=True)
class SummedDelivery:
    """A delivery, and the summary that a run would make of it.

    Attributes:
        ledger: where it is recorded.
        campaign_id: the ledger's number of the campaign.
        summed: what comes of it.
        delivery: sends.
    """

    ledger: Ledger
    campaign_id: int
    summed: DeliverySummary
    delivery: Delivery

    @classmethod
    def make(cls, **given: Any) -> SummedDelivery:
        """Return a delivery with these arguments."""
        summed = DeliverySummary()
        names = ("ledger", "target", "campaign_id", "campaign", "key")
        ref = CampaignRef(*(given.pop(name) for name in names))
        return cls(ref.ledger, ref.campaign_id, summed, Delivery(campaign=ref, report=summed, **given))

    def run(self, launches: Iterator[PlannedLaunch]) -> None:
        """Send launches."""
        self.delivery.run(launches)

    @property
    def summary(self) -> DeliverySummary:
        """What came of all launches."""
        self.summed.list_launches(self.ledger, self.campaign_id, None)
        return self.summed

    @property
    def unclear(self) -> list[PlannedLaunch]:
        """The launches of unknown outcome."""
        return list(self.delivery.unclear.values())
