"""What one recipient gets of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from runner.campaign.payload import Payload
    from runner.plan.model import Disposition
    from runner.timing.histogram import Due

LATER = ("deferred", "unresolved", "opt_out_doubtful", "open_session", "capped", "on_hold")
"""Why those don't get a message now who may get it later, whatever becomes of other messages."""
_COMES = frozenset(("already_sent", "to_send", *LATER))


class Follow(NamedTuple):
    """What a follow-up goes by.

    Attributes:
        earlier: the place of the message that it comes after; one that no message has if that is not planned.
        waits_for_answers: whether those qualify later who answer later.
    """

    earlier: int
    waits_for_answers: bool


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
        is_hopeless: of who waits for an earlier message, whether they will never get that one.
        coming: what they may get later; None if they won't, or it is not known.
        is_sure: of who may get it later, whether they do if nothing else happens (`runner.plan.outlook`).
        may_queue: whether what is sent now may wait at the service behind an open survey.
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
    is_hopeless: bool = False
    coming: Payload | None = None
    is_sure: bool = False
    may_queue: bool = False

    @property
    def comes_later(self) -> bool:
        """Whether they may get it later, by what is known now."""
        if self.disposition == "awaiting":
            return not self.is_hopeless
        # Who has not answered yet may still; who has answered stays out of a reminder.
        return self.disposition in LATER or (self.disposition == "not_qualified" and self.coming is not None)

    @property
    def counts(self) -> bool:
        """Whether it is one of the messages that the plan sends."""
        return self.payload is not None or self.was_due


def find_hopeless(found: list[Assignment], follows: Mapping[int, Follow]) -> list[Assignment]:
    """Return what a recipient gets, with a mark on follow-ups to messages that never reach them.

    Args:
        found: what they get of every message.
        follows: by its place among the messages, what each follow-up comes after.
    """
    by_message = {assignment.message: assignment for assignment in found}

    def may_come(assignment: Assignment | None) -> bool:
        if assignment is None:  # not among the messages that are planned: nothing is known of it
            return True
        follow = follows.get(assignment.message)
        if assignment.disposition == "awaiting":
            return follow is None or may_come(by_message.get(follow.earlier))
        if assignment.disposition == "not_qualified":
            return follow is not None and follow.waits_for_answers
        return assignment.disposition in _COMES or assignment.was_due

    return [
        assignment._replace(is_hopeless=True)
        if assignment.disposition == "awaiting" and not may_come(assignment)
        else assignment
        for assignment in found
    ]
