"""`runner alert`: one issue on the forge, open while something is wrong with a target's campaigns."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from runner.cli.options import Command, target_scope
from runner.workflow.review.alert import keep_alert
from runner.workflow.review.troubles import Outcome

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(
    cls=Command,
    epilog="\b\nExamples:\n  runner alert\n  runner alert --outcome failure\n"
    "  runner alert --target live --state-remote origin",
)
@target_scope
@click.option(
    "--outcome",
    type=click.Choice(get_args(Outcome)),
    help="The job's result so far, as in ${{ job.status }}. Default: the job is not mentioned.",
)
@click.option(
    "--remote",
    default="origin",
    show_default=True,
    metavar="NAME",
    help="The git remote that keeps the record.",
)
@click.option("--branch", metavar="NAME", help="The branch of the record. Default: as for `runner record`.")
def command(scope: Scope, outcome: Outcome | None, remote: str, branch: str | None) -> int:
    """Keep one GitHub issue that lists what is wrong with a target's campaigns. Sends nothing.

    The issue is opened when a job has failed, when people are held because it is not known what they got, or
    when the record waits to be merged on the branch runner/record. It says what to do. It is edited in place,
    gets a comment when things get worse, and is closed when all is well.

    Run it as the last step of a GitHub job, whether the steps before succeeded or not, with GITHUB_TOKEN in
    the step's environment and the permission `issues: write`. Without that permission the text goes to the
    job's summary; outside of a job it is printed. It never fails because of the issue.
    """
    keep_alert(scope, outcome, remote, branch)
    return 0
