"""Reports of result rows, by way of the engine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.ledger.report_model import ContactRow, FeedRow, ResultVersion
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns
from runner.report.facts import CampaignFacts, CampaignOutline
from runner.report.gathering import pool_questions
from runner.report.metrics import find_as_of, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.ledger.report_model import MessageTotals
    from runner.report.facts import CampaignTally, MessageOutline
    from runner.report.model import CampaignReport


def build_facts(*messages: tuple[MessageOutline, MessageTotals], **changes: Any) -> CampaignFacts:
    """Return the facts of a campaign with these messages."""
    outlines = tuple(outline for outline, _ in messages)
    outline = CampaignOutline(outlines, tuple(pool_questions(outlines)))
    return CampaignFacts(
        "pulse",
        "live",
        **{"outline": outline, "totals": {one.id: totals for one, totals in messages}, **changes},
    )


def count_rows(
    facts: CampaignFacts,
    rows: Iterable[FeedRow],
    contacts: Iterable[ContactRow] = (),
) -> CampaignTally:
    """Return what is counted in rows that the ledger could have."""
    with tempfile.TemporaryDirectory() as folder:
        columns = ResultColumns(Path(folder))
        with columns.hold() as engine:
            version = ResultVersion("edition", 1)
            columns.refresh(
                engine,
                version,
                lambda _: rows,
                lambda _: "",
                contact_mark="mark",
                read_contacts=lambda: contacts,
            )
            return count_campaign(engine, facts.outline, {}, as_of=find_as_of(facts))


def report_rows(
    facts: CampaignFacts,
    rows: Iterable[FeedRow],
    contacts: Iterable[ContactRow] = (),
) -> CampaignReport:
    """Return the report of rows that the ledger could have."""
    return summarise(facts, count_rows(facts, rows, contacts))


def make_contact(participant: str, status: str = "COMPLETE", *ends: str, **changes: str) -> ContactRow:
    """Return a recipient as the ledger feeds it; `ends` are flags of the session: `stopped` and others."""
    flags = dict.fromkeys(("is_sent", "is_read", "is_listed", *ends), "1")
    was_texted = "0" if status == "QUEUED" or "blocked" in ends else "1"
    return ContactRow(
        **{**dict.fromkeys(ContactRow._fields, "0"), "message": "ask", "participant": participant, "arm": "",
           "began": "2026-11-20T09:00:00", "status": status, "was_texted": was_texted, **flags,
           **changes}
    )  # fmt: skip


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
