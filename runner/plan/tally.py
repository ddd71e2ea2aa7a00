"""Counts one message's recipients, assignment by assignment."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, get_args

from runner.plan.model import Coming, CostlyCharacter, Disposition, MessagePlan, Span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from runner.campaign.audience import AudienceTally
    from runner.plan.assignment import Assignment
    from runner.plan.track import Track

_MINUTE = timedelta(seconds=59, microseconds=999_999)


class MessageTally:
    """The counts of one message while the audience, or a part of it, is passed over."""

    def __init__(self) -> None:
        self._dispositions: Counter[str] = Counter()
        # Of those to send to: one count each, of all that is the same for many of them.
        self._sent: Counter[tuple[str | None, int, int, int, bool]] = Counter()
        # The same of those who may get it later; segments are None where their text is not known.
        self._coming: Counter[tuple[str, str | None, int | None, int, bool]] = Counter()
        self._costly: dict[str, list[int]] = {}
        self._later: Counter[int] = Counter()
        self._due: Counter[tuple[datetime, str]] = Counter()
        self._reasons: Counter[str] = Counter()
        self._overdue = 0

    def add(self, assignment: Assignment) -> bool:
        """Count one recipient; return whether they may get the message later."""
        _, disposition, payload, arm, _, due, reasons, largest, _, _, coming, is_sure, may_queue = assignment
        comes_later = False
        if payload is not None:
            self._sent[arm, payload.segments, payload.segments_max, payload.largest, may_queue] += 1
            if payload.costly is not None:
                cost = self._costly.setdefault(payload.costly, [0, 0, 0])
                cost[0] += 1
                cost[1] += payload.segments_max
                cost[2] += payload.segments_plain
        else:
            self._dispositions[disposition] += 1
            if largest:
                self._later[largest] += 1
            comes_later = assignment.comes_later
            if comes_later:
                least, most = (None, 0) if coming is None else (coming.segments, coming.segments_max)
                self._coming[disposition, arm, least, most, is_sure] += 1
                self._overdue += disposition == "awaiting" and bool(reasons)
        if due is not None:
            moment, zone = due
            # By the full minute: follow-ups come due as their launches were sent, all at different moments.
            self._due[(moment + _MINUTE).replace(second=0, microsecond=0), zone] += 1
        for reason in reasons:
            self._reasons[reason] += 1
        return comes_later

    def merge(self, other: MessageTally) -> None:
        """Add the counts of other recipients of the same message."""
        self._dispositions.update(other._dispositions)
        self._sent.update(other._sent)
        self._coming.update(other._coming)
        self._later.update(other._later)
        self._overdue += other._overdue
        self._due.update(other._due)
        self._reasons.update(other._reasons)
        for character, costs in other._costly.items():
            own = self._costly.get(character, (0, 0, 0))
            self._costly[character] = [one + more for one, more in zip(own, costs, strict=True)]

    def add_up(self, track: Track, audience: AudienceTally, launches: int) -> MessagePlan:
        """Return the counts, but for what comes later (`add_up_coming`).

        Args:
            track: the message.
            audience: of the whole pass.
            launches: sends that the recipients to send to take.
        """
        message = track.message
        dispositions, largest = self._dispositions.copy(), self._later.copy()
        arms: Counter[str | None] = Counter()
        queueing: Counter[str | None] = Counter()
        for (arm, _, _, size, may_queue), count in self._sent.items():
            arms[arm] += count
            queueing[arm] += count * may_queue
            largest[size] += count
        dispositions["to_send"] += arms.total()
        sent = [(track.renderers[arm], count, queueing[arm]) for arm, count in arms.items()]
        return MessagePlan(
            message.id,
            message.tag,
            rows=audience.rows,
            duplicates=audience.duplicates,
            invalid=audience.invalid,
            recipients=dispositions.total(),
            **dispositions,
            forecast=self._coming.total(),
            launches=launches,
            segments=sum(one[1] * count for one, count in self._sent.items()),
            segments_min=sum(one[1] * count for one, count in self._sent.items() if not one[4]),
            segments_max=sum(one[2] * count for one, count in self._sent.items()),
            renders_min=sum((count - waiting) * one.renders_min for one, count, waiting in sent),
            renders_max=sum(count * one.renders_max for one, count, _ in sent),
            queueing=queueing.total(),
            coming=(),
            costly_characters={character: CostlyCharacter(*cost) for character, cost in self._costly.items()},
            largest=dict(largest),
            arms={arm: count for arm, count in sorted(arms.items(), key=str) if arm is not None},
            due=dict(self._due),
            reasons=dict(self._reasons),
        )

    def add_up_coming(
        self, track: Track, per_send: int, first: datetime | None, *, lets_queue: bool
    ) -> tuple[Coming, ...]:
        """Return what comes later, by the reasons for which it does not come now.

        Args:
            track: the message.
            per_send: the most recipients of a launch.
            first: from when on its follow-up goes; None if it is none, or that is not known.
            lets_queue: whether what is sent may wait at the service, perhaps for ever.
        """
        found: dict[str, list[tuple[str | None, int | None, int, bool, int]]] = {}
        for (why, arm, least, most, is_sure), count in self._coming.items():
            found.setdefault(why, []).append((arm, least, most, is_sure, count))
        moments: dict[str, tuple[datetime | None, datetime | None]] = {}
        # Who waits for replies to be read is deferred, too, and due at no moment.
        if self._due and self._due.total() == self._dispositions["deferred"]:
            due = [moment for moment, _ in self._due]
            moments["deferred"] = min(due), max(due)
        if not self._overdue:
            moments["awaiting"] = first, None
        return tuple(
            _add_up_group(
                why, moments.get(why, (None, None)), found[why], track, per_send, lets_queue=lets_queue
            )
            for why in get_args(Disposition)
            if why in found
        )


def _add_up_group(
    why: str,
    moments: tuple[datetime | None, datetime | None],
    parts: Sequence[tuple[str | None, int | None, int, bool, int]],
    track: Track,
    per_send: int,
    *,
    lets_queue: bool,
) -> Coming:
    sure = sum(count for *_, is_sure, count in parts if is_sure)
    most = sum(count for *_, count in parts)
    is_known = all(least is not None for _, least, *_ in parts)
    at_once = sum((least or 0) * count for _, least, _, is_sure, count in parts if is_sure)
    whole = sum(largest * count for _, _, largest, _, count in parts)
    arms: Counter[str] = Counter()
    for arm, *_, count in parts:
        if arm is not None:
            arms[arm] += count
    renders = [(track.renderers[arm], is_sure, count) for arm, _, _, is_sure, count in parts]
    return Coming(
        why,
        *moments,
        recipients=Span(sure, most),
        launches=Span(-(-sure // per_send), most),
        segments=Span(0 if lets_queue else at_once, whole) if is_known else None,
        renders=Span(
            0 if lets_queue else sum(count * one.renders_min for one, is_sure, count in renders if is_sure),
            sum(count * one.renders_max for one, _, count in renders),
        ),
        arms=dict(sorted(arms.items())),
    )
