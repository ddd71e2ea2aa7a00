"""`runner comment`: the plan as one comment on the pull request, edited in place."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from runner.cli.audience_check import find_audience_problems
from runner.cli.campaigns import load_campaigns
from runner.cli.circumstances import CircumstanceReader
from runner.cli.comment_text import (
    write_failure_text,
    write_nothing_text,
    write_plan_text,
    write_problem_text,
)
from runner.cli.console import warn
from runner.cli.diagnostics import InvalidCampaignError
from runner.cli.difference import find_differences
from runner.cli.failures import Failures
from runner.cli.folders import name_folder
from runner.cli.inert import hide_phones
from runner.cli.merged import comment_merged
from runner.cli.plan_digest import digest_plans
from runner.cli.plan_text import destination_line
from runner.cli.planning import count_to_send, leave_out_refused, plan_campaigns
from runner.cli.publishing import comment, open_repository, publish
from runner.cli.review import Review, write_unknown
from runner.cli.scope import Scope, target_scope
from runner.cli.upper_bound import plan_without_key, write_bound_text
from runner.cli.workspace import Workspace
from runner.errors import LimitError, MissingKeyError, RunnerError, UsageError
from runner.forge.comment import write_marker
from runner.forge.job import is_of_pull_request, lacks_secrets, read_pull_request_job
from runner.forge.numbers import MessageNumbers, PlanNumbers, write_numbers
from runner.plan.model import PlanOptions
from runner.repository.recording import ASIDE
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.cli.comment_text import CommentText
    from runner.cli.planning import Planned

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")


@dataclass(frozen=True, slots=True)
class _Finding:
    """What there is to comment, and how the command ends.

    Attributes:
        text: the comment.
        target: the target's name.
        error: is raised once the comment is written.
        code: the exit code, if nothing is raised.
    """

    text: CommentText
    target: str
    error: RunnerError | None = field(default=None)
    code: int = 0


@click.command(
    epilog="\b\nExamples:\n  runner comment\n  runner comment campaigns/customer-pulse.yaml --id pulse\n"
    "  runner comment --target live\n  runner comment --merged"
)
@target_scope
@click.option(
    "--id",
    "name",
    metavar="NAME",
    help="Tells this comment from those of other jobs on the same target. Default: the current folder, "
    "if it is not the repository's top.",
)
@click.option(
    "--remote",
    default="origin",
    show_default=True,
    metavar="NAME",
    help="Where a record may wait to be merged, and where the pull request's base is.",
)
@click.option(
    "--merged",
    "is_merged",
    is_flag=True,
    help="After sending: say on the pull request that was merged last what was sent, and what was not.",
)
def command(scope: Scope, name: str | None, remote: str, is_merged: bool) -> int:
    """Validate and plan, and keep one comment on the pull request that says what came out. Sends nothing.

    To be run in a pull request's job on GitHub, with GITHUB_TOKEN in the step's environment and the
    permission `pull-requests: write`. The comment is edited in place; what is too long for it goes to the
    job's summary. Without rights, as for a fork, the summary has everything. Outside of a job the comment is
    printed.

    A record that waits on the branch runner/record counts as if it were merged. What the pull request changes
    of targets and records, and which campaigns it moves or deletes, is said first.

    With --merged, to be run after `runner apply` in a job of the branch: it needs `contents: read`, too.

    Exits with 1 if there are errors, with 3 if some campaigns have none, and with 5 if the plan breaks a
    limit; never for the comment's sake.
    """
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for --id", hint="letters, digits, `.`, `_` and `-`, at most 50"
        )
    if is_merged:
        return comment_merged(scope, name)
    finding = _find(scope, remote)
    _publish(finding, name, quiet=scope.quiet)
    if finding.error is not None:
        raise finding.error
    return finding.code


def _find(scope: Scope, remote: str) -> _Finding:
    failures = Failures()
    target = scope.target or os.environ.get("RUNNER_TARGET") or ""
    about = _About()
    try:
        about.review(scope, remote)
        workspace = Workspace.open(scope, needs_credentials=False)
        target = workspace.target.name
        about.where = destination_line(workspace.target)
        about.count_waiting(workspace)
        return _plan(workspace, scope, failures, about)
    except InvalidCampaignError as error:
        return _Finding(write_problem_text(error.problems, target, about.write()), target, error)
    except RunnerError as error:
        return _explain(error, scope, target, about)


class _About:
    """What is said of a pull request first, as far as it is found out.

    Attributes:
        where: where the plan is sent; Markdown.
    """

    def __init__(self) -> None:
        self.where = ""
        self._review: Review | None = None
        self._changes = ""
        self._waiting = ""

    def review(self, scope: Scope, remote: str) -> None:
        """Find out what the pull request changes."""
        try:
            self._review = Review.open(remote, os.environ)
            self._changes = self._review.describe_changes(scope.paths)
        except RunnerError as error:
            what = "what this pull request changes of targets, records and the names of campaigns"
            self._changes = write_unknown(what, error)

    def count_waiting(self, workspace: Workspace) -> None:
        """Have a workspace count the record that waits to be merged."""
        try:
            self._waiting = "" if self._review is None else self._review.read_waiting(workspace)
        except RunnerError as error:
            what = f"what waits on the branch {ASIDE}. People it tells of count as not texted yet"
            self._waiting = write_unknown(what, error)

    def write(self) -> str:
        """Return it as Markdown that ends in an empty line, or nothing."""
        parts = (self.where, self._changes, self._waiting)
        return "".join(f"{part.strip()}\n\n" for part in parts if part)


def _plan(workspace: Workspace, scope: Scope, failures: Failures, about: _About) -> _Finding:
    options = PlanOptions(recipients_per_send=workspace.target.recipients_per_send)
    try:
        with workspace.open_ledger_if_present() as ledger:
            reader = CircumstanceReader(workspace, ledger, workspace.now())
            planned = plan_campaigns(
                workspace, scope, options, lambda c: workspace.read_record(ledger, c), reader, failures
            )
            differences = find_differences(workspace, ledger, planned, None)
        missing = next((one for one in failures.errors.values() if isinstance(one, MissingKeyError)), None)
    except MissingKeyError as error:
        if not is_of_pull_request(os.environ):
            raise
        planned, differences, missing = [], {}, error
    if missing is not None and is_of_pull_request(os.environ):
        return _find_bound(workspace, scope, about, missing)
    target = workspace.target.name
    left_out = failures.markdown()
    if not failures.total:
        text = write_nothing_text(target, about.write())
    elif planned:
        text = write_plan_text(planned, differences, failures.problems, about.write(), left_out)
        text = text.with_numbers(write_numbers(_count(planned)))
    else:
        text = write_problem_text(failures.problems, target, about.write(), left_out)
    # A pause stops what is sent, and no pull request from being merged.
    failures.accept_pauses(lambda _: True)
    try:
        kept = leave_out_refused(planned, failures)
    except LimitError as error:
        return _Finding(text, target, error)
    return _Finding(text, target, code=failures.find_exit_code(0 if kept else None))


def _find_bound(workspace: Workspace, scope: Scope, about: _About, missing: RunnerError) -> _Finding:
    """Return the most that can be sent, where the job has no key to read the record with."""
    failures = Failures()
    planned = plan_without_key(workspace, scope, failures)
    if not planned:
        raise missing
    warn(f"planned as if nothing was sent, since this pull request gets no secrets: {missing.message}")
    text = write_bound_text(workspace, planned, failures.problems, about.write(), failures.markdown())
    text = text.with_numbers(write_numbers(_count(planned)))
    return _Finding(text, workspace.target.name, code=failures.find_exit_code(0))


def _count(planned: Sequence[Planned]) -> PlanNumbers:
    """Return the numbers of plans, to be compared with those of later ones."""
    campaigns = {
        hide_phones(item.plan.campaign.name): {
            hide_phones(one.id): MessageNumbers(one.to_send, one.recipients, one.forecast)
            for one in item.plan.messages
        }
        for item in planned
    }
    later = sum(one.forecast for item in planned for one in item.plan.messages)
    return PlanNumbers(
        planned[0].plan.target, digest_plans(planned), campaigns, count_to_send(planned), later
    )


def _explain(error: RunnerError, scope: Scope, target: str, about: _About) -> _Finding:
    """Return what to comment when there is no plan; what gets no secrets is only validated.

    A fork gets none at all, and a pull request's job should not have the key of the fingerprints, which would
    be in the hands of whoever may push a branch.
    """
    problems = Problems()
    try:
        loaded = load_campaigns(scope.paths, scope.allowed, problems)
    except RunnerError:
        return _Finding(write_failure_text(error, target, about.write()), target, error)
    for campaign in loaded.campaigns:
        find_audience_problems(campaign, problems)
    if problems.error_count:
        return _Finding(write_problem_text(problems, target, about.write()), target, error)
    is_excused = lacks_secrets(os.environ) or (
        isinstance(error, MissingKeyError) and is_of_pull_request(os.environ)
    )
    if is_excused:
        warn(f"not planned, since this pull request gets no secrets: {error.message}")
    text = write_failure_text(error, target, about.write(), problems)
    return _Finding(text, target, None if is_excused else error)


def _publish(finding: _Finding, name: str | None, *, quiet: bool) -> None:
    def keep() -> None:
        job = read_pull_request_job(os.environ)
        text = finding.text.with_tail(f"<sub>For commit {job.head}</sub>" if job.head else "")
        marker = write_marker(finding.target, name or name_folder())
        comment(open_repository(job), job.number, marker, text, head=job.head, quiet=quiet)

    publish("comment", lambda: finding.text, keep)
