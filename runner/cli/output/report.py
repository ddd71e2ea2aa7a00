"""Reports as documents: printed one after the other, or written to files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from runner.atomic_write import save_text
from runner.cli.encoding import fit_html, fit_json, leads_to_file, print_text
from runner.errors import RunnerError
from runner.github.job_summary import append_summary
from runner.report.columns.answer_files import BOM
from runner.report.documents.index import write_index
from runner.workflow.observer import note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from runner.report.model import CampaignReport

_FITTING = {".json": fit_json, ".html": fit_html}

if TYPE_CHECKING:
    ReportDocument = tuple[str, Callable[[CampaignReport], str]]
    """A format of reports: the ending of the file's name, and the function that writes it."""


def print_reports(reports: Sequence[CampaignReport], document: ReportDocument) -> None:
    """Print one document after the other."""
    if reports:
        suffix, write = document
        text = "\n\n".join(write(report).rstrip("\n") for report in reports)
        fit = _FITTING.get(suffix)
        text = text if fit is None else fit(text, sys.stdout)
        if suffix == ".json" or (suffix != ".md" and leads_to_file(sys.stdout)):
            click.echo(text)  # data, exactly
        else:
            print_text(text)


def add_to_summary(reports: Sequence[CampaignReport], document: ReportDocument) -> None:
    """Append reports to the summary of a GitHub job, if this is one, as far as it has room."""
    append_summary("\n".join(map(document[1], reports)))


def save_reports(
    reports: Sequence[CampaignReport], documents: Mapping[str, ReportDocument], folder: Path, *, quiet: bool
) -> None:
    """Write each report in each format to files, with an index for several in HTML."""
    for report in reports:
        for suffix, write in documents.values():
            _write(folder / f"{report.campaign}{suffix}", write(report), quiet=quiet)
    if "html" in documents and len(reports) > 1:
        links = {report.campaign: quote(f"{report.campaign}.html") for report in reports}
        _write(folder / "index.html", write_index(reports, links), quiet=quiet)


def _write(file: Path, text: str, *, quiet: bool) -> None:
    """Write a document whole or not at all: half of a report looks like one."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Without the mark Excel takes a CSV file for one of another encoding.
        save_text(file, f"{BOM}{text}" if file.suffix == ".csv" else text)
    except OSError as error:
        raise RunnerError(f"the report cannot be written to {file.parent}: {error.strerror}") from None
    if not quiet:
        note(f"Wrote {file}")
