"""What one recipient gets: a message's texts, rendered into the project definition that is sent.

The definition's fields are those of the send body (wire facts, "Send body" and "Question"), less
`phone`. Recipients with the same definition share a launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from runner.campaign.draft import Draft, Slot
from runner.campaign.outgoing import OutgoingTexts
from runner.campaign.template import (
    CompiledText,
    MissingVariablesError,
    TemplateProblemError,
    TextCompiler,
    render_texts,
)
from runner.campaign.text_place import template_diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.campaign.draft import Definition
    from runner.campaign.model import Message, Question, TemplateText
    from runner.campaign.recipients import Variables
    from runner.source.diagnostic import Diagnostic

_MEMO_SIZE = 1024
_TEXT_NAMES = ("text", "introduction", "conclusion")
_KEYS_OF_THEIR_OWN = frozenset((str, type(None)))
"""Types whose values are equal only to their like: `1`, `1.0` and `True` are one key in a dictionary."""


class Payload(NamedTuple):
    """A rendered message. A tuple: one is made for every person whose text is personal.

    Attributes:
        definition: the send body less `phone`; shares parts with others, so it is never changed.
        digest: of the definition, 128 bits in hexadecimal: BLAKE2b of its canonical JSON.
        segments: SMS segments that leave at once: the text, or the introduction and the first
            question; 0 for a call, as all that follow.
        costly: the first character of the whole conversation that is outside GSM-7, if any: it makes its
            text UCS-2.
        segments_max: segments if the whole conversation takes place: all questions, each once, and the
            conclusion.
        largest: segments of the largest single text of the conversation.
        segments_plain: segments if the whole conversation takes place, written plainly (`write_plainly`).
    """

    definition: Definition
    digest: str
    segments: int
    costly: str | None
    segments_max: int = 0
    largest: int = 0
    segments_plain: int = 0


@dataclass(frozen=True, slots=True)
class _CompiledQuestion:
    question: Question
    text: CompiledText
    responses: tuple[CompiledText, ...]
    conclude_on: CompiledText | None


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is worked out once for all recipients.

    Attributes:
        personal: the texts with variables, in the order of their slots.
        choices: the questions with variables in their responses, each with its number.
    """

    personal: tuple[CompiledText, ...]
    choices: tuple[tuple[int, _CompiledQuestion], ...]
    draft: Draft
    outgoing: OutgoingTexts


class MessageRenderer:
    """Renders one message for its recipients.

    Texts that name nobody are rendered once. A whole message is rendered once for the same values of
    the variables that it refers to, as long as there are few; where values hardly ever come again,
    they are soon no longer kept.

    Attributes:
        message: what is rendered.
        names: the variables that its texts refer to.
    """

    def __init__(self, message: Message, compiler: TextCompiler) -> None:
        """Compile the texts.

        Raises:
            TemplateProblemError: some of them are no templates.
        """
        self.message = message
        compiled = _compile_texts(message, compiler)
        self._compiled = list(compiled.values())
        self._texts = {name: compiled[text] for name in _TEXT_NAMES if (text := getattr(message, name))}
        self._questions = [_gather_question(question, compiled) for question in message.questions]
        self.names = frozenset[str]().union(*(text.names for text in self._compiled))
        self._ordered_names = tuple(sorted(self.names))
        self._prepared: _Prepared | None = None
        self._memo: dict[tuple[Any, ...], Payload] | None = {}
        self._hits = 0

    @property
    def renders_min(self) -> int:
        """Renders that a recipient costs who never answers (wire facts, "Terms")."""
        return 1 + ("introduction" in self._texts)

    @property
    def renders_max(self) -> int:
        """Renders that a recipient costs who answers every question validly at once."""
        return len(self._texts) + len(self._questions)

    @property
    def draft(self) -> Draft:
        """What is the same for everyone, with slots for the personal texts.

        Raises:
            MissingVariablesError: never of texts that could be rendered for somebody.
            TemplateProblemError: a text that is the same for everyone cannot be rendered.
        """
        return (self._prepared or self._prepare({})).draft

    def render(self, variables: Variables) -> Payload:
        """Return what a recipient gets.

        Args:
            variables: the recipient's, blank ones left out.

        Raises:
            MissingVariablesError: a text needs variables that are not there.
            TemplateProblemError: a text cannot be rendered, or comes out empty.
        """
        if self._memo is None:
            return self._render(variables)
        key = tuple([variables.get(name) for name in self._ordered_names])
        if not _KEYS_OF_THEIR_OWN.issuperset(map(type, key)):
            key = tuple(map(_freeze, key))
        payload = self._memo.get(key)
        if payload is not None:
            self._hits += 1
            return payload
        payload = self._render(variables)
        self._remember(key, payload)
        return payload

    def _remember(self, key: tuple[Any, ...], payload: Payload) -> None:
        if self._memo is None:
            return
        if len(self._memo) == _MEMO_SIZE:
            if self._hits < _MEMO_SIZE:
                self._memo = None
                return
            self._memo.clear()
            self._hits = 0
        self._memo[key] = payload

    def _find_missing(self, variables: Variables) -> tuple[tuple[str, TemplateText], ...]:
        missing: dict[str, TemplateText] = {}
        for text in self._compiled:
            for name in text.find_missing(variables):
                missing.setdefault(name, text.text)
        return tuple(missing.items())

    def _render(self, variables: Variables) -> Payload:
        try:
            prepared = self._prepared or self._prepare(variables)
            texts = render_texts(prepared.personal, variables)
        except MissingVariablesError:
            raise MissingVariablesError(self._find_missing(variables)) from None
        if not all(texts):
            raise _empty(prepared.personal[texts.index("")])
        definition = prepared.draft.fill(texts)
        for number, question in prepared.choices:
            _require_distinct(definition["questions"][number]["responses"], question)
        return Payload._make((definition, prepared.draft.digest(texts), *prepared.outgoing.count(texts)))

    def _prepare(self, variables: Variables) -> _Prepared:
        """Render what is the same for everyone; raises what its rendering raises, for everyone."""
        personal: list[CompiledText] = []

        def place(text: CompiledText) -> str | Slot:
            if not text.names:
                return _require_text(text, variables)
            personal.append(text)
            return Slot(len(personal) - 1)

        shape: Definition = {"tag": self.message.tag}
        shape.update((name, place(text)) for name, text in self._texts.items())
        if self._questions:
            shape["questions"] = [_shape_question(question, place) for question in self._questions]
        if self.message.method != "SMS":
            shape["method"] = self.message.method
        if self.message.complete_existing_sessions:
            shape["complete_existing_sessions"] = True
        choices = tuple(
            (number, question)
            for number, question in enumerate(self._questions)
            if any(response.names for response in question.responses)
        )
        self._prepared = _Prepared(tuple(personal), choices, Draft(shape), OutgoingTexts(shape))
        return self._prepared


def _compile_texts(message: Message, compiler: TextCompiler) -> dict[TemplateText, CompiledText]:
    compiled = {}
    problems: list[Diagnostic] = []
    for text in _iterate_texts(message):
        try:
            compiled[text] = compiler.compile(text)
        except TemplateProblemError as error:
            problems.extend(error.diagnostics)
    if problems:
        raise TemplateProblemError(*problems)
    return compiled


def _iterate_texts(message: Message) -> Iterator[TemplateText]:
    yield from filter(None, (message.text, message.introduction, message.conclusion))
    for question in message.questions:
        yield question.text
        yield from question.responses
        yield from filter(None, (question.conclude_on,))


def _freeze(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else (type(value).__name__, repr(value))


def _gather_question(question: Question, compiled: dict[TemplateText, CompiledText]) -> _CompiledQuestion:
    return _CompiledQuestion(
        question,
        compiled[question.text],
        tuple(compiled[response] for response in question.responses),
        compiled[question.conclude_on] if question.conclude_on else None,
    )


def _shape_question(compiled: _CompiledQuestion, place: Callable[[CompiledText], str | Slot]) -> Definition:
    question: Definition = {"text": place(compiled.text), "tag": compiled.question.tag}
    if compiled.responses:
        question["responses"] = responses = [place(text) for text in compiled.responses]
        if not any(isinstance(response, Slot) for response in responses):
            _require_distinct(cast("list[str]", responses), compiled)
    if compiled.conclude_on is not None:
        question["conclude_on"] = place(compiled.conclude_on)
    return question


def _require_distinct(responses: list[str], compiled: _CompiledQuestion) -> None:
    folded = [response.casefold() for response in responses]
    for index, response in enumerate(folded):
        first = folded.index(response)
        if first == index:
            continue
        texts = compiled.responses[first], compiled.responses[index]
        # What a recipient is called must not stand in a log.
        words = (
            f"the responses {first + 1} and {index + 1} read the same for a recipient"
            if any(text.names for text in texts)
            else f"two responses read {responses[index]!r}"
        )
        raise TemplateProblemError(template_diagnostic("response-repeated", words, texts[1].text))


def _require_text(text: CompiledText, variables: Variables) -> str:
    rendered = text.render(variables)
    if not rendered:
        raise _empty(text)
    return rendered


def _empty(text: CompiledText) -> TemplateProblemError:
    return TemplateProblemError(template_diagnostic("text-empty", "this text comes out empty", text.text))
