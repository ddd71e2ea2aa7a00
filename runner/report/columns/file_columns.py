"""The columns of files of answers, with the expressions that their cells come from, and the codebook.

An expression is over `p`, the row's person or reply, `a`, what they answered, and `m`, what the audience says
of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from runner.campaign.message_model import SCORED
from runner.document import Count, Document, Part, Positive
from runner.report.columns.engine import quote
from runner.report.documents.wording import distinguish, store_number
from runner.view.blocks import Block, Sentence, TableBlock
from runner.view.markdown import write_markdown
from runner.wording import count_words, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.report.facts import PooledOutline
    from runner.report.people_model import SampleReport

Kind = Literal["text", "integer", "number", "boolean", "time"]
Role = Literal["", "phone", "value", "code", "label", "words", "answered_at"]
Shape = Literal["answers", "answers-long", "results", "callbacks", "codebook"]


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file of answers.

    Attributes:
        name: in the file.
        kind: of its values.
        cell: the expression that it comes from; times are microseconds since 1970.
        meaning: for the codebook.
        role: of phones, people's own words, and a question's columns.
        question: that it is of.
    """

    name: str
    kind: Kind
    cell: str
    meaning: str
    role: Role = ""
    question: PooledOutline | None = None


_MISSING = (
    "A blank cell is missing: nothing was answered, or it is not known. A question with a time and without a "
    "code was answered in other words than the responses."
)
_SESSION = (
    "CASE WHEN p.is_open THEN 'open' WHEN p.disposition = 'unknown_eligibility' THEN 'not_known' "
    "WHEN p.disposition IS NOT NULL THEN 'ended' END"
)
# Nobody texted the control group, and so nothing came back.
_SENT = "CASE WHEN p.is_control THEN false WHEN p.state <> 'unresolved' THEN p.is_sent END"
_TEXTED = (
    "CASE WHEN p.is_control OR p.state IN ('queued', 'blocked', 'withdrawn') THEN false "
    "WHEN p.state = 'texted' THEN true END"
)
_ANSWERED = "CASE WHEN p.has_answered THEN true WHEN p.is_control OR p.is_read THEN false END"
_OPTED_OUT = "CASE WHEN p.has_opted_out THEN true WHEN p.is_control OR p.is_read THEN false END"
_IF_KNOWN = "blank where that is not known"
_STATE_MEANING = (
    "what became of the texts: `texted`, `queued` (all wait for an earlier survey to end), `blocked` (an "
    "earlier opt-out kept them back), `withdrawn` (all waited until their surveys were ended), `uncertain` "
    "(it is not known whether one left the service), `unresolved` (it is not known whether it was sent); "
    "blank for others"
)
_DISPOSITION_MEANING = (
    "the final disposition (AAPOR): `complete`, `partial` (answered, not to the end), `refusal`, "
    "`non_contact` (the session ended without an answer), `replaced` (it did, as a later text of this "
    "account took its place), `unknown_eligibility` (the session is open, or not known); blank for "
    "people who were only sent texts that ask nothing"
)
_PARTICIPANT = (
    FileColumn("participant", "text", "pseudonym(p.person)", "a pseudonym, the same in all of these files"),
    FileColumn("participant_phone_number", "text", "nullif(m.phone, '')", "E.164", "phone"),
)
_MESSAGE = FileColumn("message", "text", "message_id(p.message)", "the message's id")
_ARM = FileColumn("arm", "text", "nullif(p.arm, '')", "the arm of the experiment")
_ANSWERS = (
    *_PARTICIPANT,
    FileColumn(
        "language",
        "text",
        "nullif(m.language, '')",
        "of their texts, or the audience's `language`, `lang` or `locale`",
    ),
    _ARM,
    FileColumn("control_group", "boolean", "p.is_control", "whether the person is drawn to get nothing, now"),
    FileColumn("sent", "boolean", _SENT, f"whether the service accepted a text for the person; {_IF_KNOWN}"),
    FileColumn("sent_at", "time", "p.began_us", "when the first was sent"),
    FileColumn("texted", "boolean", _TEXTED, f"whether a text came: rates are of these; {_IF_KNOWN}"),
    FileColumn("state", "text", "p.state", _STATE_MEANING),
    FileColumn(
        "session",
        "text",
        _SESSION,
        "how the surveys stand: `open` if one may be answered, `ended`, or `not_known`",
    ),
    FileColumn("disposition", "text", "p.disposition", _DISPOSITION_MEANING),
    FileColumn(
        "answered", "boolean", _ANSWERED, f"whether there is an answer; opting out is none; {_IF_KNOWN}"
    ),
    FileColumn(
        "opted_out", "boolean", _OPTED_OUT, f"whether the person did, by text or at the carrier; {_IF_KNOWN}"
    ),
    FileColumn("first_answered_at", "time", "p.first_us", "when the first answer came"),
)
_TAG = FileColumn("question", "text", "a.tag", "the question's tag")
_VALUE = FileColumn("value", "number", "a.value", "what the answer counts as on the question's scale")
_LABEL = FileColumn("label", "text", "a.label", "the response's text")
_WORDS = FileColumn("words", "text", "a.words", "what the person wrote, if it is no response", "words")
_TIME = FileColumn("answered_at", "time", "nullif(a.us, 0)", "when the answer came")
_LONG = (
    *_PARTICIPANT,
    _MESSAGE,
    _ARM,
    FileColumn(
        "sent",
        "boolean",
        "if(p.is_sent OR NOT p.is_contact, p.is_sent, NULL)",
        f"whether the service accepted it for the person; {_IF_KNOWN}",
    ),
    FileColumn("sent_at", "time", "p.began_us", "when it was sent"),
    _TAG,
    _VALUE,
    FileColumn("code", "integer", "a.code", "the number of the response"),
    _LABEL,
    _WORDS,
    _TIME,
)
_RESULTS = (
    _MESSAGE,
    _ARM,
    *_PARTICIPANT,
    replace(_TAG, name="question_tag", cell="p.tag"),
    FileColumn("question_text", "text", "p.text", "the question, as the campaign has it"),
    FileColumn("question_display_order", "integer", "p.display_order", "its place, as the service has it"),
    FileColumn("result_answer", "text", "p.answer", "the response's number, as the service has it"),
    replace(_LABEL, name="result_response", cell="p.label"),
    replace(_WORDS, cell="p.words"),
    replace(_TIME, name="created", cell="nullif(p.us, 0)"),
    FileColumn("result_guid", "text", "p.guid", "the service's name of the result"),
    replace(_VALUE, cell="p.value"),
)
_COLUMNS = {"answers": _ANSWERS, "answers-long": _LONG, "results": _RESULTS, "callbacks": _PARTICIPANT}


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of files of answers, beside the answers.

    Attributes:
        campaign: the campaign's name.
        key: of pseudonyms: hexadecimal digits of fixed length.
        title: what people call it; None if it does not say.
        columns: the audience's columns: in the table `members` they are `export_0` and so on.
        has_phones: whether there are phones, and words as they are.
        has_words: whether there are people's own words.
        wave: that all answers are of; empty if the campaign has none.
        sample: that the campaign texts; None where all people are texted.
    """

    campaign: str
    key: str = field(repr=False)
    title: str | None = None
    columns: tuple[str, ...] = ()
    has_phones: bool = False
    has_words: bool = False
    wave: str = ""
    sample: SampleReport | None = None


def list_columns(
    shape: Shape, content: FileContent, questions: Sequence[PooledOutline], score: int = 0
) -> list[FileColumn]:
    """Return the columns of a file, each with a name of its own; `score` is the question of `callbacks`."""
    found = list(_COLUMNS[shape])
    asked = [list(_list_question(number, one)) for number, one in enumerate(questions)]
    if shape == "callbacks":
        others = (one for number, columns in enumerate(asked) if number != score for one in columns)
        found += [*asked[score], *(one for one in others if one.role == "words")]
    elif shape == "answers":
        found += [one for columns in asked for one in columns]
    if shape in ("answers", "callbacks"):
        found += [
            FileColumn(name, "text", f"m.export_{number}", "the audience's column")
            for number, name in enumerate(content.columns)
        ]
    found += _list_origin(content, shape)
    hidden = {"" if content.has_phones else "phone", "" if content.has_words else "words"} - {""}
    found = [one for one in found if one.role not in hidden]
    names = distinguish(one.name for one in found)
    return [replace(one, name=name) for one, name in zip(found, names, strict=True)]


def _list_origin(content: FileContent, shape: Shape) -> Iterator[FileColumn]:
    """Yield the columns, the same for everybody who was texted, on where the rows come from."""
    if content.wave:
        yield FileColumn("occasion", "text", quote(content.wave), "the wave that the row is of")
    if content.sample is not None:
        drawn = content.sample.probability
        known = "NULL::DOUBLE" if drawn is None else repr(float(drawn))
        if shape == "answers":  # the others have no control group
            known = f"CASE WHEN NOT p.is_control THEN {known} END"
        meaning = f"the probability with which the person was drawn for the sample; {_IF_KNOWN}"
        yield FileColumn("selection_probability", "number", known, meaning)


def _list_question(number: int, question: PooledOutline) -> Iterator[FileColumn]:
    tag, scale, roles = question.question.tag, question.question.scale, list[tuple[Role, Kind, str]]()
    if scale in SCORED:
        number_kind: Kind = "integer" if question.is_whole else "number"
        roles.append(("value", number_kind, f"what the answer counts as on the scale `{scale}`"))
    if question.labels:
        roles.append(("code", "integer", "the number of the response"))
        roles.append(("label", "text", "the response's text"))
    roles.append(("words", "text", "open-ended: what the person wrote, if it is no response"))
    roles.append(("answered_at", "time", "when the answer came"))
    for role, kind, meaning in roles:
        answer = f"a.question_{number}"
        cell = f"nullif({answer}.us, 0)" if role == "answered_at" else f"{answer}.{role}"
        yield FileColumn(f"{tag}.{role}", kind, cell, meaning, role, question)


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
    """The columns of `answers.csv`, `answers.parquet` and `answers.sav`, which have a row a person.

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
    about = question.question
    return CodedColumn(
        column.name, column.kind, column.meaning, about.tag, about.text, about.scale, responses
    )
