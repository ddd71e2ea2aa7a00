"""Leaves out of a partition's launches whoever is on record: a task that runs again sends what is left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from runner.deliver.summary import TOO_LATE
from runner.ledger.recorded_people import find_recorded, note_tried_again
from runner.ledger.unsettled import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.deliver.order import MessageOrder
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import LaunchState
    from runner.plan.model import PlannedLaunch

TRIED_AGAIN = "it was not sent, and its recipients were tried again"
"""The detail of such a launch: what the run did with these is what came of it then."""
_PORTION = 500
"""Launches that are looked up at once; a launch has 1,000 recipients at most as a rule."""


@dataclass(slots=True)
class OnRecord:
    """Looks up the recipients of planned launches, and notes which launches of the run they are free of.

    Attributes:
        ledger: is read.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: the key of its fingerprints.
        run: the id of this run: what the service has refused it, it doesn't try again.
        order: is told whose later messages have to wait.
        unclear: recipients that were left out because of launches of unknown outcome: once those are settled
            they may be free again.
    """

    ledger: Ledger
    campaign_id: int
    campaign: str
    key: FingerprintKey
    run: str | None
    order: MessageOrder
    unclear: int = field(default=0, init=False)

    def leave_out(self, launches: Iterable[PlannedLaunch]) -> Iterator[PlannedLaunch]:
        """Yield launches, less those who are on record as sent, or as perhaps sent.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        waiting = iter(launches)
        while portion := list(islice(waiting, _PORTION)):
            recorded = self._find(portion)
            for launch in portion:
                known = recorded[launch.message.id]
                states = [known.get(self._name(phone)) for phone in launch.phones]
                kept = tuple([p for p, state in zip(launch.phones, states, strict=True) if state is None])
                unclear = [p for p, state in zip(launch.phones, states, strict=True) if state in OPEN]
                self.unclear += len(unclear)
                self.order.hold(unclear)
                if len(kept) == len(launch.phones):
                    yield launch
                elif kept:
                    yield replace(launch, phones=kept)

    def _find(self, portion: list[PlannedLaunch]) -> dict[str, dict[str, LaunchState]]:
        wanted: dict[str, list[str]] = {}
        for launch in portion:
            wanted.setdefault(launch.message.id, []).extend(map(self._name, launch.phones))
        with self.ledger.reading() as connection:
            found = {
                message: find_recorded(
                    connection, self.campaign_id, message, names, run=self.run, too_late=TOO_LATE
                )
                for message, names in wanted.items()
            }
        if freed := set[int]().union(*(people.freed for people in found.values())):
            with self.ledger.writing() as connection:
                note_tried_again(connection, freed, TRIED_AGAIN)
        return {message: people.states for message, people in found.items()}

    def _name(self, phone: str) -> str:
        return self.key.fingerprint(self.campaign, phone)
