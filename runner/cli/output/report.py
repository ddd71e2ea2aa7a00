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
from runner.report.documents.formats import WRITERS, write_with_template
from runner.report.documents.page import write_index
from runner.workflow.observer import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from runner.report.model import CampaignReport

    Writer = tuple[str, Callable[[CampaignReport], str]]
    """The ending of a document's file, and the function that writes it."""

_FITTING = {".json": fit_json, ".html": fit_html}


def choose_writers(formats: Iterable[str], template: Path | None = None) -> dict[str, Writer]:
    """Return the writers of documents by format, and that of a user's Jinja2 template.

    Raises:
        RunnerError: the template cannot be read.
    """
    writers = {name: WRITERS[name] for name in formats if name in WRITERS}
    if template is not None:
        try:
            text = template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise RunnerError(f"the template {template} cannot be read: {reason}") from None
        name = template.name.removesuffix(".j2")
        writers["template"] = f".{name}", lambda report: write_with_template(report, text, template.name)
    return writers


def print_reports(reports: Sequence[CampaignReport], writer: Writer) -> None:
    """Print one document after the other."""
    if reports:
        ending, write = writer
        text = "\n\n".join(write(report).rstrip("\n") for report in reports)
        fit = _FITTING.get(ending)
        text = text if fit is None else fit(text, sys.stdout)
        if ending == ".json" or (ending != ".md" and leads_to_file(sys.stdout)):
            click.echo(text)  # data, exactly
        else:
            print_text(text)


def add_to_summary(reports: Sequence[CampaignReport]) -> None:
    """Append reports to the summary of a GitHub job, if this is one, as far as it has room.

    What people wrote stays away: everybody who may see the repository may read summaries.
    """
    append_summary("\n".join(WRITERS["md"][1](report.replace(comments=None)) for report in reports))


def save_reports(reports: Sequence[CampaignReport], writers: Mapping[str, Writer], folder: Path) -> None:
    """Write each report in each format to files, with an index for several in HTML."""
    for report in reports:
        for suffix, write in writers.values():
            _write(folder / f"{report.campaign}{suffix}", write(report))
    if "html" in writers and len(reports) > 1:
        links = {report.campaign: quote(f"{report.campaign}.html") for report in reports}
        _write(folder / "index.html", write_index(reports, links))


def _write(file: Path, text: str) -> None:
    """Write a document whole or not at all: half of a report looks like one."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Without the mark Excel takes a CSV file for one of another encoding.
        save_text(file, f"{BOM}{text}" if file.suffix == ".csv" else text)
    except OSError as error:
        raise RunnerError(f"the report cannot be written to {file.parent}: {error.strerror}") from None
    note(f"Wrote {file}")
