"""Keeps how an `apply` found its audiences, for the funnel of reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from runner.ledger.report_model import AudienceRow
from runner.ledger.sendings import store_audiences
from runner.plan.model import Disposition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.cli.planning import PlannedHead
    from runner.ledger.database import Ledger
    from runner.plan.model import MessagePlan


def keep_audiences(ledger: Ledger, planned: Sequence[PlannedHead], at: str) -> None:
    """Keep the counts of plans that are about to be sent, in the place of those of the run before.

    Args:
        ledger: open for writing.
        planned: plans of campaigns that are entered.
        at: UTC, ISO 8601.
    """
    with ledger.writing() as connection:
        for item in planned:
            campaign_id, _ = item.record.require_entered()
            rows = [_describe(message, at) for message in item.plan.messages]
            store_audiences(connection, campaign_id, rows)


def _describe(message: MessagePlan, at: str) -> AudienceRow:
    counts = {name: getattr(message, name) for name in get_args(Disposition)}
    return AudienceRow(
        message.id, at, message.recipients, {name: count for name, count in counts.items() if count}
    )
