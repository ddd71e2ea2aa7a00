"""`runner law`: the known legal sending hours, with their sources."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from runner.cli.command import Command
from runner.cli.console import find_width, print_prose
from runner.cli.encoding import print_text
from runner.cli.output.law_text import show_law
from runner.cli.output.screen import show_blocks
from runner.errors import RunnerError
from runner.timing.legal_hours import load_law
from runner.wording import count_words


@click.command(cls=Command, epilog="\b\nExamples:\n  runner law\n  runner law --stale")
@click.option(
    "--stale",
    is_flag=True,
    help="List the laws whose sources were last checked over a year ago; exit with 1 if there are any.",
)
def command(stale: bool) -> int:
    """Print the legal sending hours that `quiet_hours: legal` applies.

    Each comes with its law, its source, and the date of the last check: as tables at a terminal, as Markdown
    elsewhere. An aid, not legal advice.
    """
    book = load_law()
    if not stale:
        show_blocks(show_law(book), "human" if find_width() is not None else "markdown")
        return 0
    found = book.list_stale(datetime.now(UTC).date())
    for rule in found:
        print_prose(f"{', '.join(rule.places)}: {rule.citation}, looked at on {rule.looked_at}")
    if found:
        sources = count_words(len(found), "source was", "sources were")
        raise RunnerError(
            f"{sources} last looked at more than a year ago",
            hint="read them again, and bring runner/timing/legal_hours.json up to date",
        )
    print_text("All sources were looked at within the last year.")
    return 0
