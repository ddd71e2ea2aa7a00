"""`--rejected`: a file of the rows that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.campaign.audience import list_invalid
from runner.campaign.table import write_row
from runner.cli.campaigns import load_campaigns, show_path
from runner.cli.console import count_words, note
from runner.errors import RunnerError
from runner.ledger.draft import write_private
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.scope import Scope

rejected_option = click.option(
    "--rejected",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all rows that cannot be read to a CSV file: file, line and problem.",
)


def write_rejected(file: Path, scope: Scope) -> None:
    """List the rows that cannot be read, of all campaigns of a command, in a file for its owner alone.

    Args:
        file: receives them.
        scope: the command's campaigns.

    Raises:
        RunnerError: the file cannot be written.
    """
    campaigns = load_campaigns(scope.paths, scope.allowed, Problems()).campaigns
    rows = 0

    def count() -> Iterator[str]:
        nonlocal rows
        for rows, line in enumerate(_iterate_lines(campaigns)):  # noqa: B007  the last number is the count
            yield line

    try:
        write_private(file, count())
    except OSError as error:
        raise RunnerError(f"{file} cannot be written: {error.strerror}") from None
    if not scope.quiet:
        note(f"{count_words(rows, 'row')} listed in {file}")


def _iterate_lines(campaigns: Sequence[Campaign]) -> Iterator[str]:
    yield write_row("file", "line", "problem")
    for campaign in campaigns:
        for problem in list_invalid(campaign):
            yield write_row(show_path(problem.file), problem.line, problem.message)
