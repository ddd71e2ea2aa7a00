"""`runner schema`: the JSON Schemas that the program uses."""

from __future__ import annotations

import json
import sys

import click

from runner.cli.encoding import fit_json, print_text
from runner.source.json_schema import schema_names, schema_text
from runner.source.reference import render_reference

_DOCUMENTED = "campaign"
_OF_FILES = ("campaign", "targets", "lockfile", "suppressions", "approvals")
_HELP = f"""Print one of the program's JSON Schemas.

NAME is {", ".join(_OF_FILES)} for files; and, for the output of commands with --format json,
{", ".join(name for name in schema_names() if name not in _OF_FILES)}.
"""


@click.command(
    help=_HELP,
    epilog="\b\nExamples:\n  runner schema campaign > campaign.schema.json\n"
    "  runner schema campaign --format markdown",
)
@click.argument("name", type=click.Choice(schema_names()), metavar="NAME")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    default="json",
    show_default=True,
    help="json for the schema, markdown for a reference of the campaign file.",
)
def command(name: str, form: str) -> int:
    """Print a schema, as JSON or as a page of the reference."""
    text = schema_text(name)
    if form == "json":
        click.echo(fit_json(text, sys.stdout), nl=False)
    elif name == _DOCUMENTED:
        print_text(render_reference(name, json.loads(text)), nl=False)
    else:
        raise click.UsageError(f"only {_DOCUMENTED} has a reference page, {name} has none")
    return 0
