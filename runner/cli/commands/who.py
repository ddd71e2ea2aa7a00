"""`runner who`: everything about one person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import show
from runner.cli.options import format_option, region_option, target_scope
from runner.cli.output.person import show_person
from runner.cli.output.screen import print_blocks
from runner.workflow.failures import Failures
from runner.workflow.who import find_person

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@click.argument("phone", metavar="PHONE")
@target_scope
@region_option
@format_option("human", "json")
def command(scope: Scope, phone: str, region: str | None, format_: str) -> int:
    """Show what a person got, what they answered, whether they opted out, and what they get next.

    Covers the ledger and record files of one target, and the campaigns at PATH. A campaign that sends them
    nothing says why. With --format json it is the answer to a request for access to one's data. Answers are
    as of the last `runner reconcile`. Reads only, and calls no service.

    Examples:
        runner who +14155550101
        runner who '(415) 555-0101' --region US --target live
        runner who +14155550101 --format json
    """
    failures = Failures(is_tolerant=True)
    found = find_person(scope, phone, region, failures)
    show(found, format_, {"human": lambda person: print_blocks(show_person(person))})
    return failures.find_exit_code(None if failures.is_total else 0)
