"""Who is told what becomes of launches while a run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from runner.ledger.model import LaunchState


class DeliveryObserver(Protocol):
    """Is told of each outcome as soon as it is durable."""

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        """Take note of one launch's outcome.

        Args:
            outcome: where the launch is now.
            recipients: how many phones it has.
            detail: why it is not `sent`.
        """
