"""`runner report`: a report per campaign from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.campaign.include import include_folder
from runner.campaign.template import TextCompiler
from runner.cli.console import note
from runner.cli.reconcile import reconcile_campaigns
from runner.cli.scope import Scope, target_scope
from runner.cli.workspace import Workspace
from runner.errors import RunnerError, UsageError
from runner.ledger.model import MessageTotals
from runner.ledger.reconciled import iterate_results, read_totals
from runner.report.documents import WRITERS
from runner.report.facts import CampaignFacts, MessageOutline, QuestionOutline
from runner.report.metrics import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign, Message, Question
    from runner.ledger.database import Ledger
    from runner.report.model import CampaignReport


@click.command(
    epilog="\b\nExamples:\n  runner report --reconcile\n"
    "  runner report --format html --format json --out reports\n"
    "  runner report campaigns/customer-pulse.yaml --format json"
)
@target_scope
@click.option("--reconcile", "reconcile_first", is_flag=True, help="Bring the ledger up to date first.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(sorted(WRITERS)),
    help="May be repeated. Default: md.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write one file a campaign and format. Default: standard output, for one of each.",
)
def command(
    scope: Scope,
    reconcile_first: bool,
    formats: tuple[str, ...],
    out: Path | None,
) -> int:
    """Write a report per campaign from the ledger: how many were texted, who answered, and what.

    A report is a function of the ledger: run twice, it is byte for byte the same. It has no phone
    numbers and no free texts in it.
    """
    formats = tuple(dict.fromkeys(formats)) or ("md",)
    workspace = Workspace.open(scope)
    campaigns = scope.load_valid_campaigns()
    if out is None and len(formats) * len(campaigns) > 1 and formats != ("md",):
        raise UsageError(
            "several documents don't go to one standard output", hint="name a folder with --out DIR"
        )
    if reconcile_first:
        with workspace.open_ledger() as opened:
            reconcile_campaigns(workspace, opened, campaigns, quiet=scope.quiet)
    with workspace.open_ledger_if_present() as present:
        reports = [make_report(workspace, present, campaign) for campaign in campaigns]
    if out is None:
        _print(reports, formats[0])
    else:
        _save(reports, formats, out, quiet=scope.quiet)
    return 0


def make_report(workspace: Workspace, ledger: Ledger | None, campaign: Campaign) -> CampaignReport:
    """Return the report of one campaign on the workspace's target."""
    record = workspace.read_record(ledger, campaign)
    outlines = [outline_message(campaign, message) for message in campaign.messages]
    if ledger is None or record.campaign_id is None:
        return summarise(_gather(workspace, campaign, outlines, {}), ())
    with ledger.reading() as connection:
        totals = read_totals(connection, record.campaign_id, campaign.message_ids)
        facts = _gather(workspace, campaign, outlines, totals)
        results = iterate_results(connection, record.campaign_id, campaign.message_ids)
        return summarise(facts, results)


def _gather(
    workspace: Workspace,
    campaign: Campaign,
    outlines: Sequence[MessageOutline],
    totals: dict[str, MessageTotals],
) -> CampaignFacts:
    pairs = tuple((outline, totals.get(outline.id, MessageTotals(outline.id))) for outline in outlines)
    return CampaignFacts(campaign.name, workspace.target.name, pairs)


def outline_message(campaign: Campaign, message: Message) -> MessageOutline:
    """Return a message as a report names it: its texts as they read for nobody in particular."""
    compiler = TextCompiler(include_folder(campaign))

    def outline_question(question: Question) -> QuestionOutline:
        ending = question.conclude_on
        return QuestionOutline(
            tag=question.tag,
            text=compiler.outline(question.text, campaign.vars),
            responses=tuple(compiler.outline(response, campaign.vars) for response in question.responses),
            scale=question.scale,
            conclude_on=compiler.outline(ending, campaign.vars) if ending else None,
        )

    return MessageOutline(message.id, message.tag, tuple(map(outline_question, message.questions)))


def _print(reports: Sequence[CampaignReport], format_: str) -> None:
    write = WRITERS[format_][1]
    click.echo("\n\n".join(write(report).rstrip("\n") for report in reports))


def _save(reports: Sequence[CampaignReport], formats: Sequence[str], folder: Path, *, quiet: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for report in reports:
            for format_ in formats:
                suffix, write = WRITERS[format_]
                file = folder / f"{report.campaign}{suffix}"
                file.write_text(write(report), encoding="utf-8", newline="")
                if not quiet:
                    note(f"Wrote {file}")
    except OSError as error:
        raise RunnerError(f"the report cannot be written to {folder}: {error.strerror}") from None
