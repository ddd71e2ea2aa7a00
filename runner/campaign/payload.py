"""What one recipient gets: a message's texts, rendered into the project definition that is sent.

The definition's fields are those of the send body (wire facts, "Send body" and "Question"), less
`phone`. Recipients with the same definition share a launch.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.campaign.segment import count_segments
from runner.campaign.template import (
    CompiledText,
    MissingVariablesError,
    TemplateProblemError,
    TextCompiler,
)
from runner.campaign.text_place import template_diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Message, Question, TemplateText, Variables
    from runner.source.diagnostic import Diagnostic

Definition = dict[str, Any]
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_RANGE_FROM = 3
_MEMO_SIZE = 1024


@dataclass(frozen=True, slots=True)
class Payload:
    """A rendered message.

    Attributes:
        definition: the send body less `phone`.
        digest: of the definition, 128 bits in hexadecimal: BLAKE2b of its canonical JSON.
        segments: SMS segments that leave at once: the text, or the introduction and the first
            question; 0 for a call.
        costly: the first character of these that is outside GSM-7 and makes a segment UCS-2, if any.
    """

    definition: Definition
    digest: str
    segments: int
    costly: str | None


def digest_definition(definition: Definition) -> str:
    """Return the digest by which equal definitions are known, 128 bits in hexadecimal."""
    canonical = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def question_as_asked(text: str, responses: list[str]) -> str:
    """Return a question with its choices, as it appears on a phone.

    The reference doesn't show how choices are listed. This is how the sandbox lists them; segments
    are counted by it, nothing else depends on it.
    """
    if not responses:
        return text
    if len(responses) >= _RANGE_FROM and all(_INTEGER.fullmatch(response) for response in responses):
        numbers = [int(response) for response in responses]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{text}\nReply {responses[0]}-{responses[-1]}"
    return text + "".join(f"\n{number}. {response}" for number, response in enumerate(responses, start=1))


@dataclass(frozen=True, slots=True)
class _CompiledQuestion:
    question: Question
    text: CompiledText
    responses: tuple[CompiledText, ...]
    conclude_on: CompiledText | None


@dataclass(slots=True)
class MessageRenderer:
    """Renders one message for its recipients.

    A text is rendered once for the same values of the variables that it refers to, as long as
    there are few: texts that name nobody are rendered once for all.

    Attributes:
        message: what is rendered.
        names: the variables that its texts refer to.
    """

    message: Message
    compiler: TextCompiler
    names: frozenset[str] = frozenset()
    _compiled: list[CompiledText] = field(default_factory=list)
    _texts: dict[str, CompiledText] = field(default_factory=dict)
    _questions: list[_CompiledQuestion] = field(default_factory=list)
    _memo: dict[tuple[Any, ...], Payload] = field(default_factory=dict)
    _ordered_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Compile the texts.

        Raises:
            TemplateProblemError: some of them are no templates.
        """
        message = self.message
        compiled = _compile_texts(message, self.compiler)
        self._compiled = list(compiled.values())
        for name in ("text", "introduction", "conclusion"):
            text = getattr(message, name)
            if text is not None:
                self._texts[name] = compiled[text]
        for question in message.questions:
            self._questions.append(
                _CompiledQuestion(
                    question,
                    compiled[question.text],
                    tuple(compiled[response] for response in question.responses),
                    compiled[question.conclude_on] if question.conclude_on else None,
                )
            )
        self.names = frozenset().union(*(text.names for text in self._compiled))
        self._ordered_names = tuple(sorted(self.names))

    @property
    def renders_min(self) -> int:
        """Renders that a recipient costs who never answers (wire facts, "Terms")."""
        return 1 + ("introduction" in self._texts)

    @property
    def renders_max(self) -> int:
        """Renders that a recipient costs who answers every question validly at once."""
        return len(self._texts) + len(self._questions)

    def render(self, variables: Variables) -> Payload:
        """Return what a recipient gets.

        Args:
            variables: the recipient's, blank ones left out.

        Raises:
            MissingVariablesError: a text needs variables that are not there.
            TemplateProblemError: a text cannot be rendered, or comes out empty.
        """
        key = tuple(_freeze(variables.get(name)) for name in self._ordered_names)
        payload = self._memo.get(key)
        if payload is None:
            if len(self._memo) >= _MEMO_SIZE:
                self._memo.clear()
            try:
                payload = self._memo[key] = self._render(variables)
            except MissingVariablesError:
                raise MissingVariablesError(self._find_missing(variables)) from None
        return payload

    def _find_missing(self, variables: Variables) -> tuple[tuple[str, TemplateText], ...]:
        missing: dict[str, TemplateText] = {}
        for text in self._compiled:
            for name in text.find_missing(variables):
                missing.setdefault(name, text.text)
        return tuple(missing.items())

    def _render(self, variables: Variables) -> Payload:
        definition: Definition = {"tag": self.message.tag}
        for name, text in self._texts.items():
            definition[name] = _require_text(text, variables)
        if self._questions:
            definition["questions"] = [_render_question(question, variables) for question in self._questions]
        if self.message.method != "SMS":
            definition["method"] = self.message.method
        if self.message.complete_existing_sessions:
            definition["complete_existing_sessions"] = True
        counts = (
            [count_segments(text) for text in _first_texts(definition)]
            if self.message.method == "SMS"
            else []
        )
        costly = next((count.costly for count in counts if count.costly), None)
        return Payload(definition, digest_definition(definition), sum(c.segments for c in counts), costly)


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


def _render_question(compiled: _CompiledQuestion, variables: Variables) -> Definition:
    question: Definition = {"text": _require_text(compiled.text, variables), "tag": compiled.question.tag}
    if compiled.responses:
        question["responses"] = responses = [_require_text(text, variables) for text in compiled.responses]
        folded = [response.casefold() for response in responses]
        for index, response in enumerate(folded):
            if response in folded[:index]:
                raise TemplateProblemError(
                    template_diagnostic(
                        "response-repeated",
                        f"two responses read {responses[index]!r}",
                        compiled.responses[index].text,
                    )
                )
    if compiled.conclude_on is not None:
        question["conclude_on"] = _require_text(compiled.conclude_on, variables)
    return question


def _require_text(text: CompiledText, variables: Variables) -> str:
    rendered = text.render(variables)
    if not rendered:
        raise TemplateProblemError(template_diagnostic("text-empty", "this text comes out empty", text.text))
    return rendered


def _first_texts(definition: Definition) -> list[str]:
    """Return the texts that leave before anyone answers."""
    texts = [definition[name] for name in ("text", "introduction") if name in definition]
    if "questions" in definition:
        first = definition["questions"][0]
        texts.append(question_as_asked(first["text"], first.get("responses", [])))
    return texts
