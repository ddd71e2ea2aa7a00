"""What a run asks the service about: launches that no record, or an unclear one, tells of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from runner.cli.console import count_words, note, warn
from runner.cli.signals import interrupt_run, stop_on_signals
from runner.deliver.preflight import Preflight, PreflightSummary, describe_foreign
from runner.deliver.settle import Settler, SettleSummary
from runner.deliver.subject import Subject

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

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
        return found

    def find_lost(self, item: PlannedHead, finder: PayloadFinder) -> PreflightSummary:
        """Adopt the launches that the service knows, the record doesn't, and the plan would send again.

        Args:
            item: the campaign, planned.
            finder: says what its recipients would get.

        Raises:
            ServiceError: the service cannot be asked.
        """
        preflight = Preflight(self._describe(item.campaign, item.record))
        # All of them: what is adopted of one message may make a follow-up due that was sent, too.
        tags = [tag for message in item.campaign.messages for tag in item.campaign.list_tags(message.id)]
        found = preflight.check(finder, tags)
        if not self._said.issuperset(found.foreign):
            self._said.update(found.foreign)
            warn(describe_foreign(item.campaign.name, found))
        if found.adopted:
            launches = count_words(found.adopted, "launch", "launches")
            note(f"{item.campaign.name}: adopted {launches} that the service knows and the record had lost.")
        return found

    def wait_for_more(self, campaign: Campaign, found: PreflightSummary) -> bool:
        """Wait until whatever else a lost run has sent must be listed; return whether there was need to.

        Raises:
            InterruptedRunError: the run was told to stop meanwhile.
        """
        if not found.is_recent(self._workspace.now(), timedelta(seconds=self._window_s)):
            return False
        with stop_on_signals(self._stop):
            is_stopped = self._wait(campaign, self._window_s, "more of what was lost")
        if is_stopped:
            raise interrupt_run()
        return True

    def _make_settler(self, campaign: Campaign, record: RecordHead) -> Settler:
        return Settler(
            self._describe(campaign, record),
            window_s=self._window_s,
            wait=lambda seconds: self._wait(campaign, seconds, "launches of unknown outcome"),
        )

    def _describe(self, campaign: Campaign, record: RecordHead) -> Subject:
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
        )

    def _wait(self, campaign: Campaign, seconds: float, what: str) -> bool:
        if not self._quiet:
            note(f"{campaign.name}: waiting {seconds:g} s for {what} to be listed.")
        return self._stop.wait(seconds)
