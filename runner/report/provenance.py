"""How a campaign was sent: which commit, which plan and which job each of its runs was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runner.report.model import RunReport
from runner.report.rounding import store_time
from runner.report.tables import Column, Table
from runner.report.wording import NOT_DEFINED, count_nouns, write_count, write_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.ledger.report_model import RunRow
    from runner.report.model import CampaignReport

RUNS_CAPTION = "The runs that sent the campaign"
_SHORT = 10
"""Digits of a commit or a digest that tell it from others: as many as git shows of large repositories."""


def report_runs(rows: Iterable[RunRow]) -> tuple[RunReport, ...]:
    """Return what each run has sent, in the order of the ledger."""
    return tuple(
        RunReport(
            row.run.id,
            datetime.fromisoformat(row.run.started_at).astimezone(UTC),
            row.run.plan_digest,
            row.run.commit,
            row.run.dirty,
            row.run.run_url,
            row.run.triggered_by,
            row.launches,
            row.recipients,
        )
        for row in rows
    )


def tabulate_runs(runs: Sequence[RunReport]) -> Table:
    """Return the runs as a table; columns that no run has anything for are left out."""
    columns: list[tuple[Column, list[str | None]]] = [
        (Column("Started", "text"), [write_time(run.started_at) for run in runs]),
        (Column("Commit", "text"), [_write_commit(run) for run in runs]),
        (Column("Plan digest", "text"), [run.plan_digest[:_SHORT] for run in runs]),
        (Column("Triggered by", "text"), [run.triggered_by for run in runs]),
        (Column("Job", "link"), [run.run_url for run in runs]),
        (Column("Launches"), [write_count(run.launches) for run in runs]),
        (Column("Recipients"), [write_count(run.recipients) for run in runs]),
    ]
    kept = [(column, cells) for column, cells in columns if any(cells)]
    return Table(
        RUNS_CAPTION,
        tuple(column for column, _ in kept),
        tuple(
            tuple(map(_fill_cell, (column for column, _ in kept), row))
            for row in zip(*(cells for _, cells in kept), strict=True)
        ),
    )


def _fill_cell(column: Column, cell: str | None) -> str | None:
    return cell if column.kind == "link" else cell or NOT_DEFINED


def _write_commit(run: RunReport) -> str | None:
    if run.commit is None:
        return None
    return run.commit[:_SHORT] + (", with changes" if run.dirty else "")


def write_untraced(report: CampaignReport) -> str:
    """Return how much was sent by runs that nothing is known of, as a sentence; empty for nothing."""
    launches = sum(message.launches for message in report.messages)
    untraced = launches - sum(run.launches for run in report.runs)
    if untraced <= 0:
        return ""
    more = "more " if report.runs else ""
    return f"Which run sent {count_nouns(untraced, f'{more}launch', f'{more}launches')} is not on record."


def describe_run(run: RunReport) -> dict[str, Any]:
    """Return a run as the JSON report has it."""
    return {
        "id": run.id,
        "started_at": store_time(run.started_at),
        "plan_digest": run.plan_digest,
        "commit": run.commit,
        "dirty": run.dirty,
        "run_url": run.run_url,
        "triggered_by": run.triggered_by,
        "launches": run.launches,
        "recipients": run.recipients,
    }
