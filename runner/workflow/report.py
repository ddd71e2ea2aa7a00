"""Reports of campaigns, counted from a columnar copy of the ledger's results."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from runner.audience.audience import AudienceTally, find_named_column, iterate_audience
from runner.errors import CampaignError, ConfigurationError, UsageError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.report_model import MessageTotals, ResultVersion
from runner.ledger.results import sendings
from runner.ledger.results.result_feed import find_mark, iterate_feed, read_version
from runner.report.columns.answer_files import AnswerFiles
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns, find_copy, load_asked, load_members, load_reached
from runner.report.documents.formats import WRITERS, describe_report
from runner.report.facts import CampaignFacts, CampaignTally, MessageOutline, ScoreOutline
from runner.report.gathering import gather_facts, iterate_refusals, outline_messages, outline_score
from runner.report.metrics import summarise
from runner.report.model import SMALL_GROUP
from runner.source.diagnostic import Problems
from runner.wording import count_words
from runner.workflow.documents import embed_page, write_section
from runner.workflow.failures import Failures
from runner.workflow.workspace.folders import make_state_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.audience.audience import NamedColumn
    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.record.recorded import CampaignRecord
    from runner.report.columns.answer_files import FileFormat, Shape
    from runner.report.columns.engine import Engine
    from runner.report.model import CampaignReport
    from runner.workflow.failures import Failure
    from runner.workflow.scope import Scope


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    `columns` of the audience break the turnout down, into groups of at least `least` recipients. With
    `include_pii`, files of answers contain phones and free text.
    """

    columns: tuple[str, ...] = ()
    least: int = SMALL_GROUP
    include_pii: bool = False


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of answers to write beside the report."""

    shape: Shape
    file_format: FileFormat
    file: Path


@dataclass(frozen=True, slots=True)
class _Subject:
    """A campaign, its target and the report options.

    `export_columns` is None if there are no files of answers; `state_key`, if there is no secret.
    """

    target: str
    campaign: Campaign
    options: ReportOptions
    outlines: tuple[MessageOutline, ...]
    columns: tuple[NamedColumn, ...]
    export_columns: tuple[NamedColumn, ...]
    state_key: str | None = field(repr=False)

    @property
    def score(self) -> ScoreOutline | None:
        """The question whose score is the campaign's."""
        return outline_score(self.campaign, self.outlines)

    @property
    def needs_members(self) -> bool:
        """True if the audience has to be read."""
        return bool(self.columns or self.export_columns) or self.options.include_pii

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns to break the turnout down by, as the audience's first source calls them."""
        return tuple(column.name for column in self.columns)

    def find_copy(self) -> Path:
        """Return the folder of the copy of the results."""
        return find_copy(make_state_folder(), self.target, self.campaign.name)

    def make_export_key(self) -> str:
        """Return the key of pseudonyms in files of answers; a random one if there is no state key."""
        if self.state_key is None:
            return secrets.token_hex(16)
        key = FingerprintKey.from_secret(self.state_key).for_purpose("export")
        return key.seal(f"{self.target}\0{self.campaign.name}".encode())


def make_reports(
    workspace: Workspace,
    campaigns: Sequence[Campaign],
    options: ReportOptions,
    files: Mapping[str, Sequence[AnswerFile]],
    failures: Failures,
) -> list[CampaignReport]:
    """Return the reports of campaigns, and write their files of answers.

    Campaigns without a report go to `failures`.
    """
    with workspace.open_ledger_if_present() as present:
        reports = (
            failures.attempt(
                campaign,
                partial(make_report, workspace, present, campaign, options, files[campaign.name]),
            )
            for campaign in campaigns
        )
        return [report for report in reports if report is not None]


def make_report(
    workspace: Workspace,
    ledger: Ledger | None,
    campaign: Campaign,
    options: ReportOptions,
    files: Sequence[AnswerFile] = (),
) -> CampaignReport:
    """Return the report of one campaign on the workspace's target, and write its files of answers.

    Raises:
        RunnerError: ledger, copy of the results or audience cannot be read, the ledger lacks launches, the
            audience lacks a column, or a file cannot be written.
    """
    columns = tuple(dict.fromkeys(find_named_column(campaign, name) for name in options.columns))
    exported = tuple(find_named_column(campaign, name) for name, _ in campaign.export_columns if files)
    outlines = tuple(outline_messages(campaign))
    target = workspace.target
    subject = _Subject(target.name, campaign, options, outlines, columns, exported, target.state_key)
    record = workspace.read_filled_head(ledger, campaign)
    if ledger is None or record.campaign_id is None:
        _write_nothing(subject, files)
        nothing = tuple((outline, MessageTotals(outline.id)) for outline in outlines)
        return summarise(CampaignFacts(campaign.name, subject.target, nothing), CampaignTally())
    facts, tally = _count_results(subject, ledger, record, record.campaign_id, files)
    return summarise(facts, tally, least=options.least)


def _count_results(
    subject: _Subject, ledger: Ledger, record: CampaignRecord, campaign_id: int, files: Sequence[AnswerFile]
) -> tuple[CampaignFacts, CampaignTally]:
    folder = subject.find_copy()
    copy = ResultColumns(folder)
    with copy.hold() as engine:
        with ledger.reading() as connection:
            facts = gather_facts(connection, subject.campaign, subject.target, subject.outlines, campaign_id)
            copy.refresh(
                engine,
                read_version(connection),
                lambda since: iterate_feed(connection, campaign_id, since),
                lambda revision: find_mark(connection, revision),
                iterate_refusals(connection, campaign_id),
            )
            ids = subject.campaign.message_ids
            if subject.needs_members:
                load_reached(engine, folder, sendings.iterate_reached(connection, campaign_id, ids))
            if files:
                opted_out = sendings.list_replied_opt_outs(connection, subject.target, campaign_id, ids)
                load_asked(engine, folder, sendings.iterate_asked(connection, campaign_id, ids), opted_out)
        if subject.needs_members:
            rows = _list_members(subject, record, include_pii=subject.options.include_pii)
            load_members(engine, folder, rows, len(subject.columns) + len(subject.export_columns))
        return facts, _count(engine, subject, files)


def _write_nothing(subject: _Subject, files: Sequence[AnswerFile]) -> None:
    """Write the files of a campaign that was never sent: columns without rows."""
    if not files:
        return
    folder = subject.find_copy()
    copy = ResultColumns(folder)
    with copy.hold() as engine:
        copy.refresh(engine, ResultVersion("", 0), lambda _: (), lambda _: "")
        load_members(engine, folder, (), len(subject.export_columns))
        load_asked(engine, folder, (), ())
        _count(engine, replace(subject, columns=()), files)


def _count(engine: Engine, subject: _Subject, files: Sequence[AnswerFile]) -> CampaignTally:
    answers = None
    if files:
        first = len(subject.columns)
        columns = [(one.name, first + number) for number, one in enumerate(subject.export_columns)]
        answers = AnswerFiles(engine, subject.options.include_pii, subject.make_export_key(), columns)
    tally = count_campaign(
        engine,
        subject.outlines,
        subject.campaign.message_ids,
        subject.column_names,
        score=subject.score,
        keep_answers=None if answers is None else answers.keep,
    )
    for one in files:
        if answers is not None:
            answers.write(one.shape, one.file_format, one.file)
    return tally


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


def _list_members(
    subject: _Subject, record: CampaignRecord, *, include_pii: bool
) -> Iterator[tuple[str, ...]]:
    if record.key is None:
        return  # nothing was ever sent, so nobody has a pseudonym
    campaign, problems = subject.campaign, Problems()
    columns = [*subject.columns, *subject.export_columns]
    names = frozenset(column.name for column in columns)
    # The engine finds the first row of each phone: a set of all phones would take memory for each.
    for recipient in iterate_audience(campaign, names, problems, AudienceTally(), keeps_repeats=True):
        values = (column.read(recipient.vars) for column in columns)
        phone = recipient.phone if include_pii else ""
        yield record.key.fingerprint(campaign.name, recipient.phone), phone, *values
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

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the only report.

        Raises:
            UsageError: there are several reports, or none.
        """
        if len(self.reports) != 1:
            count = count_words(len(self.reports), "report")
            raise UsageError(f"there are {count}: each has a document of its own", hint="iterate over them")
        return self.reports[0].to_dict()

    def _repr_html_(self) -> str:
        """Return the reports as HTML for notebooks."""
        remarks = [f"{one.name or one.file}: {one.error.message}" for one in self.left_out]
        pages = "".join(
            write_section(one.campaign, (), (), ()) + embed_page(one.write("html")) for one in self
        )
        return pages + (write_section("Left out", (), (), (), remarks) if remarks else "")


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
        code = found.exit_code or 0
        campaigns = [campaign for campaign in campaigns if campaign.name in found.summaries]
    files = {campaign.name: tuple(list_files(campaign)) for campaign in campaigns}
    reports = make_reports(workspace, campaigns, options, files, failures)
    return ProjectReport(
        reports=tuple(map(ReportResult, reports)),
        failures=failures,
        exit_code=failures.find_exit_code(code if reports else None),
        files=files,
    )


LIBRARIES = ("pandas", "arrow")
SHAPES = ("answers", "results")


def read_answers(scope: Scope, *, shape: Shape, library: str, include_pii: bool) -> Any:
    """Return the answers to one campaign, with the columns of `runner report --format answers.parquet`.

    Args:
        scope: the campaign's file and target.
        shape: `answers` (a row for each person asked) or `results` (a row for each result).
        library: `pandas` for a `pandas.DataFrame`, `arrow` for a `pyarrow.Table`.
        include_pii: include phone numbers and free text.

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
        options = ReportOptions(include_pii=include_pii)
        report_project(scope, options, list_files=lambda _: [AnswerFile(shape, "parquet", file)])
        table = pyarrow.parquet.read_table(file, memory_map=False)
    return table.to_pandas() if library == "pandas" else table
