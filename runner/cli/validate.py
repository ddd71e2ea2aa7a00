"""`runner validate`: every problem of every campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.campaigns import load_campaigns, show_path
from runner.cli.console import note
from runner.cli.diagnostics import REPORTERS
from runner.cli.options import allow_path_option, format_option, output_options, paths_argument
from runner.ledger.model import Known
from runner.plan.model import PlanOptions
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from pathlib import Path

    from runner.campaign.model import Campaign


@click.command(
    epilog="\b\nExamples:\n  runner validate\n  runner validate campaigns/customer-pulse.yaml\n"
    "  runner validate --format github"
)
@paths_argument
@allow_path_option
@format_option("human", "json", "markdown", "github")
@output_options
def command(
    paths: tuple[Path, ...], allowed: tuple[Path, ...], format_: str, quiet: bool, verbose: bool
) -> int:
    """Find every problem of every campaign, each with file, line, column and how to mend it.

    Texts are rendered for every recipient; nothing is sent and no service is asked. Exits with 1
    if there are errors.
    """
    problems = Problems()
    loaded = load_campaigns(paths, allowed, problems)
    for campaign in loaded.campaigns:
        if verbose and not quiet:
            note(f"Checking {show_path(campaign.file)}")
        find_audience_problems(campaign, problems)
    REPORTERS[format_](problems, len(loaded.files))
    return 1 if problems.error_count else 0


def find_audience_problems(campaign: Campaign, problems: Problems) -> None:
    """Render every text for every recipient, as if nobody had been texted yet, and note what fails."""
    Planner(campaign, "", Known({}, {}), None, PlanOptions()).make_plan(problems)
