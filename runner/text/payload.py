"""Compiled messages, rendered for each recipient into the project definition that is sent, and what fails.

The definition's fields are those of the send body, less `phone`. Recipients with equal definitions share a
launch. Problems of texts are reported once, those of rows row by row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from runner.audience.audience import known_names
from runner.audience.table import normalize_name
from runner.campaign.model import FileRecipients
from runner.source.diagnostic import Diagnostic, ProblemError
from runner.source.normalize import fold_answer, suggest
from runner.text.outgoing import OutgoingTexts, PayloadTemplate, Slot
from runner.text.placeholders import find_dashed
from runner.text.template import (
    CompiledText,
    MissingVariablesError,
    TextCompiler,
    TextRenderer,
    template_diagnostic,
    variable_diagnostic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.audience.audience import Recipient
    from runner.campaign.message_model import Languages, Message, Question, TemplateText
    from runner.campaign.model import Campaign, Variables
    from runner.source.diagnostic import Problems
    from runner.text.outgoing import Definition

_TEXT_NAMES = ("text", "introduction", "conclusion")


class Payload(NamedTuple):
    """A rendered message. A tuple, since one is made for every person with a personal text.

    Attributes:
        definition: the send body less `phone`; shares parts with others, so it is never changed.
        digest: of the definition, 128 bits in hexadecimal: BLAKE2b of its canonical JSON.
        segments: SMS segments that leave at once: the text, or the introduction and the first question; 0 for
            a call, as the following counts.
        costly: the first character of the whole conversation that is outside GSM-7, if any.
        segments_max: segments of the whole conversation: all questions once, and the conclusion.
        largest: segments of the largest single text.
        segments_plain: segments of the whole conversation, written plainly (`write_plainly`).
        repeated: segments of the questions with responses, which are asked again after an invalid answer.
        language: of its texts; None if the campaign has no `languages`.
    """

    definition: Definition
    digest: str
    segments: int
    costly: str | None
    segments_max: int = 0
    largest: int = 0
    segments_plain: int = 0
    repeated: int = 0
    language: str | None = None


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The results that all recipients share.

    Attributes:
        personal: the texts with variables, in the order of their slots.
        choices: the responses of questions that have variables in them, by the questions' numbers.
    """

    personal: TextRenderer
    choices: dict[int, list[CompiledText]]
    draft: PayloadTemplate
    outgoing: OutgoingTexts


class MessageRenderer:
    """A renderer of one message for its recipients; of an `arm`, or a `language`, for those of it.

    Texts without variables are rendered once.

    Attributes:
        names: the variables that its texts refer to.
    """

    def __init__(
        self, message: Message, compiler: TextCompiler, language: str | None = None, arm: str | None = None
    ) -> None:
        """Compile the texts.

        Raises:
            ProblemError: some of them are invalid.
        """
        self.message = message
        self.language = language
        self.arm = arm
        self._compiled = _compile_texts(message, compiler)
        self.names = frozenset[str]().union(*(text.names for text in self._compiled.values()))
        self._prepared: _Prepared | None = None

    @property
    def renders_min(self) -> int:
        """Renders for a recipient who never answers."""
        return 1 + (self.message.introduction is not None)

    @property
    def renders_max(self) -> int:
        """Renders for a recipient who answers every question validly at once."""
        message = self.message
        return len(message.questions) + sum(1 for name in _TEXT_NAMES if getattr(message, name) is not None)

    def render(self, variables: Variables) -> Payload:
        """Return a recipient's payload; blank variables must be left out.

        Raises:
            MissingVariablesError: a text needs variables that are missing.
            ProblemError: a text cannot be rendered, or comes out empty.
        """
        try:
            prepared = self._prepared or self._prepare(variables)
            texts = prepared.personal.render(variables)
        except MissingVariablesError:
            raise MissingVariablesError(self._find_missing(variables)) from None
        if not all(texts):
            raise _empty(prepared.personal.texts[texts.index("")])
        definition = prepared.draft.fill(texts)
        if prepared.choices:
            for number, responses in prepared.choices.items():
                _require_distinct(definition["questions"][number]["responses"], responses)
        # As `_make` does, but for its check of the length.
        return tuple.__new__(
            Payload,
            (definition, prepared.draft.digest(texts), *prepared.outgoing.count(texts), self.language),
        )

    def _find_missing(self, variables: Variables) -> tuple[tuple[str, TemplateText], ...]:
        missing: dict[str, TemplateText] = {}
        for text in self._compiled.values():
            for name in text.find_missing(variables):
                missing.setdefault(name, text.text)
        return tuple(missing.items())

    def _prepare(self, variables: Variables) -> _Prepared:
        """Render the shared texts; raises the errors of their rendering."""
        message = self.message
        personal: list[CompiledText] = []
        choices: dict[int, list[CompiledText]] = {}

        def place(written: TemplateText) -> str | Slot:
            text = self._compiled[written]
            if not text.names:
                return _require_text(text, variables)
            personal.append(text)
            return Slot(len(personal) - 1)

        def shape_question(number: int, question: Question) -> Definition:
            shape: Definition = {"text": place(question.text), "tag": question.tag}
            if question.responses:
                responses = [self._compiled[response] for response in question.responses]
                shape["responses"] = [place(response) for response in question.responses]
                if any(response.names for response in responses):
                    choices[number] = responses
                else:
                    _require_distinct(shape["responses"], responses)
            if question.conclude_on is not None:
                shape["conclude_on"] = place(question.conclude_on)
            return shape

        shape: Definition = {"tag": message.tag}
        shape.update((name, place(text)) for name in _TEXT_NAMES if (text := getattr(message, name)))
        if message.questions:
            shape["questions"] = [shape_question(*each) for each in enumerate(message.questions)]
        if message.method != "SMS":
            shape["method"] = message.method
        if message.complete_existing_sessions:
            shape["complete_existing_sessions"] = True
        self._prepared = _Prepared(
            TextRenderer(personal), choices, PayloadTemplate(shape), OutgoingTexts(shape)
        )
        return self._prepared


def _compile_texts(message: Message, compiler: TextCompiler) -> dict[TemplateText, CompiledText]:
    compiled = {}
    problems: list[Diagnostic] = []
    for text in message.iterate_texts():
        try:
            compiled[text] = compiler.compile(text)
        except ProblemError as error:
            problems.extend(error.diagnostics)
    if problems:
        raise ProblemError(*problems)
    return compiled


def _require_distinct(responses: list[str], texts: list[CompiledText]) -> None:
    """Refuse the responses of a question if two of them, rendered from `texts`, read the same."""
    folded = list(map(fold_answer, responses))
    for index, response in enumerate(folded):
        first = folded.index(response)
        if first == index:
            continue
        # Names of recipients must not get into logs.
        words = (
            f"the responses {first + 1} and {index + 1} read the same for a recipient"
            if texts[first].names or texts[index].names
            else f"two responses read {responses[index]!r}"
        )
        raise ProblemError(template_diagnostic("response-repeated", words, texts[index].text))


def _require_text(text: CompiledText, variables: Variables) -> str:
    rendered = text.render(variables)
    if not rendered:
        raise _empty(text)
    return rendered


def _empty(text: CompiledText) -> ProblemError:
    return ProblemError(template_diagnostic("text-empty", "this text comes out empty", text.text))


@dataclass(slots=True)
class CompiledMessage:
    """A message and its renderers by arm, under None for a message without arms.

    Attributes:
        renderers: in the default language, if the campaign has several.
        translated: by arm and language, the default too; under None if the campaign has no `languages`.
    """

    message: Message
    renderers: dict[str | None, MessageRenderer] = field(default_factory=dict)
    translated: dict[tuple[str | None, str | None], MessageRenderer] = field(default_factory=dict)

    def choose(self, arm: str | None, language: str | None) -> MessageRenderer:
        """Return the renderer for people of a language, and of an arm if the message has arms."""
        arm = arm if self.has_arms else None
        return self.renderers[arm] if language is None else self.translated[arm, language]

    @property
    def names(self) -> frozenset[str]:
        """The variables that its texts refer to."""
        return frozenset[str]().union(*(renderer.names for renderer in self.translated.values()))

    @property
    def sent(self) -> list[Message]:
        """The message as each arm sends it."""
        return [renderer.message for renderer in self.renderers.values()]

    @property
    def has_arms(self) -> bool:
        """True if it has several arms."""
        return None not in self.renderers


def compile_messages(
    campaign: Campaign, compiler: TextCompiler, problems: Problems, only: str | None = None
) -> Iterator[CompiledMessage]:
    """Yield a campaign's compiled messages, or only one; messages with invalid texts are left out."""
    for message in campaign.messages:
        compiled_message = CompiledMessage(message)
        sent: list[tuple[str | None, Message]] = [*campaign.list_arms(message.id).items()] or [
            (None, message)
        ]
        for arm, varied in sent:
            try:
                _compile_arm(compiled_message, arm, varied, compiler, campaign.languages)
            except ProblemError as error:
                problems.extend(error.diagnostics)
        if len(compiled_message.renderers) == len(sent) and only in (None, message.id):
            yield compiled_message


def _compile_arm(
    compiled_message: CompiledMessage,
    arm: str | None,
    varied: Message,
    compiler: TextCompiler,
    languages: Languages | None,
) -> None:
    """Add the renderers of an arm; raises ProblemError with what is wrong in all languages."""
    found: dict[Diagnostic, None] = {}
    for code in (None,) if languages is None else languages.known:
        sent = varied if code is None else varied.in_language(code)
        try:
            compiled_message.translated[arm, code] = MessageRenderer(sent, compiler, code, arm)
        except ProblemError as error:
            found.update(dict.fromkeys(error.diagnostics))
    if found:
        raise ProblemError(*found)
    default = None if languages is None else languages.default
    compiled_message.renderers[arm] = compiled_message.translated[arm, default]


class RowReporter:
    """A reporter of failures while texts are rendered, recipient by recipient.

    Args:
        said_once: receives problems that are reported once; None for the same as the rest.

    Attributes:
        said: problems reported once: the first recipient's place in the audience, source and line, and the
            words. The keys identify the same problem elsewhere.
    """

    def __init__(self, campaign: Campaign, problems: Problems, said_once: Problems | None = None) -> None:
        self._campaign = campaign
        self._problems = problems
        self._said_once = problems if said_once is None else said_once
        self.said: dict[Diagnostic, tuple[tuple[int, int], Diagnostic]] = {}
        # Once a source, since this opens its file.
        self._list_names = cache(partial(known_names, campaign))
        self._fold_names = cache(lambda source: frozenset(map(normalize_name, self._list_names(source))))

    def report_failure(self, error: ProblemError, recipient: Recipient | None) -> None:
        """Report a text that cannot be rendered, once; `recipient` is None if it fails for everyone alike."""
        for diagnostic in error.diagnostics:
            hint = diagnostic.hint
            if recipient is not None:
                hint = f"first for the recipient in line {recipient.line} of {recipient.file.name}"
            self._say_once(diagnostic, recipient, replace(diagnostic, hint=hint))

    def report_missing(self, recipient: Recipient, message: Message, error: MissingVariablesError) -> None:
        """Report a recipient's missing variables; a variable that its source lacks is reported once."""
        source = recipient.source
        names, folded = self._list_names(source), self._fold_names(source)
        for name, needed_by in error.missing:
            if normalize_name(name) in folded:
                text = f"`{name}` is blank here, and the message `{message.id}` needs it"
                quote = needed_by.inner_quote
                hint = f"fill it in, or write {{{{ {name} | default({quote}…{quote}) }}}} in the text"
                self._problems.add(
                    Diagnostic(
                        "error", "recipient-variable-missing", text, recipient.file, recipient.line, 1, hint
                    )
                )
            else:
                entry = self._campaign.recipients[source]
                where = f"for the recipient in line {recipient.line}"
                if isinstance(entry, FileRecipients):
                    where = f"in {entry.path.name}"
                diagnostic = describe_unknown(name, names, where, needed_by)
                self._say_once(diagnostic, recipient, diagnostic)

    def _say_once(self, key: Diagnostic, recipient: Recipient | None, words: Diagnostic) -> None:
        if key not in self.said:
            place = (0, 0) if recipient is None else (recipient.source, recipient.line)
            self.said[key] = place, words
            self._said_once.add(words)


def describe_unknown(name: str, known: Sequence[str], where: str, text: TemplateText) -> Diagnostic:
    """Return the error for a variable that a text needs and that is not known `where`."""
    dashed = find_dashed(text.source, name, known)
    if dashed is not None:
        # One error for both of its parts.
        name = dashed.written
        words = f"there is no variable `{name}` {where}, as a minus subtracts"
        hint = f"write {{{{ {dashed.name} }}}} for `{name}`"
    else:
        words = f"there is no variable `{name}` {where}{suggest(name, known)}"
        hint = f"known here: {', '.join(known)}" if known else "give it in `vars`"
    return variable_diagnostic("template-variable-unknown", words, text, name, hint=hint)
