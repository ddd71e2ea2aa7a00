"""What comes after this run for sure, and what when.

For sure is what comes if nobody opts out, nobody edits or pauses anything, no other campaign texts these
people, and runs go on in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.plan.assignment import LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign, Message
    from runner.plan.assignment import Assignment
    from runner.plan.model import MessagePlan
    from runner.plan.queueing import FindSession
    from runner.plan.track import Track

_REACHED = frozenset(("to_send", "already_sent"))


class Outlook:
    """Marks the messages that come later for sure.

    Args:
        campaign: the campaign.
        tracks: its messages that are planned.
        find_session: returns what holds a person, by phone; None if nothing holds anybody.
    """

    def __init__(self, campaign: Campaign, tracks: Sequence[Track], find_session: FindSession | None) -> None:
        self._messages = [track.message for track in tracks]
        self._asks = [
            any(renderer.message.questions for renderer in track.renderers.values()) for track in tracks
        ]
        self._waits = [
            campaign.policy.open_session == "wait"
            and not all(r.message.complete_existing_sessions for r in track.renderers.values())
            for track in tracks
        ]
        places = {message.id: place for place, message in enumerate(self._messages)}
        self._earlier = [places.get(one.after.message, -1) if one.after else None for one in self._messages]
        self._has_follow_ups = any(earlier is not None for earlier in self._earlier)
        self._is_sure_at_all = campaign.policy.frequency_cap is None
        self._may_expire = campaign.schedule.expires is not None
        self._find_session = find_session
        self._known: dict[tuple[bool, tuple[object, ...]], tuple[bool, ...]] = {}

    def mark(self, found: list[Assignment], phone: str) -> list[Assignment]:
        """Return what a recipient gets, with a mark on what comes later for sure.

        Args:
            found: what they get of every message.
            phone: E.164.
        """
        if not self._is_sure_at_all:
            return found
        states: tuple[object, ...] = tuple([one.disposition for one in found])
        if "deferred" not in states and "awaiting" not in states:
            return found
        if self._has_follow_ups:
            states = (*states, *[one.comes_later for one in found])
        is_asked = self._find_session is not None and self._find_session(phone) is not None
        marks = self._known.get((is_asked, states))
        if marks is None:
            marks = self._known[is_asked, states] = self._find_sure(found, is_asked=is_asked)
        return [one._replace(is_sure=True) if mark else one for one, mark in zip(found, marks, strict=True)]

    def _find_sure(self, found: Sequence[Assignment], *, is_asked: bool) -> tuple[bool, ...]:
        def is_sure(place: int) -> bool:
            comes = self._comes(found, place, is_sure)
            return comes and not self._is_behind(found, place, is_asked=is_asked)

        return tuple(is_sure(place) for place in range(len(found)))

    def _comes(self, found: Sequence[Assignment], place: int, is_sure: Callable[[int], bool]) -> bool:
        """Return whether a message comes as far as it goes by time and by answers."""
        one, message = found[place], self._messages[place]
        if one.disposition == "deferred":
            return message.to != "unanswered"
        earlier = self._earlier[place]
        if one.disposition != "awaiting" or earlier is None or earlier < 0 or self._may_expire:
            return False
        before = found[earlier]
        is_of_all = message.to == "everyone" and message.method == self._messages[earlier].method
        return is_of_all and (before.payload is not None or is_sure(earlier))

    def _is_behind(self, found: Sequence[Assignment], place: int, *, is_asked: bool) -> bool:
        """Return whether a survey may be open by then, behind which a message waits, perhaps for ever."""
        if not self._waits[place]:
            return False
        return is_asked or any(
            self._asks[other] and (one.comes_later or one.disposition in _REACHED)
            for other, one in enumerate(found)
            if other != place and not self._comes_after(other, place)
        )

    def _comes_after(self, place: int, other: int) -> bool:
        """Return whether a message is a follow-up to another one, or to one of its follow-ups."""
        earlier = self._earlier[place]
        return (
            earlier is not None and earlier >= 0 and (earlier == other or self._comes_after(earlier, other))
        )


def find_waits(
    messages: Sequence[Message], now: datetime | None, plans: Sequence[MessagePlan]
) -> dict[str, datetime | None]:
    """Return by message id when the first follow-up goes of those who wait; None if that is not known.

    Args:
        messages: in the order of the campaign.
        now: the moment of the plan; None if there is none.
        plans: their counts.
    """
    first: dict[str, datetime | None] = {}
    waits: dict[str, datetime | None] = {}
    for message, plan in zip(messages, plans, strict=True):
        earlier = first.get(message.after.message) if message.after is not None else None
        waits[message.id] = None
        if message.after is not None and earlier is not None:
            waits[message.id] = earlier + message.after.wait
        # What holds these back may be over at any moment.
        may_go_now = plan.to_send or plan.deferred > sum(plan.due.values())
        may_go_now = may_go_now or any(getattr(plan, why) for why in LATER if why != "deferred")
        moments = (now if may_go_now else None, plan.next_due, waits[message.id])
        first[message.id] = min((moment for moment in moments if moment is not None), default=None)
    return waits
