"""The campaigns that a run holds, so that no other run sends or records them, and what it asks the service.

Questions are about launches that are missing from the ledger, or unresolved in it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self, TypeVar

from runner.campaign.message_model import name_wave
from runner.delivery.campaign_ref import ListedCampaign
from runner.delivery.recovery import LostLaunches, Recovery, SettleSummary
from runner.errors import UnusableListError
from runner.ledger.files.lockfile import require_writable
from runner.ledger.model import CampaignLaunches
from runner.ledger.record.campaign_record import enter_record, rewrite_lockfile
from runner.ledger.record.deliveries import count_states
from runner.ledger.record.entry import list_unexplained
from runner.ledger.record.unsettled import OPEN, UNEXPLAINED, list_tags
from runner.ledger.results.sendings import is_behind, note_behind, was_planned
from runner.plan.planner import find_payloads
from runner.wording import count_words
from runner.workflow.delivery.campaign_run import RunOptions, interrupt_run
from runner.workflow.delivery.remote_intents import RemoteIntents
from runner.workflow.observer import note, stop_on_interrupt, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from runner.campaign.model import Campaign
    from runner.delivery.comparison import Verdict
    from runner.ledger.database import Ledger
    from runner.ledger.locks.campaign_lock import CampaignLock
    from runner.ledger.record.campaign_record import Record
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import Offer
    from runner.service.client import ServiceClient
    from runner.service.target import Target
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.workspace import Workspace

_Answer = TypeVar("_Answer")
_DEFAULT_OPTIONS = RunOptions()


class ApplySession:
    """The locks and records of a run's campaigns, and its connection to the service, until closed.

    Attributes:
        stop: ends every wait.
        stack: exits with the run.
        locks: those of held campaigns, by name.
        remote_intents: reservations on the state remote.
        adopted: numbers of launches found to have been sent, by campaign.
        is_idle: nothing is to be sent or settled, so that the state remote need not be held.
    """

    def __init__(
        self, workspace: Workspace, ledger: Ledger, scope: Scope, options: RunOptions = _DEFAULT_OPTIONS
    ) -> None:
        self.workspace = workspace
        self.ledger = ledger
        self.scope = scope
        self.options = options
        self.adopted: Counter[str] = Counter()
        self.is_idle = False
        self.remote_intents = RemoteIntents(workspace, ledger)
        self.stop = threading.Event()
        self.stack = ExitStack()
        self.locks: dict[str, CampaignLock] = {}
        # The ledger's numbers of entered campaigns, by name.
        self._entered: dict[str, int] = {}
        window_s = options.settle_window_s
        self._window_s = workspace.target.settle_window if window_s is None else window_s
        self._said: set[str] = set()
        # Campaigns with a lost run that may have sent more than was listed at first.
        self._surprised: set[str] = set()
        # By a monotonic clock: sends of earlier, lost runs are listed one window after this.
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @cached_property
    def service(self) -> tuple[ServiceClient, Target]:
        """The run's client of the service, and the target with the sandbox's settings."""
        opening = self.workspace.open_service(self.options.concurrency, self.stop.wait)
        return self.stack.enter_context(opening)

    def describe(self, campaign: Campaign) -> ListedCampaign:
        """Return a held campaign with its two sources of launches: ledger and service."""
        return ListedCampaign(
            ledger=self.ledger,
            client=self.service[0],
            target=self.workspace.target.name,
            campaign_id=self.number(campaign),
            campaign=campaign.name,
            key=self.workspace.key,
            wave=campaign.wave,
            now=self.workspace.now_text,
            lock=self.locks[campaign.name],
            is_embedded=self.workspace.target.base_url is None,
        )

    def enter_settled(self, campaign: Campaign) -> Record:
        """Lock a campaign, import its record, and settle unresolved launches of earlier runs.

        Rejected ones are among them, once: an answer is no proof.

        Raises:
            RunLockedError: another run holds the lock.
            ServiceError: there is something to settle, and the service cannot be asked.
            InterruptedRunError: the run was stopped while settling.
        """
        self._lock(campaign)
        record = self.enter(campaign, reopens_rejected=True)
        if self.is_idle or not record.is_unclear():
            return record
        found = self.settle(campaign)
        self._note_adopted(campaign, found.adopted)
        if found.failure is not None:
            raise found.failure
        if self.stop.is_set():
            raise interrupt_run()
        return self.enter(campaign)

    def enter(self, campaign: Campaign, *, reopens_rejected: bool = False) -> Record:
        """Enter a held campaign's record, and return it, as `campaign_record.enter_record` does."""
        identity, state = self.workspace.identify_safely(campaign), self.workspace.state
        reserved = state.list_reservations(identity.names) if state is not None and state.is_held else []
        record = enter_record(self.ledger, identity, reserved, reopens_rejected=reopens_rejected)
        self._entered[campaign.name] = record.require_entered()
        return record

    def number(self, campaign: Campaign) -> int:
        """Return the ledger's number of a campaign that this run has entered."""
        return self._entered[campaign.name]

    def judge(self, campaign: Campaign) -> list[Verdict]:
        """Lock a campaign, and compare its unresolved launches with the service's list."""
        self._lock(campaign)
        return self.recover(campaign).judge() if self.enter(campaign).is_unclear() else []

    def settle(self, campaign: Campaign) -> SettleSummary:
        """Settle a held campaign's unresolved launches."""
        self.locks[campaign.name].require_held_now()
        with stop_on_interrupt(self.stop):
            found = self.recover(campaign).settle()
        if found.adopted:
            launches = count_words(found.adopted, "launch", "launches")
            note(f"{campaign.name}: {launches} of unknown outcome had been sent; recorded.")
        if found.doubt is not None and found.waiting:
            warn(f"{campaign.name}: {found.doubt}: what it lacks is not proven unsent, and stays unresolved")
        return found

    def find_lost(self, item: PlanResult) -> bool:
        """Look, before the first send, for launches that only the service has; return whether to plan again.

        Launches that the plan would repeat are adopted; recipients of others are held. If a run was lost, or
        this may not be the first one, the lists are trusted only after the settle window. The service is not
        asked if nothing is to be sent and nobody is held.

        Raises:
            ServiceError: the service cannot be asked.
            InterruptedRunError: the run was stopped meanwhile.
            UnusableListError: the lists cannot show launches of a lost run.
        """
        campaign, sends = item.campaign, bool(item.plan.recipients_to_send)
        if self.is_idle or not (sends or self.ask(campaign, list_unexplained)):
            return False
        require_writable(self.workspace.identify(campaign).lockfile)
        subject = self.describe(campaign)
        # Then everything that was sent before this run must be listed.
        is_late, (may_be_lost, has_gaps) = self._left_s <= 0, self._find_doubts(subject)
        found = self._look(campaign, has_gaps=has_gaps)
        if found.is_surprising:
            self._surprised.add(campaign.name)
        is_surprising = campaign.name in self._surprised
        is_early = not is_late and (may_be_lost or is_surprising)
        # A list with a gap may be late, so it gets one window.
        if sends and (is_early or found.gap is not None) and not found.has_changed_record:
            self._wait_for_lists(campaign, is_first=not is_surprising)
            found = self._look(campaign, has_gaps=has_gaps)
        self._note_adopted(campaign, found.adopted)
        if found.has_changed_record:
            return True
        if found.gap is not None:
            raise UnusableListError(
                f"{campaign.name}: {found.gap}: its list does not show what a lost run may have sent. "
                "Nothing was sent",
                hint="run the same command again later; if it stays so, ask the service's provider",
            )
        if has_gaps:
            with self.ledger.writing() as connection:
                note_behind(connection, subject.campaign_id, is_behind=False)
        return False

    @property
    def _left_s(self) -> float:
        return self._began + self._window_s - time.monotonic()

    def _find_doubts(self, subject: ListedCampaign) -> tuple[bool, bool]:
        """Return whether an unknown run may have been lost, and whether the ledger may lack launches.

        A ledger without a run of the campaign may be new, and one that has just lacked launches of the
        lockfile may lack more; a record shared by all machines would have them.
        """
        if self.workspace.state is not None:
            # Its ref has every run, unless it was made anew since the campaign's last one.
            return False, not self.remote_intents.has_record(subject.campaign)
        if subject.is_embedded:
            return False, False
        with self.ledger.reading() as connection:
            is_shared = self.ledger.file is None
            is_new = not was_planned(connection, subject.campaign_id, is_shared=is_shared)
            return is_new, is_new or is_behind(connection, subject.campaign_id)

    def _look(self, campaign: Campaign, *, has_gaps: bool) -> LostLaunches:
        recorded = self.ask(campaign, list_tags)
        found = self.recover(campaign).find_lost(
            partial(self._find_payloads, campaign),
            _list_tags(campaign, recorded),
            is_behind=has_gaps or not recorded,
        )
        if found.adopted:
            launches = count_words(found.adopted, "launch", "launches")
            note(f"{campaign.name}: adopted {launches} that the service knows and the record had lost.")
        if found.unexplained:
            launches = count_words(len(found.unexplained), "launch", "launches")
            text = (
                f"{campaign.name}: no record explains {launches} known to the service, first: "
                f"{found.unexplained[0]}. The people that they may have reached are held: `runner resolve` "
                "shows them, and settles it"
            )
            if text not in self._said:
                self._said.add(text)
                warn(text)
        return found

    def _find_payloads(self, campaign: Campaign, phones: Container[str] | None) -> dict[str, list[Offer]]:
        """Return unsent payloads by phone, due or not, for some recipients (None for all)."""
        record = self.workspace.read_record(self.ledger, campaign)
        return find_payloads(campaign, record.known, self.workspace.key, phones)

    def _wait_for_lists(self, campaign: Campaign, *, is_first: bool) -> None:
        why = "if a run of another machine was lost, the service may still have to list what it sent"
        if is_first:
            why = "this is the first send from here, and the service is asked what it already got"
        with stop_on_interrupt(self.stop):
            is_stopped = self._wait(campaign, self._left_s if self._left_s > 0 else self._window_s, why)
        if is_stopped:
            raise interrupt_run()

    def recover(self, campaign: Campaign) -> Recovery:
        """Return the comparison of a held campaign's record with the service's lists."""
        why = "the service may still have to list launches of unknown outcome"
        return Recovery(
            campaign=self.describe(campaign),
            window_s=self._window_s,
            history_s=self.workspace.target.settle_history,
            wait=partial(self._wait, campaign, why=why),
        )

    def _wait(self, campaign: Campaign, seconds: float, why: str) -> bool:
        if seconds:
            time_s = f"{max(seconds, 0.1):.3g} s"
            note(f"{campaign.name}: waiting {time_s}, so that nobody is texted twice: {why}.")
        return self.stop.wait(seconds)

    def _note_adopted(self, campaign: Campaign, launches: int) -> None:
        if launches:
            # At once, so that the next run knows even if this one cannot send.
            self.adopted[campaign.name] += launches
            self.rewrite_lockfile(campaign)

    def rewrite_lockfile(self, campaign: Campaign) -> None:
        """Write the lockfile of an imported campaign, also to the state remote."""
        self.locks[campaign.name].require_held_now()
        identity = self.workspace.identify(campaign)
        rewrite_lockfile(self.ledger, identity, self.number(campaign))
        self.remote_intents.keep(identity, self.number(campaign))

    def count_unsettled(self, campaign: Campaign) -> int:
        """Return the number of an entered campaign's deliveries of unknown outcome."""
        with self.ledger.reading() as connection:
            counts = count_states(connection, CampaignLaunches(self.number(campaign)))
        return sum(count for (_, state), count in counts.items() if state in (*OPEN, UNEXPLAINED))

    def ask(self, campaign: Campaign, query: Callable[[LedgerConnection, int], _Answer]) -> _Answer:
        """Return the ledger's answer to a query about an entered campaign."""
        with self.ledger.reading() as connection:
            return query(connection, self.number(campaign))

    def _lock(self, campaign: Campaign) -> None:
        timeout_s = self.options.lock_timeout_s
        is_new = not self.is_idle and self.remote_intents.hold(
            self.stack, timeout_s, settle_window_s=self.options.settle_window_s
        )
        if is_new:
            # Another machine may have moved the ref while this one waited.
            self.workspace.files.fill(self.ledger)
        lock = self.workspace.hold_lock(self.ledger, campaign, timeout_s=timeout_s)
        self.locks[campaign.name] = self.stack.enter_context(lock)


def _list_tags(campaign: Campaign, recorded: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the current and possible former tags of messages, by id; those of earlier waves are not."""
    # All messages, since an adopted launch may make a follow-up due that was sent as well.
    wave, former = campaign.wave, campaign.renamed_from
    return {
        message.id: {
            *campaign.list_tags(message.id),
            *(name_wave(name, wave) for name in former),
            *(tag for tag in recorded.get(message.id, ()) if name_wave(tag, wave) == tag),
        }
        for message in campaign.messages
    }
