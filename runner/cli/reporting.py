"""Makes the report of a campaign: from the ledger, by way of a copy of its results in columns."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.campaign.audience import AudienceTally, iterate_audience
from runner.campaign.named_columns import find_named_column
from runner.cli.folders import make_state_folder
from runner.cli.outlines import outline_messages, outline_score
from runner.cli.result_copies import find_copy
from runner.errors import CampaignError, LedgerError, UsageError
from runner.ledger import sendings
from runner.ledger.differences import read_differences
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.model import ENDED
from runner.ledger.reconciled import read_totals
from runner.ledger.report_model import MessageTotals, ResultVersion
from runner.ledger.result_feed import find_mark, iterate_feed, read_version
from runner.ledger.runs import count_by_run
from runner.reconcile.refusals import count_refusing, iterate_refusals
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns
from runner.report.columns.export import AnswerFiles
from runner.report.columns.members import load_asked, load_members, load_reached
from runner.report.facts import CampaignFacts, OptOutFacts, SessionFacts
from runner.report.metrics import summarise
from runner.report.tally import CampaignTally
from runner.report.turnout import SMALL_GROUP
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.campaign.named_columns import NamedColumn
    from runner.cli.workspace import Workspace
    from runner.cluster.report import CountingPlace
    from runner.ledger.database import Ledger
    from runner.ledger.recorded import RecordHead
    from runner.ledger.target_key import LedgerConnection
    from runner.report.columns.engine import Engine
    from runner.report.columns.export import FileFormat, Shape
    from runner.report.facts import MessageOutline, ScoreOutline
    from runner.report.model import CampaignReport


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What is asked of a report.

    Attributes:
        columns: of the audience, to break the turnout down by.
        least: recipients of the smallest group that a breakdown shows.
        include_pii: whether files of answers have phones, and texts of participants' own.
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
    """What a report is of.

    Attributes:
        target: where the campaign is sent.
        campaign: the campaign.
        options: what is asked of the report.
        outlines: of the campaign's messages.
        columns: of the audience, to break the turnout down by.
        export_columns: of the audience, for files of answers; none if there are none to write.
        state_key: the user's secret; None if there is none.
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
        """Whether the audience has to be read."""
        return bool(self.columns or self.export_columns) or self.options.include_pii

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns to break the turnout down by, as the audience's first source calls them."""
        return tuple(column.name for column in self.columns)

    def find_copy(self) -> Path:
        """Return where the copy of the results is."""
        return find_copy(make_state_folder(), self.target, self.campaign.name)

    def make_export_key(self) -> str:
        """Return the key of pseudonyms in files of answers; without a state key, another one each time."""
        if self.state_key is None:
            return secrets.token_hex(16)
        key = FingerprintKey.from_secret(self.state_key).for_purpose("export")
        return key.seal(f"{self.target}\0{self.campaign.name}".encode())


def make_report(
    workspace: Workspace,
    ledger: Ledger | None,
    campaign: Campaign,
    options: ReportOptions,
    files: Sequence[AnswerFile] = (),
    place: CountingPlace | None = None,
) -> CampaignReport:
    """Return the report of one campaign on the workspace's target, and write the files of its answers.

    Args:
        workspace: names target and ledger.
        ledger: open for reading; None if there is none.
        campaign: the campaign.
        options: what is asked of the report.
        files: to write; they are written, and the results counted, here.
        place: the cluster on which to count; None to count here.

    Raises:
        RunnerError: ledger, copy of the results or audience cannot be read, the audience lacks a column, or
            a file cannot be written.
    """
    columns = tuple(dict.fromkeys(find_named_column(campaign, name) for name in options.columns))
    exported = tuple(find_named_column(campaign, name) for name, _ in campaign.export_columns if files)
    outlines = tuple(outline_messages(campaign))
    target = workspace.target
    subject = _Subject(target.name, campaign, options, outlines, columns, exported, target.state_key)
    record = workspace.read_head(ledger, campaign)
    if ledger is None or record.campaign_id is None:
        if workspace.read_record(ledger, campaign).known.sent:
            raise LedgerError(
                f"the ledger has nothing of {campaign.name}, and its lockfile has people who were texted",
                hint="run `runner report --reconcile`, which fills the ledger and reads the answers",
            )
        _write_nothing(subject, files)
        nothing = tuple((outline, MessageTotals(outline.id)) for outline in outlines)
        return summarise(CampaignFacts(campaign.name, subject.target, nothing), CampaignTally())
    if place is not None and not files:
        facts, tally = _count_on_cluster(place, subject, ledger, record, record.campaign_id)
    else:
        facts, tally = _count_here(subject, ledger, record, record.campaign_id, files)
    return summarise(facts, tally, least=options.least)


def _count_here(
    subject: _Subject, ledger: Ledger, record: RecordHead, campaign_id: int, files: Sequence[AnswerFile]
) -> tuple[CampaignFacts, CampaignTally]:
    folder = subject.find_copy()
    copy = ResultColumns(folder)
    with copy.hold() as engine:
        with ledger.reading() as connection:
            facts = _gather_facts(connection, subject, campaign_id)
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


def _count_on_cluster(
    place: CountingPlace, subject: _Subject, ledger: Ledger, record: RecordHead, campaign_id: int
) -> tuple[CampaignFacts, CampaignTally]:
    # Imported here: only those who have a cluster pay for it.
    from runner.cluster.report import copy_campaign, count_copy

    ids = subject.campaign.message_ids
    with ledger.reading() as connection:
        facts = _gather_facts(connection, subject, campaign_id)
        copy = copy_campaign(place, connection, campaign_id, ids if subject.columns else None)
    members = _list_members(subject, record, include_pii=False)
    return facts, count_copy(place, copy, subject.outlines, ids, subject.column_names, members, facts.score)


def _write_nothing(subject: _Subject, files: Sequence[AnswerFile]) -> None:
    """Write the files of a campaign that was never sent: columns, and no row."""
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


def _gather_facts(connection: LedgerConnection, subject: _Subject, campaign_id: int) -> CampaignFacts:
    ids, target = subject.campaign.message_ids, subject.target
    left_out = sendings.count_left_out(connection, campaign_id, ids)
    # What the ledger is not to have is not missing from it.
    totals = {
        message: counted
        if counted.results is None
        else replace(counted, results=counted.results - left_out[message])
        for message, counted in read_totals(connection, campaign_id, ids).items()
    }
    replied = sendings.count_replied_opt_outs(connection, target, campaign_id, ids)
    reported = sendings.count_reported_opt_outs(connection, target, campaign_id, ids)
    return CampaignFacts(
        subject.campaign.name,
        target,
        messages=tuple((one, totals.get(one.id, MessageTotals(one.id))) for one in subject.outlines),
        sent=tuple(sendings.count_sent_by_day(connection, campaign_id, ids)),
        audiences={row.message: row for row in sendings.read_audiences(connection, campaign_id, ids)},
        opt_outs={one.id: OptOutFacts(replied[one.id], reported[one.id]) for one in subject.outlines},
        sessions=_gather_sessions(connection, campaign_id, ids),
        forgotten=sendings.count_forgotten_people(connection, campaign_id),
        price=sendings.read_service_plan(connection, target),
        runs=tuple(count_by_run(connection, campaign_id)),
        differences=read_differences(connection, campaign_id, ids),
        score=subject.score,
    )


def _gather_sessions(
    connection: LedgerConnection, campaign_id: int, message_ids: Mapping[str, str]
) -> dict[str, SessionFacts]:
    refused = count_refusing(connection, campaign_id, message_ids)
    rows = sendings.count_sessions(connection, campaign_id, message_ids)
    facts = {}
    for message in {row.message for row in rows}:
        own = [row for row in rows if row.message == message]
        silent = [row for row in own if not row.replied]
        ended = sum(row.count for row in silent if row.status == ENDED and not row.stopped)
        stopped = sum(row.count for row in silent if row.stopped)
        facts[message] = SessionFacts(
            listed=sum(row.count for row in own),
            ended=ended,
            stopped=stopped,
            open=sum(row.count for row in silent) - ended - stopped,
            refused=refused[message],
            blocked=sum(row.count for row in own if row.blocked),
        )
    return facts


def check_columns(campaigns: Sequence[Campaign], options: ReportOptions) -> None:
    """Refuse a column that some campaign's audience does not have.

    Args:
        campaigns: all that are to be reported on.
        options: name the columns.

    Raises:
        UsageError: one lacks one.
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


def _list_members(subject: _Subject, record: RecordHead, *, include_pii: bool) -> Iterator[tuple[str, ...]]:
    if record.key is None:
        return  # nothing was ever sent, so nobody has a pseudonym
    campaign, problems = subject.campaign, Problems()
    columns = [*subject.columns, *subject.export_columns]
    names = frozenset(column.name for column in columns)
    for recipient in iterate_audience(campaign, names, problems, AudienceTally()):
        values = (column.read(recipient.vars) for column in columns)
        phone = recipient.phone if include_pii else ""
        yield record.key.fingerprint(campaign.name, recipient.phone), phone, *values
    if problems.error_count:
        raise CampaignError(
            f"the audience of {campaign.name} cannot be read as a whole",
            hint="`runner validate` says what is wrong with it",
        )
