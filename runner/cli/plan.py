"""`runner plan`: what apply would send, to whom, and why not to the others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.circumstances import CircumstanceReader
from runner.cli.clustering import choose_cluster, open_chosen_cluster
from runner.cli.console import count_words, note, print_json, warn
from runner.cli.coverage import (
    ApprovalShelf,
    add_coverage,
    find_status,
    set_plan_outputs,
    write_coverage,
)
from runner.cli.difference import add_differences, find_differences, write_differences
from runner.cli.failures import Failures
from runner.cli.job_summary import has_outputs
from runner.cli.plan_json import add_launches, plan_json
from runner.cli.plan_text import WRITERS
from runner.cli.planning import (
    PlannedHead,
    count_to_send,
    leave_out_refused,
    leave_out_waiting,
    plan_campaigns,
)
from runner.cli.rejected import rejected_option, write_rejected
from runner.cli.review import read_waiting_in_job
from runner.cli.saved import save_plan
from runner.cli.scope import Scope, clustered_target_scope, format_option
from runner.cli.service_access import may_know_launches
from runner.cli.workspace import Workspace
from runner.errors import ServiceError, UsageError
from runner.ledger.moment import format_moment
from runner.ledger.unsettled import count_known
from runner.plan.model import PlanOptions
from runner.source.storage import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.cli.clustering import ClusterSettings
    from runner.cli.coverage import Coverage
    from runner.ledger.database import Ledger
    from runner.service.target import Target

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
    metavar="FILE",
    help="Save the plan for `runner apply --plan FILE`; with --cluster a folder, by its path or URL.",
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 2 if there is something to send, 0 if not."
)
@click.option("--now", metavar="TIME", help="Plan as of this time, ISO 8601.")
@rejected_option
def command(
    scope: Scope,
    format_: str,
    only: str | None,
    limit: int | None,
    with_diff: bool,
    with_launches: bool,
    out: str | None,
    detailed_exitcode: bool,
    now: str | None,
    rejected: Path | None,
) -> int:
    """Show what apply would send, to whom, and why not to the others. Reads only.

    It goes by the record, and needs no credentials. With them it also asks the service whether it knows
    launches of a campaign whose record is empty.

    Exits with 5 if a plan breaks one of its campaign's limits, or waits until replies are read. Each campaign
    stands for itself: one that cannot be planned is left out of the plan, with exit code 3, and of what --out
    saves.
    """
    at = parse_moment(now) if now else None
    if rejected is not None:
        write_rejected(rejected, scope)
    workspace = Workspace.open(scope, needs_credentials=False)
    read_waiting_in_job(workspace, os.environ)
    settings = choose_cluster(scope, workspace)
    moment = at or workspace.now()
    options = PlanOptions(only, limit, workspace.target.recipients_per_send)
    failures = Failures()
    if settings is not None:
        _refuse_on_cluster({"--diff": with_diff, "--launches": with_launches})
        planned = _plan_on_cluster(settings, workspace, scope, options, moment, format_, out, failures)
    else:
        wanted = _Wanted(format_, _check_file(out), with_diff, with_launches)
        planned = _plan_here(workspace, scope, options, moment, wanted, failures)
    kept = leave_out_waiting(leave_out_refused(planned, failures), failures)
    code = failures.find_exit_code(0 if kept else None)
    return code or (SOMETHING_TO_SEND if detailed_exitcode and count_to_send(kept) else 0)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be done with plans that are made here."""

    format: str
    out: Path | None
    with_diff: bool
    with_launches: bool


def _plan_here(
    workspace: Workspace,
    scope: Scope,
    options: PlanOptions,
    moment: datetime,
    wanted: _Wanted,
    failures: Failures,
) -> Sequence[PlannedHead]:
    with workspace.open_ledger_if_present() as opened:
        reader = CircumstanceReader(workspace, opened, moment)
        planned = plan_campaigns(
            workspace, scope, options, lambda c: workspace.read_record(opened, c), reader, failures
        )
        only = options.only
        differences = find_differences(workspace, opened, planned, only) if wanted.with_diff else {}
        warn_of_known_tags(workspace, opened, planned)
    # On a screen alone nobody needs the digests, which take their time.
    is_kept = wanted.out is not None or wanted.format != "human"
    document = plan_json(planned, now=format_moment(moment)) if is_kept else {}
    coverages = _cover(workspace.target, planned, document, wanted.format)
    if wanted.out is not None and (planned or not failures.total):
        save_plan(document, wanted.out, options, quiet=scope.quiet)
    if wanted.format == "json":
        launches = planned if wanted.with_launches else ()
        print_json(add_differences(add_launches(document, launches), differences) | failures.as_json())
    elif planned:
        WRITERS[wanted.format](planned, document.get("plan_digest", ""))
        write_differences(differences, wanted.format)
    write_coverage(coverages, wanted.format)
    failures.write(wanted.format)
    set_plan_outputs(planned, document.get("plan_digest", ""), coverages, wanted.format)
    return planned


def _plan_on_cluster(
    settings: ClusterSettings,
    workspace: Workspace,
    scope: Scope,
    options: PlanOptions,
    moment: datetime,
    format_: str,
    out: str | None,
    failures: Failures,
) -> Sequence[PlannedHead]:
    # Imported here: only those who have a cluster pay for it, and have it installed.
    from runner.cli.cluster_planning import ClusterPlanning
    from runner.cluster.plan_set import write_manifest

    folder_url = None if out is None else make_absolute(out)
    with (
        workspace.open_ledger_if_present() as opened,
        open_chosen_cluster(settings, workspace) as (cluster, folder),
    ):
        reader = CircumstanceReader(workspace, opened, moment)
        planning = ClusterPlanning(workspace, opened, reader, moment, cluster, folder, failures)
        plans = planning.plan(scope, options, folder_url)
        warn_of_known_tags(workspace, opened, plans.planned)
    document = plan_json(plans.planned, now=format_moment(moment))
    coverages = _cover(workspace.target, plans.planned, document, format_)
    if folder_url is not None and plans.planned:
        write_manifest(folder_url, document, options, plans.parts)
        if not scope.quiet:
            note(f"Saved to {out}. Send exactly this with: runner apply --plan {out}")
            note(f"Plan digest: {document['plan_digest']}")
    if format_ == "json":
        print_json(document | failures.as_json())
    elif plans.planned:
        WRITERS[format_](plans.planned, document["plan_digest"])
    write_coverage(coverages, format_)
    failures.write(format_)
    set_plan_outputs(plans.planned, document["plan_digest"], coverages, format_)
    return plans.planned


def _cover(
    target: Target, planned: Sequence[PlannedHead], document: dict[str, Any], format_: str
) -> list[Coverage]:
    """Return whether plans are covered by approvals, where that is to be told; their JSON tells it, too."""
    shelf = ApprovalShelf(target)
    is_job = format_ == "github" and has_outputs()
    is_told = is_job or shelf.is_used(item.campaign for item in planned)
    if not (document or is_told):
        return []
    coverages = shelf.cover(planned)
    if is_job and find_status(coverages) == "needed":
        # Imported here: only jobs that will ask people ask the forge, and pay for it.
        from runner.cli.merge_review import add_growth

        coverages = add_growth(coverages)
    if document:
        add_coverage(document, coverages)
    return coverages if is_told else []


def make_absolute(location: str) -> str:
    """Return a location as workers understand it, whatever folder they were started in."""
    return location if is_url(location) else str(Path(location).absolute())


def _refuse_on_cluster(given: Mapping[str, bool]) -> None:
    for option in (name for name, is_given in given.items() if is_given):
        raise UsageError(
            f"{option} shows every person's text, and is not made on a cluster",
            hint=f"leave out {option}, or plan in one process, without --cluster",
        )


def _check_file(out: str | None) -> Path | None:
    if out is None:
        return None
    file: Path = click.Path(dir_okay=False, path_type=Path).convert(out, None, None)
    return file


def warn_of_known_tags(workspace: Workspace, ledger: Ledger | None, planned: Sequence[PlannedHead]) -> None:
    """Warn of campaigns that look new although the service knows launches under their tags.

    One cheap request a tag, and only for campaigns with an empty record.
    """
    new = [item for item in planned if item.record.is_empty() and item.plan.recipients_to_send]
    if not new or not may_know_launches(workspace.target):
        return
    if workspace.target.base_url is not None and workspace.target.credentials is None:
        target = workspace.target
        note(
            f"Whether the service knows launches of {count_words(len(new), 'campaign')} with an empty record "
            f"was not asked: {target.username_env} and {target.api_key_env} are not both set."
        )
        return
    try:
        with workspace.open_service() as (client, _):
            for item in new:
                messages = item.plan.messages
                for tag in sorted({tag for one in messages for tag in item.campaign.list_tags(one.id)}):
                    known = _count_recorded(ledger, workspace.target.name, tag)
                    counted = client.count_launches(tag)
                    if counted is None:
                        note(f"The service does not say how many launches it knows under the tag {tag!r}.")
                    elif counted > known:
                        warn(_known_tag_words(item.campaign.name, tag, counted - known))
    except ServiceError as error:
        note(f"Whether the service knows these campaigns could not be asked: {error.message}")


def _count_recorded(ledger: Ledger | None, target: str, tag: str) -> int:
    if ledger is None:
        return 0
    with ledger.reading() as connection:
        return count_known(connection, target, tag)


def _known_tag_words(name: str, tag: str, count: int) -> str:
    launches = count_words(count, "launch", "launches")
    return (
        f"{name} has an empty record, but the service knows {launches} under its tag {tag!r}: "
        "was it renamed (`renamed_from`), or is its record lost? `runner apply` adopts those that match, and "
        "holds the people of the others"
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
