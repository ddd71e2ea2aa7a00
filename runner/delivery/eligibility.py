"""A run's last check for recipients who may no longer be texted.

During a run people opt out, and other campaigns text them, and somebody may pause the campaign. So the check
runs in the transaction that records a launch's intent, with nothing in between.
A launch may then wait long: for the pace, a `Retry-After`, its next try, or a free thread. So the sender
asks again right before each request, for all launches recorded together, unless one has asked a moment ago.
The frequency cap is not counted again: the intent itself holds its place, and other runs count it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from runner.campaign.answers import Endings
from runner.ledger.database import exclude_others
from runner.ledger.fingerprint import KnownPeople, OpenSession
from runner.ledger.model import CampaignLaunches, format_moment
from runner.ledger.people.history import read_open_sessions, read_recent
from runner.ledger.people.opt_outs import find_suppressed
from runner.ledger.people.pruned import read_figures
from runner.ledger.people.suppressions import find_pause
from runner.ledger.results.result_feed import read_version
from runner.ledger.results.sendings import count_completed
from runner.text.include import include_folder
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.delivery.campaign_ref import CampaignRef
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.people.suppressions import Pause
    from runner.ledger.report_model import ResultVersion
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import PlannedLaunch
    from runner.timing.schedule import FrequencyCap


@dataclass(slots=True)
class CompletesCheck:
    """The check of `limits.completes`, which reads the results again only if they have changed."""

    campaign: Campaign
    campaign_id: int
    most: int
    endings: Endings
    _counted: tuple[ResultVersion, int] | None = None

    @classmethod
    def of(cls, campaign: Campaign, campaign_id: int) -> Self | None:
        """Return the check of a campaign, with its number in the ledger; None without a limit."""
        most = campaign.limits.completes
        if most is None:
            return None
        return cls(campaign, campaign_id, most, Endings(campaign, TextCompiler(include_folder(campaign))))

    def count(self, connection: LedgerConnection) -> int:
        """Return the number of people who have answered to the end, as last reconciled."""
        version = read_version(connection)
        if self._counted is None or self._counted[0] != version:
            asked = CampaignLaunches(self.campaign_id, self.campaign.message_ids, self.campaign.wave)
            kept = read_figures(connection, self.campaign_id, self.campaign.wave)
            found = count_completed(connection, asked, self.endings)
            self._counted = version, found + (0 if kept is None else kept.completed)
        return self._counted[1]


@dataclass(frozen=True, slots=True)
class EligibilityCheck:
    """A filter that removes recipients who may no longer be texted from launches.

    `campaign_id` is given only for a campaign that must not queue behind surveys sent by others since its
    plan; `names` are the campaign's, also former ones, under which it may be paused. `enough` is the check of
    `limits.completes`, if it has that limit.
    """

    key: TargetKey
    cap: FrequencyCap | None
    campaign_id: int | None = None
    names: tuple[str, ...] = ()
    enough: CompletesCheck | None = None

    @classmethod
    def of(cls, campaign: Campaign, ref: CampaignRef) -> Self:
        """Return the check of a campaign."""
        lets_queue = campaign.policy.open_session == "queue"
        barred_by = None if lets_queue else ref.campaign_id
        names = (campaign.name, *campaign.renamed_from)
        enough = CompletesCheck.of(campaign, ref.campaign_id)
        return cls(ref.key, campaign.policy.frequency_cap, barred_by, names, enough)

    def admit(
        self, connection: LedgerConnection, launches: Sequence[PlannedLaunch], now: datetime
    ) -> Admission:
        """Return the launches that may be sent, without recipients who may not.

        Their intents must be recorded in the same transaction; `now` is any aware time.
        """
        pause = self.find_pause(connection)
        if pause is not None:
            return Admission(pause=pause)
        if self.has_enough(connection):
            return Admission(has_enough=True)
        phones = [phone for launch in launches for phone in launch.phones]
        barred = self.find_opted_out(connection, phones)
        admission = Admission(opted_out=sum(phone in barred for phone in phones))
        sessions = self._read_sessions(connection, launches)
        left = self._count_left(connection, launches, now)
        admission.add(launches, barred, sessions, left)
        return admission

    def _read_sessions(
        self, connection: LedgerConnection, launches: Sequence[PlannedLaunch]
    ) -> KnownPeople[OpenSession]:
        """Return the people with an open survey of another campaign; the plan knows those of this one."""
        phones = {phone for launch in launches if _may_queue(launch) for phone in launch.phones}
        if self.campaign_id is None or not phones:
            return KnownPeople(self.key)
        return read_open_sessions(connection, self.key, phones, other_than=self.campaign_id)

    def find_opted_out(self, connection: LedgerConnection, phones: Iterable[str]) -> set[str]:
        """Return the phones (E.164) of people who have opted out, or may have."""
        return find_suppressed(connection, self.key, phones)

    def find_pause(self, connection: LedgerConnection) -> Pause | None:
        """Return a person's decision to pause the campaign; None if there is none."""
        return find_pause(connection, self.key.target, self.names)

    def has_enough(self, connection: LedgerConnection) -> bool:
        """Return whether as many people as the campaign wants have answered to the end."""
        return self.enough is not None and self.enough.count(connection) >= self.enough.most

    def _count_left(
        self, connection: LedgerConnection, launches: Sequence[PlannedLaunch], now: datetime
    ) -> list[Counter[str]]:
        """Return the number of messages that people may still get, by each cap: the campaign's and by law."""
        wanted: dict[FrequencyCap, set[str]] = {}
        for launch in launches:
            for cap in (self.cap, *launch.caps):
                if cap is not None:
                    wanted.setdefault(cap, set()).update(launch.phones)
        if wanted:
            # Another run may be counting now: one of the two has to be first.
            exclude_others(connection)
        found = []
        for cap, phones in wanted.items():
            recent = read_recent(connection, self.key, format_moment(now - cap.within), phones)
            found.append(Counter({phone: cap.messages - recent.count(phone) for phone in phones}))
        return found


@dataclass(slots=True)
class Admission:
    """The launches that may be sent, and the recipients removed.

    Attributes:
        opted_out: recipients who have opted out, or may have, since the plan was made.
        capped: recipients who have reached a frequency cap since.
        open_session: phones of recipients to whom another campaign has sent a survey since.
        pause: a person's decision to pause the campaign: nothing of it may be sent.
        has_enough: whether enough people have answered, so that nothing of it is sent.
    """

    launches: list[PlannedLaunch] = field(default_factory=list)
    opted_out: int = 0
    capped: int = 0
    open_session: list[str] = field(default_factory=list)
    pause: Pause | None = None
    has_enough: bool = False

    def add(
        self,
        launches: Sequence[PlannedLaunch],
        barred: set[str],
        sessions: KnownPeople[OpenSession],
        left: Sequence[Counter[str]],
    ) -> None:
        """Add launches without the recipients who may not be texted.

        `left` has the messages that people may still get, by cap, and is counted down.
        """
        for launch in launches:
            kept = []
            for phone in launch.phones:
                if phone in barred:
                    continue
                if _may_queue(launch) and sessions.find(phone) is not None:
                    self.open_session.append(phone)
                    continue
                own = [one for one in left if phone in one]
                if any(one[phone] <= 0 for one in own):
                    self.capped += 1
                    continue
                for one in own:
                    one[phone] -= 1
                kept.append(phone)
            if len(kept) == len(launch.phones):
                self.launches.append(launch)
            elif kept:
                self.launches.append(replace(launch, phones=tuple(kept)))


def _may_queue(launch: PlannedLaunch) -> bool:
    return not launch.message.complete_existing_sessions
