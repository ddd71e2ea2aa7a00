"""The order of a campaign's messages to each person, while launches are sent side by side.

A person's next message leaves when the launch before it was accepted, or refused for good. Otherwise the
later messages wait for another run, since the earlier one may still come.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from runner.delivery.delivery_summary import TOO_LATE, TRIED_AGAIN
from runner.ledger.record.deliveries import find_recorded, note_tried_again
from runner.ledger.record.unsettled import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from runner.delivery.campaign_ref import CampaignRef
    from runner.ledger.model import Intent, LaunchState
    from runner.plan.model import PlannedLaunch
    from runner.service.model import SendReply


_LETS_ON = ("sent", "rejected")


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

    def turn_back(self, phones: Iterable[str], held: Iterable[str]) -> None:
        """Record that people do not leave after all; those `held` may get the message later."""
        self._away.difference_update(phones)
        self._held.update(held)

    def arrive(self, launch: PlannedLaunch, reply: SendReply, *, comes_again: bool) -> None:
        """Record the outcome of a launch; `comes_again` if this run retries its remaining recipients."""
        self._away.difference_update(launch.phones)
        if reply.outcome not in _LETS_ON and not comes_again:
            self._held.update(launch.phones)


_PORTION = 500
"""Launches looked up at once; a launch has 1,000 recipients at most as a rule."""


@dataclass(slots=True)
class OnRecord:
    """A filter that removes recipients on record from launches that are sent again.

    What the service has refused this `run` is not retried.
    """

    campaign: CampaignRef
    run: str | None
    order: MessageOrder

    def leave_out(self, launches: Iterable[PlannedLaunch]) -> Iterator[PlannedLaunch]:
        """Yield launches, without recipients on record as sent, or as perhaps sent."""
        waiting = iter(launches)
        while portion := list(islice(waiting, _PORTION)):
            recorded = self._find(portion)
            for launch in portion:
                known = recorded[launch.message.id]
                states = [known.get(self.campaign.fingerprint(phone)) for phone in launch.phones]
                kept = tuple([p for p, state in zip(launch.phones, states, strict=True) if state is None])
                unclear = [p for p, state in zip(launch.phones, states, strict=True) if state in OPEN]
                self.order.hold(unclear)
                if len(kept) == len(launch.phones):
                    yield launch
                elif kept:
                    yield replace(launch, phones=kept)

    def _find(self, portion: list[PlannedLaunch]) -> dict[str, dict[str, LaunchState]]:
        wanted: dict[str, list[str]] = {}
        for launch in portion:
            wanted.setdefault(launch.message.id, []).extend(map(self.campaign.fingerprint, launch.phones))
        with self.campaign.ledger.reading() as connection:
            found = {
                message: find_recorded(
                    connection, self.campaign.campaign_id, message, names, run=self.run, too_late=TOO_LATE
                )
                for message, names in wanted.items()
            }
        if freed := set[int]().union(*(people.freed for people in found.values())):
            with self.campaign.ledger.writing() as connection:
                note_tried_again(connection, freed, TRIED_AGAIN)
        return {message: people.states for message, people in found.items()}
