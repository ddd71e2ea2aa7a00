"""The columns of files of answers: what each holds, and the statement's cell that it comes from.

A cell is an expression over `p`, the row's person, `a`, what they answered, and `m`, what the audience says
of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from runner.report.columns.engine import quote
from runner.report.documents.wording import distinguish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.report.columns.kept_answers import KeptQuestion

CELL_SEPARATOR = "\x1f"
"""Stands between the cells of a person in the table `members`."""
Kind = Literal["text", "integer", "number", "boolean", "time"]
_OUTCOMES = (
    "`complete`, `partial` (answered, not to the end), `refusal`, `non_contact` (the session ended without "
    "an answer), `replaced` (it did, as a later text of this account took its place), `unknown_eligibility` "
    "(the session is open, or not known); blank for people who were only sent texts that ask nothing"
)


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file of answers.

    Attributes:
        name: in the file.
        kind: of its values.
        cell: the expression that it comes from; times are microseconds since 1970.
        meaning: for the codebook.
        question: that it is of.
        role: of the question's columns: `value`, `code`, `label`, `words` or `answered_at`; or `phone`.
    """

    name: str
    kind: Kind
    cell: str
    meaning: str
    question: KeptQuestion | None = None
    role: str = ""


_ARM = FileColumn("arm", "text", "nullif(p.arm, '')", "the arm of the experiment")
_PERSON = (
    _ARM,
    FileColumn("control_group", "boolean", "p.is_control", "whether the person is drawn to get nothing, now"),
    FileColumn(
        "sent", "boolean", "coalesce(p.is_sent, false)", "whether the service accepted a text for the person"
    ),
    FileColumn("sent_at", "time", "p.began_us", "when the first was sent"),
    FileColumn(
        "texted",
        "boolean",
        "p.state IS NOT DISTINCT FROM 'texted'",
        "whether the person got a text: response rates are of these",
    ),
    FileColumn(
        "state",
        "text",
        "p.state",
        "`texted`, `queued` (all texts wait for an earlier survey to end), `blocked` (an earlier opt-out "
        "kept them back), `unresolved` (it is not known whether a text was sent); blank for others",
    ),
    FileColumn(
        "session",
        "text",
        "CASE WHEN p.is_open THEN 'open' WHEN p.disposition = 'unknown_eligibility' THEN 'not_known' "
        "WHEN p.disposition IS NOT NULL THEN 'ended' END",
        "of the surveys: `open` if one may still be answered, `ended`, or `not_known`",
    ),
    FileColumn("disposition", "text", "p.disposition", f"the final disposition (AAPOR): {_OUTCOMES}"),
    FileColumn(
        "answered",
        "boolean",
        "coalesce(p.has_answered, false)",
        "whether there is an answer; opting out is none",
    ),
    FileColumn(
        "opted_out",
        "boolean",
        "coalesce(p.has_opted_out, false)",
        "whether the person opted out after a text of the campaign, by a reply or at the carrier",
    ),
    FileColumn("first_answered_at", "time", "p.first_us", "when the first answer came"),
)


@dataclass(frozen=True, slots=True)
class FileContent:
    """What files of answers have, beside the answers.

    Behind the `columns` of the table `members`, which begin with the number `first`, it has people's
    languages, all that the audience says of them (`CELL_SEPARATOR`), and `1` for people who may be called.

    Attributes:
        campaign: the campaign's name.
        key: of pseudonyms: hexadecimal digits of fixed length.
        title: what people call it; None if it does not say.
        first: the number of the first column.
        columns: the names of the audience's columns.
        has_phones: whether there are phones.
        has_words: whether there are people's own words.
    """

    campaign: str
    key: str = field(repr=False)
    title: str | None = None
    first: int = 0
    columns: tuple[str, ...] = ()
    has_phones: bool = False
    has_words: bool = False

    @property
    def language(self) -> str:
        """The expression for a person's language."""
        return f"nullif(m.value_{self.first + len(self.columns)}, '')"

    @property
    def cells(self) -> str:
        """The expression for all that the audience says of a person; null for one who has left it."""
        return f"m.value_{self.first + len(self.columns) + 1}"

    @property
    def may_call(self) -> str:
        """The expression for whether a person may be called."""
        return f"m.value_{self.first + len(self.columns) + 2} = '1'"


FURTHER_COLUMNS = 3
"""Columns of `members` behind those of the audience."""


def list_columns(
    shape: str, content: FileContent, questions: Sequence[KeptQuestion], score: int = 0
) -> list[FileColumn]:
    """Return the columns of a file, each with a name of its own; `score` is the question of `callbacks`."""
    if shape == "callbacks":
        found = list(_list_callbacks(content, questions, score))
    else:
        listed = {"answers": _list_people, "answers-long": _list_messages, "results": _list_results}[shape]
        found = list(listed(content, questions))
    names = distinguish(one.name for one in found)
    return [replace(one, name=name) for one, name in zip(found, names, strict=True)]


def _list_people(content: FileContent, questions: Sequence[KeptQuestion]) -> Iterator[FileColumn]:
    yield from _list_identity(content)
    meaning = "the audience's column `language`, `lang` or `locale`"
    yield FileColumn("language", "text", content.language, meaning)
    yield from _PERSON
    for number, question in enumerate(questions):
        yield from _list_answers(content, number, question)
    yield from _list_audience(content)


def _list_identity(content: FileContent) -> Iterator[FileColumn]:
    meaning = "the person's pseudonym, the same in all files of one export"
    yield FileColumn("participant", "text", "pseudonym(p.person)", meaning)
    if content.has_phones:
        yield FileColumn("participant_phone_number", "text", "nullif(m.phone, '')", "E.164", role="phone")


def _list_audience(content: FileContent) -> Iterator[FileColumn]:
    for number, name in enumerate(content.columns, start=content.first):
        yield FileColumn(name, "text", f"m.value_{number}", "the audience's column")


def _list_messages(content: FileContent, questions: Sequence[KeptQuestion]) -> Iterator[FileColumn]:
    tags = ", ".join(quote(one.outline.tag) for one in questions)
    yield from _list_identity(content)
    yield FileColumn("message", "text", "p.id", "the message's id")
    yield _ARM
    yield FileColumn("sent", "boolean", "p.is_sent", "whether the service accepted it for the person")
    yield FileColumn("sent_at", "time", "p.began_us", "when it was sent")
    yield FileColumn("question", "text", f"([{tags}]::VARCHAR[])[a.question + 1]", "the question's tag")
    yield FileColumn("value", "number", "a.value", "what the answer counts as on the question's scale")
    yield FileColumn("code", "integer", "a.code", "the number of the response")
    yield FileColumn("label", "text", "a.label", "the response's text")
    if content.has_words:
        yield FileColumn("words", "text", "a.words", "what the person wrote, if it is no response")
    yield FileColumn("answered_at", "time", "nullif(a.us, 0)", "when the answer came")


def _list_results(content: FileContent, _: Sequence[KeptQuestion]) -> Iterator[FileColumn]:
    text, answer, response = "p.question", "p.answer", "p.label"
    if content.has_phones:
        text, answer, response = "p.question_text", "p.result_answer", "p.result_response"
    yield FileColumn("message", "text", "p.message", "the message's id")
    yield _ARM
    yield from _list_identity(content)
    yield FileColumn("question_tag", "text", "p.question_tag", "the question's tag")
    yield FileColumn("question_text", "text", text, "the question")
    order = "p.question_display_order"
    yield FileColumn(
        "question_display_order", "integer", order, "the question's place, as the service has it"
    )
    yield FileColumn("result_answer", "text", answer, "the response's number, as the service has it")
    yield FileColumn("result_response", "text", response, "the response's text, as the service has it")
    yield FileColumn("created", "time", "p.us", "when it came")
    yield FileColumn("result_guid", "text", "p.result_guid", "the service's name of the result")
    yield FileColumn("value", "number", "p.value", "what it counts as on the question's scale")


def _list_callbacks(
    content: FileContent, questions: Sequence[KeptQuestion], score: int
) -> Iterator[FileColumn]:
    yield from _list_identity(content)
    for number in (score, *(number for number, one in enumerate(questions) if number != score)):
        for column in _list_answers(content, number, questions[number]):
            if column.role == "words" or number == score:
                yield column
    yield from _list_audience(content)


def _list_answers(content: FileContent, number: int, question: KeptQuestion) -> Iterator[FileColumn]:
    tag, cell = question.outline.tag, f"a.question_{number}"
    roles: list[tuple[str, Kind, str]] = []
    if question.has_value:
        kind: Kind = "integer" if question.is_whole else "number"
        roles.append(("value", kind, f"what the answer counts as on the scale `{question.outline.scale}`"))
    if question.labels:
        roles.append(("code", "integer", "the number of the response"))
        roles.append(("label", "text", "the response's text"))
    if content.has_words:
        roles.append(("words", "text", "open-ended: what the person wrote, if it is no response"))
    roles.append(("answered_at", "time", "when the answer came"))
    for role, kind, meaning in roles:
        source = f"nullif({cell}.us, 0)" if role == "answered_at" else f"{cell}.{role}"
        yield FileColumn(f"{tag}.{role}", kind, source, meaning, question, role)
