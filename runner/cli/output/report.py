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
from runner.report.documents.formats import WRITERS
from runner.report.documents.index import write_index
from runner.workflow.observer import note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from runner.report.model import CampaignReport

_FITTING = {"json": fit_json, "html": fit_html}


def print_reports(reports: Sequence[CampaignReport], format_: str) -> None:
    """Print one document after the other."""
    if reports:
        text = "\n\n".join(WRITERS[format_][1](report).rstrip("\n") for report in reports)
        fit = _FITTING.get(format_)
        text = text if fit is None else fit(text, sys.stdout)
        if format_ == "json" or (format_ != "md" and leads_to_file(sys.stdout)):
            click.echo(text)  # data, exactly
        else:
            print_text(text)


def add_to_summary(reports: Sequence[CampaignReport]) -> None:
    """Append reports to the summary of a GitHub job, if this is one, as far as it has room."""
    append_summary("\n".join(map(WRITERS["md"][1], reports)))


def save_reports(
    reports: Sequence[CampaignReport], formats: Collection[str], folder: Path, *, quiet: bool
) -> None:
    """Write each report in each format to files, with an index for several in HTML."""
    for report in reports:
        for suffix, write in (WRITERS[name] for name in formats):
            _write(folder / f"{report.campaign}{suffix}", write(report), quiet=quiet)
    if "html" in formats and len(reports) > 1:
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
