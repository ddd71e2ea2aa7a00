"""`runner plan`: what apply would send, to whom, and why not to the others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.circumstances import CircumstanceReader
from runner.cli.clustering import choose_cluster
from runner.cli.console import count_words, note, print_json, warn
from runner.cli.difference import add_differences, find_differences, write_differences
from runner.cli.plan_json import add_launches, plan_json
from runner.cli.plan_text import WRITERS
from runner.cli.planning import PlannedHead, count_to_send, plan_campaigns
from runner.cli.saved import save_plan
from runner.cli.scope import Scope, clustered_target_scope, format_option
from runner.cli.workspace import Workspace
from runner.errors import LimitError, ServiceError
from runner.ledger.moment import format_moment
from runner.ledger.unsettled import count_claimed
from runner.plan.model import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.database import Ledger

SOMETHING_TO_SEND = 2


@click.command(
    epilog="\b\nExamples:\n  runner plan\n  runner plan campaigns/customer-pulse.yaml --out plan.json\n"
    "  runner plan --target live --format json --launches\n  runner plan --diff"
)
@clustered_target_scope
@format_option("human", "json", "markdown", "github")
@click.option("--only", metavar="MESSAGE", help="Plan this message alone.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Plan for at most N recipients now.")
@click.option("--diff", "with_diff", is_flag=True, help="Show what changed against what was sent.")
@click.option(
    "--launches", "with_launches", is_flag=True, help="With --format json: each launch with its payload."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Save the plan for `runner apply --plan FILE`.",
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 2 if there is something to send, 0 if not."
)
@click.option("--now", metavar="TIME", help="Plan as of this time, ISO 8601.")
def command(
    scope: Scope,
    format_: str,
    only: str | None,
    limit: int | None,
    with_diff: bool,
    with_launches: bool,
    out: Path | None,
    detailed_exitcode: bool,
    now: str | None,
) -> int:
    """Show what apply would send, to whom, and why not to the others. Reads only.

    Exits with 5 if the plan breaks one of the campaign's limits.
    """
    at = parse_moment(now) if now else None
    workspace = Workspace.open(scope)
    choose_cluster(scope, workspace)
    moment = at or workspace.now()
    options = PlanOptions(only, limit, workspace.target.recipients_per_send)
    with workspace.open_ledger_if_present() as opened:
        reader = CircumstanceReader(workspace, opened, moment)
        planned = plan_campaigns(
            workspace, scope, options, lambda c: workspace.read_record(opened, c), reader
        )
        differences = find_differences(workspace, opened, planned, only) if with_diff else {}
        warn_of_known_tags(workspace, opened, planned)
    # On a screen alone nobody needs the digests, which take their time.
    is_kept = out is not None or format_ != "human"
    document = plan_json(planned, now=format_moment(moment)) if is_kept else {}
    if out is not None:
        save_plan(document, out, options, quiet=scope.quiet)
    if format_ == "json":
        launches = planned if with_launches else ()
        print_json(add_differences(add_launches(document, launches), differences))
    else:
        WRITERS[format_](planned, document.get("plan_digest", ""))
        write_differences(differences, format_)
    refusals = [f"{item.plan.campaign.name}: {text}" for item in planned for text in item.plan.refusals]
    if refusals:
        raise LimitError("; ".join(refusals), hint="check the audience; raise the limit if it is right")
    return SOMETHING_TO_SEND if detailed_exitcode and count_to_send(planned) else 0


def warn_of_known_tags(workspace: Workspace, ledger: Ledger | None, planned: Sequence[PlannedHead]) -> None:
    """Warn of campaigns that look new although the service knows launches under their tags.

    One cheap request a tag, and only for campaigns with an empty record.
    """
    new = [item for item in planned if item.record.is_empty() and item.plan.recipients_to_send]
    if not new or not workspace.may_know_launches():
        return
    try:
        with workspace.open_service() as (client, _):
            for item in new:
                messages = item.plan.messages
                for tag in sorted({tag for one in messages for tag in item.campaign.list_tags(one.id)}):
                    known = _count_recorded(ledger, workspace.target.name, tag)
                    count = client.count_launches(tag) - known
                    if count > 0:
                        warn(_known_tag_words(item.campaign.name, tag, count))
    except ServiceError as error:
        note(f"Whether the service knows these campaigns could not be asked: {error.message}")


def _count_recorded(ledger: Ledger | None, target: str, tag: str) -> int:
    if ledger is None:
        return 0
    with ledger.reading() as connection:
        return count_claimed(connection, target, tag)


def _known_tag_words(name: str, tag: str, count: int) -> str:
    launches = count_words(count, "launch", "launches")
    return (
        f"{name} has an empty record, but the service knows {launches} under its tag {tag!r}: "
        "was it renamed (`renamed_from`), or is its record lost? `runner apply` adopts those that match"
    )


def parse_moment(text: str) -> datetime:
    """Return the moment that `--now` names; UTC if it has no offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            "not a time in ISO 8601, as in 2026-12-01T09:00Z", param_hint="--now"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
