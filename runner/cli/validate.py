"""`runner validate`: every problem of every campaign."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from runner.cli.audience_check import find_audience_problems
from runner.cli.campaigns import DEFAULT_FOLDER, find_targets_file, load_campaigns, show_path
from runner.cli.clustering import choose_cluster, open_chosen_cluster
from runner.cli.console import note
from runner.cli.diagnostics import REPORTERS
from runner.cli.rejected import rejected_option, write_rejected
from runner.cli.scope import Scope, clustered_file_scope, format_option
from runner.plan.limits import find_long_texts
from runner.service.target import TargetsProblemError, read_targets
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.plan.model import CampaignPlan


@click.command(
    epilog="\b\nExamples:\n  runner validate\n  runner validate campaigns/customer-pulse.yaml\n"
    "  runner validate --format github\n  runner validate --format sarif >runner.sarif"
)
@clustered_file_scope
@format_option("human", "json", "markdown", "github", "sarif")
@rejected_option
def command(scope: Scope, format_: str, rejected: Path | None) -> int:
    """Find every problem of every campaign, each with file, line, column and how to mend it.

    `targets.yaml` beside them is checked as well. Texts are rendered for every recipient; nothing is
    sent and no service is asked. Exits with 1 if there are errors.

    `github` annotates lines of a pull request, and writes the rest to the log and the job's summary;
    `sarif` is for code scanning.
    """
    settings = choose_cluster(scope, None)
    problems = Problems()
    _check_targets(scope.paths, problems)
    loaded = load_campaigns(scope.paths, scope.allowed, problems)
    plans: list[CampaignPlan] = []
    if settings is not None and loaded.campaigns:
        # Imported here: only those who have a cluster pay for it, and have it installed.
        from runner.cli.cluster_checking import find_problems_on_cluster

        with open_chosen_cluster(settings, None) as (cluster, folder):
            plans = find_problems_on_cluster(cluster, folder, loaded.campaigns, problems, quiet=scope.quiet)
    for campaign in loaded.campaigns if settings is None else ():
        if scope.verbose and not scope.quiet:
            note(f"Checking {show_path(campaign.file)}")
        plan = find_audience_problems(campaign, problems)
        plans += [plan] if plan is not None else []
    for plan in plans:
        problems.extend(find_long_texts(plan))
    if rejected is not None:
        write_rejected(rejected, scope)
    REPORTERS[format_](problems, len(loaded.files))
    return 1 if problems.error_count else 0


def _check_targets(paths: Sequence[Path], problems: Problems) -> None:
    for file in dict.fromkeys(find_targets_file([path]) for path in paths or [DEFAULT_FOLDER]):
        try:
            read_targets(file, os.environ)
        except TargetsProblemError as error:
            problems.extend(error.diagnostics)
