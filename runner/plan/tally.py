"""Counts one message's recipients, assignment by assignment."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.plan.model import CostlyCharacter, MessagePlan

if TYPE_CHECKING:
    from datetime import datetime

    from runner.campaign.audience import AudienceTally
    from runner.plan.assignment import Assignment
    from runner.plan.track import Track

_MINUTE = timedelta(seconds=59, microseconds=999_999)


class MessageTally:
    """The counts of one message while the audience, or a part of it, is passed over."""

    def __init__(self) -> None:
        self._dispositions: Counter[str] = Counter()
        self._arms: Counter[str | None] = Counter()
        self._costly: dict[str, list[int]] = {}
        self._largest: Counter[int] = Counter()
        self._due: Counter[tuple[datetime, str]] = Counter()
        self._reasons: Counter[str] = Counter()
        self._segments = 0

    def add(self, assignment: Assignment) -> None:
        """Count one recipient."""
        self._dispositions[assignment.disposition] += 1
        payload = assignment.payload
        if payload is not None:
            self._arms[assignment.arm] += 1
            self._segments += payload.segments
            self._largest[payload.largest] += 1
            if payload.costly is not None:
                cost = self._costly.setdefault(payload.costly, [0, 0, 0])
                cost[0] += 1
                cost[1] += payload.segments_max
                cost[2] += payload.segments_plain
        elif assignment.largest:
            self._largest[assignment.largest] += 1
        if assignment.due is not None:
            moment, zone = assignment.due
            # By the full minute: follow-ups come due as their launches were sent, all at different moments.
            self._due[(moment + _MINUTE).replace(second=0, microsecond=0), zone] += 1
        for reason in assignment.reasons:
            self._reasons[reason] += 1

    def merge(self, other: MessageTally) -> None:
        """Add the counts of other recipients of the same message."""
        self._dispositions.update(other._dispositions)
        self._arms.update(other._arms)
        self._largest.update(other._largest)
        self._due.update(other._due)
        self._reasons.update(other._reasons)
        self._segments += other._segments
        for character, costs in other._costly.items():
            own = self._costly.get(character, (0, 0, 0))
            self._costly[character] = [one + more for one, more in zip(own, costs, strict=True)]

    def add_up(self, track: Track, audience: AudienceTally, launches: int) -> MessagePlan:
        """Return the counts.

        Args:
            track: the message.
            audience: of the whole pass.
            launches: sends that the recipients to send to take.
        """
        message = track.message
        return MessagePlan(
            message.id,
            message.tag,
            rows=audience.rows,
            duplicates=audience.duplicates,
            recipients=self._dispositions.total(),
            **self._dispositions,
            launches=launches,
            segments=self._segments,
            renders_min=sum(n * track.renderers[arm].renders_min for arm, n in self._arms.items()),
            renders_max=sum(n * track.renderers[arm].renders_max for arm, n in self._arms.items()),
            costly_characters={character: CostlyCharacter(*cost) for character, cost in self._costly.items()},
            largest=dict(self._largest),
            arms={arm: count for arm, count in sorted(self._arms.items(), key=str) if arm is not None},
            due=dict(self._due),
            reasons=dict(self._reasons),
        )
