"""`runner apply`: sends what is planned, exactly once."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.consent import require_consent
from runner.cli.console import Progress, count_words, note, print_json, show_progress, warn
from runner.cli.planning import Planned, count_to_send, plan_campaigns, summary_line
from runner.cli.saved import SavedPlan, read_saved_plan
from runner.cli.scope import Scope, format_option, target_scope
from runner.cli.signals import stop_on_signals
from runner.cli.trial import send_trial
from runner.cli.workspace import Workspace, utc_now
from runner.deliver.pace import Pace
from runner.deliver.run import Delivery, DeliverySummary
from runner.errors import InterruptedRunError, LimitError, RunnerError, UsageError
from runner.ledger.record import refresh_lockfile
from runner.plan.model import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchState
    from runner.service.client import ServiceClient
    from runner.service.target import Target

PARTLY_DONE = 3
UNKNOWN_OUTCOMES = 4
_SHOWN_DETAILS = 5


@click.command(
    epilog="\b\nExamples:\n  runner apply\n  runner apply campaigns/customer-pulse.yaml --limit 50\n"
    "  runner apply --auto-approve --quiet\n"
    "  runner plan --out plan.json && runner apply --plan plan.json"
)
@target_scope
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
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Send exactly this saved plan, or refuse if anything has changed since.",
)
@click.option("--auto-approve", is_flag=True, help="Send without asking.")
@click.option("--only", metavar="MESSAGE", help="Send this message alone.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Send to at most N recipients now.")
@click.option(
    "--test-to", metavar="PHONE", help="Render for the first recipients, send to PHONE only, record nothing."
)
def command(
    scope: Scope,
    format_: str,
    concurrency: int | None,
    plan_file: Path | None,
    auto_approve: bool,
    only: str | None,
    limit: int | None,
    test_to: str | None,
) -> int:
    """Send what is planned, exactly once, and write the lockfile.

    Asks before it sends. Whoever is on record as texted is not texted again, whatever happened to
    the run before. Ctrl-C stops new sends, waits for those in flight and records them.
    """
    saved = _read_saved(plan_file, scope, only, limit)
    if saved:
        scope = replace(scope, paths=tuple(saved.paths()))
        only, limit = saved.only, saved.limit
    workspace = Workspace.open(scope)
    options = PlanOptions(only, limit, workspace.target.recipients_per_send)
    with workspace.open_ledger() as opened:
        planned = plan_campaigns(workspace, scope, options, lambda c: workspace.enter_record(opened, c))
        if test_to is not None:
            return send_trial(workspace, planned, test_to, is_approved=auto_approve, quiet=scope.quiet)
        if saved:
            saved.require_unchanged(planned)
        _refuse_beyond_limits(planned)
        if count_to_send(planned):
            question = f"{summary_line(planned)} Send?"
            require_consent(question, is_approved=auto_approve or saved is not None)
        run = _Run(workspace, opened, quiet=scope.quiet, verbose=scope.verbose)
        run.deliver_all(planned, concurrency)
    return run.report(planned, format_)


def _read_saved(
    plan_file: Path | None, scope: Scope, only: str | None, limit: int | None
) -> SavedPlan | None:
    if plan_file is None:
        return None
    if scope.paths or only is not None or limit is not None:
        raise UsageError("--plan says what to send: PATH, --only and --limit don't go with it")
    return read_saved_plan(plan_file)


def _refuse_beyond_limits(planned: Sequence[Planned]) -> None:
    refusals = [f"{item.campaign.name}: {text}" for item in planned for text in item.plan.refusals]
    if refusals:
        raise LimitError(
            f"{'; '.join(refusals)}. Nothing was sent",
            hint="check the audience; raise the limit if it is right",
        )


class _Run:
    """Delivers the campaigns of one command, one after the other, and says what came of it."""

    def __init__(self, workspace: Workspace, ledger: Ledger, *, quiet: bool, verbose: bool) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._quiet = quiet
        self._verbose = verbose
        self._stop = threading.Event()
        self._summaries: dict[str, DeliverySummary] = {}

    def deliver_all(self, planned: Sequence[Planned], concurrency: int | None) -> None:
        due = [item for item in planned if item.plan.recipients_to_send]
        if due:
            with stop_on_signals(self._stop), self._workspace.open_service(concurrency) as (client, target):
                for item in due:
                    if not self._has_ended():
                        self._deliver(item, client, target)
        for item in planned:
            if item not in due:
                self._write_lockfile(item)

    def _has_ended(self) -> bool:
        return self._stop.is_set() or any(summary.final_reply for summary in self._summaries.values())

    def _deliver(self, item: Planned, client: ServiceClient, target: Target) -> None:
        campaign = item.campaign
        campaign_id, key = item.record.require_entered()
        total = sum(message.to_send for message in item.plan.messages)
        with show_progress(f"Sending {campaign.name}", total, quiet=self._quiet) as progress:
            delivery = Delivery(
                ledger=self._ledger,
                campaign_id=campaign_id,
                campaign=campaign.name,
                key=key,
                send=client.send,
                pace=Pace(target.rate, time.monotonic, self._stop),
                stop=self._stop,
                concurrency=target.concurrency,
                now=utc_now,
                observer=_Observer(progress, verbose=self._verbose),
            )
            self._summaries[campaign.name] = delivery.summary
            try:
                delivery.run(item.planner.iterate_launches())
            except RunnerError:
                # What ended the run is what the user has to hear, not that the lockfile suffers from it too.
                with contextlib.suppress(RunnerError):
                    self._write_lockfile(item)
                raise
            self._write_lockfile(item)

    def _write_lockfile(self, item: Planned) -> None:
        with self._ledger.reading() as connection:
            refresh_lockfile(connection, self._workspace.identify(item.campaign), item.record)

    def report(self, planned: Sequence[Planned], format_: str) -> int:
        """Write what was done, and return the exit code."""
        if format_ == "json":
            print_json({"campaigns": [_campaign_json(i.campaign, self._summary(i)) for i in planned]})
        else:
            for item in planned:
                click.echo(_sentence(item, self._summary(item)))
        self._warn_of_failures()
        code = self._exit_code(planned)
        if self._stop.is_set():
            raise InterruptedRunError(
                "interrupted; everything that was sent is recorded",
                hint="run the same command again to send the rest",
            )
        return code

    def _summary(self, item: Planned) -> DeliverySummary:
        return self._summaries.get(item.campaign.name, DeliverySummary())

    def _warn_of_failures(self) -> None:
        for name, summary in self._summaries.items():
            final = summary.final_reply
            if final is not None:
                warn(f"{name}: the run was ended, every further send would fail too: {final.detail}")
            details = {
                launch.detail for launch in summary.launches if launch.outcome in ("rejected", "unknown")
            }
            for detail in sorted(filter(None, details))[:_SHOWN_DETAILS]:
                if final is None or detail != final.detail:
                    warn(f"{name}: {detail}")

    def _exit_code(self, planned: Sequence[Planned]) -> int:
        summaries = self._summaries.values()
        unresolved = any(message.unresolved for item in planned for message in item.plan.messages)
        if unresolved or any(summary.count("unknown") for summary in summaries):
            return UNKNOWN_OUTCOMES
        if any(summary.final_reply for summary in summaries):
            return 1
        if any(summary.count("rejected") for summary in summaries):
            return PARTLY_DONE if any(summary.count("sent") for summary in summaries) else 1
        return 0


class _Observer:
    """Shows outcomes while they come in."""

    def __init__(self, progress: Progress, *, verbose: bool) -> None:
        self._progress = progress
        self._verbose = verbose

    def observe_outcome(self, outcome: LaunchState, recipients: int, detail: str | None) -> None:
        self._progress.advance(recipients)
        if self._verbose:
            note(f"{outcome}: {count_words(recipients, 'recipient')}" + (f" ({detail})" if detail else ""))


def _campaign_json(campaign: Campaign, summary: DeliverySummary) -> dict[str, Any]:
    return {
        "name": campaign.name,
        "sent": summary.count("sent"),
        "rejected": summary.count("rejected"),
        "unknown": summary.count("unknown"),
        "not_sent": summary.count("not_sent"),
        "recipients_sent": summary.recipients_sent,
        "launches": [
            {
                "key": launch.key,
                "message": launch.message,
                "project_launch_guid": launch.project_launch_guid,
                "outcome": launch.outcome,
                "recipients": launch.recipients,
            }
            for launch in summary.launches
        ],
    }


def _sentence(item: Planned, summary: DeliverySummary) -> str:
    name = item.campaign.name
    unresolved = sum(message.unresolved for message in item.plan.messages)
    people = count_words(unresolved, "recipient has", "recipients have")
    held = f" {people} an unknown outcome and will not be texted." if unresolved else ""
    if not summary.launches:
        return f"{name}: nothing sent.{held}"
    texted = count_words(summary.recipients_sent, "recipient")
    parts = [f"{texted} texted in {_launches(summary, 'sent')}"]
    words: dict[LaunchState, str] = {
        "rejected": "rejected",
        "unknown": "of unknown outcome",
        "not_sent": "not sent",
    }
    parts += [f"{_launches(summary, state)} {text}" for state, text in words.items() if summary.count(state)]
    return f"{name}: {', '.join(parts)}.{held}"


def _launches(summary: DeliverySummary, state: LaunchState) -> str:
    return count_words(summary.count(state), "launch", "launches")
