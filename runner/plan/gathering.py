"""Gathers people who get the same into launches, in one pass: for so many as memory has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.plan.model import PlannedLaunch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.payload import Payload
    from runner.plan.passage import Assigned
    from runner.plan.track import Track

_Alike = tuple[int, str | None, "datetime | None", str]


class LaunchGroups:
    """People by what they get.

    Args:
        tracks: the messages.
        per_send: the most recipients of a launch.
    """

    def __init__(self, tracks: Sequence[Track], per_send: int) -> None:
        self._tracks = tracks
        self._per_send = per_send
        self._groups: dict[_Alike, tuple[Payload, list[str]]] = {}

    def watch(self, assigned: Iterable[Assigned]) -> Iterator[Assigned]:
        """Yield what comes by, and keep what is to be sent now."""
        groups = self._groups
        for pair in assigned:
            recipient, assignments = pair
            for assignment in assignments:
                payload = assignment.payload
                if payload is not None:
                    alike = assignment.message, assignment.arm, assignment.until, payload.digest
                    group = groups.get(alike)
                    if group is None:
                        groups[alike] = payload, [recipient.phone]
                    else:
                        group[1].append(recipient.phone)
            yield pair

    def iterate_launches(self) -> Iterator[PlannedLaunch]:
        """Yield the launches, message by message, in the order of their first recipients."""
        groups = sorted(self._groups.items(), key=lambda group: group[0][0])
        for (index, arm, until, _), (payload, phones) in groups:
            message = self._tracks[index].renderers[arm].message
            for start in range(0, len(phones), self._per_send):
                people = tuple(phones[start : start + self._per_send])
                yield PlannedLaunch(message, payload, people, arm, until)
