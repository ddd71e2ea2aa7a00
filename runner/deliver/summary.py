"""What a run did, launch by launch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from runner.ledger.model import LaunchState
    from runner.service.model import SendReply


TOO_LATE = "the hours in which it may be sent were over before its turn"
"""The detail of a launch that was not sent because of that."""


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
        deferred: recipients of launches whose hours were over before their turn: a later run sends them.
        opted_out: recipients who had opted out, or may have, since the plan was made.
        capped: recipients who had reached the frequency cap since.
        open_session: recipients to whom another campaign had sent a survey since.
        waiting: recipients whose message before was not sent, or nobody knows: a later run sends this one.
        final_reply: the answer that ended the run, if one did: every further send would get it too.
    """

    launches: list[Delivered] = field(default_factory=list)
    deferred: int = 0
    opted_out: int = 0
    capped: int = 0
    open_session: int = 0
    waiting: int = 0
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
        """Take note that the service has given a guid twice: what became of the first launch is not known.

        Args:
            guids: as `fold_guid` writes them.
        """
        for index, launch in enumerate(self.launches if guids else ()):
            if launch.project_launch_guid is not None and fold_guid(launch.project_launch_guid) in guids:
                self.launches[index] = replace(launch, outcome="unknown", project_launch_guid=None)

    def forget(self, keys: Collection[str]) -> None:
        """Drop launches that are about to be sent once more."""
        self.launches = [launch for launch in self.launches if launch.key not in keys]

    def count(self, outcome: LaunchState) -> int:
        """Return the number of launches with an outcome."""
        return sum(launch.outcome == outcome for launch in self.launches)

    @property
    def is_listed(self) -> bool:
        """Whether `launches` has all of them."""
        return True

    @property
    def recipients_tried(self) -> int:
        """The recipients of all launches that have an outcome."""
        return sum(launch.recipients for launch in self.launches)

    @property
    def has_outcomes_in_time(self) -> bool:
        """Whether there are launches that have an outcome, and were not too late."""
        return len(self.launches) != self.launches_too_late

    @property
    def failure_details(self) -> set[str | None]:
        """What is told of the launches that were not sent."""
        return {launch.detail for launch in self.launches if launch.outcome != "sent"}

    @property
    def launches_too_late(self) -> int:
        """The launches whose hours ended after their intent was recorded; all of them were not sent."""
        return sum(launch.detail == TOO_LATE for launch in self.launches)

    @property
    def recipients_too_late(self) -> int:
        """The recipients of launches whose hours ended after their intent was recorded."""
        return sum(launch.recipients for launch in self.launches if launch.detail == TOO_LATE)

    @property
    def has_failures(self) -> bool:
        """Whether launches were refused, or not sent for another reason than the hour."""
        return any(
            launch.outcome == "rejected" or (launch.outcome == "not_sent" and launch.detail != TOO_LATE)
            for launch in self.launches
        )

    @property
    def recipients_sent(self) -> int:
        """The recipients of the launches that the service accepted."""
        return sum(launch.recipients for launch in self.launches if launch.outcome == "sent")
