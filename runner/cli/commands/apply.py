"""`runner apply`: sending a plan, exactly once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Command, SpecialOption, setting_option, special_option
from runner.cli.confirmation import can_ask, require_approval
from runner.cli.console import print_next
from runner.cli.options import LOCK_TIMEOUT, format_option, target_scope
from runner.cli.output.plan import print_plan
from runner.cli.output.screen import show
from runner.errors import UsageError
from runner.reasons import LEFT
from runner.settings import REQUIRE_APPROVAL, SETTLE_WINDOW
from runner.view.blocks import Sentence
from runner.wording import count_people, count_words
from runner.workflow.apply import MOST_CONCURRENT, ApplyOptions, apply_campaigns
from runner.workflow.delivery.campaign_run import interrupt_run
from runner.workflow.plans.saved import read_saved_plan
from runner.workflow.trial import try_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.workflow.apply import ApplyResult
    from runner.workflow.delivery.campaign_run import CampaignRun
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@target_scope
@format_option("human", "json")
@special_option(
    "--concurrency",
    type=click.IntRange(1, MOST_CONCURRENT),
    metavar="N",
    help="Number of sends in flight at once. Default: the target's, else 16.",
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Send exactly this saved plan, or nothing if one of its campaigns has changed since.",
)
@special_option(
    "--expect-digest",
    metavar="DIGEST",
    help="With --plan: send the plan only if it has this digest, the approved one.",
)
@click.option("--auto-approve", is_flag=True, help="Send without asking.")
@setting_option(REQUIRE_APPROVAL, cls=SpecialOption)
@click.option("--only", metavar="MESSAGE", help="Send only this message.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Send to at most N recipients now.")
@setting_option(SETTLE_WINDOW, cls=SpecialOption)
@LOCK_TIMEOUT
@special_option(
    "--settle-only",
    is_flag=True,
    help="Find and record what earlier runs have sent, and send nothing; a plan made after that stays valid.",
)
@click.option(
    "--test-to",
    metavar="PHONE",
    help="Send texts rendered for the first recipients to PHONE only, and record nothing.",
)
def apply(
    scope: Scope, format_: str, plan_file: str | None, auto_approve: bool, test_to: str | None, **wishes: Any
) -> int:
    """Send the planned texts, each exactly once, and write the lockfiles.

    At a terminal it shows the plan, and asks before it sends. People whose text is on record do not get it
    again, whatever happened to the run before. Ctrl-C stops new sends, waits for those in flight, and records
    them.

    Campaigns are independent: one that is invalid, locked by another run or over a limit is left out, and the
    others are sent. The exit code is then 5 for a limit, else 3; it is 4 if the outcome of a send is unknown.

    Nothing is sent if the replies on the target have not been read for longer than
    `policy.read_replies_within`, because somebody may have opted out: `runner reconcile` reads them.

    Examples:
        runner apply
        runner apply campaigns/customer-pulse.yaml --limit 50
        runner apply --auto-approve --quiet
        runner plan --out plan.json && runner apply --plan plan.json
    """
    if wishes["settle_only"] and (plan_file or test_to is not None):
        raise UsageError("--settle-only sends nothing: --plan and --test-to don't go with it")

    approve = partial(
        require_approval,
        is_approved=auto_approve,
        otherwise="nothing was sent",
        hint="send without asking with --auto-approve, or a reviewed plan with --plan FILE",
    )
    saved = None if plan_file is None else read_saved_plan(plan_file)
    options = ApplyOptions(saved=saved, **wishes)
    if test_to is not None:
        return try_texts(scope, options, test_to, lambda what: approve(f"Send {what}?"))

    def show_and_approve(planned: Sequence[PlanResult]) -> None:
        if not auto_approve and can_ask():
            # What is approved, where the question is.
            print_plan(planned, err=True)
        approve("Send?")

    return _show(apply_campaigns(scope, options, show_and_approve), options, format_)


def _show(result: ApplyResult, options: ApplyOptions, format_: str) -> int:
    """Write the result of a run, and return the exit code."""
    show(result, format_, describe_runs(result, is_settled=options.settle_only))
    if result.is_interrupted:
        raise interrupt_run()
    print_next(result.next_step)
    return result.exit_code


def describe_runs(result: ApplyResult, *, is_settled: bool) -> list[Sentence]:
    """Return a sentence on each campaign; with `is_settled` on what earlier runs have sent."""
    return [Sentence(_describe_settled(run) if is_settled else _describe_run(run)) for run in result.runs]


def _describe_run(run: CampaignRun) -> str:
    """Return the results of a run; each delivery of the plan is counted once.

    People are counted, as in the plan; texts if people get several.
    """
    done = [*_iterate_done(run)] or ["nothing sent"]
    pause = run.planned.plan.pause
    paused = "" if pause is None else f" It is {pause.describe()}."
    return f"{run.planned.campaign.name}: {', '.join([*done, *_iterate_left(run)])}.{paused}{_say_held(run)}"


def _describe_settled(run: CampaignRun) -> str:
    """Return a run's findings about earlier runs."""
    found = count_words(run.adopted, "launch", "launches")
    what = f"{found} of earlier runs found at the service" if run.adopted else "nothing new on record"
    return f"{run.planned.campaign.name}: {what}.{_say_held(run)}"


def _say_held(run: CampaignRun) -> str:
    people = count_words(run.unresolved, "person has", "people have")
    return f" {people} an unknown outcome and will not be texted: `runner resolve`." if run.unresolved else ""


def _iterate_done(run: CampaignRun) -> Iterator[str]:
    summary = run.summary
    # Launches that became too late are reported as deferred or expired, with their people.
    if summary.recipients_tried == summary.recipients_too_late:
        return
    if not run.sends_several_each:
        yield f"{count_people(summary.recipients_sent)} texted"
    elif summary.recipients_sent == run.to_send:
        people = count_people(run.planned.plan.recipients_to_send)
        yield f"{count_words(summary.recipients_sent, 'text')} to {people}"
    else:
        yield f"{count_words(summary.recipients_sent, 'text')} sent"
    words = {"rejected": "rejected", "unknown": "of unknown outcome", "not_sent": "not sent"}
    for state, text in words.items():
        count = sum(row.recipients for row in summary.tally if row.state == state)
        count -= summary.recipients_too_late if state == "not_sent" else 0
        if count:
            yield f"{count_words(count, 'text')} {text}"


def _iterate_left(run: CampaignRun) -> Iterator[str]:
    for name, count in run.count_left().items():
        if count:
            until = run.say_due() if name == "deferred" else ""
            left = count_words(count, "text") if run.counts_texts else count_people(count)
            yield f"{left} {LEFT[name]}{until}"
