"""`runner status`: what is known of each campaign, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.cli.campaigns import show_path
from runner.cli.console import count_words, markdown_table, note, print_json, print_table
from runner.cli.diagnostics import human_lines
from runner.cli.scope import Scope, format_option, target_scope
from runner.cli.workspace import Workspace
from runner.ledger.model import MessageTotals
from runner.ledger.reconciled import count_answered, read_totals
from runner.plan.model import PlanOptions
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.record import Record

_COLUMNS = ("planned", "sent", "queued", "active", "complete", "answered", "unresolved", "rejected")


@click.command(
    epilog="\b\nExamples:\n  runner status\n  runner status campaigns/customer-pulse.yaml --format json"
)
@target_scope
@format_option("human", "json", "markdown")
def command(scope: Scope, format_: str) -> int:
    """Show per campaign and message what is planned, sent, queued, active, complete, answered, unresolved.

    Reads only, and asks no service: sessions and answers are as last reconciled.
    """
    workspace = Workspace.open(scope)
    campaigns = scope.load_valid_campaigns()
    with workspace.open_ledger_if_present() as opened:
        statuses = [
            _find_status(workspace, opened, campaign, verbose=scope.verbose) for campaign in campaigns
        ]
    _WRITERS[format_](statuses)
    return 0


def _find_status(
    workspace: Workspace, ledger: Ledger | None, campaign: Campaign, *, verbose: bool
) -> dict[str, Any]:
    record = workspace.read_record(ledger, campaign)
    planned = _plan(workspace, campaign, record, verbose=verbose)
    totals, answered = _read_counts(ledger, record)
    messages = []
    for message in campaign.messages:
        counts = totals.get(message.id, MessageTotals(message.id))
        messages.append(
            {
                "id": message.id,
                "tag": message.tag,
                "planned": planned.get(message.id) if planned is not None else None,
                # The lockfile may know of launches that this machine's ledger doesn't.
                "sent": max(counts.sent, len(record.known.sent.get(message.id, ()))),
                "queued": counts.queued,
                "active": counts.active,
                "complete": counts.complete,
                "answered": answered.get(message.id, 0),
                "unresolved": len(record.known.unresolved.get(message.id, ())),
                "rejected": counts.rejected,
                "reconciled_at": counts.reconciled_at,
            }
        )
    return {
        "name": campaign.name,
        "file": show_path(campaign.file),
        "target": workspace.target.name,
        "messages": messages,
    }


def _plan(
    workspace: Workspace, campaign: Campaign, record: Record, *, verbose: bool
) -> dict[str, int] | None:
    problems = Problems()
    options = PlanOptions(recipients_per_send=workspace.target.recipients_per_send)
    plan = Planner(campaign, workspace.target.name, record.known, record.key, options).make_plan(problems)
    if plan is None:
        note(
            f"{campaign.name} cannot be planned: {count_words(problems.error_count, 'error')}, "
            "see `runner validate`"
        )
        for line in human_lines(problems) if verbose else ():
            note(line)
        return None
    return {message.id: message.to_send for message in plan.messages}


def _read_counts(ledger: Ledger | None, record: Record) -> tuple[dict[str, MessageTotals], dict[str, int]]:
    if ledger is None or record.campaign_id is None:
        return {}, {}
    with ledger.reading() as connection:
        return read_totals(connection, record.campaign_id), count_answered(connection, record.campaign_id)


def _rows(statuses: Sequence[dict[str, Any]]) -> list[list[str | int]]:
    return [
        [status["name"], message["id"], *("?" if message[c] is None else message[c] for c in _COLUMNS)]
        for status in statuses
        for message in status["messages"]
    ]


def _write_human(statuses: Sequence[dict[str, Any]]) -> None:
    click.secho(f"Target: {statuses[0]['target']}", bold=True)
    print_table(("campaign", "message", *_COLUMNS), _rows(statuses))
    stale = [
        f"{status['name']}/{message['id']}"
        for status in statuses
        for message in status["messages"]
        if message["sent"] and message["reconciled_at"] is None
    ]
    if stale:
        click.echo(
            f"Not reconciled since the send: {', '.join(stale)}. `runner reconcile` reads what came in."
        )


def _write_json(statuses: Sequence[dict[str, Any]]) -> None:
    print_json({"campaigns": list(statuses)})


def _write_markdown(statuses: Sequence[dict[str, Any]]) -> None:
    click.echo(markdown_table(("campaign", "message", *_COLUMNS), _rows(statuses)), nl=False)


_WRITERS = {"human": _write_human, "json": _write_json, "markdown": _write_markdown}
