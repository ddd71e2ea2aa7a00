"""The codebook of files of answers: what each column holds, and what the codes stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.document import Count, Document, Part, Positive
from runner.report.columns.file_columns import Kind
from runner.report.documents.wording import store_number
from runner.view.blocks import Sentence, TableBlock
from runner.view.markdown import write_markdown
from runner.wording import count_words, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.report.columns.file_columns import FileColumn
    from runner.view.blocks import Block

_MISSING = (
    "A blank cell is missing: nothing was answered, or it is not known. A question with a time and without a "
    "code was answered in other words than the responses."
)


class CodedResponse(Part, frozen=True):
    """A response of a question.

    Attributes:
        code: its number.
        label: its text.
        value: what it counts as on the scale; None for nothing.
    """

    code: Positive
    label: str
    value: float | None


class CodedColumn(Part, frozen=True):
    """A column of the file of answers.

    Attributes:
        name: in the file.
        kind: text, integer, number, boolean (`true` or `false`), or time (UTC).
        meaning: what it holds.
        question: the tag of the question that it is of; None for none.
        text: the question as the campaign has it.
        scale: how the question's answers are read.
        responses: of a question that offers some; none for an open-ended one.
    """

    name: str
    kind: Kind
    meaning: str
    question: str | None = None
    text: str | None = None
    scale: str | None = None
    responses: tuple[CodedResponse, ...] = ()


class Codebook(Document, frozen=True):
    """What the columns of `answers.csv`, `answers.parquet` and `answers.sav` hold: a row a person.

    Rows are the people whom the campaign was sent to, or may have been, and its control group.

    Attributes:
        campaign: the campaign's name.
        title: what people call it; None for a campaign that does not say.
        people: rows of the file.
        missing: what blank cells mean.
        columns: in the order of the file.
    """

    campaign: str
    title: str | None
    people: Count
    missing: str
    columns: tuple[CodedColumn, ...]

    def write_markdown(self) -> str:
        """Return the codebook as Markdown."""
        held = [
            (one.name, one.kind, f"{one.meaning}: {one.text}" if one.text else one.meaning)
            for one in self.columns
        ]
        blocks: list[Block] = [
            Sentence(f"{count_words(self.people, 'row')}, one a person. {self.missing}"),
            TableBlock(("Column", "Kind", "Holds"), held, figures=False),
        ]
        coded = [
            (one.question, of) for one in self.columns if one.name.endswith(".code") for of in one.responses
        ]
        rows = [
            (tag or "", str(of.code), of.label, "" if of.value is None else f"{of.value:g}")
            for tag, of in coded
        ]
        if rows:
            blocks.append(TableBlock(("Question", "Code", "Response", "Value"), rows, figures=False))
        return f"# {escape_markdown(self.title or self.campaign)}: codebook\n\n{write_markdown(blocks)}"


def describe_columns(
    columns: Sequence[FileColumn], campaign: str, title: str | None, people: int
) -> Codebook:
    """Return the codebook of a file of answers with these columns."""
    return Codebook(campaign, title, people, _MISSING, tuple(map(_describe, columns)))


def _describe(column: FileColumn) -> CodedColumn:
    question = column.question
    if question is None:
        return CodedColumn(column.name, column.kind, column.meaning)
    responses = tuple(
        CodedResponse(code, label, store_number(value))
        for code, (label, value) in enumerate(question.labels.items(), start=1)
    )
    about = question.outline
    return CodedColumn(
        column.name, column.kind, column.meaning, about.tag, about.text, about.scale, responses
    )
