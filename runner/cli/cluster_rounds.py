"""The rounds in which a campaign is sent on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from runner.cli.delivery import ROUNDS
from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.cli.campaign_run import CampaignRun
    from runner.cli.planning import PlannedHead
    from runner.cluster.coordinator import Coordinator
    from runner.cluster.sending import PartitionReport, SendingOrder


class RoundSender(Protocol):
    """What rounds ask of the run that they belong to."""

    def send_round(
        self, coordinator: Coordinator, order: SendingOrder, partitions: Sequence[int], total: int
    ) -> list[PartitionReport]:
        """Have partitions sent; return what their tasks did, once none of them can send any more."""

    def refresh(self, run: CampaignRun, order: SendingOrder, reports: Sequence[PartitionReport]) -> None:
        """Have a run's summary say what the ledger says by now."""

    def settle_round(self, item: PlannedHead) -> frozenset[str]:
        """Settle what is unclear, if anything is; return the keys of launches that are free again."""

    def has_ended(self, run: CampaignRun) -> bool:
        """Return whether nothing more is to be sent."""


class ClusterRounds:
    """Sends a campaign in rounds: what a round has left, because workers were lost or launches freed again.

    Args:
        delivery: the run.
        coordinator: of the campaign.
        run: what the run does with the campaign.
        order: what is to be sent.

    Attributes:
        failure: what kept partitions from being sent to their end.
    """

    def __init__(
        self, delivery: RoundSender, coordinator: Coordinator, run: CampaignRun, order: SendingOrder
    ) -> None:
        self._delivery = delivery
        self._coordinator = coordinator
        self._run = run
        self._order = order
        self._reports: dict[int, PartitionReport] = {}
        self.failure = coordinator.failure

    def run(self, partitions: Sequence[int]) -> None:
        """Send partitions, until nothing is left of them, or nothing more comes of it.

        Args:
            partitions: their numbers.

        Raises:
            RunnerError: the ledger cannot be used.
        """
        accepted = -1
        for number in range(1, ROUNDS + 1):
            order = replace(self._order, round=number)
            total = sum(message.to_send for message in self._run.planned.plan.messages)
            for report in self._delivery.send_round(self._coordinator, order, partitions, total):
                self._reports[report.partition] = report
            freed = self._delivery.settle_round(self._run.planned)
            # After it: what it adopts is counted, too, also where the service could be asked only once.
            self._refresh()
            partitions = [each for each in partitions if self._is_left(each, has_freed=bool(freed))]
            self.failure = self._coordinator.failure or self._find_failure(partitions)
            count = self._run.summary.count("sent")
            if not partitions or self._delivery.has_ended(self._run):
                return
            if accepted == count or self._coordinator.failure is not None:
                break
            accepted = count
        self.failure = self.failure or self._describe_rest(partitions)

    def _describe_rest(self, partitions: Sequence[int]) -> RunnerError | None:
        """Return what to say of partitions that no task came to the end of, whose tasks have met no error."""
        left = [
            each for each in partitions if each not in self._reports or not self._reports[each].is_complete
        ]
        if not left:
            return None
        name = self._run.planned.campaign.name
        return RunnerError(
            f"{name}: {len(left)} of the plan's partitions were not sent to the end: "
            "their tasks lost touch with this run again and again",
            hint="everything that was sent is recorded; run the same command again to send the rest",
        )

    def _refresh(self) -> None:
        self._delivery.refresh(self._run, self._order, list(self._reports.values()))

    def _is_left(self, partition: int, *, has_freed: bool) -> bool:
        report = self._reports.get(partition)
        return report is None or not report.is_complete or bool(has_freed and report.unclear)

    def _find_failure(self, partitions: Sequence[int]) -> RunnerError | None:
        found = (self._reports[each].failure for each in partitions if each in self._reports)
        return next(filter(None, found), None)
