"""`runner apply`: sends what is planned, exactly once."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from runner.cli.apply_text import describe_run, describe_settled
from runner.cli.approval import approve_sending
from runner.cli.audience_record import keep_audiences
from runner.cli.campaign_run import CampaignRun, RunOptions
from runner.cli.circumstances import CircumstanceReader
from runner.cli.console import print_json, warn
from runner.cli.coverage import REQUIRE_VARIABLE, leave_out_unapproved
from runner.cli.duration import DURATION
from runner.cli.plan_digest import digest_plans
from runner.cli.planning import (
    PlannedHead,
    count_to_send,
    leave_out_paused,
    leave_out_refused,
    leave_out_waiting,
    summary_line,
)
from runner.cli.provenance import trace_run
from runner.cli.run_start import choose_run_cluster, refuse_state_remote, start_run
from runner.cli.saved import SavedPlan, check_plan_path, read_saved_plan
from runner.cli.scope import Scope, clustered_target_scope, format_option
from runner.cli.signals import interrupt_run
from runner.cli.trial import send_trial
from runner.cli.unread import describe_unread
from runner.cli.workspace import Workspace
from runner.deliver.run import ENDED
from runner.deliver.summary import TOO_LATE
from runner.errors import UsageError
from runner.ledger.partition_lease import LEASE_S
from runner.plan.model import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.cli.delivery import DeliveryRun
    from runner.cli.failures import Failures
    from runner.deliver.summary import DeliverySummary
    from runner.ledger.model import Run

PARTLY_DONE = 3
UNKNOWN_OUTCOMES = 4
_SHOWN_DETAILS = 5


@click.command(
    epilog="\b\nExamples:\n  runner apply\n  runner apply campaigns/customer-pulse.yaml --limit 50\n"
    "  runner apply --auto-approve --quiet\n"
    "  runner plan --out plan.json && runner apply --plan plan.json"
)
@clustered_target_scope
@format_option("human", "json")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Sends in flight at once. Default: the target's, else 16.",
)
@click.option(
    "--plan",
    "plan_file",
    callback=check_plan_path,
    metavar="FILE",
    help="Send exactly this saved plan, or nothing of it if any of its campaigns has changed since; with "
    "--cluster, the folder of a plan set.",
)
@click.option(
    "--expect-digest",
    metavar="DIGEST",
    help="With --plan: send only the plan with this digest, which is what was approved.",
)
@click.option("--auto-approve", is_flag=True, help="Send without asking.")
@click.option(
    "--require-approval",
    is_flag=True,
    envvar=REQUIRE_VARIABLE,
    show_envvar=True,
    help="Send nothing of a campaign that people have not approved (`runner approve`); without a state key, "
    "nothing but the plan of --expect-digest.",
)
@click.option("--only", metavar="MESSAGE", help="Send this message alone.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Send to at most N recipients now.")
@click.option(
    "--settle-window",
    type=DURATION,
    envvar="RUNNER_SETTLE_WINDOW",
    show_envvar=True,
    metavar="TIME",
    help="How long the service may take to list a launch; what it lacks after that was not sent. "
    "Default: the target's, else 60s.",
)
@click.option(
    "--lock-timeout",
    type=DURATION,
    default="0s",
    show_default=True,
    metavar="TIME",
    help="How long to wait for another run of the same campaign.",
)
@click.option(
    "--settle-only",
    is_flag=True,
    help="Find out what earlier runs have sent, record it, and send nothing: a plan made after that holds.",
)
@click.option("--partition-lease", "lease_s", type=click.FloatRange(0.5, 3600), default=LEASE_S, hidden=True)
@click.option(
    "--test-to", metavar="PHONE", help="Render for the first recipients, send to PHONE only, record nothing."
)
def command(
    scope: Scope,
    format_: str,
    concurrency: int | None,
    plan_file: str | None,
    expect_digest: str | None,
    auto_approve: bool,
    require_approval: bool,
    only: str | None,
    limit: int | None,
    settle_window: float | None,
    lock_timeout: float,
    settle_only: bool,
    lease_s: float,
    test_to: str | None,
) -> int:
    """Send what is planned, exactly once, and write the lockfile.

    Asks before it sends. Whoever is on record as texted is not texted again, whatever happened to
    the run before. Ctrl-C stops new sends, waits for those in flight and records them.

    Each campaign stands for itself: one that is invalid, that another run holds, or that breaks a limit is
    left out, and the others are sent. The exit code is then 5 for a limit, else 3; 4 if somebody is held.

    Nothing is sent while replies on the target are unread for longer than `policy.read_replies_within`:
    somebody may have opted out. `runner reconcile` reads them.
    """
    if settle_only and (plan_file or test_to is not None):
        raise UsageError("--settle-only sends nothing: --plan and --test-to don't go with it")
    refuse_state_remote(scope)
    saved = _read_saved(plan_file, expect_digest, scope, only, limit)
    if saved:
        scope = replace(scope, paths=tuple(saved.paths()))
        only, limit = saved.only, saved.limit
    workspace = _open(scope, saved)
    cluster = None if test_to is not None else choose_run_cluster(scope, workspace, saved)
    options = PlanOptions(only, limit, workspace.target.recipients_per_send)
    if test_to is not None:
        return send_trial(workspace, scope, options, test_to, is_approved=auto_approve)
    settings = RunOptions(concurrency, settle_window, lock_timeout, scope.quiet, scope.verbose)
    with (
        workspace.open_ledger() as opened,
        start_run(workspace, opened, settings, cluster, lease_s, saved) as run,
    ):
        reader = CircumstanceReader(workspace, opened, saved.now if saved else workspace.now())
        planned = run.plan(scope, options, reader)
        run.settle_gone(scope)
        if settle_only:
            runs = run.conclude(planned)
        else:
            planned = _choose_sound(planned, run, saved, options)
            if require_approval:
                planned = leave_out_unapproved(planned, run.failures, is_given=expect_digest is not None)
            _require_approval(planned, is_approved=auto_approve or saved is not None)
            keep_audiences(opened, planned, workspace.now_text())
            runs = run.deliver(planned, _trace(planned, saved, workspace.now_text()))
    if settle_only:
        _report_settled(runs, run.failures, format_)
        return run.failures.find_exit_code(0 if runs else None) or int(run.is_behind)
    return _report(runs, run.failures, format_, is_interrupted=run.stop.is_set()) or int(run.is_behind)


def _choose_sound(
    planned: Sequence[PlannedHead], run: DeliveryRun, saved: SavedPlan | None, options: PlanOptions
) -> Sequence[PlannedHead]:
    """Return the plans that can be sent now: as they were saved, not paused, within limits, replies read.

    Raises:
        PlanChangedError: a saved plan is out of date.
        LimitError: what breaks a limit, or waits for replies to be read, is all that there is to send.
        OnHoldError: what is paused is.
    """
    if saved:
        run.failures.accept_pauses(saved.knows_pause)
        planned = leave_out_paused(planned, run.failures)
        saved.require_unchanged(planned, run.failures.errors)
        planned = run.bring_forward(planned, options)
    for line in describe_unread(planned):
        warn(line)
    planned = leave_out_refused(planned, run.failures, ". Nothing was sent")
    return leave_out_waiting(planned, run.failures)


def _require_approval(planned: Sequence[PlannedHead], *, is_approved: bool) -> None:
    if count_to_send(planned):
        approve_sending(f"{summary_line(planned)} Send?", is_approved=is_approved)


def _read_saved(
    plan_file: str | None, expect_digest: str | None, scope: Scope, only: str | None, limit: int | None
) -> SavedPlan | None:
    if plan_file is None:
        if expect_digest is not None:
            raise UsageError("--expect-digest is about a saved plan", hint="name it with --plan")
        return None
    if scope.paths or only is not None or limit is not None:
        raise UsageError("--plan says what to send: PATH, --only and --limit don't go with it")
    saved = read_saved_plan(plan_file)
    if expect_digest is not None:
        saved.require_digest(expect_digest)
    return saved


def _trace(planned: Sequence[PlannedHead], saved: SavedPlan | None, started_at: str) -> Run | None:
    """Return what the launches are recorded with; None if there are none: then nobody is asked."""
    if not count_to_send(planned):
        return None
    digest = saved.digest if saved else digest_plans(planned)
    return trace_run([item.campaign for item in planned], digest, started_at, os.environ)


def _open(scope: Scope, saved: SavedPlan | None) -> Workspace:
    workspace = Workspace.open(scope)
    if saved:
        saved.require_target(workspace.target)
    return workspace


def _report(runs: Sequence[CampaignRun], failures: Failures, format_: str, *, is_interrupted: bool) -> int:
    """Write what was done, and return the exit code."""
    if format_ == "json":
        print_json({"campaigns": [_campaign_json(run) for run in runs], **failures.as_json()})
    else:
        for run in runs:
            click.echo(describe_run(run))
    for run in runs:
        _warn_of_failures(run)
    if is_interrupted:
        raise interrupt_run()
    return failures.find_exit_code(_exit_code(runs) if runs else None)


def _report_settled(runs: Sequence[CampaignRun], failures: Failures, format_: str) -> None:
    """Write what was found out; that some outcomes stay unknown is for the run that sends to say."""
    if format_ == "json":
        print_json({"campaigns": [_campaign_json(run) for run in runs], **failures.as_json()})
    else:
        for run in runs:
            click.echo(describe_settled(run))


def _warn_of_failures(run: CampaignRun) -> None:
    name, summary = run.planned.campaign.name, run.summary
    final = summary.final_reply
    if run.diagnosis is not None:
        warn(f"{name}: {run.diagnosis.message}")
        warn(f"{name}: to mend it, {run.diagnosis.hint}")
    elif final is not None:
        warn(f"{name}: the run was ended, every further send would fail too: {final.detail}")
    said = {None, ENDED, TOO_LATE, final and final.detail}
    for detail in sorted(filter(None, summary.failure_details - said))[:_SHOWN_DETAILS]:
        warn(f"{name}: {detail}")


def _exit_code(runs: Sequence[CampaignRun]) -> int:
    if any(run.unresolved for run in runs):
        return UNKNOWN_OUTCOMES
    if any(run.summary.final_reply for run in runs):
        return 1
    if any(run.summary.has_failures for run in runs):
        return PARTLY_DONE if any(run.summary.count("sent") for run in runs) else 1
    return 0


def _campaign_json(run: CampaignRun) -> dict[str, Any]:
    summary = run.summary
    return {
        "name": run.planned.campaign.name,
        "sent": summary.count("sent"),
        "rejected": summary.count("rejected"),
        "unknown": summary.count("unknown"),
        "not_sent": summary.count("not_sent"),
        "adopted": run.adopted,
        "unresolved": run.unresolved,
        "not_tried": run.not_tried,
        "deferred": run.deferred,
        "expired": run.expired,
        "opted_out": summary.opted_out,
        "capped": summary.capped,
        "open_session": run.open_session,
        "no_rule": run.no_rule,
        "waiting": summary.waiting,
        "recipients_sent": summary.recipients_sent,
        **({"launches": _list_launches(summary)} if summary.is_listed else {}),
    }


def _list_launches(summary: DeliverySummary) -> list[dict[str, Any]]:
    return [
        {
            "key": launch.key,
            "message": launch.message,
            "project_launch_guid": launch.project_launch_guid,
            "outcome": launch.outcome,
            "recipients": launch.recipients,
        }
        for launch in summary.launches
    ]
