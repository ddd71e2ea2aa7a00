"""The campaigns that a run holds: nobody else sends or records them until it ends."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, TypeVar

from runner.cli.inquiry import Inquiry
from runner.cli.reserving import Reserving
from runner.cli.signals import interrupt_run
from runner.ledger.lockfile_writer import require_writable
from runner.ledger.unexplained import has_unexplained
from runner.ledger.unsettled import count_unsettled, list_unsettled

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from runner.campaign.model import Campaign
    from runner.cli.campaign_run import RunOptions
    from runner.cli.planning import PlannedHead
    from runner.cli.workspace import Workspace
    from runner.deliver.match import Verdict
    from runner.deliver.preflight import PayloadFinder
    from runner.ledger.database import Ledger
    from runner.ledger.lock import CampaignLock
    from runner.ledger.recorded import Record, RecordHead, SummedRecord
    from runner.service.client import ServiceClient
    from runner.service.target import Target

_Found = TypeVar("_Found", "Record", "SummedRecord")
_Opened = TypeVar("_Opened")


class Custody:
    """Holds the locks of campaigns, what is on record of them, and the way to the service.

    Args:
        workspace: where to send and record.
        ledger: open for writing.
        options: how to go about it.

    Attributes:
        stop: ends every wait when it is set.
        inquiry: asks the service about launches.
        reserving: has launches on the state remote.
        adopted: how many launches were found to have been sent, by the campaign's name.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger, options: RunOptions) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._options = options
        self._stack = ExitStack()
        self._service: tuple[ServiceClient, Target] | None = None
        self._records: dict[str, RecordHead] = {}
        self._locks: dict[str, CampaignLock] = {}
        window_s = options.settle_window_s
        self.adopted: Counter[str] = Counter()
        self.reserving = Reserving(workspace, ledger)
        self.stop = threading.Event()
        self.inquiry = Inquiry(
            workspace,
            ledger,
            lambda: self.open_service()[0],
            self.lock_of,
            window_s=workspace.target.settle_window if window_s is None else window_s,
            stop=self.stop,
            quiet=options.quiet,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all."""
        self._stack.close()

    @property
    def is_behind(self) -> bool:
        """Whether the state remote could not be told of everything; of a run that was closed."""
        return self.reserving.is_behind

    def keep_open(self, opening: AbstractContextManager[_Opened]) -> _Opened:
        """Open something that is closed when the run ends."""
        return self._stack.enter_context(opening)

    def open_service(self) -> tuple[ServiceClient, Target]:
        """Return a client of the service, and the target with what it was told; one for the whole run."""
        if self._service is None:
            opening = self._workspace.open_service(self._options.concurrency, self.stop.wait)
            self._service = self.keep_open(opening)
        return self._service

    def lock_of(self, name: str) -> CampaignLock:
        """Return the lock of a campaign that is held."""
        return self._locks[name]

    def enter_settled(self, campaign: Campaign, enter: Callable[[Campaign], _Found]) -> _Found:
        """Lock a campaign, enter it, and settle what earlier runs left open.

        Args:
            campaign: the campaign.
            enter: `enter` or `enter_summed`.

        Raises:
            RunLockedError: another run holds the lock.
            ServiceError: there is something to settle, and the service cannot be asked.
            InterruptedRunError: it was told to stop while it settled.
        """
        self._lock(campaign)
        record = enter(campaign)
        if not record.is_unclear():
            return record
        found = self.inquiry.settle(campaign, record)
        self.note_adopted(campaign, len(found.adopted))
        if found.failure is not None:
            raise found.failure
        if self.stop.is_set():
            raise interrupt_run()
        return enter(campaign)

    def enter(self, campaign: Campaign) -> Record:
        """Fill the ledger from the lockfile of a campaign that is held; return what is on record of it."""
        record = self._records[campaign.name] = self._workspace.enter_record(self._ledger, campaign)
        return record

    def enter_summed(self, campaign: Campaign) -> SummedRecord:
        """Do the same without reading who was texted."""
        record = self._workspace.enter_summed_record(self._ledger, campaign)
        self._records[campaign.name] = record
        return record

    def judge(self, campaign: Campaign) -> list[Verdict]:
        """Lock a campaign and return what the service's list says of its launches of unknown outcome.

        Raises:
            RunLockedError: another run holds the lock.
            ServiceError: there are such launches, and the service cannot be asked.
        """
        self._lock(campaign)
        return self.inquiry.judge(campaign, self.enter(campaign))

    def find_lost(self, item: PlannedHead, finder: PayloadFinder) -> bool:
        """Look for launches that the service knows and the record doesn't; return whether to plan anew.

        Where nothing is to be sent, and nobody is held, nobody is asked.

        Raises:
            RunnerError: as `Inquiry.find_lost` says.
        """
        if not item.plan.recipients_to_send and not self._has_unexplained(item.record):
            return False
        require_writable(self._workspace.identify(item.campaign).lockfile)
        found = self.inquiry.find_lost(item, finder)
        self.note_adopted(item.campaign, found.adopted)
        self.inquiry.refuse_if_blind(item.campaign, found)
        return found.has_changed_record

    def record_of(self, campaign: Campaign) -> RecordHead:
        """Return what is on record of a campaign that this run has entered."""
        return self._records[campaign.name]

    def list_unsettled_keys(self, campaign: Campaign) -> set[str]:
        """Return the keys of a campaign's launches of unknown outcome."""
        campaign_id, _ = self.record_of(campaign).require_entered()
        with self._ledger.reading() as connection:
            return {launch.key for launch in list_unsettled(connection, campaign_id)}

    def note_adopted(self, campaign: Campaign, launches: int) -> None:
        """Count launches that turned out to have been sent, and have the lockfile name them.

        At once: whatever keeps this run from sending, the next one shall know.
        """
        if launches:
            self.adopted[campaign.name] += launches
            self.rewrite_lockfile(campaign)

    def rewrite_lockfile(self, campaign: Campaign) -> None:
        """Write the lockfile of a campaign that this run has entered, and keep it on the state remote.

        Raises:
            LedgerError: the campaign's lock was lost: the lockfile is another run's now.
            LockfileError: it cannot be written.
        """
        self.lock_of(campaign.name).require_latched()
        self._workspace.rewrite_lockfile(self._ledger, campaign, self._records[campaign.name])
        self.reserving.keep(campaign, self._records[campaign.name])

    def _has_unexplained(self, record: RecordHead) -> bool:
        campaign_id, _ = record.require_entered()
        with self._ledger.reading() as connection:
            return has_unexplained(connection, campaign_id)

    def count_unsettled(self, record: RecordHead) -> int:
        """Return how many of a campaign's launches are of unknown outcome."""
        campaign_id, _ = record.require_entered()
        with self._ledger.reading() as connection:
            return count_unsettled(connection, campaign_id)

    def _lock(self, campaign: Campaign) -> None:
        options = self._options
        self.reserving.hold(
            self._stack,
            options.lock_timeout_s,
            settle_window_s=options.settle_window_s,
            quiet=options.quiet,
        )
        lock = self._workspace.hold_lock(
            self._ledger, campaign, timeout_s=options.lock_timeout_s, quiet=options.quiet
        )
        self._locks[campaign.name] = self.keep_open(lock)
