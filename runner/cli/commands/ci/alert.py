"""`runner ci alert`: one issue a target, open while there is something for a person to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from runner.cli.command import Command, setting_option
from runner.cli.options import target_scope
from runner.settings import SHOW_REPLIES
from runner.workflow.review.checklist import Outcome
from runner.workflow.review.issue import keep_issue

if TYPE_CHECKING:
    from runner.workflow.scope import Scope

REPLIES_OPTION = setting_option(SHOW_REPLIES)
OUTCOME_OPTION = click.option(
    "--outcome",
    type=click.Choice(get_args(Outcome)),
    help="The job's result so far, as in ${{ job.status }}. Default: the job is not mentioned.",
)


@click.command(short_help="Keep one GitHub issue with what a person must do.", cls=Command)
@target_scope
@OUTCOME_OPTION
@REPLIES_OPTION
def alert(scope: Scope, outcome: Outcome | None, show_replies: bool) -> int:
    """Keep one GitHub issue with what a person must do for a target's campaigns. Sends nothing.

    Its checklist: a job has failed, people are held because it is not known what they got, replies wait for
    a decision, a plan was denied. It says what to do. It is edited in place, gets a comment when something is
    new, is closed when all is done, and opened again.

    Run it as the last step of a GitHub job, whether the steps before succeeded or not, with GITHUB_TOKEN in
    the step's environment and the permission `issues: write`. Without that permission the text goes to the
    job's summary; outside of a job it is printed. It never fails because of the issue.

    Examples:
        runner ci alert
        runner ci alert --outcome failure
        runner ci alert --target live
    """
    keep_issue(scope, outcome, shows_words=show_replies)
    return 0


@click.command(short_help="Keep the target's issue after replies were decided.", cls=Command)
@target_scope
@REPLIES_OPTION
def replies(scope: Scope, show_replies: bool) -> int:
    """Keep the target's issue, after replies were read or decided elsewhere than in a job.

    Does what `runner ci alert` does, and mentions no job.

    Example:
        runner ci replies --target live
    """
    keep_issue(scope, None, shows_words=show_replies)
    return 0
