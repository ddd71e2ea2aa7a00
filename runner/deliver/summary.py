"""What a run did, launch by launch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from runner.ledger.model import LaunchState
    from runner.service.model import SendReply


@dataclass(frozen=True, slots=True)
class Delivered:
    """One launch of a run, with its outcome."""

    key: str
    message: str
    outcome: LaunchState
    recipients: int
    project_launch_guid: str | None
    detail: str | None


@dataclass(slots=True)
class DeliverySummary:
    """What a run did with one campaign.

    Attributes:
        launches: every launch that has an outcome.
        final_reply: the answer that ended the run, if one did: every further send would get it too.
    """

    launches: list[Delivered] = field(default_factory=list)
    final_reply: SendReply | None = None

    def settle(self, adopted: Mapping[str, str], released: Collection[str]) -> None:
        """Take note of what settling has found out about launches of unknown outcome.

        Args:
            adopted: the service's guid by the key of a launch that was sent after all.
            released: keys of launches that were not sent.
        """
        for index, launch in enumerate(self.launches):
            if launch.outcome == "unknown" and launch.key in adopted:
                guid = adopted[launch.key]
                self.launches[index] = replace(launch, outcome="sent", project_launch_guid=guid, detail=None)
            elif launch.outcome == "unknown" and launch.key in released:
                self.launches[index] = replace(launch, outcome="not_sent")

    def dispute(self, guids: Collection[str]) -> None:
        """Take note that the service has given a guid twice: what became of the first launch is not known."""
        for index, launch in enumerate(self.launches if guids else ()):
            if launch.project_launch_guid in guids:
                self.launches[index] = replace(launch, outcome="unknown", project_launch_guid=None)

    def forget(self, keys: Collection[str]) -> None:
        """Drop launches that are about to be sent once more."""
        self.launches = [launch for launch in self.launches if launch.key not in keys]

    def count(self, outcome: LaunchState) -> int:
        """Return the number of launches with an outcome."""
        return sum(launch.outcome == outcome for launch in self.launches)

    @property
    def recipients_sent(self) -> int:
        """The recipients of the launches that the service accepted."""
        return sum(launch.recipients for launch in self.launches if launch.outcome == "sent")
