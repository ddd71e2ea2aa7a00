"""Reports of a project's campaigns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from runner.errors import CampaignError, ConfigurationError, RunnerError, UsageError
from runner.report.documents.formats import WRITERS, describe_report
from runner.report.documents.wording import store_number
from runner.report.experiment import link_series
from runner.source.diagnostic import Problems
from runner.view.blocks import Items, Section
from runner.view.html import embed_page, write_html
from runner.wording import count_words
from runner.workflow.campaigns import DEFAULT_FOLDER, find_campaign_files, load_campaigns
from runner.workflow.failures import Failures, HasFailures
from runner.workflow.observer import warn
from runner.workflow.results.campaign_report import (
    CampaignReporter,
    ReportOptions,
    find_group_column,
    list_waves,
)
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.report.columns.file_columns import Shape
    from runner.report.model import CampaignReport
    from runner.workflow.scope import Scope


def check_columns(campaigns: Sequence[Campaign], options: ReportOptions) -> None:
    """Refuse columns that every campaign's audience lacks; one that lacks them has no report.

    Raises:
        UsageError: no audience has a column.
    """
    for name in options.columns:
        problem: CampaignError | None = None
        for campaign in campaigns:
            try:
                find_group_column(campaign, name)
                break
            except CampaignError as error:
                problem = problem or error
        else:
            if problem is not None:
                raise UsageError(problem.message, hint=problem.hint)


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The report of one campaign."""

    report: CampaignReport

    @property
    def campaign(self) -> str:
        """The campaign's name."""
        return self.report.campaign

    @property
    def score(self) -> float | None:
        """The campaign's score; None if it has none, or it is not known."""
        return None if self.report.score is None else store_number(self.report.score.value)

    def write(self, format_: str = "md") -> str:
        """Return the report as text: `md`, `html`, `json` or `csv`."""
        if format_ not in WRITERS:
            raise UsageError(
                f"there is no report as {format_!r}", hint=f"known: {', '.join(sorted(WRITERS))}"
            )
        return WRITERS[format_][1](self.report)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as in `schemas/report.schema.json`."""
        return describe_report(self.report).to_dict()

    def __str__(self) -> str:
        """Return the report as Markdown, for `print`."""
        return self.write()

    def _repr_html_(self) -> str:
        """Return the whole page in a frame, for notebooks."""
        return embed_page(self.write("html"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReport(HasFailures):
    """The reports of a project, in order."""

    reports: tuple[ReportResult, ...]
    failures: Failures
    exit_code: int

    def __iter__(self) -> Iterator[ReportResult]:
        return iter(self.reports)

    def __len__(self) -> int:
        return len(self.reports)

    def __getitem__(self, campaign: str) -> ReportResult:
        """Return the report of a campaign, by its name.

        Raises:
            UsageError: there is none.
        """
        for one in self.reports:
            if one.campaign == campaign:
                return one
        known = ", ".join(one.campaign for one in self.reports) or "none"
        others = "; `left_out` says why others are missing" if self.left_out else ""
        raise UsageError(f"there is no report of {campaign!r}", hint=f"known: {known}{others}")

    @property
    def score(self) -> float | None:
        """The score of the only report."""
        return self._only.score

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the only report.

        Raises:
            UsageError: there are several reports, or none.
        """
        return self._only.to_dict()

    @property
    def _only(self) -> ReportResult:
        if len(self.reports) != 1:
            count = count_words(len(self.reports), "report")
            raise UsageError(f"there are {count}: each has a document of its own", hint="iterate over them")
        return self.reports[0]

    def __str__(self) -> str:
        """Return the reports as Markdown, for `print`."""
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        """Return the reports as HTML for notebooks."""
        pages = "".join(map(ReportResult._repr_html_, self))
        remarks = [f"{one.name or one.file}: {one.error.message}" for one in self.left_out]
        return pages + (write_html([Section("Left out", [Items(remarks)])]) if remarks else "")


_OfSeries = tuple["CampaignReport", "str | None"]
"""A report, and its series; None for none."""


def report_project(
    scope: Scope,
    options: ReportOptions,
    *,
    is_reconciled: bool = False,
    check: Callable[[int], None] = lambda _: None,
) -> ProjectReport:
    """Return a report for each campaign in the scope.

    With `is_reconciled`, the ledger is updated first. `check` gets the number of campaigns and may raise.

    Raises:
        RunnerError: there is nothing to report, or a file cannot be written.
    """
    workspace = Workspace.open(scope, asks_service=is_reconciled)
    failures = Failures()
    campaigns: Sequence[Campaign] = failures.load(scope, needs_audience=False, keeps_rules=False)
    check(failures.total)
    check_columns(campaigns, options)
    code = 0
    if is_reconciled:
        campaigns, code = _reconcile(workspace, campaigns, failures)
    with workspace.open_ledger_for_reading() as present:

        def report(one: Campaign, options: ReportOptions) -> CampaignReport:
            return CampaignReporter(workspace, present, one, options).report()

        made = [failures.attempt(one, partial(report, one, options)) for one in campaigns]
        pairs = [(found, one) for found, one in zip(made, campaigns, strict=True) if found is not None]
        others = [(one, ReportOptions()) for one in _find_series(scope, campaigns)]
        others += [
            (one, ReportOptions(wave=wave))
            for _, one in pairs
            for wave in (list_waves(workspace, present, one) if one.wave else ())
            if wave != (options.wave or one.wave)
        ]
        waves = [found for one, how in others for found in _compare(report, one, how)]
    own = [(found, _name_series(one)) for found, one in pairs]
    linked = link_series([*own, *waves])[: len(own)]
    reports = tuple(map(ReportResult, linked))
    return ProjectReport(
        reports=reports,
        failures=failures,
        exit_code=failures.find_exit_code(code if reports else None),
    )


def _reconcile(
    workspace: Workspace, campaigns: Sequence[Campaign], failures: Failures
) -> tuple[Sequence[Campaign], int]:
    """Update the ledger; return the campaigns that were reconciled, and the exit code."""
    # Imported here: it is a third of the start-up time, and most reports do not need it.
    from runner.workflow.results.reconcile import ReconcileOptions, reconcile_and_warn

    with workspace.open_ledger() as opened:
        found = reconcile_and_warn(workspace, opened, campaigns, failures, ReconcileOptions())
    return [campaign for campaign in campaigns if campaign.name in found.summaries], found.reading_code


def _find_series(scope: Scope, campaigns: Sequence[Campaign]) -> Iterator[Campaign]:
    """Yield the project's other campaigns in the series of these."""
    names = {campaign.series for campaign in campaigns if campaign.series}
    known = {campaign.file.resolve() for campaign in campaigns}
    homes = [DEFAULT_FOLDER] if DEFAULT_FOLDER.is_dir() else {file.parent for file in known}
    for file in find_campaign_files([*homes]) if names and scope.paths else ():
        # Most files of a large project are of no such series, and need not be loaded to see that.
        text = file.read_bytes()
        if file.resolve() in known or not any(name.encode() in text for name in names):
            continue
        own = replace(scope, paths=(file,))
        found = load_campaigns(own, Problems(), needs_audience=False, keeps_rules=False)
        for fault in found.faults.values():
            warn(f"{fault.message}: if it is of the same series, it is not compared")
        yield from (campaign for campaign in found.campaigns if campaign.series in names)


def _name_series(campaign: Campaign) -> str | None:
    """Return the series that a campaign's report is of; its waves are one, unless it names another."""
    return campaign.series or (campaign.name if campaign.wave else None)


def _compare(
    report: Callable[[Campaign, ReportOptions], CampaignReport], campaign: Campaign, options: ReportOptions
) -> Iterator[_OfSeries]:
    """Yield a report that others are compared with, and its series; without it they are made all the same."""
    series = _name_series(campaign)
    try:
        yield report(campaign, options), series
    except RunnerError as error:
        warn(f"{campaign.name}: left out of the series {series}: {error.message}")


LIBRARIES = ("pandas", "arrow")
SHAPES = ("answers", "answers-long", "results")


def read_answers(scope: Scope, options: ReportOptions, *, shape: Shape, library: str) -> Any:
    """Return the answers to one campaign, with the columns of `runner report --format answers.parquet`.

    Args:
        scope: the campaign's file and target.
        options: whether there are phones and people's own words.
        shape: `answers` (a row for each person), `answers-long` (for each person, message and question) or
            `results` (for each result).
        library: `pandas` for a `pandas.DataFrame`, `arrow` for a `pyarrow.Table`.

    Raises:
        UsageError: shape or library is unknown.
        ConfigurationError: the library is not installed.
        RunnerError: the campaign has no report.
    """
    if library not in LIBRARIES:
        raise UsageError(f"there are no answers as {library!r}", hint=f"known: {', '.join(LIBRARIES)}")
    if shape not in SHAPES:
        raise UsageError(f"there is no table {shape!r}", hint=f"known: {', '.join(SHAPES)}")
    try:
        # Imported here: these packages are optional.
        import pyarrow.parquet

        if library == "pandas":
            import pandas  # noqa: F401, ICN001  so that it is missed before anything is read
    except ImportError as error:
        raise ConfigurationError(
            f"answers as a table need {error.name}, which is not installed",
            hint=f"pip install pyarrow{' pandas' if library == 'pandas' else ''}",
        ) from None
    # The folder is readable by this user alone.
    with TemporaryDirectory() as folder:
        options = replace(options, formats=(f"{shape}.parquet",), folder=Path(folder))
        (made,) = report_project(scope, options)
        (file,) = options.list_files(made.campaign).values()
        table = pyarrow.parquet.read_table(file, memory_map=False)
    return table.to_pandas() if library == "pandas" else table
