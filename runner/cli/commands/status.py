"""`runner status`: the known and unknown state of each campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.options import format_option, target_scope
from runner.cli.output.screen import show
from runner.workflow.observer import note
from runner.workflow.results.status import find_project_status

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@target_scope
@format_option("human", "json", "markdown")
def status(scope: Scope, format_: str) -> int:
    """Show the state of each campaign and message: to send, sent, answered, unresolved and more.

    Reads only, and calls no service: sessions and answers are as of the last `runner reconcile`, and "not
    known" if a launch was not read. Whatever cannot be read or planned is also shown as not known, with the
    reason on standard error, and exit code 3 if it is one of several campaigns.

    Examples:
        runner status
        runner status campaigns/customer-pulse.yaml --format json
    """
    result = find_project_status(scope)
    show(result, format_, result.show())
    if result.unread:
        unread = ", ".join(result.unread)
        note(
            f"A follow-up is due, and waits for answers to be read: {unread}. `runner reconcile` reads them."
        )
    return result.exit_code
