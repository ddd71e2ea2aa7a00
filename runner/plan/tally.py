"""Counts one message's recipients, assignment by assignment."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.plan.assignment import LATER
from runner.plan.model import CostlyCharacter, MessagePlan

if TYPE_CHECKING:
    from datetime import datetime

    from runner.campaign.audience import AudienceTally
    from runner.campaign.model import Message
    from runner.plan.assignment import Assignment
    from runner.plan.track import Track

_MINUTE = timedelta(seconds=59, microseconds=999_999)


class MessageTally:
    """The counts of one message while the audience, or a part of it, is passed over."""

    def __init__(self) -> None:
        self._dispositions: Counter[str] = Counter()
        # Of those to send to: one count each, of all that is the same for many of them.
        self._sent: Counter[tuple[str, str | None, int, int]] = Counter()
        self._costly: dict[str, list[int]] = {}
        self._later: Counter[int] = Counter()
        self._due: Counter[tuple[datetime, str]] = Counter()
        self._reasons: Counter[str] = Counter()
        self._hopeless = 0

    def add(self, assignment: Assignment) -> None:
        """Count one recipient."""
        _, disposition, payload, arm, _, due, reasons, largest, _, is_hopeless = assignment
        if payload is not None:
            self._sent[disposition, arm, payload.segments, payload.largest] += 1
            if payload.costly is not None:
                cost = self._costly.setdefault(payload.costly, [0, 0, 0])
                cost[0] += 1
                cost[1] += payload.segments_max
                cost[2] += payload.segments_plain
        else:
            self._dispositions[disposition] += 1
            if largest:
                self._later[largest] += 1
            if is_hopeless:
                self._hopeless += 1
        if due is not None:
            moment, zone = due
            # By the full minute: follow-ups come due as their launches were sent, all at different moments.
            self._due[(moment + _MINUTE).replace(second=0, microsecond=0), zone] += 1
        for reason in reasons:
            self._reasons[reason] += 1

    def merge(self, other: MessageTally) -> None:
        """Add the counts of other recipients of the same message."""
        self._dispositions.update(other._dispositions)
        self._sent.update(other._sent)
        self._later.update(other._later)
        self._due.update(other._due)
        self._reasons.update(other._reasons)
        self._hopeless += other._hopeless
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
        dispositions, largest = self._dispositions.copy(), self._later.copy()
        arms: Counter[str | None] = Counter()
        for (disposition, arm, _, size), count in self._sent.items():
            dispositions[disposition] += count
            arms[arm] += count
            largest[size] += count
        return MessagePlan(
            message.id,
            message.tag,
            rows=audience.rows,
            duplicates=audience.duplicates,
            invalid=audience.invalid,
            recipients=dispositions.total(),
            **dispositions,
            forecast=self._forecast(message),
            launches=launches,
            segments=sum(segments * count for (_, _, segments, _), count in self._sent.items()),
            renders_min=sum(n * track.renderers[arm].renders_min for arm, n in arms.items()),
            renders_max=sum(n * track.renderers[arm].renders_max for arm, n in arms.items()),
            costly_characters={character: CostlyCharacter(*cost) for character, cost in self._costly.items()},
            largest=dict(largest),
            arms={arm: count for arm, count in sorted(arms.items(), key=str) if arm is not None},
            due=dict(self._due),
            reasons=dict(self._reasons),
        )

    def _forecast(self, message: Message) -> int:
        """Return how many may get the message later, by what is known now."""
        later = sum(self._dispositions[name] for name in LATER)
        if message.after is not None:
            later += self._dispositions["awaiting"] - self._hopeless
            # Who has not answered yet may still; who has answered stays out of a reminder.
            later += self._dispositions["not_qualified"] if message.to == "answered" else 0
        return later
