"""`runner schema`: the JSON Schemas that the program uses."""

from __future__ import annotations

import click

from runner.source.schema import schema_names, schema_text


@click.command(epilog="\b\nExample:\n  runner schema campaign > campaign.schema.json")
@click.argument("name", type=click.Choice(schema_names()), metavar="NAME")
def command(name: str) -> int:
    """Print a JSON Schema that the program uses.

    NAME is campaign, targets or lockfile for files, and validate, plan, apply, status, reconcile or
    report for what commands write with --format json.
    """
    click.echo(schema_text(name), nl=False)
    return 0
