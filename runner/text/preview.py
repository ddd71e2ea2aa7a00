"""Previews: a message as a phone shows it, and the conversations worth a look before sending.

These are, from one pass in bounded memory: the whole conversation with the most segments, and the longest
single text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from runner.campaign.message_model import AnswerCondition
from runner.document import Count, Part
from runner.source.normalize import fold_answer
from runner.source.quantity import read_leading_number, write_duration
from runner.text.outgoing import question_as_asked
from runner.text.segment import Encoding, count_segments, find_substitute

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.audience.audience import Recipient
    from runner.campaign.message_model import Message
    from runner.campaign.model import Campaign
    from runner.text.outgoing import Definition
    from runner.text.payload import MessageRenderer, Payload


AnswerKind = Literal["valid", "conclude_on", "other_line", "invalid"]
PartKind = Literal["text", "introduction", "question", "conclusion"]
CaseKind = Literal["longest_text", "most_segments"]
_MEMO_SIZE = 1024


class Turn(Part, frozen=True):
    """The continuation after an answer.

    Attributes:
        on: what is answered; `other_line` is a number that counts as the line of a response with another
            number.
        answers: those that are meant; empty for any.
        part: what follows, the same question after an invalid answer; None at the end.
        question_tag: the tag of the question that follows; None for what is no question.
        skipped: questions that are left out.
        taken: for `other_line`, the response that is recorded, else None.
    """

    on: AnswerKind
    answers: tuple[str, ...]
    part: PartKind | None = None
    question_tag: str | None = None
    skipped: Count = 0
    taken: str | None = None


class Branch(Part, frozen=True):
    """A follow-up that goes by the answer to a question.

    Attributes:
        question_tag: the question's tag.
        values: the answers that are meant, as the campaign writes them.
        message: the id of the follow-up.
        wait: the time between the answer and the follow-up; empty for none.
    """

    question_tag: str
    values: tuple[str, ...]
    message: str
    wait: str


def list_branches(campaign: Campaign, message: Message) -> tuple[Branch, ...]:
    """Return the follow-ups that go by the answers to a message."""
    return tuple(
        Branch(
            one.to.question,
            one.to.values,
            one.id,
            "" if one.after is None else write_duration(one.after.wait),
        )
        for one in campaign.messages
        if isinstance(one.to, AnswerCondition)
        and any(asking.id == message.id for asking in campaign.list_asking(one))
    )


class Bubble(Part, frozen=True, kw_only=True):
    """A text of a conversation.

    Attributes:
        part: which text of the conversation it is.
        question_tag: the question's tag; None for what is no question.
        text: the text, as it arrives, with choices.
        encoding: how it goes over the air: GSM-7 or UCS-2.
        units: septets or 16-bit units.
        segments: SMS segments.
        costly: the first character that GSM-7 lacks; None if there is none.
        responses: the allowed answers; none for a freeform question.
        conclude_on: the answer after which the survey ends; None for none.
        turns: how it goes on after an answer to this question.
    """

    part: PartKind
    question_tag: str | None = None
    text: str
    encoding: Encoding
    units: Count
    segments: Count
    costly: str | None
    responses: tuple[str, ...] = ()
    conclude_on: str | None = None
    turns: tuple[Turn, ...] = ()


def list_bubbles(definition: Definition) -> tuple[Bubble, ...]:
    """Return the texts of a rendered message in the order in which they arrive."""
    questions: list[dict[str, Any]] = definition.get("questions", [])
    parts: tuple[PartKind, ...] = ("text", "introduction")
    before = [_write_bubble(part, definition[part]) for part in parts if part in definition]
    after = [_write_bubble("conclusion", definition["conclusion"])] if "conclusion" in definition else []
    asked = [
        _write_bubble(
            "question",
            question_as_asked(question["text"], question.get("responses", [])),
            question_tag=question["tag"],
            responses=tuple(question.get("responses", [])),
            conclude_on=question.get("conclude_on"),
            turns=tuple(_iterate_turns(questions[place:], has_conclusion=bool(after))),
        )
        for place, question in enumerate(questions)
    ]
    return (*before, *asked, *after)


def _write_bubble(part: PartKind, text: str, **more: Any) -> Bubble:
    encoding, units, segments, costly = count_segments(text)
    return Bubble(
        part=part, text=text, encoding=encoding, units=units, segments=segments, costly=costly, **more
    )


def _iterate_turns(questions: Sequence[dict[str, Any]], *, has_conclusion: bool) -> Iterator[Turn]:
    """Yield the ways in which a conversation can go on after the first of the questions that are left."""
    question, *rest = questions
    responses, ending = question.get("responses", []), question.get("conclude_on")
    conclusion: PartKind | None = "conclusion" if has_conclusion else None
    then: tuple[PartKind | None, str | None] = ("question", rest[0]["tag"]) if rest else (conclusion, None)
    others = tuple(answer for answer in responses if not _is_same(answer, ending))
    if others or not responses:
        yield Turn("valid", others, *then)
    if ending is not None:
        yield Turn("conclude_on", (ending,), conclusion, skipped=len(rest))
    for line, response in _iterate_odd_lines(responses):
        following = (conclusion, None) if _is_same(response, ending) else then
        yield Turn("other_line", (line,), *following, taken=response)
    if responses:
        yield Turn("invalid", (), "question", question["tag"])


def _iterate_odd_lines(responses: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that are no response, of responses with another number: "4" for 3 of 0 to 3."""
    said = set(map(fold_answer, responses))
    for line, response in enumerate(responses, start=1):
        number = read_leading_number(response)
        if number is not None and number != line and str(line) not in said:
            yield str(line), response


def _is_same(answer: str, ending: str | None) -> bool:
    return ending is not None and fold_answer(answer) == fold_answer(ending)


class CaseReason(Part, frozen=True):
    """A reason for which a conversation is shown.

    Attributes:
        kind: the extreme.
        count: characters or segments.
    """

    kind: CaseKind
    count: Count


@dataclass(frozen=True, slots=True)
class Conversation:
    """All texts of one message to one recipient.

    Attributes:
        message: an experiment's, as its arm sends it, in the recipient's language.
        reasons: reasons to show it; none if it was asked for.
    """

    message: Message
    recipient: Recipient
    bubbles: tuple[Bubble, ...]
    arm: str | None = None
    reasons: tuple[CaseReason, ...] = ()
    language: str | None = None

    @property
    def segments(self) -> int:
        """The SMS segments of all its texts, if no question is skipped or asked again; 0 for a call."""
        is_sms = self.message.method == "SMS"
        return sum(bubble.segments for bubble in self.bubbles) if is_sms else 0


class UnplainCharacter(Part, frozen=True):
    """A character that makes conversations UCS-2.

    Attributes:
        character: the character.
        recipients: those whose conversation has it for its first such character.
        segments: of their whole conversations.
        segments_without: the same, if these were written plainly.
        instead: what to write; empty to leave it out, None if GSM-7 has nothing like it.
    """

    character: str
    recipients: Count
    segments: Count
    segments_without: Count
    instead: str | None


@dataclass(slots=True)
class CaseFinder:
    """A finder of the worst conversations of a message, arm and language; `people` is the recipients seen."""

    renderer: MessageRenderer
    people: int = 0
    _costs: dict[str, Counter[str]] = field(default_factory=dict)
    _most: dict[CaseKind, tuple[int, int, Recipient]] = field(default_factory=dict)
    _lengths: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, recipient: Recipient) -> None:
        """Look at one more recipient, whose texts can be rendered."""
        self.people += 1
        payload = self.renderer.render(recipient.vars)
        longest, characters = self._measure(payload)
        self._offer("most_segments", payload.segments_max, characters, recipient)
        self._offer("longest_text", longest, characters, recipient)
        if payload.costly is not None:
            cost = self._costs.setdefault(payload.costly, Counter())
            cost.update(recipients=1, segments=payload.segments_max, segments_without=payload.segments_plain)

    def _offer(self, kind: CaseKind, count: int, characters: int, recipient: Recipient) -> None:
        """Keep the recipient with the most of something; of equal ones, the one with the longest texts."""
        if count and (count, characters) > self._most.get(kind, (0, 0))[:2]:
            self._most[kind] = count, characters, recipient

    def _measure(self, payload: Payload) -> tuple[int, int]:
        """Return the characters of a conversation's longest text, and of all its texts."""
        lengths = self._lengths.get(payload.digest)
        if lengths is None:
            if len(self._lengths) >= _MEMO_SIZE:
                self._lengths.clear()
            each = [len(bubble.text) for bubble in list_bubbles(payload.definition)]
            lengths = self._lengths[payload.digest] = max(each, default=0), sum(each)
        return lengths

    def list_cases(self) -> list[Conversation]:
        """Return the worst conversations, each recipient once, with all reasons."""
        found: dict[str, tuple[Recipient, list[CaseReason]]] = {}
        for kind in sorted(self._most, reverse=True):
            count, _, recipient = self._most[kind]
            found.setdefault(recipient.phone, (recipient, []))[1].append(CaseReason(kind, count))
        return [self.converse(recipient, tuple(reasons)) for recipient, reasons in found.values()]

    def converse(self, recipient: Recipient, reasons: tuple[CaseReason, ...] = ()) -> Conversation:
        """Return a recipient's conversation."""
        bubbles = list_bubbles(self.renderer.render(recipient.vars).definition)
        renderer = self.renderer
        return Conversation(renderer.message, recipient, bubbles, renderer.arm, reasons, renderer.language)

    def list_characters(self) -> list[UnplainCharacter]:
        """Return the characters outside GSM-7 over all texts of the conversations."""
        return [
            UnplainCharacter(character, **self._costs[character], instead=find_substitute(character))
            for character in sorted(self._costs)
        ]
