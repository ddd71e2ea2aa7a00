"""What one recipient gets of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from runner.campaign.audience import Recipient
    from runner.campaign.payload import Payload
    from runner.plan.model import Disposition
    from runner.timing.histogram import Due


class Assignment(NamedTuple):
    """What a recipient gets of one message.

    Attributes:
        message: its place among the messages that are planned.
        disposition: whether and why.
        payload: what is to be sent now.
        arm: of an experiment's message.
        until: when it is no longer the time to send it.
        due: when it will be sent.
        reasons: why not now; or what speaks against it.
        largest: of what is to be sent later, the segments of the largest of its texts; 0 for the rest.
        was_due: of a saved plan, whether it was to be sent when that was made, and is not now: it keeps its
            place, so that nobody whom the plan left out moves up.
    """

    message: int
    disposition: Disposition
    payload: Payload | None = None
    arm: str | None = None
    until: datetime | None = None
    due: Due | None = None
    reasons: tuple[str, ...] = ()
    largest: int = 0
    was_due: bool = False

    @property
    def counts(self) -> bool:
        """Whether it is one of the messages that the plan sends."""
        return self.payload is not None or self.was_due


def count_planned(tally: dict[int, int], recipient: Recipient, assignments: list[Assignment]) -> None:
    """Add what a recipient gets now to what a run sends them.

    Args:
        tally: by phone as a number.
        recipient: who.
        assignments: what.
    """
    count = sum(assignment.payload is not None for assignment in assignments)
    if count:
        number = int(recipient.phone[1:])
        tally[number] = tally.get(number, 0) + count
