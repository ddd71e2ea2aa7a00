"""Campaign texts, compiled once and rendered for each recipient; the one door to Jinja2 for them."""

from __future__ import annotations

import contextlib
import difflib
import re
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import jinja2
from jinja2 import Template, meta, nodes

from runner.campaign.absent import Noting, Placeholder
from runner.campaign.bounds import MAX_LENGTH, BoundError
from runner.campaign.failure import describe_failure, find_literals, write_sentence
from runner.campaign.include import MAX_SOURCE, explain_missing, read_included
from runner.campaign.language import CampaignEnvironment
from runner.campaign.text_place import included_diagnostic, template_diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from jinja2.runtime import Context

    from runner.campaign.model import TemplateText
    from runner.campaign.recipients import Variables
    from runner.source.diagnostic import Diagnostic

_FAILURES = (
    *(jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError),
    # How Jinja2's own filters take it that they are given what they are not for.
    *(AttributeError, AssertionError),
)
"""What a text's own fault looks like while it renders; anything else is a bug of this program."""
_TOO_DEEP = (RecursionError, SyntaxError, BoundError)
_DEEP = "this template is nested too deep"
_OPTIONAL = frozenset({"default", "d", "defined", "undefined"})
"""Filters and tests of values that need not be there."""
_UNKNOWN = re.compile(r"No (filter|test) named '(\w+)'")


class References(NamedTuple):
    """Variables that a text refers to.

    Attributes:
        names: all of them.
        optional: those that it says what to do without: `default(…)`, `is defined`.
    """

    names: frozenset[str]
    optional: frozenset[str]


class TemplateProblemError(Exception):
    """Texts cannot be compiled, or a text cannot be rendered for one recipient.

    Attributes:
        diagnostics: what is wrong, at the line of the campaign file or of the included file.
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics


class MissingVariablesError(Exception):
    """One recipient lacks variables that texts need.

    Attributes:
        missing: the missing or blank variables, each with the first text that asks for it.
    """

    def __init__(self, missing: tuple[tuple[str, TemplateText], ...]) -> None:
        super().__init__(", ".join(name for name, _ in missing))
        self.missing = missing


@dataclass(frozen=True, slots=True)
class CompiledText:
    """A text ready to render.

    Attributes:
        text: as it stands in the campaign file.
        names: the variables that it refers to, those of included files among them.
        strict: what renders it.
    """

    text: TemplateText
    names: frozenset[str]
    strict: Template
    _noting: Template
    _folder: Path
    _literals: Callable[[], frozenset[str]]

    def render(self, variables: Variables) -> str:
        """Return the text for one recipient, outer blanks removed.

        Args:
            variables: by name; a blank one is left out.

        Raises:
            MissingVariablesError: it needs variables that are not there.
            TemplateProblemError: it fails in another way, or is longer than `MAX_LENGTH` characters.
        """
        return render_texts((self,), variables)[0]

    def find_missing(self, variables: Variables) -> list[str]:
        """Return the variables that the text asks for and that are not there, not only the first."""
        noted: list[str] = _environment_of(self._noting).undefined.noted  # type: ignore[attr-defined]
        noted.clear()
        with contextlib.suppress(BoundError, *_FAILURES):  # what was noted so far is enough to say
            _run(self._noting, _make_context(self._noting, variables))
        # An attribute of a variable is no variable of its own.
        return [name for name in noted if name in self.names]

    def explain(self, error: Exception, variables: Variables) -> MissingVariablesError | TemplateProblemError:
        """Return why it could not be rendered.

        Args:
            error: raised while it was rendered.
            variables: for whom.
        """
        missing = self.find_missing(variables)
        if missing:
            return MissingVariablesError(tuple((name, self.text) for name in missing))
        name, line = _failing_place(error.__traceback__)
        message = f"this text cannot be rendered: {describe_failure(error, self._literals())}"
        return TemplateProblemError(
            included_diagnostic("template-failed", message, self._folder / name, line)
            if name
            else template_diagnostic("template-failed", message, self.text, line)
        )


def render_texts(texts: Sequence[CompiledText], variables: Variables) -> list[str]:
    """Return texts of one compiler for one recipient, outer blanks removed.

    Args:
        texts: any, of one message or of several.
        variables: by name; a blank one is left out.

    Raises:
        MissingVariablesError: one of them needs variables that are not there.
        TemplateProblemError: one fails in another way, or is longer than `MAX_LENGTH` characters.
    """
    rendered = []
    context: Context | None = None
    for text in texts:
        # To make one costs more than to render most texts. What a text sets is that text's alone.
        if context is None or context.vars:
            context = _make_context(text.strict, variables)
        try:
            rendered.append(_run(text.strict, context))
        except (BoundError, *_FAILURES) as error:
            raise text.explain(error, variables) from None
    return rendered


class TextCompiler:
    """Compiles the texts of one campaign.

    Args:
        include_folder: `{% include %}` reads below it alone.
        shipped: the included files by name, where the folder itself is out of reach; None to read it.

    Attributes:
        included: what was read of the folder, by name; None for what is not there.
    """

    def __init__(self, include_folder: Path, shipped: Mapping[str, str | None] | None = None) -> None:
        self._folder = include_folder
        self._shipped = shipped
        self.included: dict[str, str | None] = {}
        self._environment = CampaignEnvironment(loader=jinja2.FunctionLoader(self._load))
        # A class of its own, so that what it notes is this compiler's alone.
        noting = type("_NotingHere", (Noting,), {"noted": [], "__slots__": ()})
        self._noting = CampaignEnvironment(noting, loader=self._environment.loader)
        self._placeholders = CampaignEnvironment(Placeholder, loader=self._environment.loader)

    def compile(self, text: TemplateText) -> CompiledText:
        """Compile one text.

        Raises:
            TemplateProblemError: it is not a template, or includes what cannot be read.
        """
        try:
            self._environment.steps = 0
            names = frozenset(self._find_names(text))
            strict = self._environment.from_string(text.source)
            noting = self._noting.from_string(text.source)
        except jinja2.TemplateSyntaxError as error:
            message = f"this template is wrong: {write_sentence(error)}{self._suggest(error)}"
            raise self._problem("template-syntax", message, text, error.name, error.lineno) from None
        except _TOO_DEEP:
            raise self._problem("template-syntax", _DEEP, text, None, None) from None
        except _FAILURES as error:  # constant parts are worked out while compiling
            message = f"this template is wrong: {write_sentence(error)}"
            raise self._problem("template-syntax", message, text, None, None) from None
        literals = cache(partial(self._find_literals, text.source))
        return CompiledText(text, names, strict, noting, self._folder, literals)

    def outline(self, text: TemplateText, variables: Variables) -> str:
        """Return a text with the names of unknown variables in brackets, for documents about everyone.

        Args:
            text: a text that compiles.
            variables: those that are the same for every recipient.
        """
        try:
            template = self._placeholders.from_string(text.source)
            return _run(template, _make_context(template, variables))
        except (BoundError, *_FAILURES):
            return text.source

    def _find_names(self, text: TemplateText) -> Iterator[str]:
        size = len(text.source)
        if size > MAX_SOURCE:
            message = f"this text is longer than {MAX_SOURCE:,} characters"
            raise self._problem("template-syntax", message, text, None, None)
        waiting: list[tuple[str | None, str]] = [(None, text.source)]
        visited = set[str]()
        while waiting:
            name, source = waiting.pop()
            tree, names = self._parse(text, source, name)
            yield from names
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
                    raise self._problem("template-include", message, text, name, include.lineno, hint)
                if size > MAX_SOURCE:
                    message = f"with {wanted}, this text is longer than {MAX_SOURCE:,} characters"
                    raise self._problem("template-include", message, text, name, include.lineno)

    def _parse(self, text: TemplateText, source: str, name: str | None) -> tuple[nodes.Template, set[str]]:
        try:
            if name is not None:  # compiled here, as it would only fail for the first recipient otherwise
                self._environment.get_template(name)
            tree = self._environment.parse(source, name)
            return tree, meta.find_undeclared_variables(tree) - {"range"}
        except jinja2.TemplateSyntaxError as error:
            error.name = name  # Jinja2 calls what it looks for names in "<introspection>"
            raise
        except _TOO_DEEP:
            raise self._problem(
                "template-syntax", "this template is nested too deep", text, name, 1
            ) from None

    def find_references(self, text: TemplateText) -> References:
        """Return the variables that a text refers to; none if it is no template."""
        names, optional = set[str](), set[str]()
        for tree in self._iterate_trees(text.source):
            names |= meta.find_undeclared_variables(tree) - {"range"}
            for node in tree.find_all((nodes.Filter, nodes.Test)):
                if node.name in _OPTIONAL and isinstance(node.node, nodes.Name):
                    optional.add(node.node.name)
        return References(frozenset(names), frozenset(optional & names))

    def _find_literals(self, source: str) -> frozenset[str]:
        """Return what a template and those that it includes hold; only looked for when one fails."""
        return frozenset(literal for tree in self._iterate_trees(source) for literal in find_literals(tree))

    def _iterate_trees(self, source: str) -> Iterator[nodes.Template]:
        """Yield a template, and those that it includes, parsed; what is none is left out."""
        waiting, visited = [source], set[str]()
        while waiting:
            # An included file may have changed meanwhile.
            with contextlib.suppress(jinja2.TemplateError, *_TOO_DEEP):
                tree = self._environment.parse(waiting.pop())
                included = {node.template.as_const() for node in tree.find_all(nodes.Include)} - visited
                visited |= included
                waiting += filter(None, map(self._load, included))
                yield tree

    def _load(self, name: str) -> str | None:
        if self._shipped is not None:
            return self._shipped.get(name)
        found = self.included[name] = read_included(self._folder, name)
        return found

    def _problem(
        self,
        code: str,
        message: str,
        text: TemplateText,
        name: str | None,
        line: int | None,
        hint: str | None = None,
    ) -> TemplateProblemError:
        if name is not None:
            return TemplateProblemError(included_diagnostic(code, message, self._folder / name, line, hint))
        return TemplateProblemError(template_diagnostic(code, message, text, line, hint=hint))

    def _suggest(self, error: jinja2.TemplateSyntaxError) -> str:
        unknown = _UNKNOWN.search(error.message or "")
        if unknown is None:
            return ""
        known = self._environment.filters if unknown[1] == "filter" else self._environment.tests
        close = difflib.get_close_matches(unknown[2], [name for name in known if name.isalpha()], n=1)
        return f": did you mean `{close[0]}`?" if close else ""


def _environment_of(template: Template) -> CampaignEnvironment:
    return cast("CampaignEnvironment", template.environment)


def _make_context(template: Template, variables: Mapping[str, Any]) -> Context:
    # What Jinja2 would put together from both, at several times the cost.
    return template.new_context({**template.environment.globals, **variables}, shared=True)


def _run(template: Template, context: Context) -> str:
    _environment_of(template).steps = 0
    parts: list[str] = []
    length = 0
    for part in template.root_render_func(context):
        length += len(part)
        if length > MAX_LENGTH:
            raise BoundError(f"the text is longer than {MAX_LENGTH:,} characters")
        parts.append(part)
    return "".join(parts).strip()


def _failing_place(traceback: TracebackType | None) -> tuple[str | None, int | None]:
    """Return the name, None for the text itself, and the line of the innermost template that failed."""
    name, line = None, None
    while traceback is not None:
        template = traceback.tb_frame.f_globals.get("__jinja_template__")
        if template is not None:
            name, line = template.name, template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return name, line
