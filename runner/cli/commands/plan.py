"""`runner plan`: the texts that apply would send, their recipients, and the reasons to leave out others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Command, special_option
from runner.cli.console import print_json
from runner.cli.options import format_option, target_scope
from runner.cli.output.plan import write_project_plan
from runner.github.job_summary import has_outputs
from runner.workflow.plan import PlanWishes, plan_project
from runner.workflow.plans.planning import count_to_send

if TYPE_CHECKING:
    from runner.workflow.scope import Scope

SOMETHING_TO_SEND = 2


@click.command(cls=Command)
@target_scope
@format_option("human", "json", "markdown", "github")
@click.option("--only", metavar="MESSAGE", help="Plan only this message.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Plan for at most N recipients now.")
@special_option(
    "--launches",
    "with_launches",
    is_flag=True,
    help="With --format json: include each launch with its payload.",
)
@click.option("--out", metavar="FILE", help="Save the plan for `runner apply --plan FILE`.")
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 2 if there is something to send, 0 if not."
)
@click.option("--now", metavar="TIME", help="Plan as of this time (ISO 8601).")
def plan(scope: Scope, format_: str, detailed_exitcode: bool, now: str | None, **wished: Any) -> int:
    """Show what apply would send and to whom, and why others are left out. Reads only.

    Planning uses the record and needs no credentials. With credentials, the service is also asked for
    launches of campaigns whose record is empty.

    Exits with 5 if a plan breaks a limit of its campaign, or must wait until replies are read. Campaigns are
    independent: one that cannot be planned is left out of the plan and of the file of --out, with exit code
    3.

    Examples:
        runner plan
        runner plan campaigns/customer-pulse.yaml --out plan.json
        runner plan --target live --format json --launches
    """
    wishes = PlanWishes(
        now=parse_moment(now) if now else None,
        is_job=format_ == "github" and has_outputs(),
        **wished,
    )
    plan = plan_project(scope, wishes)
    if format_ == "json":
        print_json(plan.document)
    else:
        write_project_plan(plan, format_, is_detailed=scope.verbose)
    kept = plan.leave_out_unsendable()
    code = plan.failures.find_exit_code(0 if kept else None)
    return code or (SOMETHING_TO_SEND if detailed_exitcode and count_to_send(kept) else 0)


def parse_moment(text: str) -> datetime:
    """Return the moment of `--now`; UTC if it has no offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            "not a time in ISO 8601, as in 2026-12-01T09:00Z", param_hint="--now"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
