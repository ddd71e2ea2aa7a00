"""`runner report`: a report per campaign from the ledger."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args
from urllib.parse import quote

import click

from runner.cli.clustering import choose_cluster, open_chosen_cluster
from runner.cli.console import note
from runner.cli.failures import Failures
from runner.cli.reporting import AnswerFile, ReportOptions, check_columns, make_report
from runner.cli.scope import Scope, clustered_target_scope
from runner.cli.workspace import Workspace
from runner.cluster.address import LEDGER
from runner.errors import RunnerError, UsageError
from runner.ledger.draft import drafting, remove_leftovers
from runner.report.columns.export import FileFormat, Shape
from runner.report.custom_template import write_with_template
from runner.report.documents import WRITERS
from runner.report.index import write_index
from runner.report.turnout import SMALL_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.clustering import ClusterSettings
    from runner.cluster.report import CountingPlace
    from runner.report.model import CampaignReport

ANSWER_FORMATS = {
    f"{shape}.{file_format}": (cast("Shape", shape), cast("FileFormat", file_format))
    for shape in get_args(Shape)
    for file_format in get_args(FileFormat)
}
"""Formats that are files of answers, not documents."""

_NEW_FILE = 0o666


@dataclass(frozen=True, slots=True)
class _Document:
    """One way to write a report: what the file's name ends in, and how it is written."""

    suffix: str
    write: Callable[[CampaignReport], str]


@click.command(
    epilog="\b\nExamples:\n  runner report --reconcile\n"
    "  runner report --format html --format json --out reports\n"
    "  runner report campaigns/customer-pulse.yaml --by plan\n"
    "  runner report --format answers.csv --out answers --include-pii"
)
@clustered_target_scope
@click.option("--reconcile", "reconcile_first", is_flag=True, help="Bring the ledger up to date first.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice([*sorted(WRITERS), *ANSWER_FORMATS]),
    help="May be repeated. answers.*: a row a person asked, a column a question; results.*: a row a result. "
    "Default: md.",
)
@click.option(
    "--template",
    "template_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write by a Jinja2 template of your own.",
)
@click.option(
    "--by", "columns", multiple=True, metavar="COLUMN", help="Break down by a column of the audience."
)
@click.option(
    "--min-group",
    "least",
    type=click.IntRange(1),
    default=SMALL_GROUP,
    show_default=True,
    metavar="N",
    help="Leave groups of fewer recipients out of breakdowns.",
)
@click.option(
    "--include-pii",
    is_flag=True,
    help="Put phone numbers, and what people wrote in their own words, into files of answers and results.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write one file a campaign and format; of several campaigns in HTML an index.html, too. "
    "Default: standard output, for one of each.",
)
def command(
    scope: Scope,
    reconcile_first: bool,
    formats: tuple[str, ...],
    template_file: Path | None,
    columns: tuple[str, ...],
    least: int,
    include_pii: bool,
    out: Path | None,
) -> int:
    """Write a report per campaign from the ledger: how many were texted, who answered, and what.

    A report is a function of the ledger: run twice, it is byte for byte the same. It has no phone
    numbers and no free texts in it. Groups in which single people could be made out are left out. What was
    not read of every launch is "not known", never 0; with --reconcile the exit code is that of `reconcile`.
    Each campaign stands for itself: one that has no report is left out, with exit code 3.

    With --cluster, workers count parts of the results, and the figures are the same. Files of answers and
    results are written by this one process, which then counts, too.
    """
    documents, answers = _choose_formats(formats, template_file)
    _refuse_nonsense(answers, out, include_pii=include_pii)
    options = ReportOptions(tuple(dict.fromkeys(columns)), least, include_pii)
    workspace = Workspace.open(scope)
    settings = choose_cluster(scope, workspace)
    failures = Failures()
    campaigns = failures.load(scope)
    if out is None and len(documents) * failures.total > 1 and list(documents) != ["md"]:
        raise UsageError(
            "several documents don't go to one standard output", hint="name a folder with --out DIR"
        )
    check_columns(campaigns, options)
    code = 0
    if reconcile_first:
        # Late: a third of the start, for what most reports do without.
        from runner.cli.reconcile import find_exit_code, reconcile_campaigns

        with workspace.open_ledger() as opened:
            found = reconcile_campaigns(
                workspace, opened, campaigns, failures, quiet=scope.quiet, settings=settings
            )
        code = find_exit_code(found.values())
        campaigns = tuple(campaign for campaign in campaigns if campaign.name in found)
    files = {campaign.name: list(_list_files(campaign, answers, out)) for campaign in campaigns}
    with _choosing_place(settings if not answers else None, workspace) as place:
        reports = _make_reports(workspace, campaigns, options, files, place, failures)
    if out is None:
        (document,) = documents.values()
        if reports:
            click.echo("\n\n".join(document.write(report).rstrip("\n") for report in reports))
    else:
        _save(reports, documents, out, quiet=scope.quiet)
        if not scope.quiet:
            for one in (one for report in reports for one in files[report.campaign]):
                note(f"Wrote {one.file}")
    return failures.find_exit_code(code if reports else None)


@contextmanager
def _choosing_place(settings: ClusterSettings | None, workspace: Workspace) -> Iterator[CountingPlace | None]:
    """Yield where results are counted; None for here."""
    if settings is None:
        yield None
        return
    # Imported here: only those who have a cluster pay for it.
    from runner.cluster.report import CountingPlace

    with open_chosen_cluster(settings, workspace) as (cluster, folder):
        yield CountingPlace(cluster, folder, LEDGER)


def _make_reports(
    workspace: Workspace,
    campaigns: Sequence[Campaign],
    options: ReportOptions,
    files: Mapping[str, Sequence[AnswerFile]],
    place: CountingPlace | None,
    failures: Failures,
) -> list[CampaignReport]:
    with workspace.open_ledger_if_present() as present:
        if present is not None and present.is_older():
            present.prepare()
        reports = (
            failures.attempt(
                campaign,
                partial(make_report, workspace, present, campaign, options, files[campaign.name], place),
            )
            for campaign in campaigns
        )
        return [report for report in reports if report is not None]


def _choose_formats(
    formats: tuple[str, ...], template_file: Path | None
) -> tuple[dict[str, _Document], tuple[str, ...]]:
    """Return the documents to write, by format, and the formats of files of answers."""
    answers = tuple(name for name in dict.fromkeys(formats) if name in ANSWER_FORMATS)
    documents = {name: _Document(*WRITERS[name]) for name in dict.fromkeys(formats) if name in WRITERS}
    if template_file is not None:
        documents["template"] = _read_template(template_file)
    return documents or ({} if answers else {"md": _Document(*WRITERS["md"])}), answers


def _read_template(file: Path) -> _Document:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise RunnerError(f"the template {file} cannot be read: {reason}") from None
    name = file.name.removesuffix(".j2")
    return _Document(f".{name}", lambda report: write_with_template(report, text, file.name))


def _refuse_nonsense(answers: tuple[str, ...], out: Path | None, *, include_pii: bool) -> None:
    if answers and out is None:
        raise UsageError(
            f"--format {answers[0]} writes a file a campaign", hint="name a folder with --out DIR"
        )
    if include_pii and not answers:
        formats = ", ".join(ANSWER_FORMATS)
        raise UsageError(
            "--include-pii changes nothing here: no report has phone numbers or free texts in it",
            hint=f"it is for files of answers: add --format, one of {formats}",
        )


def _list_files(campaign: Campaign, answers: Sequence[str], out: Path | None) -> Iterator[AnswerFile]:
    for name in answers:
        if out is not None:
            yield AnswerFile(*ANSWER_FORMATS[name], out / f"{campaign.name}.{name}")


def _save(
    reports: Sequence[CampaignReport], documents: dict[str, _Document], folder: Path, *, quiet: bool
) -> None:
    """Write each report in each way; of several in HTML an index, too."""
    for report in reports:
        for document in documents.values():
            _write(folder / f"{report.campaign}{document.suffix}", document.write(report), quiet=quiet)
    if "html" in documents and len(reports) > 1:
        suffix = documents["html"].suffix
        links = {report.campaign: quote(f"{report.campaign}{suffix}") for report in reports}
        _write(folder / "index.html", write_index(reports, links), quiet=quiet)


def _write(file: Path, text: str, *, quiet: bool) -> None:
    """Write a document whole or not at all: half of a report looks like one."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(file)
        with drafting(file) as (stream, draft):
            stream.write(text)
            stream.flush()
            draft.chmod(_NEW_FILE & ~_read_umask())
            draft.replace(file)
    except OSError as error:
        raise RunnerError(f"the report cannot be written to {file.parent}: {error.strerror}") from None
    if not quiet:
        note(f"Wrote {file}")


def _read_umask() -> int:
    """Return what this process takes from the rights of new files; it can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
