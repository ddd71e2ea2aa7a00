"""Campaign texts, compiled once and rendered for each recipient, and explanations of their failures.

Messages of Python and Jinja2 may quote a value, such as somebody's name or phone, logs may be public, and the
next version may word them otherwise. So a failure while rendering is told in words of this program, with
quotes only from the template itself; while compiling, when there are no values yet, Jinja2 may be quoted.
Equal faults have equal sentences.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jinja2
from jinja2 import Template, nodes

from runner.source.diagnostic import Diagnostic, ProblemError
from runner.text.faults import UNSUITABLE, AbsentError, BoundError, MisuseError
from runner.text.include import MAX_SOURCE, explain_missing, read_included
from runner.text.language import MAX_LENGTH, CampaignEnvironment, find_variables
from runner.text.placeholders import explain_tag
from runner.text.syntax import explain_syntax, quote_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from jinja2.runtime import Context

    from runner.campaign.message_model import TemplateText
    from runner.campaign.model import Variables


_Place = tuple[str | None, int | None]
"""An included file's name, None for the text itself, and a line from 1."""
_BY_TYPE: tuple[tuple[type[Exception], str], ...] = (
    (RecursionError, "it includes itself without end"),
    (jinja2.TemplateNotFound, "an included file is no longer there"),
    (ZeroDivisionError, "division by zero"),
    (ArithmeticError, "a number is too large"),
)
_OTHERWISE = "something is used in a way that it is not for"
_TAG = re.compile(r"\{[{%#]")
_BREAK = re.compile(r"\r\n?")
"""Ends of lines that Jinja2 writes as `\\n`."""
_INCLUDE = re.compile(r"\{%[-+]?\s*include\b")
_FAILURES = (*UNSUITABLE, RecursionError)
"""Exceptions of a text's own faults while it renders; any other is a bug of this program."""
_TOO_DEEP = (RecursionError, SyntaxError, BoundError)
_DEEP = "this template is nested too deep"
_PARTS = 64
"""Parts of a text that are joined at once."""
_OPTIONAL = frozenset({"default", "d", "defined", "undefined", "is_yes"})
"""Filters and tests of values that may be missing."""


def describe_failure(error: Exception) -> str:
    """Return the reason why a text cannot be rendered, without any value of its recipient."""
    # Messages of this program quote no values; those of libraries may.
    if isinstance(error, (BoundError, MisuseError, AbsentError)):
        return str(error.args[0])
    return next((words for kind, words in _BY_TYPE if isinstance(error, kind)), _OTHERWISE)


def template_diagnostic(
    code: str, message: str, text: TemplateText, line: int | None = None, *, hint: str | None = None
) -> Diagnostic:
    """Return an error at a template's line (from 1; None: its start), placed in the campaign file."""
    position = text.position
    if line is not None and text.is_block:
        lines = text.source.split("\n")
        tag = _TAG.search(lines[line - 1]) if line <= len(lines) else None
        column = text.indent + (tag.start() if tag else 0)
        return Diagnostic("error", code, message, position.file, text.first_line + line - 1, column, hint)
    return position.problem(code, message, hint)


def variable_diagnostic(
    code: str, message: str, text: TemplateText, name: str, *, hint: str | None = None
) -> Diagnostic:
    """Return an error at a template's first mention of the variable `name`, else at its first include."""
    mention = re.compile(rf"\{{[{{%][^}}]*\b{re.escape(name)}\b")
    lines = text.source.split("\n")
    places = (n for sought in (mention, _INCLUDE) for n, line in enumerate(lines, 1) if sought.search(line))
    return template_diagnostic(code, message, text, next(places, None), hint=hint)


class References(NamedTuple):
    """The variables that a text refers to: all `names`, and those that may be missing (`optional`)."""

    names: frozenset[str]
    optional: frozenset[str]


class MissingVariablesError(Exception):
    """An error of a recipient without variables (`missing`), each with the first text that asks for it."""

    def __init__(self, missing: tuple[tuple[str, TemplateText], ...]) -> None:
        super().__init__(", ".join(name for name, _ in missing))
        self.missing = missing


@dataclass(frozen=True, slots=True)
class CompiledText:
    """A text ready to render.

    Attributes:
        text: as in the campaign file.
        names: the variables that it refers to, including those of included files.
        strict: the compiled template.
    """

    text: TemplateText
    names: frozenset[str]
    strict: Template
    _folder: Path

    def render(self, variables: Variables) -> str:
        """Return the text for one recipient, outer blanks removed; blank variables must be left out.

        Raises:
            MissingVariablesError: it needs variables that are missing.
            ProblemError: it fails in another way, or is longer than `MAX_LENGTH` characters.
        """
        return TextRenderer((self,)).render(variables)[0]

    def find_missing(self, variables: Variables) -> list[str]:
        """Return all missing variables that the text asks for, not only the first."""
        noted: list[str] = []
        with contextlib.suppress(BoundError, *_FAILURES):  # what was noted so far is enough to say
            while True:
                given = {**variables, **dict.fromkeys(noted, jinja2.ChainableUndefined())}
                try:
                    _run(self.strict, _make_context(self.strict, given))
                except AbsentError as error:
                    # An attribute of a variable is not a variable of its own.
                    if error.variable is None or error.variable not in self.names:
                        break
                    noted.append(error.variable)
                else:
                    break
        return noted

    def explain(self, error: Exception, variables: Variables) -> MissingVariablesError | ProblemError:
        """Return the reason why the text could not be rendered for these variables."""
        missing = self.find_missing(variables)
        if missing:
            return MissingVariablesError(tuple((name, self.text) for name in missing))
        message = f"this text cannot be rendered: {describe_failure(error)}"
        place = _failing_place(error.__traceback__)
        return _make_error("template-failed", message, self.text, self._folder, place)


class TextRenderer:
    """A renderer of texts of one compiler, for one recipient after the other.

    A context costs more than most renderings, so it is used again, with the variables of the next recipient
    in place of all before; not after an error, nor once a text has set variables, which stay within it.
    """

    def __init__(self, texts: Sequence[CompiledText]) -> None:
        self.texts = texts
        self._context: Context | None = None

    def render(self, variables: Variables) -> list[str]:
        """Return the texts, outer blanks removed; blank variables must be left out.

        Raises:
            MissingVariablesError: one of them needs variables that are missing.
            ProblemError: one fails in another way, or is longer than `MAX_LENGTH` characters.
        """
        rendered = []
        context, self._context = self._context, None
        if context is not None:
            context.parent = {**context.environment.globals, **variables}
        for text in self.texts:
            if context is None or context.vars:
                context = _make_context(text.strict, variables)
            try:
                rendered.append(_run(text.strict, context))
            except (BoundError, *_FAILURES) as error:
                raise text.explain(error, variables) from None
        if context is not None and not context.vars:
            self._context = context
        return rendered


class TextCompiler:
    """A compiler of the texts of one campaign.

    Args:
        include_folder: the folder that `{% include %}` reads below.
        shipped: the included files by name, where the folder is out of reach; None to read it.

    Attributes:
        included: the included texts read so far, by name; None for a missing one.
    """

    def __init__(self, include_folder: Path, shipped: Mapping[str, str | None] | None = None) -> None:
        self._folder = include_folder
        self._shipped = shipped
        self.included: dict[str, str | None] = {}
        self._environment = CampaignEnvironment(loader=jinja2.FunctionLoader(self._load))

    def compile(self, text: TemplateText) -> CompiledText:
        """Compile one text.

        Raises:
            ProblemError: it is invalid, or includes a file that cannot be read.
        """
        try:
            names = frozenset[str]().union(*map(find_variables, self._read_whole(text)))
            strict = self._environment.from_string(text.source)
        except jinja2.TemplateSyntaxError as error:
            source = text.source if error.name is None else self._load(error.name) or ""
            line = "".join(source.split("\n")[error.lineno - 1 : error.lineno])
            fault, hint = explain_tag(line, text.inner_quote) or explain_syntax(error)
            message = f"this template is wrong: {fault}"
            place = error.name, error.lineno
            raise _make_error("template-syntax", message, text, self._folder, place, hint) from None
        except _TOO_DEEP:
            raise _make_error("template-syntax", _DEEP, text, self._folder) from None
        except _FAILURES as error:  # constant parts are worked out while compiling
            message = f"this template is wrong: {quote_library(error)}"
            raise _make_error("template-syntax", message, text, self._folder) from None
        return CompiledText(text, names, strict, self._folder)

    def outline(self, text: TemplateText, variables: Variables) -> str:
        """Return a valid text with unknown variables in brackets; `variables` are the same for everyone."""
        if text.is_plain:
            # Most responses are, and to compile them took most of the time that loading a campaign takes.
            return _BREAK.sub("\n", text.source).strip()
        try:
            compiled = self.compile(text)
            return compiled.render({**{name: f"[{name}]" for name in compiled.names}, **variables})
        except (MissingVariablesError, ProblemError):
            return text.source

    def _read_whole(self, text: TemplateText) -> Iterator[nodes.Template]:
        """Yield a text and all that it includes, parsed; raises the errors of `compile`."""
        self._environment.steps = 0
        size = len(text.source)
        if size > MAX_SOURCE:
            message = f"this text is longer than {MAX_SOURCE:,} characters"
            raise _make_error("template-syntax", message, text, self._folder)
        waiting: list[tuple[str | None, str]] = [(None, text.source)]
        visited = set[str]()
        while waiting:
            name, source = waiting.pop()
            tree = self._parse(text, source, name)
            yield tree
            for include in tree.find_all(nodes.Include):
                wanted = cast("nodes.Const", include.template).value
                if wanted in visited:
                    continue
                visited.add(wanted)
                included = self._load(wanted)
                if included is not None:
                    size += len(included)
                    waiting.append((wanted, included))
                elif not include.ignore_missing:
                    message, hint = explain_missing(self._folder, wanted)
                    raise _make_error(
                        "template-include", message, text, self._folder, (name, include.lineno), hint
                    )
                if size > MAX_SOURCE:
                    message = f"with {wanted}, this text is longer than {MAX_SOURCE:,} characters"
                    raise _make_error("template-include", message, text, self._folder, (name, include.lineno))

    def _parse(self, text: TemplateText, source: str, name: str | None) -> nodes.Template:
        try:
            if name is not None:  # compiled here, as it would only fail for the first recipient otherwise
                self._environment.get_template(name)
            return self._environment.parse(source, name)
        except jinja2.TemplateSyntaxError as error:
            error.name = name  # Jinja2 calls what it looks for names in "<introspection>"
            raise
        except _TOO_DEEP:
            raise _make_error("template-syntax", _DEEP, text, self._folder, (name, 1)) from None

    def find_references(self, text: TemplateText) -> References:
        """Return the variables that a text refers to; none if it is invalid."""
        if text.is_plain:
            return References(frozenset(), frozenset())
        names, optional = set[str](), set[str]()
        for tree in self.iterate_trees(text):
            names |= find_variables(tree)
            for node in tree.find_all((nodes.Filter, nodes.Test)):
                if node.name in _OPTIONAL and isinstance(node.node, nodes.Name):
                    optional.add(node.node.name)
        return References(frozenset(names), frozenset(optional & names))

    def iterate_trees(self, text: TemplateText) -> Iterator[nodes.Template]:
        """Yield a text and those that it includes, parsed, up to the first invalid one."""
        with contextlib.suppress(jinja2.TemplateError, ProblemError):
            yield from self._read_whole(text)

    def _load(self, name: str) -> str | None:
        if self._shipped is not None:
            return self._shipped.get(name)
        if name not in self.included:
            self.included[name] = read_included(self._folder, name)
        return self.included[name]


def _make_error(
    code: str,
    message: str,
    text: TemplateText,
    folder: Path,
    place: _Place = (None, None),
    hint: str | None = None,
) -> ProblemError:
    name, line = place
    if name is None:
        return ProblemError(template_diagnostic(code, message, text, line, hint=hint))
    return ProblemError(Diagnostic("error", code, message, folder / name, line or 1, 1, hint))


def _make_context(template: Template, variables: Mapping[str, Any]) -> Context:
    # Jinja2's `new_context` assembles the same, at several times the cost.
    environment = template.environment
    parent = {**environment.globals, **variables}
    return environment.context_class(environment, parent, template.name, template.blocks)


def _run(template: Template, context: Context) -> str:
    environment: Any = template.environment
    environment.steps = 0
    parts, text = template.root_render_func(context), ""
    # Some at a time: one by one would take longer than rendering them, and all at once any memory.
    while some := list(islice(parts, _PARTS)):
        text += "".join(some)
        if len(text) > MAX_LENGTH:
            raise BoundError(f"the text is longer than {MAX_LENGTH:,} characters")
    return text.strip()


def _failing_place(traceback: TracebackType | None) -> _Place:
    """Return the place in the innermost template that failed."""
    name, line = None, None
    while traceback is not None:
        template = traceback.tb_frame.f_globals.get("__jinja_template__")
        if template is not None:
            name, line = template.name, template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return name, line
