"""`runner ci`: the jobs of CI's workflows, and their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Group
from runner.cli.commands.ci.alert import alert, replies
from runner.cli.commands.ci.approve import approve
from runner.cli.commands.ci.comment import comment
from runner.cli.commands.ci.jobs import act, finish, plan, review, send
from runner.cli.commands.ci.record import record
from runner.cli.console import print_prose
from runner.cli.options import ledger_scope
from runner.workflow.records.record_push import start_ref

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.group(cls=Group)
def ci() -> None:
    """Run the jobs of CI, and their parts.

    `review` is the job of a pull request; `plan`, `send` and `act` work on the main branch, and `finish` is
    the last step of each. They do what the other commands do, in the right order, and go on with the other
    campaigns if one fails.

    What GitHub needs, once: the environment campaigns, for the branch main only, without reviewers, with the
    secrets RUNNER_USERNAME, RUNNER_API_KEY and RUNNER_STATE_KEY (`runner key new`), and RUNNER_AGE_IDENTITY
    for encrypted audiences; the environment
    campaigns-approval, for main only, whose required reviewers approve plans; a ruleset for main that asks
    for reviewed pull requests and the check Review. docs/how-to/github.md says more.

    Example:
        runner ci plan --out ci && runner ci finish
    """


@ci.command(short_help="Make the state remote's ref, once.")
@ledger_scope
@click.option("--remote", default="origin", metavar="NAME", help="The git remote to make it on.")
def start(scope: Scope, remote: str) -> int:
    """Make the ref of a state remote, once, while nothing is sent anywhere.

    A run that finds no ref cannot know whether there never was one, or whether it was deleted while another
    machine sends. So it waits until no other run can be sending any more, for some minutes. You know that
    nothing is running: then nobody has to wait. The ref gets the opt-outs and pauses of the files here; what
    they tell of launches is compared with the service, in each campaign's next run. A ref that is there is
    left as it is.

    Example:
        runner ci start --target live
    """
    ref, is_new = start_ref(scope, remote)
    print_prose(f"Made {ref}." if is_new else f"{ref} is there already.")
    return 0


for part in (review, plan, send, act, finish, comment, approve, record, alert, replies):
    ci.add_command(part)
