"""Reports of result rows, by way of the engine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from runner.ledger.report_model import FeedRow, ResultVersion
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns
from runner.report.metrics import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.report.facts import CampaignFacts, CampaignTally
    from runner.report.model import CampaignReport


def count_rows(
    facts: CampaignFacts, rows: Iterable[FeedRow], refusals: Iterable[tuple[int, str]] = ()
) -> CampaignTally:
    """Return what is counted in rows that the ledger could have, some of which opt out."""
    with tempfile.TemporaryDirectory() as folder:
        columns = ResultColumns(Path(folder))
        with columns.hold() as engine:
            columns.refresh(engine, ResultVersion("edition", 1), lambda _: rows, lambda _: "", refusals)
            return count_campaign(engine, [outline for outline, _ in facts.messages], {})


def report_rows(
    facts: CampaignFacts, rows: Iterable[FeedRow], refusals: Iterable[tuple[int, str]] = ()
) -> CampaignReport:
    """Return the report of rows that the ledger could have, some of which opt out."""
    return summarise(facts, count_rows(facts, rows, refusals))


def make_row(
    participant: str,
    tag: str,
    response: str,
    answer: str = "1",
    *,
    message: str = "ask",
    arm: str = "",
    started: str = "2026-11-20T09:00:00",
    text: str = "as asked",
    created: str = "2026-11-20T10:00:00",
    guid: str = "g",
) -> FeedRow:
    """Return one row, as the ledger feeds it."""
    return FeedRow(message, arm, started, 1, f"{guid}", participant, tag, text, 1, answer, response, created)
