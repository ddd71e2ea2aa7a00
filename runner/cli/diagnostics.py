"""Writes problems: for people, programs, pull requests and job logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.cli.annotations import list_annotations, list_unannotated
from runner.cli.campaigns import show_path
from runner.cli.command_guard import write_command
from runner.cli.console import Markdown, count_words, markdown_table, print_json
from runner.cli.inert import inert, printable
from runner.cli.job_summary import append_summary
from runner.errors import CampaignError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from runner.source.diagnostic import Diagnostic, Problems

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


class InvalidCampaignError(CampaignError):
    """Campaigns have errors, which have been shown.

    Attributes:
        problems: the errors, and what else was found.
    """

    def __init__(self, problems: Problems) -> None:
        super().__init__(f"{count_words(problems.error_count, 'error')}: nothing was sent")
        self.problems = problems


def refuse_errors(problems: Problems, *, quiet: bool) -> None:
    """Show problems on standard error, and stop if there are errors among them.

    Raises:
        InvalidCampaignError: there are errors.
    """
    show_problems(problems, quiet=quiet)
    if problems.error_count:
        raise InvalidCampaignError(problems)


def show_problems(problems: Problems, *, quiet: bool) -> None:
    """Show problems on standard error; if the user wants it quiet, only when there are errors among them."""
    if not quiet or problems.error_count:
        for line in human_lines(problems):
            click.echo(line, err=True)


def human_lines(problems: Problems) -> list[str]:
    """Return the problems as lines for people: place, what is wrong, what to do."""
    lines = list(_human_lines(problems))
    lines += [
        f"{printable(show_path(file))}: and {count:,} more [{code}]"
        for code, file, count in problems.omitted()
    ]
    return lines


def _human_lines(diagnostics: Iterable[Diagnostic]) -> Iterator[str]:
    said: tuple[Path, str, str | None] | None = None
    for diagnostic in diagnostics:
        place = printable(f"{show_path(diagnostic.file)}:{diagnostic.line}:{diagnostic.column}")
        label = click.style(diagnostic.severity, fg=_COLOURS[diagnostic.severity], bold=True)
        yield f"{place}: {label}: {printable(diagnostic.message)} [{diagnostic.code}]"
        advice = (diagnostic.file, diagnostic.code, diagnostic.hint)
        # One problem in many rows has one remedy, said once.
        if diagnostic.hint and advice != said:
            yield f"    {printable(diagnostic.hint)}"
        said = advice


def _count_found(problems: Problems) -> str:
    counts = [count_words(problems.error_count, "error"), count_words(problems.warning_count, "warning")]
    return ", ".join(counts + ([count_words(problems.note_count, "note")] if problems.note_count else []))


def _write_human(problems: Problems, files: int) -> None:
    for line in human_lines(problems):
        click.echo(line)
    verdict = click.style("Invalid", fg="red") if problems.error_count else click.style("Valid", fg="green")
    click.echo(f"{verdict}: {count_words(files, 'campaign')}, {_count_found(problems)}.")


def _write_json(problems: Problems, _files: int) -> None:
    print_json(
        {
            "valid": not problems.error_count,
            "error_count": problems.error_count,
            "warning_count": problems.warning_count,
            "note_count": problems.note_count,
            "diagnostics": [diagnostic_json(diagnostic) for diagnostic in problems],
            "omitted": [
                {"code": code, "file": show_path(file), "count": count}
                for code, file, count in problems.omitted()
            ],
        }
    )


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a problem as the contract's JSON."""
    document: dict[str, Any] = {
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "file": show_path(diagnostic.file),
        "line": diagnostic.line,
        "column": diagnostic.column,
    }
    return document | ({"hint": diagnostic.hint} if diagnostic.hint else {})


def problems_markdown(problems: Problems, files: int) -> str:
    """Return the problems as Markdown: their counts, and a table of them.

    Args:
        problems: what was found.
        files: campaign files that were read.
    """
    verdict = "Invalid" if problems.error_count else "Valid"
    text = f"## {verdict}: {count_words(files, 'campaign')}, {_count_found(problems)}\n"
    rows = [
        (
            d.severity,
            Markdown(inert(f"{show_path(d.file)}:{d.line}:{d.column}")),
            printable(d.message),
            printable(d.hint or ""),
        )
        for d in problems
    ]
    if rows:
        text += "\n" + markdown_table(("severity", "where", "what", "what to do"), rows)
    for code, file, count in problems.omitted():
        text += f"\n{inert(show_path(file))}: and {count:,} more ({code})\n"
    return text


def _write_markdown(problems: Problems, files: int) -> None:
    click.echo(problems_markdown(problems, files), nl=False)


def _write_github(problems: Problems, files: int) -> None:
    for command in list_annotations(problems):
        write_command(command)
    for line in _human_lines(list_unannotated(problems)):
        click.echo(line)
    append_summary(problems_markdown(problems, files))


def _write_sarif(problems: Problems, _files: int) -> None:
    # Imported here: only who asks for it pays for compression and hashing.
    from runner.cli.sarif import sarif_text

    click.echo(sarif_text(problems))


REPORTERS: dict[str, Callable[[Problems, int], None]] = {
    "human": _write_human,
    "json": _write_json,
    "markdown": _write_markdown,
    "github": _write_github,
    "sarif": _write_sarif,
}
