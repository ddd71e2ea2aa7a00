"""`runner ci review|plan|send|act|finish`: the jobs of CI."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from runner.cli.command import Command, SpecialOption, setting_option
from runner.cli.commands.apply import describe_runs
from runner.cli.commands.ci.alert import OUTCOME_OPTION, REPLIES_OPTION
from runner.cli.commands.ci.comment import keep_comment
from runner.cli.commands.ci.record import show_fetched, show_recorded
from runner.cli.commands.reconcile import describe_reconciled
from runner.cli.console import print_prose
from runner.cli.encoding import print_command
from runner.cli.main import show_error
from runner.cli.options import FOLDER, ledger_scope
from runner.cli.output.plan import write_project_plan
from runner.cli.output.problems import (
    job_notice,
    silenced_markdown,
    tests_markdown,
    write_github,
    write_tests,
)
from runner.cli.output.report import add_to_summary, choose_writers, save_reports
from runner.cli.output.screen import print_blocks
from runner.settings import SETTLE_WINDOW
from runner.workflow.checking.suite import run_tests
from runner.workflow.checking.validate import validate_campaigns
from runner.workflow.observer import hushing
from runner.workflow.review.jobs import Job, choose_live

if TYPE_CHECKING:
    from pathlib import Path

    from runner.workflow.apply import ApplyResult
    from runner.workflow.plan import ProjectPlan
    from runner.workflow.results.reconcile import ReconcileResult
    from runner.workflow.results.report import ProjectReport
    from runner.workflow.review.checklist import Outcome
    from runner.workflow.scope import Scope

_SETTLE_WINDOW = setting_option(SETTLE_WINDOW, cls=SpecialOption)
_OUT = click.option(
    "--out",
    type=FOLDER,
    required=True,
    help="The folder for the plan (DIR/plan) and the reports (DIR/reports).",
)


class _View:
    """Shows the results of a job's steps: in the log, in the job's summary, and as its outputs."""

    show_error = staticmethod(show_error)
    show_fetched = staticmethod(show_fetched)
    show_recorded = staticmethod(show_recorded)

    def show_applied(self, result: ApplyResult, *, is_settled: bool) -> None:
        print_blocks(describe_runs(result, is_settled=is_settled))

    def show_reconciled(self, result: ReconcileResult) -> None:
        print_blocks(describe_reconciled(result))

    def show_plan(self, plan: ProjectPlan) -> None:
        write_project_plan(plan, "github")

    def show_reports(self, made: ProjectReport, folder: Path) -> None:
        reports = [one.report for one in made]
        add_to_summary(reports)
        with hushing():
            save_reports(reports, choose_writers(("html", "json")), folder)
        if len(reports) == 1:
            # A single campaign needs no index, but a page does.
            page = folder / f"{reports[0].campaign}.html"
            (folder / "index.html").write_bytes(page.read_bytes())

    def show_nothing(self, words: str) -> None:
        if os.environ.get("GITHUB_ACTIONS") == "true":
            print_command(job_notice("Nothing is sent", words))
        else:
            print_prose(f"{words}: nothing is sent.")


@click.command(short_help="Check a pull request, and comment what it would send.", cls=Command)
@ledger_scope
def review(scope: Scope) -> int:
    """Check the campaigns of a pull request, and comment what merging it would send.

    Does what `runner validate`, `runner test` and `runner ci comment` do. A merge queue gets the checks only.
    Takes no secrets: without the state key it is known how many people were texted, and not who. Outside of
    GitHub the comment is printed.

    Example:
        runner ci review
    """
    found, tests = validate_campaigns(scope), run_tests(scope)
    write_github(found)
    write_tests(tests)
    is_good = found.is_valid and tests.is_passed
    if os.environ.get("GITHUB_EVENT_NAME") == "merge_group":
        return 0 if is_good else 1
    remark = "\n".join(filter(None, (silenced_markdown(found), tests_markdown(tests))))
    code = keep_comment(choose_live(scope), "origin", remark)
    return code if is_good else 1


@click.command(short_help="Catch up, plan, send what is approved, record, report.", cls=Command)
@ledger_scope
@_OUT
@click.option("--campaign", metavar="FILE", help="Plan only this campaign. Default: the one of the dispatch.")
@_SETTLE_WINDOW
def plan(scope: Scope, out: Path, campaign: str | None, settle_window_s: float | None) -> int:
    """Catch up, plan, send what was approved before, record, and report.

    Catching up: takes the record that waits to be merged, finds what runs that were lost have sent, and reads
    replies. The plan is saved to DIR/plan/plan.json. What people have approved before is sent; in a GitHub
    job, a plan that is approved as a whole is left to the job that sends. Reports are written to DIR/reports.

    In a GitHub job it sets the outputs `to-send` (recipients), `approval` (`covered`, `needed` or `none`;
    `waiting` if another run waits for the same plan's approval, `denied` if it was denied), `plan-digest`
    and `reports` (whether there are any), and writes the job's summary. Elsewhere it exits with 5 until the
    plan is approved: `runner ci approve`.

    Exits with 3, 4, 5 or 7 if some campaigns were left out. In a GitHub job a paused campaign is no failure.

    Examples:
        runner ci plan --out ci
        runner ci plan --out ci --target live
    """
    return Job(scope, _View(), settle_window_s).plan(out, campaign)


@click.command(cls=Command)
@ledger_scope
@_OUT
@click.option("--expect-digest", metavar="DIGEST", help="Send the plan only if it has this digest.")
@click.option(
    "--by",
    "names",
    multiple=True,
    metavar="NAME",
    help="A person who approved the plan; may be repeated. Default: GitHub is asked.",
)
@_SETTLE_WINDOW
def send(
    scope: Scope, out: Path, expect_digest: str | None, names: tuple[str, ...], settle_window_s: float | None
) -> int:
    """Send the plan in DIR/plan that people have approved.

    Catches up as `runner ci plan` does. Records the approval, pushes it, and then sends exactly this plan. If
    somebody has opted out or answered meanwhile, what is left is planned anew, and sent as far as it is
    approved. At last it records, reports to DIR/reports, and comments on the merged pull request.

    GitHub is asked who approved. With CAMPAIGNS_APPROVAL=merge, the approving review of the merged pull
    request counts. A denial is recorded. Exits with 5 if nobody approved.

    Examples:
        runner ci send --out ci --expect-digest 0123456789abcdef0123456789abcdef
        runner ci send --out ci --by ada
    """
    is_by_merge = os.environ.get("CAMPAIGNS_APPROVAL") == "merge"
    return Job(scope, _View(), settle_window_s).send(out, expect_digest, names, is_by_merge=is_by_merge)


@click.command(cls=Command)
@ledger_scope
@_SETTLE_WINDOW
def act(scope: Scope, settle_window_s: float | None) -> int:
    """Do what somebody has asked for by *Run workflow*, and record it.

    The actions: `pause` and `resume` a campaign; `adopt`, `adopt-all`, `not-sent` and `not-sent-all` say what
    became of launches that are held; `confirm` and `dismiss` decide replies. All but `pause` take a
    reviewer's consent, and only in a run's first attempt: else it exits with 5.

    Example:
        runner ci act
    """
    return Job(scope, _View(), settle_window_s).act()


@click.command(short_help="Record what is left, and keep the target's issue.", cls=Command)
@ledger_scope
@OUTCOME_OPTION
@REPLIES_OPTION
def finish(scope: Scope, outcome: Outcome | None, show_replies: bool) -> int:
    """Push what is not recorded yet, and keep the target's issue: the last step of every job.

    Does what `runner ci record` and `runner ci alert` do. Run it whether the steps before succeeded or not.

    Examples:
        runner ci finish
        runner ci finish --outcome failure
    """
    return Job(scope, _View()).finish(outcome, shows_words=show_replies)
