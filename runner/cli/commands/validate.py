"""`runner validate`: every problem of every campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_json, print_prose
from runner.cli.encoding import print_text
from runner.cli.options import format_option, path_scope
from runner.cli.output.problems import (
    count_problems,
    human_lines,
    silenced_lines,
    write_github,
    write_markdown,
    write_sarif,
)
from runner.wording import count_words
from runner.workflow.checking.validate import validate_campaigns

if TYPE_CHECKING:
    from runner.workflow.checking.validate import Validation
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@path_scope
@click.option("--phones", is_flag=True, help="Search what git keeps of campaigns for phone numbers, too.")
@format_option("human", "json", "markdown", "github", "sarif")
def validate(scope: Scope, format_: str, *, phones: bool) -> int:
    """Find all problems of all campaigns, each with file, line, column and a remedy.

    Also checks the `targets.yaml` beside them. Texts are rendered for all recipients; nothing is sent and no
    service is called. Exits with 1 if there are errors.

    The format `github` annotates lines of the pull request, and writes a table to the job's summary; `sarif`
    is for code scanning.

    With `--phones` what git keeps below `campaigns/`, or of the named files alone, is searched for phone
    numbers outside of audiences: they are errors. A campaign that says `policy.audience: encrypted` has them
    searched for by itself.

    Examples:
        runner validate
        runner validate campaigns/customer-pulse.yaml
        runner validate --format github
        runner validate --phones
        runner validate --format sarif >runner.sarif
    """
    found = validate_campaigns(scope, searches_phones=phones)
    writers = {"markdown": write_markdown, "github": write_github, "sarif": write_sarif}
    if format_ == "json":
        print_json(found.document)
    else:
        writers.get(format_, _write_human)(found)
    return 0 if found.is_valid else 1


def _write_human(found: Validation) -> None:
    problems, files = found.problems, len(found.files)
    for line in (*human_lines(problems), *silenced_lines(found)):
        print_prose(line)
    verdict = click.style("Invalid", fg="red") if problems.error_count else click.style("Valid", fg="green")
    print_text(f"{verdict}: {count_words(files, 'campaign')}, {count_problems(problems)}.")
