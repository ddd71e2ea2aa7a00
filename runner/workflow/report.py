"""Reports of campaigns, counted from a columnar copy of the ledger's results."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from runner.audience.audience import AudienceTally, find_named_column, iterate_audience
from runner.campaign.model import SCORED
from runner.campaign.variants import Draw
from runner.errors import CampaignError, ConfigurationError, UsageError
from runner.ledger.fingerprint import TargetKey
from runner.ledger.results import sendings
from runner.ledger.results.result_feed import find_mark, iterate_feed, read_version
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns, find_copy, load_members, load_refusing
from runner.report.columns.file_columns import FURTHER_COLUMNS
from runner.report.documents.formats import WRITERS, describe_report
from runner.report.documents.wording import store_number
from runner.report.experiment import link_series
from runner.report.gathering import gather_facts, outline_campaign, read_refusals
from runner.report.metrics import find_as_of, summarise
from runner.report.people_model import SMALL_GROUP
from runner.source.diagnostic import Problems
from runner.view.blocks import Items, Section
from runner.view.html import embed_page, write_html
from runner.wording import count_words
from runner.workflow.answer_export import AnswerExport, AnswerFile
from runner.workflow.failures import Failures
from runner.workflow.workspace.folders import make_state_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.audience.audience import NamedColumn
    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.record.campaign_record import CampaignRecord
    from runner.ledger.target_key import LedgerConnection
    from runner.report.columns.answer_files import Shape
    from runner.report.columns.engine import Engine
    from runner.report.columns.kept_answers import KeptAnswers
    from runner.report.facts import CampaignFacts, CampaignOutline, CampaignTally
    from runner.report.model import CampaignReport
    from runner.workflow.failures import Failure
    from runner.workflow.scope import Scope


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    `columns` of the audience break the turnout down, into groups of at least `least` recipients. With
    `include_pii`, files of answers contain phones, and people's own words as they are; with `comments`,
    reports and files have these with what tells who people are masked.
    """

    columns: tuple[str, ...] = ()
    least: int = SMALL_GROUP
    include_pii: bool = False
    comments: bool = False


@dataclass(frozen=True, slots=True)
class _Subject:
    """A campaign, its target, the report options and the files of answers to write.

    `columns` of the audience are those to break down by. `state_key` is None if there is no secret.
    """

    target: str
    campaign: Campaign
    options: ReportOptions
    export: AnswerExport
    outline: CampaignOutline
    columns: tuple[NamedColumn, ...]
    state_key: str | None = field(repr=False)

    @property
    def needs_members(self) -> bool:
        """True if the audience has to be read."""
        return bool(self.columns) or self.export.needs_members

    def open_copy(self) -> ResultColumns:
        """Return the copy of the results."""
        return ResultColumns(find_copy(make_state_folder(), self.target, self.campaign.name))

    def make_export_key(self) -> str:
        """Return the key of pseudonyms in files of answers; a random one if there is no state key."""
        if self.state_key is None:
            return secrets.token_hex(16)
        return TargetKey.of(self.target, self.state_key).seal("export", self.campaign.name.encode())


def make_report(
    workspace: Workspace,
    ledger: Ledger,
    campaign: Campaign,
    options: ReportOptions,
    files: Sequence[AnswerFile] = (),
) -> CampaignReport:
    """Return the report of one campaign on the workspace's target, and write its files of answers.

    Raises:
        RunnerError: ledger, copy of the results or audience cannot be read, the audience lacks a column, or a
            file cannot be written.
    """
    columns = tuple(dict.fromkeys(find_named_column(campaign, name) for name in options.columns))
    comments = options.comments or campaign.shows_comments
    export = AnswerExport(
        campaign, files, len(columns), include_pii=options.include_pii, has_comments=comments
    )
    outline, state_key = outline_campaign(campaign), workspace.target.state_key
    subject = _Subject(workspace.target.name, campaign, options, export, outline, columns, state_key)
    record = workspace.read_head(ledger, campaign)
    # A campaign that was never sent has no rows in the ledger.
    campaign_id = record.campaign_id or 0
    with subject.open_copy().hold() as engine:
        with ledger.reading() as connection:
            facts = _copy_results(engine, connection, subject, campaign_id)
            export.read_suppressed(connection, record.key)
        kept = export.open(engine, outline, subject.make_export_key())
        if subject.needs_members or kept is not None:
            rows = _list_members(subject, record) if subject.needs_members else ()
            load_members(engine, rows, len(columns) + len(export.columns) + FURTHER_COLUMNS)
        report = summarise(facts, _count(engine, subject, find_as_of(facts), kept), least=options.least)
        return report if kept is None else report.replace(comments=export.finish(engine, kept, outline))


def _copy_results(
    engine: Engine, connection: LedgerConnection, subject: _Subject, campaign_id: int
) -> CampaignFacts:
    """Return the ledger's data on a campaign, and update the engine's tables of results and people."""
    campaign, ids = subject.campaign, subject.campaign.message_ids
    refusals = read_refusals(connection, campaign_id, ids)
    subject.open_copy().refresh(
        engine,
        read_version(connection),
        lambda since: iterate_feed(connection, campaign_id, since),
        lambda revision: find_mark(connection, revision),
        refusals.results,
        sendings.read_contact_mark(connection, campaign_id),
        lambda: sendings.iterate_contacts(connection, campaign_id),
    )
    load_refusing(engine, ((*person, str(int(is_known))) for person, is_known in refusals.people.items()))
    return gather_facts(connection, campaign, subject.target, subject.outline, campaign_id)


def _count(
    engine: Engine, subject: _Subject, as_of: datetime | None, kept: KeptAnswers | None
) -> CampaignTally:
    return count_campaign(
        engine,
        subject.outline,
        subject.campaign.message_ids,
        [column.name for column in subject.columns],
        as_of=as_of,
        keep_answers=None if kept is None else kept.keep,
    )


def check_columns(campaigns: Sequence[Campaign], options: ReportOptions) -> None:
    """Refuse columns that some campaign's audience lacks.

    Raises:
        UsageError: an audience lacks a column.
    """
    for name in options.columns:
        lacking: dict[str, CampaignError] = {}
        for campaign in campaigns:
            try:
                find_named_column(campaign, name)
            except CampaignError as error:
                lacking[campaign.name] = error
        if lacking:
            first = next(iter(lacking.values()))
            others = [campaign.name for campaign in campaigns if campaign.name not in lacking]
            having = f"these campaigns have it: {', '.join(others)}" if others else ""
            hints = (first.hint or "break down by what people have in common", having)
            raise UsageError(f"--by {name}: {first.message}", hint="; ".join(filter(None, hints)))


def _list_members(subject: _Subject, record: CampaignRecord) -> Iterator[tuple[str, ...]]:
    if record.key is None:
        return  # nothing was ever sent, so nobody has a pseudonym
    campaign, problems = subject.campaign, Problems()
    draw = None if campaign.variants is None else Draw(campaign.variants)
    spellings = (name for column in subject.columns for name in column.spellings)
    names = frozenset((*spellings, *subject.export.list_names()))
    # The engine finds the first row of each phone: a set of all phones would take memory for each.
    for recipient in iterate_audience(campaign, names, problems, AudienceTally(), keeps_repeats=True):
        values = (column.read(recipient.vars) for column in subject.columns)
        phone = recipient.phone if subject.options.include_pii else ""
        control = "1" if draw is not None and draw.is_in_control_group(recipient.phone) else "0"
        own = subject.export.read_member(recipient)
        yield record.key.fingerprint(recipient.phone), phone, control, *values, *own
    if problems.error_count:
        raise CampaignError(
            f"the audience of {campaign.name} cannot be read as a whole",
            hint="`runner validate` says what is wrong with it",
        )


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
        """The campaign's one score, or else that of its only scored question; None if neither is known."""
        asked = [one for message in self.report.messages for one in message.questions if one.scale in SCORED]
        score = self.report.score or (asked[0].score if len(asked) == 1 else None)
        return None if score is None else store_number(score.value)

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
class ProjectReport:
    """The reports of a project, in order; `files` are the files of answers written, by campaign."""

    reports: tuple[ReportResult, ...]
    failures: Failures
    exit_code: int
    files: Mapping[str, Sequence[AnswerFile]]

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
    def left_out(self) -> tuple[Failure, ...]:
        """The campaigns without a report, each with its error."""
        return self.failures.found

    @property
    def score(self) -> float | None:
        """The score of the only report (`ReportResult.score`).

        Raises:
            UsageError: there are several reports, or none.
        """
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


def report_project(
    scope: Scope,
    options: ReportOptions,
    *,
    is_reconciled: bool = False,
    check: Callable[[int], None] = lambda _: None,
    list_files: Callable[[Campaign], Iterable[AnswerFile]] = lambda _: (),
) -> ProjectReport:
    """Return a report for each campaign in the scope.

    With `is_reconciled`, the ledger is updated first. `check` gets the number of campaigns and may raise;
    `list_files` returns a campaign's files of answers to write.

    Raises:
        RunnerError: there is nothing to report, or a file cannot be written.
    """
    workspace = Workspace.open(scope, asks_service=is_reconciled)
    failures = Failures()
    campaigns: Sequence[Campaign] = failures.load(scope)
    check(failures.total)
    check_columns(campaigns, options)
    code = 0
    if is_reconciled:
        # Imported here: it is a third of the start-up time, and most reports do not need it.
        from runner.workflow.reconcile import ReconcileOptions, reconcile_and_warn

        with workspace.open_ledger() as opened:
            how = ReconcileOptions(quiet=scope.quiet)
            found = reconcile_and_warn(workspace, opened, campaigns, failures, how)
        code = found.reading_code
        campaigns = [campaign for campaign in campaigns if campaign.name in found.summaries]
    files = {campaign.name: tuple(list_files(campaign)) for campaign in campaigns}
    with workspace.open_ledger_for_reading() as present:
        made = [
            failures.attempt(one, partial(make_report, workspace, present, one, options, files[one.name]))
            for one in campaigns
        ]
    series = {campaign.name: campaign.series for campaign in campaigns}
    linked = link_series((report, series[report.campaign]) for report in made if report is not None)
    reports = tuple(map(ReportResult, linked))
    return ProjectReport(
        reports=reports,
        failures=failures,
        exit_code=failures.find_exit_code(code if reports else None),
        files=files,
    )


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
        file = Path(folder) / "answers.parquet"
        report_project(scope, options, list_files=lambda _: [AnswerFile(shape, "parquet", file)])
        table = pyarrow.parquet.read_table(file, memory_map=False)
    return table.to_pandas() if library == "pandas" else table
