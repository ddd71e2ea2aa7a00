"""The report of one campaign, from a columnar copy of the ledger's results, and its files of answers."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.audience.audience import (
    AudienceTally,
    find_named_column,
    iterate_audience,
    known_names,
    read_excluded,
)
from runner.audience.table import normalize_name
from runner.audience.trace import AudienceTrace, trace_audience
from runner.campaign.model import FileRecipients
from runner.campaign.variants import Draw
from runner.errors import CampaignError
from runner.ledger.fingerprint import TargetKey
from runner.ledger.people.history import read_waves
from runner.ledger.people.opt_outs import read_suppressions
from runner.ledger.people.pruned import read_figures
from runner.ledger.record.campaign_record import find_campaign_id
from runner.ledger.results import contacts, sendings
from runner.ledger.results.result_feed import find_mark, iterate_feed, read_version
from runner.report.columns.answer_files import AnswerFiles, LowScores
from runner.report.columns.counting import count_campaign
from runner.report.columns.dataset import ResultColumns, find_copy, load_members
from runner.report.columns.file_columns import FileContent
from runner.report.columns.kept_answers import CELL_SEPARATOR, gather_comments, keep_answers
from runner.report.gathering import gather_facts, outline_campaign, read_refusals
from runner.report.metrics import find_as_of, summarise
from runner.report.model import CampaignReport
from runner.report.people_model import SMALL_GROUP
from runner.source.diagnostic import Problems
from runner.wording import show_time
from runner.workflow.campaigns import show_path
from runner.workflow.observer import warn
from runner.workflow.workspace.folders import make_state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.audience.audience import NamedColumn, Recipient
    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.target_key import LedgerConnection
    from runner.report.columns.engine import Engine
    from runner.report.facts import CampaignFacts
    from runner.report.people_model import SampleReport
    from runner.report.question_model import CommentsReport
    from runner.workflow.workspace.workspace import Workspace

_LANGUAGES = ("language", "lang", "locale")
"""Columns of the audience that have people's languages, after those named so: the first that there is."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    `columns` of the audience break the turnout down, into groups of at least `least` recipients. With
    `include_pii`, files of answers contain phones, and people's own words as they are; with `comments`,
    reports and files have these with names, phones and e-mail addresses masked. `formats` of files of
    answers are written to `folder`. `wave` is an earlier one to report on; None for the present one.
    """

    columns: tuple[str, ...] = ()
    least: int = SMALL_GROUP
    include_pii: bool = False
    comments: bool = False
    formats: tuple[str, ...] = ()
    folder: Path = Path()
    wave: str | None = None

    def list_files(self, campaign: str) -> dict[str, Path]:
        """Return a campaign's files of answers by format."""
        return {name: self.folder / f"{campaign}.{name}" for name in self.formats}


class CampaignReporter:
    """A maker of the report of one campaign on the workspace's target, and of its files of answers."""

    def __init__(
        self, workspace: Workspace, ledger: Ledger, campaign: Campaign, options: ReportOptions
    ) -> None:
        """Find the columns of the audience that it needs.

        Raises:
            CampaignError: the audience lacks one, or the record has not the wave.
        """
        self._is_present = options.wave in (None, campaign.wave)
        if options.wave is not None:
            campaign = _take_wave(workspace, ledger, campaign, options.wave)
        self._ledger, self._campaign, self._options = ledger, campaign, options
        files = self._files = options.list_files(campaign.name)
        self._target = workspace.target
        self._campaign_id = find_campaign_id(ledger, workspace.identify_safely(campaign))
        self._key = None if self._campaign_id is None else workspace.key
        self._outline = outline_campaign(campaign)
        self._columns = tuple(dict.fromkeys(find_group_column(campaign, name) for name in options.columns))
        if files and campaign.export_columns:
            _need_audience(campaign, "`export_columns`")
        self._exported = [find_named_column(campaign, name) for name, _ in campaign.export_columns if files]
        self._language = _find_language(campaign) if files else None
        self._has_comments = options.comments or campaign.shows_comments
        self._calls = "callbacks.csv" in files

    def report(self) -> CampaignReport:
        """Return the report, once its files of answers are written.

        Raises:
            RunnerError: ledger, copy of the results or audience cannot be read, the campaign has no score for
                callbacks, or a file cannot be written.
        """
        kept = self._read_kept()
        if kept is not None:
            return kept
        copy = ResultColumns(find_copy(make_state_folder(), self._target.name, self._campaign.name))
        with copy.hold() as engine:
            with self._ledger.reading() as connection:
                facts = self._copy_results(engine, copy, connection)
                may_call = self._read_barred(connection)
                gone, is_changed = self._compare_audience(connection)
            wants_answers = bool(self._files or self._has_comments)
            needs_members = wants_answers or self._columns
            problem = self._load_members(engine, may_call, gone) if needs_members else None
            tally = count_campaign(
                engine,
                self._outline,
                self._campaign.message_ids,
                [column.name for column in self._columns],
                as_of=find_as_of(facts),
            )
            report = summarise(facts, tally, least=self._options.least)
            if not wants_answers:
                return report
            keep_answers(engine, self._outline, tally.readings)
            comments = self._finish(engine, problem, report.sample)
            return report.replace(
                comments=None if comments is None else comments.replace(is_audience_changed=is_changed)
            )

    def _read_kept(self) -> CampaignReport | None:
        """Return the report that was kept when answers were pruned, if they were.

        Raises:
            CampaignError: more is asked for than was kept.
        """
        with self._ledger.reading() as connection:
            kept = read_figures(connection, self._campaign_id or 0, self._campaign.wave)
        if kept is None:
            return None
        if self._files or self._columns or self._options.comments:
            raise CampaignError(
                f"the answers to {self._campaign.name} were pruned on {show_time(kept.at)}",
                hint="its report has the figures of then: leave out --by, --comments and files of answers",
            )
        return CampaignReport.restore(kept.report).replace(pruned_at=kept.at)

    def _copy_results(
        self, engine: Engine, copy: ResultColumns, connection: LedgerConnection
    ) -> CampaignFacts:
        """Return the ledger's data on the campaign, and update the engine's tables of results and people."""
        # A campaign that was never sent has no rows in the ledger.
        campaign, campaign_id = self._campaign, self._campaign_id or 0
        copy.refresh(
            engine,
            read_version(connection),
            lambda since: iterate_feed(connection, campaign_id, since),
            lambda revision: find_mark(connection, revision),
            read_refusals(connection, campaign_id),
            contacts.read_contact_mark(connection, campaign_id),
            lambda: contacts.iterate_contacts(connection, campaign_id),
            campaign.wave,
        )
        name, prices = self._target.name, self._target.prices
        facts = gather_facts(connection, campaign, name, prices, self._outline, campaign_id)
        # What the last plan found is of the present wave.
        return facts if self._is_present else replace(facts, audiences={}, step=None)

    def _read_barred(self, connection: LedgerConnection) -> Callable[[str], bool]:
        """Return what says whether somebody may be called.

        Raises:
            CampaignError: a list of excluded people cannot be read.
        """
        if not self._calls or self._key is None:
            return lambda _: False
        problems = Problems()
        suppressions = read_suppressions(connection, self._key)
        excluded = read_excluded(self._campaign, problems)
        if problems.error_count:
            raise CampaignError(
                f"the people that {self._campaign.name} excludes cannot be read as a whole",
                hint="`runner validate` says what is wrong with them",
            )
        return lambda phone: phone not in excluded and suppressions.find(phone) is None

    def _compare_audience(self, connection: LedgerConnection) -> tuple[list[str], bool]:
        """Return the columns that texts may have used and the audience lacks, and whether it has changed.

        Names that the audience no longer has cannot be masked.
        """
        if not self._has_comments:
            return [], False
        kept = sendings.read_audience_trace(connection, self._campaign_id or 0)
        if kept is None:
            return [], False
        sent, now = AudienceTrace.restore(kept), trace_audience(self._campaign)
        gone = sorted({*sent.columns} - {*now.columns})
        is_changed = not gone and now.digest != sent.digest
        if is_changed:
            warn(
                f"{self._campaign.name}: the audience has changed since it was sent to; names that it no "
                "longer has are not masked in comments"
            )
        return gone, is_changed

    def _load_members(self, engine: Engine, may_call: Callable[[str], bool], gone: list[str]) -> str | None:
        """Load the audience, if it is needed; return why it cannot be read, if comments alone need it."""
        values = [f"value_{number}" for number in range(len(self._columns))]
        exported = [f"export_{number}" for number in range(len(self._exported))]
        names = [*values, "language", "cells", "may_call", *exported]
        variants = self._campaign.variants
        has_control_group = self._files and variants is not None and variants.holdout
        is_for_files = self._options.include_pii or self._exported or self._language or has_control_group
        # Before anything was sent nobody has a pseudonym.
        key = self._key if self._columns or self._has_comments or is_for_files else None
        try:
            load_members(engine, () if key is None else self._list_members(key, may_call, gone), names)
        except CampaignError as error:
            # A campaign that always has comments has its report without them.
            if self._columns or self._files or self._options.comments:
                raise
            load_members(engine, (), names)
            return error.message
        return None

    def _list_members(
        self, key: TargetKey, may_call: Callable[[str], bool], gone: list[str]
    ) -> Iterator[tuple[str, ...]]:
        campaign, problems = self._campaign, Problems()
        if gone:
            raise CampaignError(
                f"the audience of {campaign.name} lacks columns that it had when it was sent to: "
                f"{', '.join(gone)}",
                hint="names in them could not be masked in comments: put the columns back",
            )
        draw = None if campaign.variants is None else Draw(campaign.variants)
        # The engine finds the first row of each phone: a set of all phones would take memory for each.
        names = frozenset(self._list_names())
        for recipient in iterate_audience(campaign, names, problems, AudienceTally(), keeps_repeats=True):
            is_control = draw is not None and draw.is_in_control_group(recipient.phone)
            yield (
                key.fingerprint(recipient.phone),
                recipient.phone if self._options.include_pii else "",
                "1" if is_control else "0",
                *(column.read(recipient) for column in self._columns),
                self._language.read(recipient) if self._language else "",
                self._join_cells(recipient),
                "1" if may_call(recipient.phone) else "",
                *(column.read(recipient) for column in self._exported),
            )
        if problems.error_count:
            raise CampaignError(
                f"the audience of {campaign.name} cannot be read as a whole",
                hint="`runner validate` says what is wrong with it",
            )

    def _list_names(self) -> Iterator[str]:
        """Yield the names of the audience's columns to read, in every spelling."""
        for column in (*self._columns, *self._exported, self._language):
            yield from column.spellings if column else ()
        if self._has_comments:
            for index, source in enumerate(self._campaign.recipients):
                own = source.columns.values() if isinstance(source, FileRecipients) else ()
                special = set(map(normalize_name, own))
                names = known_names(self._campaign, index)
                yield from (name for name in names if normalize_name(name) not in special)

    def _join_cells(self, recipient: Recipient) -> str:
        """Return all that the audience says of a person, to mask it, but for what it says of all."""
        shared = self._campaign.vars if self._has_comments else recipient.vars
        cells = (value for name, value in recipient.vars.items() if shared.get(name) != value)
        return CELL_SEPARATOR.join(map(str, cells))

    def _finish(
        self, engine: Engine, problem: str | None, sample: SampleReport | None
    ) -> CommentsReport | None:
        """Write the files, once all answers were counted, and return the comments, if they are wanted."""
        # The files mask all words, comments only those that they show.
        comments = gather_comments(engine, self._outline, problem) if self._has_comments else None
        if self._files:
            content = FileContent(
                campaign=self._campaign.name,
                title=self._campaign.title,
                key=self._make_key(),
                columns=tuple(column.name for column in self._exported),
                has_phones=self._options.include_pii,
                has_words=self._options.include_pii or self._has_comments,
                wave=self._campaign.wave,
                sample=sample,
            )
            answers = AnswerFiles(engine, self._outline, content, self._find_low() if self._calls else None)
            for name, file in self._files.items():
                answers.write(name, file)
        return comments

    def _make_key(self) -> str:
        """Return the key of the files' pseudonyms; a random one if there is no state key."""
        if self._target.state_key is None:
            return secrets.token_hex(16)
        key = TargetKey.of(self._target.name, self._target.state_key)
        return key.seal("export", self._campaign.name.encode())

    def _find_low(self) -> LowScores:
        """Return which scores are low.

        Raises:
            CampaignError: the campaign has no score, or does not say.
        """
        name, score = self._campaign.name, self._outline.score
        if score is None:
            raise CampaignError(
                f"{name} has no score, so nobody has a low one",
                hint="name the question that has it: `score: {question: TAG}`",
            )
        question = self._outline.questions[score]
        if question.question.scale != "number":
            return LowScores(score, f"<= {float(question.low_end)}")
        if self._campaign.score_target is None:
            tag = question.question.tag
            raise CampaignError(
                f"{name} does not say which answers to `{tag}` are low",
                hint=f"say what is not: `score: {{question: {tag}, target: 3}}`",
            )
        return LowScores(score, f"< {float(self._campaign.score_target)}")


def list_waves(workspace: Workspace, ledger: Ledger, campaign: Campaign) -> list[str]:
    """Return the campaign's waves on record, the earliest first."""
    campaign_id = find_campaign_id(ledger, workspace.identify_safely(campaign))
    if campaign_id is None:
        return []
    with ledger.reading() as connection:
        waves = read_waves(connection, campaign_id, campaign.message_ids, has_wave=bool(campaign.wave))
    return [wave for wave in waves if wave]


def _take_wave(workspace: Workspace, ledger: Ledger, campaign: Campaign, wave: str) -> Campaign:
    """Return the campaign as of an earlier wave."""
    known = list_waves(workspace, ledger, campaign)
    if wave not in known:
        hint = f"known: {', '.join(known)}" if known else "it has no waves on record"
        raise CampaignError(f"{campaign.name} has no wave {wave!r} on record", hint=hint)
    return replace(campaign, wave=wave)


def find_group_column(campaign: Campaign, name: str) -> NamedColumn:
    """Return the audience's column to break a report down by.

    Raises:
        CampaignError: the audience has no such column, or is not there.
    """
    _need_audience(campaign, f"--by {name}")
    try:
        return find_named_column(campaign, name)
    except CampaignError as error:
        hint = error.hint or "break down by what people have in common"
        raise CampaignError(f"--by {name}: {error.message}", hint=hint) from None


def _need_audience(campaign: Campaign, what: str) -> None:
    for one in campaign.recipients:
        if isinstance(one, FileRecipients) and one.url is None and not one.path.is_file():
            raise CampaignError(
                f"{what} needs the audience of {campaign.name}, and there is no file {show_path(one.path)}",
                hint="a report without it can be made",
            )


def _find_language(campaign: Campaign) -> NamedColumn | None:
    named = (one.language_column for one in campaign.recipients if isinstance(one, FileRecipients))
    for name in (*filter(None, named), *_LANGUAGES):
        with suppress(CampaignError):
            return find_named_column(campaign, name)
    return None
