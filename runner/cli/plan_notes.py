"""Notes on a plan as a whole: what becomes of the replies to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.campaign.model import Message
    from runner.cli.planning import PlannedHead

CARRIER_WORDS = ("STOP", "STOPALL", "UNSUBSCRIBE", "OPTOUT", "CANCEL", "END", "QUIT", "REVOKE")
"""Replies that opt out at the carriers (CTIA Messaging Principles and Best Practices 2023, 5.1.3)."""
_SHOWN = 5


def list_notes(planned: Sequence[PlannedHead]) -> list[str]:
    """Return what is said once of plans, a sentence or two each.

    Args:
        planned: the plans.
    """
    notes = []
    if any(_find_messages(planned, _is_plain_text)):
        words = f"{', '.join(CARRIER_WORDS[:-1])} and {CARRIER_WORDS[-1]}"
        notes.append(
            "Replies to a plain text, or after a survey's end, reach the service and the carriers alone. "
            f"They act on {words}, as the whole reply, and on no other words. "
            "`replies: recorded` makes replies to a text results, so that `runner reconcile` finds opt-outs."
        )
    recorded = list(_find_messages(planned, lambda message: message.replies == "recorded"))
    if recorded:
        more = f" and {len(recorded) - _SHOWN:,} more" if len(recorded) > _SHOWN else ""
        notes.append(
            f"Sent as an open question, since replies are recorded: {', '.join(recorded[:_SHOWN])}{more}. "
            "The session stays open until it is answered or expires: until then other messages to the same "
            "people wait (`open_session` in `policy`)."
        )
    return notes


def _find_messages(planned: Sequence[PlannedHead], is_meant: Callable[[Message], bool]) -> Iterator[str]:
    """Yield the full names of messages that are sent now or later, of those that are meant."""
    for item in planned:
        pending = {message.id for message in item.plan.messages if message.pending}
        for message in item.campaign.messages:
            ways = item.campaign.list_arms(message.id).values() or (message,)
            if message.id in pending and any(map(is_meant, ways)):
                yield f"{item.campaign.name}/{message.id}"


def _is_plain_text(message: Message) -> bool:
    return message.text is not None and message.method == "SMS"
