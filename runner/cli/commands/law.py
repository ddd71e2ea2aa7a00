"""`runner law`: the known legal sending hours, with their sources."""

from __future__ import annotations

import click

from runner.cli.command import Command
from runner.cli.console import find_width
from runner.cli.output.law import show_law
from runner.cli.output.screen import show_blocks
from runner.timing.legal_hours import load_law


@click.command(cls=Command)
def command() -> int:
    """Print the legal sending hours that `quiet_hours: legal` applies.

    Each comes with its law, its source, and the date of the last check: as tables at a terminal, as Markdown
    elsewhere. An aid, not legal advice.

    Example:
        runner law
    """
    show_blocks(show_law(load_law()), "markdown" if find_width() is None else "human")
    return 0
