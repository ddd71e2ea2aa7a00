"""`runner ci`: the steps of CI's workflows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.console import print_prose
from runner.cli.options import Group, plan_scope

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.group(cls=Group, epilog="\b\nExample:\n  runner ci start --target live")
def command() -> None:
    """Set up and run CI's jobs."""


@command.command(epilog="\b\nExample:\n  runner ci start --target live")
@plan_scope
@click.option(
    "--remote", default="origin", show_default=True, metavar="NAME", help="The git remote to make it on."
)
def start(scope: Scope, remote: str) -> int:
    """Make the ref of a state remote, once, while nothing is sent anywhere.

    A run that finds no ref cannot know whether there never was one, or whether it was deleted while another
    machine sends. So it waits until no other run can be sending any more, for some minutes. You know that
    nothing is running: then nobody has to wait. A ref that is there is left as it is.
    """
    # Imported here: it is not needed to show help.
    from runner.workflow.workspace.state_remote import StateRemote
    from runner.workflow.workspace.workspace import Workspace

    state = StateRemote.open(remote, Workspace.open(scope).target, scope)
    is_new = state.start()
    print_prose(f"Made {state.ref}." if is_new else f"{state.ref} is there already.")
    return 0
