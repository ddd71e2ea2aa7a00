"""Messages as values: texts, questions, conditions and arms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import timedelta

    from runner.source.diagnostic import Position
    from runner.timing.schedule import DateRule


Scale = Literal["nps", "csat", "ces", "number", "choice", "text"]
ResponseValue = Fraction | Literal["none"]
"""The value of a response on its question's scale; `none` is out of every score, and is counted."""
SCORED = frozenset({"nps", "csat", "ces", "number"})
"""The scales that have a score."""
Method = Literal["SMS", "VOICE"]
Replies = Literal["ignored", "recorded"]
Addressees = Literal["everyone", "answered", "unanswered"]
"""The part of an earlier message's recipients that a follow-up is for: `to`."""


@dataclass(frozen=True, slots=True)
class AnswerCondition:
    """The condition of a follow-up that goes by an answer: `to: {question: nps, values: 0-6}`.

    Attributes:
        question: the tag of a question of earlier messages.
        values: as the campaign writes them: numbers, ranges, `none`, or the texts of responses.
        position: of `question`.
        places: of the values.
    """

    question: str
    values: tuple[str, ...]
    position: Position
    places: tuple[Position, ...]


REPLY_TAG = "reply"
"""Tag of the question that stands for a plain text whose replies are recorded."""


@dataclass(frozen=True, slots=True)
class Languages:
    """The languages of a campaign's texts: BCP 47 tags as written in `known`, the `default` among them."""

    default: str
    known: tuple[str, ...]
    position: Position

    def find(self, written: str) -> str | None:
        """Return the known language that a tag means, whatever its case; None if there is none."""
        wanted = written.strip().casefold()
        return next((one for one in self.known if one.casefold() == wanted), None)


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A Jinja2 template in the campaign file; of a text by language, the default language's.

    Attributes:
        source: the template's text.
        position: start of the value in the file.
        first_line: the file's line of the template's first line.
        indent: the file's column at which the template's lines start, from 1.
        is_block: True if template and file have the same lines (a `|` scalar).
        quote: the quotes that stand around it in the file; empty if there are none.
        by_language: the text in each language, the default's among them; empty for one text for all.
    """

    source: str
    position: Position
    first_line: int
    indent: int
    is_block: bool
    quote: str = ""
    by_language: tuple[tuple[str, TemplateText], ...] = ()

    def in_language(self, language: str) -> TemplateText:
        """Return the single text of a language: itself if it is one for all."""
        return next((text for code, text in self.by_language if code == language), self)

    @property
    def inner_quote(self) -> str:
        """The quotes for texts within it, as in `default('there')`."""
        return '"' if self.quote == "'" else "'"

    @property
    def is_plain(self) -> bool:
        """True if it is sent as it is written: all tags start with a brace."""
        return "{" not in self.source


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a survey.

    A response is the same one in all languages: its place, its value, and in reports its text in the default
    language (`responses[place].source`); `responses[place].in_language("es").source` is its text in Spanish.

    Attributes:
        responses: as they are sent, each by language if it is given so; none for a freeform question.
        values: of the responses; None for one whose text says it. Empty if the campaign gives none.
    """

    tag: str
    text: TemplateText
    responses: tuple[TemplateText, ...] = ()
    scale: Scale = "choice"
    conclude_on: TemplateText | None = None
    values: tuple[ResponseValue | None, ...] = ()

    def in_language(self, language: str) -> Question:
        """Return the question with the single texts of a language."""
        ending = self.conclude_on
        return replace(
            self,
            text=self.text.in_language(language),
            responses=tuple(response.in_language(language) for response in self.responses),
            conclude_on=None if ending is None else ending.in_language(language),
        )


def ask_openly(text: TemplateText) -> tuple[Question, ...]:
    """Return a plain text as the one open question that records replies to it."""
    return (Question(REPLY_TAG, text, scale="text"),)


def name_wave(tag: str, wave: str) -> str:
    """Return a project tag with the wave at its end, so that the service itself keeps waves apart."""
    return tag if not wave or tag == wave or tag.endswith(f"-{wave}") else f"{tag}-{wave}"


def is_of_other_wave(tag: str, own: Iterable[str], wave: str) -> bool:
    """Return whether a project tag is one of a campaign's `own`, but of another wave, or of none."""
    if not wave or tag.endswith(f"-{wave}"):
        return False
    stems = {one.removesuffix(f"-{wave}") for one in own}
    return any(tag == stem or tag.startswith(f"{stem}-") for stem in stems)


@dataclass(frozen=True, slots=True)
class After:
    """The earlier message that a follow-up comes after, and the wait after it."""

    message: str
    wait: timedelta
    position: Position


_TEXT_FIELDS = ("text", "introduction", "conclusion")


@dataclass(frozen=True, slots=True)
class When:
    """The column with the dates that a message goes by, and the time before or after them."""

    column: str
    rule: DateRule
    position: Position


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a campaign: a plain `text`, or a survey of `questions`.

    It goes to a part `to` of the recipients of `after`, or by a date of each (`when`), if given; the `wait`
    then counts from that message, or from the answer that is its condition. With `replies`, its text is one
    open question (`ask_openly`). It `is_new` if it says that it has no former id (`renamed_from: none`).
    """

    id: str
    tag: str
    position: Position
    text: TemplateText | None = None
    introduction: TemplateText | None = None
    questions: tuple[Question, ...] = ()
    conclusion: TemplateText | None = None
    method: Method = "SMS"
    complete_existing_sessions: bool = False
    renamed_from: tuple[str, ...] = ()
    is_new: bool = False
    after: After | None = None
    to: Addressees | AnswerCondition = "everyone"
    replies: Replies = "ignored"
    when: When | None = None

    def in_language(self, language: str) -> Message:
        """Return the message with the single texts of a language."""
        texts = {name: text for name in _TEXT_FIELDS if (text := getattr(self, name)) is not None}
        return replace(
            self,
            questions=tuple(question.in_language(language) for question in self.questions),
            **{name: text.in_language(language) for name, text in texts.items()},
        )

    def iterate_texts(self) -> Iterator[TemplateText]:
        """Yield its templates."""
        yield from filter(None, (self.text, self.introduction, self.conclusion))
        for question in self.questions:
            yield question.text
            yield from question.responses
            yield from filter(None, (question.conclude_on,))


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of an experiment.

    Attributes:
        id: its name in reports and in the draw: an arm with another id draws anew.
        weight: its share is this over the sum of all weights; 0 closes it to newcomers.
        position: of the id.
        changes: the fields of the message that it replaces, such as its questions or its tag.
    """

    id: str
    weight: float
    position: Position
    changes: Mapping[str, Any] = field(default_factory=dict)

    def apply_to(self, message: Message) -> Message:
        """Return the message as this arm sends it.

        Its id stays: a delivery is (campaign, message, phone), so people who change arms get it once.
        """
        said = dict(self.changes)
        if message.replies == "recorded" and "text" in said:
            said.update(text=None, questions=ask_openly(said["text"]))
        return replace(message, **said)
