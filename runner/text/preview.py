"""Previews: a message as a phone shows it, and the conversations worth a look before sending.

These are, from one pass in bounded memory: the longest single text, the whole conversation with the most
segments (of equal ones, the longest), and for each branch of the templates that only some take, its first
recipient, rarest branch first.

To find these, the texts are compiled again with a mark in each branch, and rendered for the marks alone.
Branches are told apart, not their combinations, so memory is bounded by the templates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import jinja2
from jinja2 import nodes, pass_context

from runner.source.normalize import fold_answer
from runner.source.quantity import read_leading_number
from runner.text.include import read_included
from runner.text.language import CampaignEnvironment
from runner.text.outgoing import question_as_asked
from runner.text.segment import SegmentCount, count_segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from runner.audience.audience import Recipient
    from runner.campaign.model import Message, TemplateText, Variables
    from runner.text.outgoing import Definition
    from runner.text.payload import MessageRenderer, Payload


_CONDITIONS = ("if", "elif")
_LOOP = "for"
_DEFAULTS = ("default", "d")

BranchKind = Literal["branch", "default"]
AnswerKind = Literal["valid", "conclude_on", "other_line", "invalid"]
_MEMO_SIZE = 1024
CaseKind = Literal["longest_text", "most_segments", "rarest_branch", "default_used"]


@dataclass(frozen=True, slots=True)
class Bubble:
    """One text of a conversation.

    Attributes:
        part: `text`, `introduction`, `question` or `conclusion`.
        question_tag: of a question.
        text: as it arrives, with choices.
        segments: its SMS segments.
        responses: the allowed answers; empty for a freeform question and for other parts.
        conclude_on: the answer after which the conclusion follows at once.
    """

    part: str
    text: str
    segments: SegmentCount
    question_tag: str | None = None
    responses: tuple[str, ...] = ()
    conclude_on: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """The text that follows an answer in a conversation.

    Attributes:
        kind: of the answer: valid, concluding the survey, a number that counts as the line of a response
            with another number, or invalid.
        answers: the answers meant; empty for any.
        then: the text that follows; the same question after an invalid answer; None at the end.
        skipped: questions that are left out.
        taken: of a line, the response that is recorded.
    """

    kind: AnswerKind
    answers: tuple[str, ...]
    then: Bubble | None
    skipped: int = 0
    taken: str | None = None


def iterate_bubbles(definition: Definition) -> Iterator[Bubble]:
    """Yield the texts of a rendered message in the order in which they arrive."""
    for part in ("text", "introduction"):
        if part in definition:
            yield _bubble(part, definition[part])
    for question in definition.get("questions", []):
        responses = question.get("responses", [])
        text = question_as_asked(question["text"], responses)
        yield Bubble(
            "question",
            text,
            count_segments(text),
            question["tag"],
            tuple(responses),
            question.get("conclude_on"),
        )
    if "conclusion" in definition:
        yield _bubble("conclusion", definition["conclusion"])


def _bubble(part: str, text: str) -> Bubble:
    return Bubble(part, text, count_segments(text))


def iterate_turns(bubbles: Sequence[Bubble], place: int) -> Iterator[Turn]:
    """Yield the ways in which a whole conversation can go on after its text number `place`, from 0."""
    bubble, rest = bubbles[place], bubbles[place + 1 :]
    if bubble.part != "question":
        return
    ending = bubble.conclude_on
    others = tuple(answer for answer in bubble.responses if not _is_same(answer, ending))
    if others or not bubble.responses:
        yield Turn("valid", others, rest[0] if rest else None)
    if ending is not None:
        skipped = sum(later.part == "question" for later in rest)
        conclusion = next((later for later in rest if later.part == "conclusion"), None)
        yield Turn("conclude_on", (ending,), conclusion, skipped)
    for line, response in _iterate_odd_lines(bubble.responses):
        is_ending = _is_same(response, ending)
        then = next((later for later in rest if later.part == "conclusion"), None) if is_ending else None
        yield Turn("other_line", (line,), then if is_ending else (rest[0] if rest else None), taken=response)
    if bubble.responses:
        yield Turn("invalid", (), bubble)


def _iterate_odd_lines(responses: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that are no response, of responses with another number: "4" for 3 of 0 to 3."""
    said = set(map(fold_answer, responses))
    for line, response in enumerate(responses, start=1):
        number = read_leading_number(response)
        if number is not None and number != line and str(line) not in said:
            yield str(line), response


def _is_same(answer: str, ending: str | None) -> bool:
    return ending is not None and fold_answer(answer) == fold_answer(ending)


@dataclass(frozen=True, slots=True)
class CaseReason:
    """A reason to look at a conversation.

    Attributes:
        kind: the extreme.
        count: characters, segments, or recipients who take the branch.
        branch: of a `rarest_branch` or a `default_used`.
    """

    kind: CaseKind
    count: int
    branch: Branch | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """All texts of one message to one recipient.

    Attributes:
        message: an experiment's, as its arm sends it.
        reasons: reasons to show it; none if it was asked for.
    """

    message: Message
    recipient: Recipient
    bubbles: tuple[Bubble, ...]
    arm: str | None = None
    reasons: tuple[CaseReason, ...] = ()

    @property
    def segments(self) -> int:
        """The SMS segments of all its texts, if no question is skipped or asked again; 0 for a call."""
        is_sms = self.message.method == "SMS"
        return sum(bubble.segments.segments for bubble in self.bubbles) if is_sms else 0


@dataclass(slots=True)
class CharacterCost:
    """The cost of a character outside GSM-7.

    Attributes:
        recipients: those whose first such character it is.
        segments: SMS segments of their conversations.
        segments_without: the same, if they were written plainly.
    """

    recipients: int = 0
    segments: int = 0
    segments_without: int = 0


@dataclass(slots=True)
class _Extreme:
    """The recipient with the most of something; of equal ones, the one with the longest texts."""

    kind: CaseKind
    count: int = 0
    characters: int = 0
    recipient: Recipient | None = None

    def offer(self, count: int, characters: int, recipient: Recipient) -> None:
        if (count, characters) > (self.count, self.characters) and count:
            self.count, self.characters, self.recipient = count, characters, recipient


@dataclass(slots=True)
class CaseFinder:
    """A finder of the worst conversations of one message and arm.

    Attributes:
        tracer: finds its branches.
        people: the number of recipients seen.
        costs: of characters outside GSM-7, over all texts of the conversations.
    """

    renderer: MessageRenderer
    tracer: BranchTracer
    arm: str | None = None
    people: int = 0
    costs: dict[str, CharacterCost] = field(default_factory=dict)
    _longest: _Extreme = field(default_factory=lambda: _Extreme("longest_text"))
    _most: _Extreme = field(default_factory=lambda: _Extreme("most_segments"))
    _takers: dict[int, tuple[int, Recipient]] = field(default_factory=dict)
    _lengths: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, recipient: Recipient) -> None:
        """Look at one more recipient, whose texts can be rendered."""
        self.people += 1
        payload = self.renderer.render(recipient.vars)
        longest, characters = self._measure(payload)
        self._longest.offer(longest, characters, recipient)
        self._most.offer(payload.segments_max, characters, recipient)
        if payload.costly is not None:
            cost = self.costs.setdefault(payload.costly, CharacterCost())
            cost.recipients += 1
            cost.segments += payload.segments_max
            cost.segments_without += payload.segments_plain
        for number in self.tracer.trace(recipient.vars):
            count, first = self._takers.get(number, (0, recipient))
            self._takers[number] = count + 1, first

    def _measure(self, payload: Payload) -> tuple[int, int]:
        """Return the characters of a conversation's longest text, and of all its texts."""
        lengths = self._lengths.get(payload.digest)
        if lengths is None:
            if len(self._lengths) >= _MEMO_SIZE:
                self._lengths.clear()
            each = [len(bubble.text) for bubble in iterate_bubbles(payload.definition)]
            lengths = self._lengths[payload.digest] = max(each, default=0), sum(each)
        return lengths

    def list_cases(self, limit: int) -> list[Conversation]:
        """Return at most `limit` of the worst conversations, each recipient once, with all reasons."""
        found: dict[str, tuple[Recipient, list[CaseReason]]] = {}
        for reason, recipient in self._iterate_reasons():
            if recipient.phone in found or len(found) < limit:
                found.setdefault(recipient.phone, (recipient, []))[1].append(reason)
        return [self.converse(recipient, tuple(reasons)) for recipient, reasons in found.values()]

    def converse(self, recipient: Recipient, reasons: tuple[CaseReason, ...] = ()) -> Conversation:
        """Return a recipient's conversation."""
        bubbles = tuple(iterate_bubbles(self.renderer.render(recipient.vars).definition))
        return Conversation(self.renderer.message, recipient, bubbles, self.arm, reasons)

    def list_untaken(self) -> list[Branch]:
        """Return the branches that no recipient takes."""
        branches = self.tracer.branches
        return [branch for number, branch in enumerate(branches) if number not in self._takers]

    def _iterate_reasons(self) -> list[tuple[CaseReason, Recipient]]:
        found = [
            (CaseReason(extreme.kind, extreme.count), extreme.recipient)
            for extreme in (self._most, self._longest)
            if extreme.recipient is not None
        ]
        branches = self.tracer.branches
        for number, (count, first) in sorted(self._takers.items(), key=lambda item: (item[1][0], item[0])):
            if count < self.people:
                branch = branches[number]
                kind: CaseKind = "default_used" if branch.kind == "default" else "rarest_branch"
                found.append((CaseReason(kind, count, branch), first))
        return found


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of a template for some recipients only.

    Attributes:
        kind: `default` is the value of a `default(…)` that is used.
        words: its name, as in `if language == "de"` or `default of first_name`.
        file: the campaign file, or an included one.
        line: the line of the branch's condition, from 1.
    """

    kind: BranchKind
    words: str
    file: Path
    line: int


class BranchTracer:
    """A finder of the branches of a message's texts that a recipient gets.

    Args:
        message: texts that compile; an experiment's, as its arm sends it.
        include_folder: the folder that `{% include %}` reads below.
    """

    def __init__(self, message: Message, include_folder: Path) -> None:
        self._environment = _TracingEnvironment(include_folder)
        self._templates = [self._environment.compile_text(text) for text in message.iterate_texts()]

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches by number; those of included files appear once they were rendered."""
        return tuple(self._environment.branches)

    def trace(self, variables: Variables) -> frozenset[int]:
        """Return the numbers of the branches taken for a recipient whose texts can be rendered."""
        environment = self._environment
        environment.taken.clear()
        names = {**environment.globals, **variables}
        for template in self._templates:
            environment.steps = 0
            for _ in template.root_render_func(template.new_context(names, shared=True)):
                pass
        return frozenset(environment.taken)


class _TracingEnvironment(CampaignEnvironment):
    """An environment that puts a mark in each branch."""

    def __init__(self, include_folder: Path) -> None:
        super().__init__(loader=jinja2.FunctionLoader(lambda name: read_included(include_folder, name)))
        self.branches: list[Branch] = []
        self.taken: set[int] = set()
        self._folder = include_folder
        self._text: TemplateText | None = None
        self.filters["#took"] = self._take
        self.filters["#default"] = self._use_default

    def compile_text(self, text: TemplateText) -> jinja2.Template:
        self._text = text
        return self.from_string(text.source)

    def add(self, kind: BranchKind, words: str, name: str | None, line: int) -> int:
        """Enter a branch at a line of the template `name`; None for the text itself."""
        text = self._text
        if name is not None or text is None:
            branch = Branch(kind, words, self._folder / (name or ""), line)
        elif text.is_block:
            branch = Branch(kind, words, text.position.file, text.first_line + line - 1)
        else:
            branch = Branch(kind, words, text.position.file, text.position.line)
        self.branches.append(branch)
        return len(self.branches) - 1

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _Marker(self, source, name).mark_all(tree)
        return tree

    # With the context they are not constants, which Jinja2 would compute while it compiles.
    @pass_context
    def _take(self, _context: Any, value: Any, number: int) -> Any:
        self.taken.add(number)
        return value

    @pass_context
    def _use_default(
        self,
        _context: Any,
        value: Any,
        number: int,
        default_value: Any = "",
        boolean: Any = False,  # noqa: FBT002  Jinja2's signature
    ) -> Any:
        if isinstance(value, jinja2.Undefined) or (boolean and not value):
            self.taken.add(number)
            return default_value
        return value


def _iterate_tags(environment: jinja2.Environment, source: str) -> Iterator[list[str]]:
    """Yield the words of each `{% … %}`, without lookalikes in comments and raw blocks."""
    written: list[str] = []
    for _, kind, text in environment.lex(source):
        if kind == "block_begin":
            written = []
        elif kind == "block_end":
            yield "".join(written).split()
        else:
            written.append(text)


class _Marker:
    """A transformer that puts the marks into one template."""

    def __init__(self, environment: _TracingEnvironment, source: str, name: str | None) -> None:
        self._environment = environment
        self._name = name
        # The tree has them in the order of the source, but not their words.
        found = [words for words in _iterate_tags(environment, source) if words]
        self._conditions = iter([" ".join(words) for words in found if words[0] in _CONDITIONS])
        self._loops = iter([" ".join(words) for words in found if words[0] == _LOOP])

    def mark_all(self, node: nodes.Node) -> None:
        for child in node.iter_child_nodes():
            self._mark(child)

    def _mark(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.If):
            self._mark_condition(node, ends=True)
        elif isinstance(node, nodes.For):
            words = next(self._loops, "for")
            self.mark_all(node)
            self._enter(node.body, words, node)
            self._enter(node.else_, f"nothing {words}", node)
        elif isinstance(node, nodes.CondExpr):
            self.mark_all(node)
            node.expr1 = self._pass(node.expr1, f"first value of the inline if in line {node.lineno}", node)
            if node.expr2 is not None:
                words = f"other value of the inline if in line {node.lineno}"
                node.expr2 = self._pass(node.expr2, words, node)
        else:
            self.mark_all(node)
            if isinstance(node, nodes.Filter) and node.name in _DEFAULTS and node.node is not None:
                self._mark_default(node)

    def _mark_condition(self, node: nodes.If, *, ends: bool) -> None:
        words = next(self._conditions, "if")
        self._mark_each((node.test, *node.body))
        self._enter(node.body, words, node)
        for other in node.elif_:
            self._mark_condition(other, ends=False)
        self._mark_each(node.else_)
        if ends:
            self._enter(node.else_, f"else of {words}", node)

    def _mark_each(self, children: Iterable[nodes.Node]) -> None:
        for child in children:
            self._mark(child)

    def _mark_default(self, node: nodes.Filter) -> None:
        of = f" of {node.node.name}" if isinstance(node.node, nodes.Name) else f" in line {node.lineno}"
        number = self._environment.add("default", f"default{of}", self._name, node.lineno)
        node.name = "#default"
        node.args = [nodes.Const(number, lineno=node.lineno), *node.args]

    def _enter(self, body: list[nodes.Node], words: str, node: nodes.Node) -> None:
        nothing = nodes.Const("", lineno=node.lineno)
        body.insert(0, nodes.Output([self._pass(nothing, words, node)], lineno=node.lineno))

    def _pass(self, value: nodes.Expr, words: str, node: nodes.Node) -> nodes.Filter:
        number = self._environment.add("branch", words, self._name, node.lineno)
        arguments = [cast("nodes.Expr", nodes.Const(number, lineno=node.lineno))]
        return nodes.Filter(value, "#took", arguments, [], None, None, lineno=node.lineno)
