"""`runner schema`: the JSON Schemas that the program uses."""

from __future__ import annotations

import sys

import click

from runner.cli.command import Command
from runner.cli.encoding import fit_json
from runner.source.json_schema import schema_names, schema_text

_OF_FILES = ("campaign", "targets", "lockfile", "suppressions", "approvals")
_HELP = f"""Print one of the program's JSON Schemas.

NAME is {", ".join(_OF_FILES)} for files; and, for the output of commands with --format json,
{", ".join(name for name in schema_names() if name not in _OF_FILES)}.

Example:
    runner schema campaign > campaign.schema.json
"""


@click.command(cls=Command, help=_HELP)
@click.argument("name", type=click.Choice(schema_names()), metavar="NAME")
def command(name: str) -> int:
    """Print a schema."""
    click.echo(fit_json(schema_text(name), sys.stdout), nl=False)
    return 0
