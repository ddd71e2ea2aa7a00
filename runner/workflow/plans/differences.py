"""Differences between campaigns and their sent versions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from runner.ledger.record.deliveries import SentTexts, read_definitions, read_sent_texts
from runner.plan.difference import compare_with_sent
from runner.source.diagnostic import Problems
from runner.text.include import include_folder
from runner.text.payload import compile_messages
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.record.campaign_record import Record
    from runner.plan.difference import ReadDefinitions
    from runner.plan.documents import PlanDifference
    from runner.workflow.plans.planning import PlanResult

_COMPARED = 200
_MOST_ROWS = 100_000
Differences = dict[str, dict[str, "PlanDifference"]]
"""Differences between campaigns and their sent versions, by name and message."""


def find_differences(ledger: Ledger, planned: Iterable[PlanResult], only: str | None) -> Differences:
    """Return the differences between campaigns and their sent versions, or those of message `only`.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    return {
        item.campaign.name: _compare_campaign(ledger, item.campaign, item.record, only) for item in planned
    }


def list_changed(ledger: Ledger, planned: Iterable[PlanResult]) -> tuple[str, ...]:
    """Return the full names of sent messages whose texts are others now.

    Of each, the first people in the audience who got it are compared; large audiences are not read for it.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    return tuple(
        f"{item.campaign.name}/{message}"
        for item in planned
        if any(one.already_sent and one.rows <= _MOST_ROWS for one in item.plan.messages)
        for message, one in _compare_campaign(ledger, item.campaign, item.record, None, _COMPARED).items()
        if one.changed
    )


def _compare_campaign(
    ledger: Ledger, campaign: Campaign, record: Record, only: str | None, most: int | None = None
) -> dict[str, PlanDifference]:
    compiler = TextCompiler(include_folder(campaign))
    compiled = list(compile_messages(campaign, compiler, Problems(), only))

    def compare(sent: SentTexts, read: ReadDefinitions) -> dict[str, PlanDifference]:
        return compare_with_sent(campaign, compiled, record.known, record.key, sent, read, most)

    if record.campaign_id is None:
        return compare(SentTexts(), lambda _: {})
    with ledger.reading() as connection:
        sent = read_sent_texts(connection, record.campaign_id, campaign.message_ids)
        return compare(sent, partial(read_definitions, connection))
