"""`runner report`: a report per campaign from the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Command, special_option
from runner.cli.options import FILE, FOLDER, target_scope
from runner.cli.output.report import add_to_summary, choose_writers, print_reports, save_reports
from runner.errors import UsageError
from runner.report.columns.answer_files import ANSWER_FORMATS
from runner.report.documents.formats import WRITERS
from runner.report.people_model import SMALL_GROUP
from runner.workflow.observer import note
from runner.workflow.results.campaign_report import ReportOptions
from runner.workflow.results.report import report_project

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@target_scope
@click.option(
    "--reconcile", "is_reconciled", is_flag=True, help="Update the ledger first, as `runner reconcile` does."
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice([*sorted(WRITERS), *ANSWER_FORMATS, "github"]),
    help="A format; may be repeated. answers.*: a row per person; answers-long.*: per person, message and "
    "question; results.*: per result; codebook.*: the columns of answers.*; callbacks.csv: people with low "
    "scores who may be called; github: md, also in a GitHub job's summary. Default: md.",
)
@click.option(
    "--by",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help="Break down by this column of the audience; may be repeated.",
)
@click.option(
    "--comments",
    is_flag=True,
    help="Quote what people wrote; names, phones and e-mail addresses are masked.",
)
@special_option("--wave", metavar="WAVE", help="Report on an earlier wave of the campaign.")
@special_option("--template", type=FILE, help="Use your own Jinja2 template.")
@special_option(
    "--min-group",
    "least",
    type=click.IntRange(1),
    default=SMALL_GROUP,
    metavar="N",
    help="Leave groups of fewer than N recipients out of breakdowns.",
)
@special_option(
    "--include-pii",
    is_flag=True,
    help="Include phone numbers, and what people wrote as it is, in files of answers and results.",
)
@click.option(
    "--out",
    type=FOLDER,
    help="Write a file for each campaign and format, and an index.html for several campaigns in HTML. "
    "Default: standard output, for one document.",
)
def report(
    scope: Scope,
    is_reconciled: bool,
    formats: tuple[str, ...],
    columns: tuple[str, ...],
    template: Path | None,
    out: Path | None,
    **wishes: Any,
) -> int:
    """Write a report for each campaign: how many were texted, how many answered, and what.

    The same ledger gives the same bytes; --by, --comments and files of answers need the audience, too.
    Reports have no phone numbers, what people wrote only with --comments, masked, and no groups so small that
    people could be identified. What is not known is never 0. With --reconcile the exit code is that of
    `reconcile`; a campaign without a report is left out, with exit code 3.

    Examples:
        runner report --reconcile
        runner report --format html --format json --out reports
        runner report campaigns/customer-pulse.yaml --by plan
        runner report --format answers.csv --out answers --include-pii
    """
    answers = tuple(name for name in dict.fromkeys(formats) if name in ANSWER_FORMATS)
    named = ["md" if name == "github" else name for name in formats]
    documents = choose_writers(named if named or template else ["md"], template)
    _refuse_nonsense(answers, out, include_pii=wishes["include_pii"])
    options = ReportOptions(tuple(dict.fromkeys(columns)), formats=answers, folder=out or Path(), **wishes)

    def check(campaigns: int) -> None:
        if out is None and list(documents) != ["md"] and len(documents) * campaigns > 1:
            raise UsageError("standard output takes one document", hint="name a folder with --out DIR")

    made = report_project(scope, options, is_reconciled=is_reconciled, check=check)
    reports = [one.report for one in made]
    if "github" in formats:
        add_to_summary(reports)
    if out is None:
        print_reports(reports, *documents.values())
    else:
        save_reports(reports, documents, out)
        for report in reports:
            for file in options.list_files(report.campaign).values():
                note(f"Wrote {file}")
    return made.exit_code


def _refuse_nonsense(answers: tuple[str, ...], out: Path | None, *, include_pii: bool) -> None:
    if answers and out is None:
        raise UsageError(
            f"--format {answers[0]} writes a file for each campaign", hint="name a folder with --out DIR"
        )
    if "callbacks.csv" in answers and not include_pii:
        raise UsageError(
            "--format callbacks.csv has phone numbers",
            hint="add --include-pii, and keep the file where phone numbers may be",
        )
    if include_pii and not answers:
        raise UsageError(
            "--include-pii has no effect here: reports have no phone numbers",
            hint=f"it is for files of answers: add --format with one of {', '.join(ANSWER_FORMATS)}",
        )
