"""Gathers what plans depend on besides campaigns and their own records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.frequency import RecentDeliveries, read_recent
from runner.ledger.moment import format_moment
from runner.ledger.opt_outs import Suppressions, read_suppressions
from runner.ledger.record import list_unentered, read_earlier_messages
from runner.ledger.target_key import read_target_key
from runner.plan.circumstances import Circumstances
from runner.timing.law import load_law

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.cli.workspace import Workspace
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.record import Record


class CircumstanceReader:
    """Reads circumstances for the campaigns of one command.

    Args:
        workspace: names the target.
        ledger: open; None if there is none yet.
        now: the moment for which is planned; any aware time.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger | None, now: datetime) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._now = now
        self._suppressions: Suppressions | None = None
        self._records: list[tuple[Campaign, Record]] = []

    def note_records(self, records: list[tuple[Campaign, Record]]) -> None:
        """Take note of the campaigns of this command: their lockfiles count for frequency caps.

        Args:
            records: campaigns, each with what is on record of it.
        """
        self._records = records

    def read(self, campaign: Campaign, planned: Mapping[int, int]) -> Circumstances:
        """Return the circumstances of one campaign.

        Args:
            campaign: the campaign.
            planned: what campaigns before it, in the same run, will send, by phone as a number.

        Raises:
            LedgerError: the ledger cannot be read, or a key that it was written with is not at hand.
            LockfileError: the lockfile cannot be read.
        """
        after = {message.after.message for message in campaign.messages if message.after is not None}
        identity = self._workspace.identify(campaign)
        return Circumstances(
            now=self._now,
            suppressions=self._read_suppressions(),
            earlier=read_earlier_messages(self._ledger, identity, after) if after else {},
            recent=self._read_recent(campaign),
            planned=planned,
            law=load_law() if campaign.policy.quiet_hours == "legal" else None,
        )

    def _read_suppressions(self) -> Suppressions | None:
        if self._suppressions is None and self._ledger is not None:
            target = self._workspace.target
            with self._ledger.reading() as connection:
                key = read_target_key(connection, target.name, target.state_key)
                self._suppressions = read_suppressions(connection, key)
        found = self._suppressions
        return found if found is not None and (found.confirmed or found.doubtful) else None

    def _read_recent(self, campaign: Campaign) -> RecentDeliveries | None:
        cap = campaign.policy.frequency_cap
        if cap is None:
            return None
        target = self._workspace.target
        since = format_moment(self._now - cap.within)
        recorded = tuple(self._list_unentered(since))
        if self._ledger is None:
            return RecentDeliveries(recorded)
        with self._ledger.reading() as connection:
            entered = read_recent(connection, target.name, target.state_key, since)
        return RecentDeliveries((*entered.shelves, *recorded))

    def _list_unentered(self, since: str) -> Iterator[tuple[str, FingerprintKey, FingerprintSet]]:
        """Yield what only lockfiles tell of: a machine that plans need not have the ledger of who sends."""
        for campaign, record in self._records:
            launches = list_unentered(self._ledger, self._workspace.identify(campaign))
            people = [name for launch in launches if launch.sent_at >= since for name in launch.recipients]
            if people and record.key is not None:
                yield campaign.name, record.key, FingerprintSet(sorted(people))
