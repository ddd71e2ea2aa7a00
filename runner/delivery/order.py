"""The order of a campaign's messages to each person, while launches are sent side by side.

A person's next message leaves when the launch before it was accepted, or refused for good. Otherwise the
later messages wait for another run, since the earlier one may still come.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.ledger.bulk import divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from runner.ledger.model import Intent
    from runner.plan.model import PlannedLaunch
    from runner.service.model import SendReply


_LETS_ON = ("sent", "rejected")
_TOGETHER, _MOST_PEOPLE = 64, 500
"""The most launches, and people, that are looked at together before they leave."""


@dataclass(slots=True, eq=False)
class CheckedPeople:
    """People of launches that were recorded together, and are looked at together before these leave.

    Of these, only the `opted_out` had opted out at `asked_at`, on the run's clock. Threads take turns.
    """

    phones: Sequence[str]
    asked_at: float
    opted_out: AbstractSet[str] = frozenset()
    turn: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class InFlightLaunch:
    """A launch whose intent is durable, with the ledger's number of it."""

    launch_id: int
    intent: Intent
    launch: PlannedLaunch
    people: CheckedPeople


def iterate_in_flight(
    entered: Sequence[tuple[int, Intent, PlannedLaunch]], asked_at: float
) -> Iterator[InFlightLaunch]:
    """Yield launches that were recorded together, with the people that each is looked at with."""
    for portion in divide(entered, _TOGETHER):
        phones = [phone for _, _, launch in portion for phone in launch.phones]
        # Many people are looked at launch by launch, so that no sender waits long for its answer.
        people = CheckedPeople(phones, asked_at) if len(phones) <= _MOST_PEOPLE else None
        for one in portion:
            yield InFlightLaunch(*one, people or CheckedPeople(one[2].phones, asked_at))


class MessageOrder:
    """People with a launch in flight, and people whose later messages wait. For one thread."""

    def __init__(self) -> None:
        self._away: set[str] = set()
        self._held: set[str] = set()

    def is_free(self, launch: PlannedLaunch) -> bool:
        """Return whether no recipient of a launch has another one in flight."""
        return self._away.isdisjoint(launch.phones)

    def leave_out_held(self, launch: PlannedLaunch) -> PlannedLaunch | None:
        """Return a launch without recipients whose earlier message may still come; None if none are left."""
        if self._held.isdisjoint(launch.phones):
            return launch
        kept = tuple([phone for phone in launch.phones if phone not in self._held])
        return replace(launch, phones=kept) if kept else None

    def hold(self, phones: Iterable[str]) -> None:
        """Have the later messages of people wait for another run."""
        self._held.update(phones)

    def depart(self, launch: PlannedLaunch) -> None:
        """Record that a launch is in flight."""
        self._away.update(launch.phones)

    def turn_back(
        self, due: Iterable[PlannedLaunch], leaving: Iterable[PlannedLaunch], held: Iterable[str]
    ) -> None:
        """Record that of the launches due only some leave; people `held` may get their message later."""
        for launch in due:
            self._away.difference_update(launch.phones)
        for launch in leaving:
            self.depart(launch)
        self._held.update(held)

    def arrive(self, launch: PlannedLaunch, reply: SendReply, *, comes_again: bool) -> None:
        """Record the outcome of a launch; `comes_again` if this run retries its remaining recipients."""
        self._away.difference_update(launch.phones)
        if reply.outcome not in _LETS_ON and not comes_again:
            self._held.update(launch.phones)
