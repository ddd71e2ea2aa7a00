"""`runner doctor`: what is configured, reachable and writable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_prose, show
from runner.cli.options import format_option, target_scope
from runner.workflow.doctor import examine

if TYPE_CHECKING:
    from runner.workflow.doctor import Examination
    from runner.workflow.scope import Scope

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command(cls=Command)
@target_scope
@format_option("human", "json")
def command(scope: Scope, format_: str) -> int:
    """Show what is configured, what can be reached, and how clocks agree.

    It changes nothing and sends nothing. It writes no secret and no phone number: paste it into a bug report.
    Exits with 1 if something does not work.

    Examples:
        runner doctor
        runner doctor --target live --format json
    """
    examination = examine(scope)
    show(examination, format_, {"human": _write_checks})
    return int(examination.has_failed)


def _write_checks(examination: Examination) -> None:
    print_prose("\n".join([*examination.versions, ""]))
    for check in examination:
        state = click.style(f"{check.state:8}", fg=_COLOURS[check.state])
        print_prose(f"{state}{check.name:10} {check.found}")
        if check.hint and check.state != "ok":
            print_prose(f"{'':19}{check.hint}")
