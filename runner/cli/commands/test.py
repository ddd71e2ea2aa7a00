"""`runner test`: the tests of campaigns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_json, print_prose
from runner.cli.encoding import print_text
from runner.cli.options import format_option, path_scope
from runner.cli.output.problems import human_lines, write_tests
from runner.errors import RunnerError
from runner.workflow.checking.suite import run_tests

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@path_scope
@format_option("human", "json", "github")
def test(scope: Scope, format_: str) -> int:
    """Run the tests of campaigns: what one person gets at one moment, or why nothing.

    Tests are files in `campaigns/tests/`: `runner schema tests` has every key. They are decided as `runner
    plan` decides, with a made-up person and record. Nothing is sent, and no service and no ledger is asked.
    Exits with 1 if a test fails or cannot be run.

    Examples:
        runner test
        runner test campaigns/customer-pulse.yaml
        runner test campaigns/tests/customer-pulse.yaml --format github
    """
    run = run_tests(scope)
    if scope.paths and not run.tests and run.is_passed:
        words = f"there are no campaign tests of {', '.join(map(str, scope.paths))}"
        raise RunnerError(
            words, hint="they are in the folder `tests` beside campaigns, and name their campaign"
        )
    if format_ == "json":
        print_json(run.document)
        return 0 if run.is_passed else 1
    if format_ == "github":
        write_tests(run)
    else:
        for line in human_lines(run.problems):
            print_prose(line)
    print_text(f"{run.summary}.")
    return 0 if run.is_passed else 1
