"""`runner ci approve`: a record of a plan's approval, or a check that somebody has approved a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_prose
from runner.cli.options import ledger_scope
from runner.errors import UsageError
from runner.workflow.observer import note
from runner.workflow.review.approving import approve_plan, approve_run

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@ledger_scope
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False),
    help="The approved plan, as saved by `runner plan --out FILE`.",
)
@click.option(
    "--run",
    "is_of_run",
    is_flag=True,
    help="Instead, check that somebody has approved this run of a workflow; for jobs that send no plan.",
)
@click.option(
    "--expect-digest",
    metavar="DIGEST",
    help="Approve the plan only if it has this digest, the one that was shown.",
)
@click.option(
    "--by", "names", multiple=True, metavar="NAME", help="A person who approved it; may be repeated."
)
@click.option(
    "--merge",
    "is_by_merge",
    is_flag=True,
    help="Count the approving review of the merged pull request as the approval, unless the plan is larger "
    "than the pull request's comment said (`policy.review_margin`).",
)
def approve(
    scope: Scope,
    plan_file: str | None,
    is_of_run: bool,
    expect_digest: str | None,
    names: tuple[str, ...],
    is_by_merge: bool,
) -> int:
    """Record who approved a plan, for `runner ci record` to commit. Sends nothing.

    In a GitHub job, GitHub is asked who approved the run in the environment campaigns-approval, and which
    pull request brought the campaigns. An approval covers what the plan sends now and forecasts: these texts
    to these people. It is valid only with the RUNNER_STATE_KEY that it was recorded with.

    What was approved in an earlier attempt of the run does not count, nor does anything while the environment
    has no required reviewers. If a reviewer denied the plan, that is recorded: nobody is asked about it again
    until it changes.

    Exits with 5 if nobody approved, if somebody denied it, or if the merge of --merge is not enough.

    Examples:
        runner ci approve --plan plan.json
        runner ci approve --plan plan.json --merge
        runner ci approve --plan plan.json --by ada
        runner ci approve --run
    """
    if names and is_by_merge:
        raise UsageError("--by names who approved, and --merge asks GitHub: use one of them")
    if is_of_run:
        if plan_file is not None or expect_digest is not None or names or is_by_merge:
            raise UsageError("--run takes no plan: leave out the other options")
        print_prose(f"Approved by {', '.join(approve_run())}.")
        return 0
    if plan_file is None:
        raise UsageError("no plan was named", hint="name the approved plan with --plan FILE")
    approved = approve_plan(plan_file, scope, expect_digest, names, is_by_merge=is_by_merge)
    if approved is None:
        print_prose("Nothing to approve: the plan is approved already, or it sends nothing.")
        return 0
    print_prose(f"Approved by {', '.join(approved.people)}: {', '.join(approved.campaigns)}.")
    if not approved.is_kept:
        note(
            "Without a RUNNER_STATE_KEY the approval is not saved: send exactly this plan now, with "
            f"`runner apply --plan {plan_file} --require-approval --expect-digest {approved.digest}`"
        )
    return 0
