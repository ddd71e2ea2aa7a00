"""`runner schema`: the JSON Schemas that the program uses."""

from __future__ import annotations

import json

import click

from runner.source.reference import render_reference
from runner.source.schema import schema_names, schema_text

_DOCUMENTED = "campaign"


@click.command(
    epilog="\b\nExamples:\n  runner schema campaign > campaign.schema.json\n"
    "  runner schema campaign --format markdown"
)
@click.argument("name", type=click.Choice(schema_names()), metavar="NAME")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "markdown"]),
    default="json",
    show_default=True,
    help="json for the schema, markdown for a reference page of the campaign file.",
)
def command(name: str, form: str) -> int:
    """Print a JSON Schema that the program uses.

    NAME is campaign, targets, lockfile, suppressions or plan-set for files, and validate, plan, apply, pause,
    status, reconcile, report or sandbox for what commands write with --format json.
    """
    text = schema_text(name)
    if form == "json":
        click.echo(text, nl=False)
    elif name == _DOCUMENTED:
        click.echo(render_reference(name, json.loads(text)), nl=False)
    else:
        raise click.UsageError(f"there is a reference page of {_DOCUMENTED} alone, not of {name}")
    return 0
