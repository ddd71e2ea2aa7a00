"""What a run on a cluster did with a campaign: counted in the ledger, which alone has all its launches."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from runner.cluster.on_record import TRIED_AGAIN
from runner.deliver.summary import TOO_LATE, Delivered, DeliverySummary
from runner.deliver.watch import OPTED_OUT
from runner.ledger.cluster_run import read_run_state
from runner.ledger.run_tally import TallyRow, iterate_run, tally_run
from runner.service.model import SendReply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.cluster.sending import PartitionReport
    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchState

_IGNORED = (OPTED_OUT, TRIED_AGAIN)
MOST_LISTED = 10_000
"""Launches that a summary names one by one; of runs with more it only has the numbers."""


@dataclass(slots=True)
class RunSummary(DeliverySummary):
    """What a run did with one campaign, as numbers.

    Attributes:
        tally: the run's launches, those together that ended alike.
    """

    tally: list[TallyRow] = field(default_factory=list)

    def refresh(
        self,
        ledger: Ledger,
        campaign_id: int,
        run: str,
        run_id: str,
        reports: Iterable[PartitionReport],
    ) -> None:
        """Take over what is known by now.

        Args:
            ledger: is read.
            campaign_id: the ledger's number of the campaign.
            run: which the launches are recorded with.
            run_id: the run on the cluster.
            reports: the latest one of each partition.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        with ledger.reading() as connection:
            self.tally = tally_run(connection, campaign_id, run, ignored=_IGNORED)
            listed = iterate_run(connection, campaign_id, run, ignored=_IGNORED)
            found = list(islice(listed, MOST_LISTED)) if self.is_listed else []
            state = read_run_state(connection, run_id)
        self.launches = [
            Delivered(one.key, one.message, one.state, one.recipients, one.project_launch_guid, one.detail)
            for one in found
        ]
        told = list(reports)
        self.deferred = sum(report.deferred for report in told)
        self.opted_out = sum(report.opted_out for report in told)
        self.capped = sum(report.capped for report in told)
        self.open_session = sum(report.open_session for report in told)
        self.waiting = sum(report.waiting for report in told)
        if state is not None and state.final is not None:
            final = state.final
            self.final_reply = SendReply(
                "rejected", detail=final.detail, status=final.status, is_final_for_run=True
            )

    def count(self, outcome: LaunchState) -> int:
        """Return the number of launches with an outcome."""
        return sum(row.launches for row in self.tally if row.state == outcome)

    @property
    def is_listed(self) -> bool:
        """Whether `launches` has all of them: of a run with more than 10,000 it has none."""
        return sum(row.launches for row in self.tally) <= MOST_LISTED

    @property
    def recipients_tried(self) -> int:
        """The recipients of all launches that have an outcome."""
        return sum(row.recipients for row in self.tally)

    @property
    def has_outcomes_in_time(self) -> bool:
        """Whether there are launches that have an outcome, and were not too late."""
        return any(row.detail != TOO_LATE for row in self.tally)

    @property
    def failure_details(self) -> set[str | None]:
        """What is told of the launches that were not sent."""
        return {row.detail for row in self.tally if row.state != "sent"}

    @property
    def launches_too_late(self) -> int:
        """The launches whose hours ended after their intent was recorded; all of them were not sent."""
        return sum(row.launches for row in self.tally if row.detail == TOO_LATE)

    @property
    def recipients_too_late(self) -> int:
        """The recipients of launches whose hours ended after their intent was recorded."""
        return sum(row.recipients for row in self.tally if row.detail == TOO_LATE)

    @property
    def has_failures(self) -> bool:
        """Whether launches were refused, or not sent for another reason than the hour."""
        return any(
            row.state == "rejected" or (row.state == "not_sent" and row.detail != TOO_LATE)
            for row in self.tally
        )

    @property
    def recipients_sent(self) -> int:
        """The recipients of the launches that the service accepted."""
        return sum(row.recipients for row in self.tally if row.state == "sent")
