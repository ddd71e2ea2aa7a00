"""Takes out of launches, at the last moment, whoever may no longer be texted.

A plan is as old as the run: meanwhile people opt out, and other campaigns text them. This looks again, in the
transaction that records the intents, so that nothing can come between; for what waits after it, see `watch`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from runner.ledger.database import exclude_others
from runner.ledger.frequency import read_recent
from runner.ledger.moment import format_moment
from runner.ledger.open_sessions import OpenSessions, read_open_sessions
from runner.ledger.recheck import find_suppressed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.campaign.policy import FrequencyCap
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import PlannedLaunch


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets launches pass, less those who may no longer be texted.

    Attributes:
        target: the target's name.
        state_key: the user's secret; None if there is none.
        cap: the campaign's frequency cap; None if it has none.
        campaign_id: the ledger's number of a campaign that lets nothing queue behind what others have sent
            since its plan was made; None for one that does.
    """

    target: str
    state_key: str | None = field(repr=False)
    cap: FrequencyCap | None
    campaign_id: int | None = None

    @classmethod
    def of(cls, campaign: Campaign, campaign_id: int, target: str, state_key: str | None) -> Self:
        """Return the gate of a campaign.

        Args:
            campaign: the campaign.
            campaign_id: the ledger's number of it.
            target: the target's name.
            state_key: the user's secret; None if there is none.
        """
        lets_queue = campaign.policy.open_session == "queue"
        return cls(target, state_key, campaign.policy.frequency_cap, None if lets_queue else campaign_id)

    def admit(
        self, connection: LedgerConnection, launches: Sequence[PlannedLaunch], now: datetime
    ) -> Admission:
        """Return what may be sent of some launches.

        Args:
            connection: records their intents after this, in the same transaction.
            launches: the launches.
            now: any aware time.

        Raises:
            LedgerError: a key that the ledger was written with is not at hand.
        """
        phones = [phone for launch in launches for phone in launch.phones]
        barred = self.find_opted_out(connection, phones)
        admission = Admission(opted_out=sum(phone in barred for phone in phones))
        sessions = self._read_sessions(connection, launches)
        left = self._count_left(connection, phones, now)
        for launch in launches:
            kept = []
            for phone in launch.phones:
                if phone in barred:
                    continue
                if _may_queue(launch) and sessions.find(phone) is not None:
                    admission.open_session.append(phone)
                    continue
                if left is not None and left[phone] <= 0:
                    admission.capped += 1
                    continue
                if left is not None:
                    left[phone] -= 1
                kept.append(phone)
            if len(kept) == len(launch.phones):
                admission.launches.append(launch)
            elif kept:
                admission.launches.append(replace(launch, phones=tuple(kept)))
        return admission

    def _read_sessions(self, connection: LedgerConnection, launches: Sequence[PlannedLaunch]) -> OpenSessions:
        """Return who has an open survey of another campaign; of this one, the plan knows."""
        phones = {phone for launch in launches if _may_queue(launch) for phone in launch.phones}
        if self.campaign_id is None or not phones:
            return OpenSessions()
        return read_open_sessions(
            connection, self.target, self.state_key, phones, other_than=self.campaign_id
        )

    def find_opted_out(self, connection: LedgerConnection, phones: Iterable[str]) -> set[str]:
        """Return those who have opted out, or may have.

        Args:
            connection: reads one state of the ledger.
            phones: E.164.

        Raises:
            LedgerError: a key that the ledger was written with is not at hand.
        """
        return find_suppressed(connection, self.target, self.state_key, phones)

    def _count_left(
        self, connection: LedgerConnection, phones: Iterable[str], now: datetime
    ) -> Counter[str] | None:
        """Return how many messages people may still get; None without a cap."""
        if self.cap is None:
            return None
        # Another run may be counting at this moment: one of the two has to be first.
        exclude_others(connection)
        wanted = set(phones)
        since = format_moment(now - self.cap.within)
        recent = read_recent(connection, self.target, self.state_key, since, wanted)
        return Counter({phone: self.cap.messages - recent.count(phone) for phone in wanted})


@dataclass(slots=True)
class Admission:
    """What may be sent, and who was taken out.

    Attributes:
        launches: those with somebody left in them.
        opted_out: recipients who have opted out, or may have, since the plan was made.
        capped: recipients who have reached the frequency cap since.
        open_session: phones of those to whom another campaign has sent a survey since.
    """

    launches: list[PlannedLaunch] = field(default_factory=list)
    opted_out: int = 0
    capped: int = 0
    open_session: list[str] = field(default_factory=list)

    def find_left_out(self, launches: Sequence[PlannedLaunch]) -> Iterator[str]:
        """Yield the phones of the launches that it was asked about, and of none that may be sent."""
        if any((self.opted_out, self.capped, self.open_session)):
            kept = {phone for launch in self.launches for phone in launch.phones}
            yield from (phone for launch in launches for phone in launch.phones if phone not in kept)


def _may_queue(launch: PlannedLaunch) -> bool:
    return not launch.message.complete_existing_sessions
