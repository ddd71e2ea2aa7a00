"""Files of answers, and comments, of one campaign: what they need of the audience, and what is written."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.audience.audience import NamedColumn, find_named_column, known_names, read_excluded
from runner.audience.table import normalize_name
from runner.campaign.model import FileRecipients
from runner.errors import CampaignError
from runner.ledger.people.opt_outs import read_suppressions
from runner.report.columns.answer_files import AnswerFiles, LowScores
from runner.report.columns.comments import gather_comments
from runner.report.columns.file_columns import CELL_SEPARATOR, FileContent
from runner.report.columns.kept_answers import KeptAnswers
from runner.report.columns.spss import check_spss
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runner.audience.audience import Recipient
    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import KnownPeople, TargetKey
    from runner.ledger.people.opt_outs import Barred
    from runner.ledger.target_key import LedgerConnection
    from runner.report.columns.answer_files import FileFormat, Shape
    from runner.report.columns.engine import Engine
    from runner.report.facts import CampaignOutline
    from runner.report.question_model import CommentsReport

_LANGUAGE = ("language", "lang", "locale")
"""Columns of the audience that have people's languages: the first that there is."""


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of answers to write beside the report."""

    shape: Shape
    file_format: FileFormat
    file: Path


class AnswerExport:
    """The files of answers and the comments of one campaign.

    Its columns of the table `members` stand behind `first` others.
    """

    def __init__(
        self,
        campaign: Campaign,
        files: Sequence[AnswerFile],
        first: int,
        *,
        include_pii: bool,
        has_comments: bool,
    ) -> None:
        """Find the columns that it needs.

        Raises:
            CampaignError: the audience lacks one.
            ConfigurationError: a package for one of the files is not installed.
        """
        if any(one.file_format == "sav" for one in files):
            check_spss()
        self._campaign, self._files, self._first = campaign, files, first
        self._include_pii, self._has_comments = include_pii, has_comments
        self._calls = any(one.shape == "callbacks" for one in files)
        self.columns = [find_named_column(campaign, name) for name, _ in campaign.export_columns if files]
        self._language = _find_language(campaign) if files else None
        self._suppressions: KnownPeople[Barred] | None = None
        self._excluded: frozenset[str] = frozenset()
        self._content = FileContent("", "")

    @property
    def needs_members(self) -> bool:
        """True if the audience has to be read."""
        has_control_group = bool(self._files and self._campaign.variants and self._campaign.variants.holdout)
        is_wanted = self._include_pii or self._has_comments or has_control_group
        return bool(is_wanted or self.columns or self._language)

    def read_suppressed(self, connection: LedgerConnection, key: TargetKey | None) -> None:
        """Read who may not be called, if there are callbacks.

        Raises:
            CampaignError: a list of excluded people cannot be read.
        """
        if not self._calls or key is None:
            return
        self._suppressions, problems = read_suppressions(connection, key), Problems()
        self._excluded = read_excluded(self._campaign, problems)
        if problems.error_count:
            raise CampaignError(
                f"the people that {self._campaign.name} excludes cannot be read as a whole",
                hint="`runner validate` says what is wrong with them",
            )

    def list_names(self) -> Iterator[str]:
        """Yield the names of the audience's columns to read, in every spelling."""
        for column in (*self.columns, self._language):
            yield from column.spellings if column else ()
        if self._has_comments:
            for index, source in enumerate(self._campaign.recipients):
                own = source.columns.values() if isinstance(source, FileRecipients) else ()
                special = set(map(normalize_name, own))
                names = known_names(self._campaign, index)
                yield from (name for name in names if normalize_name(name) not in special)

    def read_member(self, recipient: Recipient) -> Iterator[str]:
        """Yield a recipient's values of its columns."""
        for column in (*self.columns, self._language):
            yield column.read(recipient.vars) if column else ""
        shared = self._campaign.vars
        cells = (value for name, value in recipient.vars.items() if shared.get(name) != value)
        yield CELL_SEPARATOR.join(str(cell) for cell in cells) if self._has_comments else ""
        is_out = recipient.phone in self._excluded or (
            self._suppressions is not None and self._suppressions.find(recipient.phone) is not None
        )
        yield "" if is_out else "1"

    def open(self, engine: Engine, outline: CampaignOutline, key: str) -> KeptAnswers | None:
        """Return what keeps the answers while they are counted; None if none are wanted.

        `key` is of the files' pseudonyms.
        """
        if not self._files and not self._has_comments:
            return None
        self._content = FileContent(
            campaign=self._campaign.name,
            title=self._campaign.title,
            key=key,
            first=self._first,
            columns=tuple(column.name for column in self.columns),
            has_phones=self._include_pii,
            has_words=self._include_pii or self._has_comments,
        )
        keeps_results = any(one.shape == "results" for one in self._files)
        return KeptAnswers(engine, outline, keeps_results=keeps_results)

    def finish(self, engine: Engine, kept: KeptAnswers, outline: CampaignOutline) -> CommentsReport | None:
        """Write the files, once all answers were counted, and return the comments, if they are wanted.

        Raises:
            RunnerError: a file cannot be written, or the campaign has no score for callbacks.
        """
        kept.finish()
        comments = (
            gather_comments(engine, kept, outline.score, self._content.cells) if self._has_comments else None
        )
        if self._files:
            low = self._find_low(kept, outline.score) if self._calls else None
            answers = AnswerFiles(engine, kept, self._content, low)
            for one in self._files:
                answers.write(one.shape, one.file_format, one.file)
        return comments

    def _find_low(self, kept: KeptAnswers, score: int | None) -> LowScores:
        """Return which scores are low.

        Raises:
            CampaignError: the campaign has no score, or does not say.
        """
        if score is None:
            raise CampaignError(
                f"{self._campaign.name} has no score, so nobody has a low one",
                hint="name the question that has it: `score: {question: TAG}`",
            )
        question, target = kept.questions[score], self._campaign.score_target
        highest = question.low_end if question.outline.scale != "number" else target
        if highest is None:
            raise CampaignError(
                f"{self._campaign.name} does not say which answers to `{question.outline.tag}` are low",
                hint=f"say what is not: `score: {{question: {question.outline.tag}, target: 3}}`",
            )
        return LowScores(score, highest, is_below=question.outline.scale == "number")


def _find_language(campaign: Campaign) -> NamedColumn | None:
    for name in _LANGUAGE:
        with suppress(CampaignError):
            return find_named_column(campaign, name)
    return None
