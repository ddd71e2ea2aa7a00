"""Previews: a message as a phone shows it, and the conversations worth a look before sending.

These are, from one pass in bounded memory: the longest single text, the whole conversation with the most
segments (of equal ones, the longest), and for each branch of the templates that only some take, its first
recipient, rarest branch first.

To find these, the texts are compiled again with a mark in each branch, and rendered for the marks alone.
Branches are told apart, not their combinations, so memory is bounded by the templates.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import jinja2
from jinja2 import nodes, pass_context
from jinja2.visitor import NodeTransformer

from runner.document import Count, Part, Positive
from runner.source.normalize import fold_answer
from runner.source.quantity import read_leading_number
from runner.text.include import read_included
from runner.text.language import CampaignEnvironment
from runner.text.outgoing import question_as_asked
from runner.text.segment import Encoding, count_segments, find_substitute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from runner.audience.audience import Recipient
    from runner.campaign.model import Message, TemplateText, Variables
    from runner.text.outgoing import Definition
    from runner.text.payload import MessageRenderer, Payload


_DEFAULTS = ("default", "d")
BranchKind = Literal["branch", "default"]
AnswerKind = Literal["valid", "conclude_on", "other_line", "invalid"]
PartKind = Literal["text", "introduction", "question", "conclusion"]
CaseKind = Literal["longest_text", "most_segments", "rarest_branch", "default_used"]
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


class Branch(Part, frozen=True):
    """A part of a template for some recipients only.

    Attributes:
        kind: `default` is the value of a `default(…)` that is used.
        words: its name, as in: if language == "de"; default of first_name.
        file: the campaign file, or an included one.
        line: the line of the branch's condition, from 1.
    """

    kind: BranchKind
    words: str
    file: str
    line: Positive


class CaseReason(Part, frozen=True):
    """Why a conversation is shown.

    Attributes:
        kind: the extreme.
        count: characters, segments, or recipients who take the branch.
        branch: of a branch or a default: which one; else None.
    """

    kind: CaseKind
    count: Count
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
    """

    renderer: MessageRenderer
    tracer: BranchTracer
    arm: str | None = None
    people: int = 0
    _costs: dict[str, Counter[str]] = field(default_factory=dict)
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
            cost = self._costs.setdefault(payload.costly, Counter())
            cost.update(recipients=1, segments=payload.segments_max, segments_without=payload.segments_plain)
        for number in self.tracer.trace(recipient.vars):
            count, first = self._takers.get(number, (0, recipient))
            self._takers[number] = count + 1, first

    def _measure(self, payload: Payload) -> tuple[int, int]:
        """Return the characters of a conversation's longest text, and of all its texts."""
        lengths = self._lengths.get(payload.digest)
        if lengths is None:
            if len(self._lengths) >= _MEMO_SIZE:
                self._lengths.clear()
            each = [len(bubble.text) for bubble in list_bubbles(payload.definition)]
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
        bubbles = list_bubbles(self.renderer.render(recipient.vars).definition)
        return Conversation(self.renderer.message, recipient, bubbles, self.arm, reasons)

    def list_untaken(self) -> list[Branch]:
        """Return the branches that no recipient takes."""
        found = [one for number, one in enumerate(self.tracer.branches) if number not in self._takers]
        return sorted(found, key=lambda branch: branch.line)

    def list_characters(self) -> list[UnplainCharacter]:
        """Return the characters outside GSM-7 over all texts of the conversations."""
        return [
            UnplainCharacter(character, **self._costs[character], instead=find_substitute(character))
            for character in sorted(self._costs)
        ]

    def _iterate_reasons(self) -> list[tuple[CaseReason, Recipient]]:
        found = [
            (CaseReason(extreme.kind, extreme.count), extreme.recipient)
            for extreme in (self._most, self._longest)
            if extreme.recipient is not None
        ]
        branches = self.tracer.branches
        takers = [(count, branches[number], first) for number, (count, first) in self._takers.items()]
        for count, branch, first in sorted(takers, key=lambda item: (item[0], item[1].line)):
            if count < self.people:
                kind: CaseKind = "default_used" if branch.kind == "default" else "rarest_branch"
                found.append((CaseReason(kind, count, branch), first))
        return found


class BranchTracer:
    """A finder of the branches of a message's texts that a recipient gets.

    Args:
        message: texts that compile; an experiment's, as its arm sends it.
        include_folder: the folder that `{% include %}` reads below.
        show: writes the names of files.
    """

    def __init__(self, message: Message, include_folder: Path, show: Callable[[Path], str] = str) -> None:
        self._environment = _TracingEnvironment(include_folder, show)
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

    def __init__(self, include_folder: Path, show: Callable[[Path], str]) -> None:
        super().__init__(loader=jinja2.FunctionLoader(lambda name: read_included(include_folder, name)))
        self.branches: list[Branch] = []
        self.taken: set[int] = set()
        self._folder = include_folder
        self._show = show
        self._text: TemplateText | None = None
        self.filters["#took"] = self._take
        self.filters["#default"] = self._use_default

    def compile_text(self, text: TemplateText) -> jinja2.Template:
        self._text = text
        return self.from_string(text.source)

    def add(self, kind: BranchKind, words: str, name: str | None, line: int) -> nodes.Const:
        """Enter a branch at a line of the template `name`, None for the text itself; return its number."""
        text = self._text
        file = self._folder / (name or "")
        if name is None and text is not None:
            file = text.position.file
            line = text.first_line + line - 1 if text.is_block else text.position.line
        self.branches.append(Branch(kind, words, self._show(file), line))
        return nodes.Const(len(self.branches) - 1)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _Marker(self, source, name).visit(tree)
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


_NO_TAGS = re.compile(r"\{#.*?#\}|\{%[-+]?\s*raw\b.*?endraw\s*[-+]?%\}", re.DOTALL)
_TAG = re.compile(
    r"""\{%[-+]?\s*((?:if|elif|for)\b(?:"[^"]*"|'[^']*'|[^"'%]|%(?!\}))*?)\s*[-+]?%\}""", re.DOTALL
)


class _Marker(NodeTransformer):
    """A transformer that puts the marks into one template."""

    def __init__(self, environment: _TracingEnvironment, source: str, name: str | None) -> None:
        self._environment = environment
        self._name = name
        # The tree has them in the order of the source, but not their words.
        self._inner = set[int]()
        self._tags = iter([" ".join(words.split()) for words in _TAG.findall(_NO_TAGS.sub("", source))])

    def visit_If(self, node: nodes.If) -> nodes.If:  # noqa: N802  as Jinja2 calls it
        words = next(self._tags, "if")
        self._inner.update(map(id, node.elif_))
        self.generic_visit(node)
        self._enter(node.body, words, node)
        if id(node) not in self._inner:
            self._enter(node.else_, f"else of {words}", node)
        return node

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        words = next(self._tags, "for")
        self.generic_visit(node)
        self._enter(node.body, words, node)
        self._enter(node.else_, f"nothing {words}", node)
        return node

    def visit_CondExpr(self, node: nodes.CondExpr) -> nodes.CondExpr:  # noqa: N802
        self.generic_visit(node)
        node.expr1 = self._pass(node.expr1, f"first value of the inline if in line {node.lineno}", node)
        if node.expr2 is not None:
            node.expr2 = self._pass(node.expr2, f"other value of the inline if in line {node.lineno}", node)
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        if node.name in _DEFAULTS and node.node is not None:
            of = f" of {node.node.name}" if isinstance(node.node, nodes.Name) else f" in line {node.lineno}"
            number = self._environment.add("default", f"default{of}", self._name, node.lineno)
            node.name, node.args = "#default", [number, *node.args]
        return node

    def _enter(self, body: list[nodes.Node], words: str, node: nodes.Node) -> None:
        nothing = nodes.Const("", lineno=node.lineno)
        body.insert(0, nodes.Output([self._pass(nothing, words, node)], lineno=node.lineno))

    def _pass(self, value: nodes.Expr, words: str, node: nodes.Node) -> nodes.Filter:
        number = self._environment.add("branch", words, self._name, node.lineno)
        return nodes.Filter(value, "#took", [number], [], None, None, lineno=node.lineno)
