"""Questions of a run to the service, about launches that are missing from the ledger, or unresolved in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from runner.cli.circumstances import find_lockfiles
from runner.cli.console import count_words, note, warn
from runner.cli.signals import interrupt_run, stop_on_signals
from runner.deliver.preflight import Preflight, PreflightSummary
from runner.deliver.settle import Settler, SettleSummary
from runner.deliver.subject import Subject
from runner.errors import UnusableListError
from runner.ledger.sendings import was_planned
from runner.ledger.siblings import list_told_guids
from runner.ledger.unsettled import list_tags

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from runner.campaign.model import Campaign
    from runner.cli.planning import PlannedHead
    from runner.cli.workspace import Workspace
    from runner.deliver.match import Verdict
    from runner.deliver.preflight import PayloadFinder
    from runner.ledger.database import Ledger
    from runner.ledger.recorded import Record, RecordHead, SummedRecord
    from runner.ledger.run_lock import RunLock
    from runner.service.client import ServiceClient


class Inquiry:
    """Asks the service, for a run that holds the locks of its campaigns.

    Args:
        workspace: names the target.
        ledger: where what is found out goes.
        open_client: returns a client of the service.
        find_lock: returns the lock of a campaign, by its name.
        window_s: how long a launch may take to be listed, in seconds.
        stop: ends every wait when it is set.
        quiet: say nothing of waits and of what was settled.
    """

    def __init__(
        self,
        workspace: Workspace,
        ledger: Ledger,
        open_client: Callable[[], ServiceClient],
        find_lock: Callable[[str], RunLock],
        *,
        window_s: float,
        stop: threading.Event,
        quiet: bool,
    ) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._open_client = open_client
        self._find_lock = find_lock
        self._window_s = window_s
        self._stop = stop
        self._quiet = quiet
        self._said: set[str] = set()
        # The campaigns of which a run was lost that may have sent more than was listed at first.
        self._surprised: set[str] = set()
        # On a clock that nobody sets: what a run that was lost before has sent is listed a window after this.
        self._began = time.monotonic()

    def judge(self, campaign: Campaign, record: Record | SummedRecord) -> list[Verdict]:
        """Return what the service's list says of a campaign's launches of unknown outcome.

        Raises:
            ServiceError: there are such launches, and the service cannot be asked.
        """
        return self._make_settler(campaign, record).judge() if record.is_unclear() else []

    def settle(self, campaign: Campaign, record: RecordHead) -> SettleSummary:
        """Find out what became of a campaign's launches of unknown outcome.

        Raises:
            ServiceError: the service cannot be asked; if only a second time, the summary has the error.
        """
        with stop_on_signals(self._stop):
            found = self._make_settler(campaign, record).settle()
        if found.adopted and not self._quiet:
            launches = count_words(len(found.adopted), "launch", "launches")
            note(f"{campaign.name}: {launches} of unknown outcome had been sent; recorded.")
        if found.doubt is not None and found.waiting:
            warn(f"{campaign.name}: {found.doubt}: what it lacks is not proven unsent, and stays unresolved")
        return found

    def find_lost(self, item: PlannedHead, finder: PayloadFinder) -> PreflightSummary:
        """Look, before the first send, for launches that the service knows and the record doesn't.

        Those that the plan would send again are adopted; the people of others are held. Where a run was
        lost, or nothing says that this is the first one, the lists are believed when the settle window is
        over.

        Args:
            item: the campaign, planned.
            finder: says what its recipients would get.

        Raises:
            ServiceError: the service cannot be asked.
            InterruptedRunError: the run was told to stop meanwhile.
        """
        campaign = item.campaign
        subject = self.describe(campaign, item.record)
        is_late, may_be_lost = self._is_over, self._may_be_lost(subject)
        found = self._look(item, subject, finder)
        if found.is_surprising:
            self._surprised.add(campaign.name)
        is_early = not is_late and (may_be_lost or campaign.name in self._surprised)
        # A list with a gap may be late: it is given the window once.
        is_worth_waiting = bool(item.plan.recipients_to_send) and (is_early or found.gap is not None)
        if is_worth_waiting and not found.has_changed_record:
            self._wait_for_lists(campaign)
            found = self._look(item, subject, finder)
        return found

    @property
    def _is_over(self) -> bool:
        """Whether all that was sent before this run must be listed by now."""
        return time.monotonic() - self._began >= self._window_s

    def _may_be_lost(self, subject: Subject) -> bool:
        """Return whether a run may have been lost of which nothing is known here.

        A ledger in which no run of the campaign has come this far may be a new one; a record that all
        machines share would know of it.
        """
        if subject.is_embedded or self._workspace.state is not None:
            return False
        with self._ledger.reading() as connection:
            return not was_planned(connection, subject.campaign_id, is_shared=self._ledger.file is None)

    def _look(self, item: PlannedHead, subject: Subject, finder: PayloadFinder) -> PreflightSummary:
        campaign = item.campaign
        with self._ledger.reading() as connection:
            recorded = list_tags(connection, subject.campaign_id)
        found = Preflight(subject, self._window_s, lambda: self._list_told(campaign)).check(
            finder, _list_tags(campaign, recorded), is_first=not recorded
        )
        if found.adopted:
            launches = count_words(found.adopted, "launch", "launches")
            note(f"{campaign.name}: adopted {launches} that the service knows and the record had lost.")
        for text in _describe_unexplained(campaign.name, found):
            if text not in self._said:
                self._said.add(text)
                warn(text)
        return found

    def _list_told(self, campaign: Campaign) -> set[str]:
        """Return the guids in the lockfiles of other campaigns, which this run's ledger need not know."""
        target, state = self._workspace.target, self._workspace.state
        shared = state.tell_others([campaign.name]) if state is not None else {}
        return list_told_guids(find_lockfiles([campaign], target.name), shared, target.state_key)

    @staticmethod
    def refuse_if_blind(campaign: Campaign, found: PreflightSummary) -> None:
        """Refuse to send where the lists don't show what a lost run may have sent.

        Raises:
            UnusableListError: they prove nothing.
        """
        if found.gap is not None and not found.has_changed_record:
            raise UnusableListError(
                f"{campaign.name}: {found.gap}: its list does not show what a lost run may have sent. "
                "Nothing was sent",
                hint="run the same command again later; if it stays so, ask the service's provider",
            )

    def _wait_for_lists(self, campaign: Campaign) -> None:
        since = time.monotonic() - self._began
        left = self._window_s - since if since < self._window_s else self._window_s
        with stop_on_signals(self._stop):
            is_stopped = self._wait(campaign, left, "launches of a run that may have been lost")
        if is_stopped:
            raise interrupt_run()

    def _make_settler(self, campaign: Campaign, record: RecordHead) -> Settler:
        return Settler(
            self.describe(campaign, record),
            window_s=self._window_s,
            wait=lambda seconds: self._wait(campaign, seconds, "launches of unknown outcome"),
        )

    def describe(self, campaign: Campaign, record: RecordHead) -> Subject:
        """Return a campaign with the two that know of its launches: the ledger and the service."""
        campaign_id, key = record.require_entered()
        return Subject(
            ledger=self._ledger,
            client=self._open_client(),
            target=self._workspace.target.name,
            campaign_id=campaign_id,
            campaign=campaign.name,
            key=key,
            now=self._workspace.now_text,
            lock=self._find_lock(campaign.name),
            is_embedded=self._workspace.target.base_url is None,
        )

    def _wait(self, campaign: Campaign, seconds: float, what: str) -> bool:
        if seconds and not self._quiet:
            note(f"{campaign.name}: waiting {max(seconds, 0.1):.3g} s for {what} to be listed.")
        return self._stop.wait(seconds)


def _list_tags(campaign: Campaign, recorded: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return by message id the tags that it has, and those that it may have had."""
    # All messages: what is adopted of one may make a follow-up due that was sent, too.
    return {
        message.id: {*campaign.list_tags(message.id), *campaign.renamed_from, *recorded.get(message.id, ())}
        for message in campaign.messages
    }


def _describe_unexplained(campaign: str, found: PreflightSummary) -> Iterator[str]:
    """Yield the words on launches that nobody here can account for."""
    for guids, what in (
        (
            found.unexplained,
            "The people that they may have reached are held: `runner resolve` shows them, and settles it",
        ),
        (found.foreign, "They reached nobody who is to be texted"),
    ):
        if guids:
            launches = count_words(len(guids), "launch", "launches")
            yield (
                f"{campaign}: no record explains {launches} known to the service under its tags, "
                f"first: {guids[0]}. {what}"
            )
