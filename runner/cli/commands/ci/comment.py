"""`runner ci comment`: the plan as one comment on the pull request, edited in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.options import target_scope
from runner.cli.output.comment import write_comment
from runner.workflow.review.comments import comment_merged, find_plan, keep_plan_comment

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(short_help="Comment the plan on the pull request.", cls=Command)
@target_scope
@click.option(
    "--remote",
    default="origin",
    metavar="NAME",
    help="The git remote of the pull request's base and of the unmerged record.",
)
@click.option(
    "--merged",
    "is_merged",
    is_flag=True,
    help="After sending: comment on the last merged pull request what was sent and what was not.",
)
def comment(scope: Scope, remote: str, is_merged: bool) -> int:
    """Validate and plan, and keep the result as one comment on the pull request. Sends nothing.

    Run it in a GitHub job of the pull request, with GITHUB_TOKEN in the step's environment and the permission
    `pull-requests: write`. The comment is edited in place; if it gets too long, the rest goes to the job's
    summary. Without that permission, as for a fork, the summary has everything. Outside of a job the comment
    is printed. It starts with the pull request's changes of targets and records, and with the campaigns that
    it moves or deletes.

    With --merged, run it after `runner apply` in a job of the branch; it needs `contents: read`, too.

    Exits with 1 if there are errors, with 3 if some campaigns have none, and with 5 if the plan breaks a
    limit. It never fails because of the comment.

    Examples:
        runner ci comment
        runner ci comment campaigns/customer-pulse.yaml
        runner ci comment --target live
        runner ci comment --merged
    """
    if is_merged:
        comment_merged(scope)
        return 0
    return keep_comment(scope, remote)


def keep_comment(scope: Scope, remote: str, remark: str = "") -> int:
    """Comment the plan of a pull request, with a remark in Markdown, and return the exit code.

    Raises:
        RunnerError: nothing can be planned; that is commented first.
    """
    findings = find_plan(scope, remote)
    findings.remarks.append(remark)
    keep_plan_comment(findings, write_comment(findings))
    if findings.error is not None:
        raise findings.error
    return findings.code
