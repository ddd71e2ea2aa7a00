"""Which branches of its templates a recipient's text takes: `if`, `else`, loops, and defaults.

The texts are compiled once more, with a mark in each branch, and rendered for the marks alone. Memory is
bounded by the templates, whatever the audience: branches are told apart, not their combinations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import jinja2
from jinja2 import nodes, pass_context

from runner.campaign.include import read_included
from runner.campaign.language import CampaignEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runner.campaign.model import Message, TemplateText
    from runner.campaign.recipients import Variables

_CONDITIONS = ("if", "elif")
_LOOP = "for"
_DEFAULTS = ("default", "d")

BranchKind = Literal["branch", "default"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of a template that some recipients get, and others don't.

    Attributes:
        kind: `default` is the value of a `default(…)` that is used.
        words: names it, as in `if language == "de"` or `default of first_name`.
        file: the campaign file, or an included one.
        line: where the branch's condition stands, from 1.
    """

    kind: BranchKind
    words: str
    file: Path
    line: int


class BranchTracer:
    """Tells which branches of a message's texts a recipient gets.

    Args:
        message: texts that compile; an experiment's, as its arm sends it.
        include_folder: `{% include %}` reads below it alone.

    Attributes:
        branches: all that there are; included files' are there once they were rendered for somebody.
    """

    def __init__(self, message: Message, include_folder: Path) -> None:
        self._environment = _TracingEnvironment(include_folder)
        self._templates = [self._environment.compile_text(text) for text in _iterate_texts(message)]

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches, by the numbers that `trace` returns."""
        return tuple(self._environment.branches)

    def trace(self, variables: Variables) -> frozenset[int]:
        """Return the numbers of the branches that are taken.

        Args:
            variables: of a recipient whose texts can be rendered.
        """
        environment = self._environment
        environment.taken.clear()
        names = {**environment.globals, **variables}
        for template in self._templates:
            environment.steps = 0
            for _ in template.root_render_func(template.new_context(names, shared=True)):
                pass
        return frozenset(environment.taken)


def _iterate_texts(message: Message) -> Iterator[TemplateText]:
    yield from filter(None, (message.text, message.introduction, message.conclusion))
    for question in message.questions:
        yield question.text
        yield from question.responses
        yield from filter(None, (question.conclude_on,))


class _TracingEnvironment(CampaignEnvironment):
    """Campaign texts with a mark in each branch."""

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
        """Enter a branch at a line of the template `name`, None for the text itself."""
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

    # With the context they are no constants, which Jinja2 would compute while it compiles.
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
    """Yield the words of each `{% … %}`: none of what only looks like one, in a comment or a raw block."""
    written: list[str] = []
    for _, kind, text in environment.lex(source):
        if kind == "block_begin":
            written = []
        elif kind == "block_end":
            yield "".join(written).split()
        else:
            written.append(text)


class _Marker:
    """Puts the marks into one template."""

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
