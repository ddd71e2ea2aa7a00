"""Campaign texts, compiled once and rendered for each recipient; the one door to Jinja2 for them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import jinja2
from jinja2 import Template, Undefined, UndefinedError, meta, nodes

from runner.campaign.bounds import MAX_LENGTH, BoundError
from runner.campaign.language import CampaignEnvironment
from runner.source.confine import is_readable_below
from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from runner.campaign.model import Campaign, TemplateText, Variables

_FAILURES = (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""What a text's own fault looks like while it renders; anything else is a bug of this program."""


class TemplateProblemError(Exception):
    """A text cannot be compiled, or cannot be rendered for one recipient.

    Attributes:
        diagnostic: what is wrong, at the line of the campaign file.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class MissingVariablesError(Exception):
    """One recipient lacks variables that texts need.

    Attributes:
        missing: the missing or blank variables, each with the first text that asks for it.
    """

    def __init__(self, missing: tuple[tuple[str, TemplateText], ...]) -> None:
        super().__init__(", ".join(name for name, _ in missing))
        self.missing = missing


class _Noting(Undefined):
    """Renders as nothing and notes its name, so that all missing variables are found in one go."""

    noted: list[str]

    def _note(self) -> None:
        if self._undefined_name is not None and self._undefined_name not in self.noted:
            self.noted.append(self._undefined_name)

    def __str__(self) -> str:
        self._note()
        return ""

    def __bool__(self) -> bool:
        self._note()
        return False


class _Placeholder(Undefined):
    """Renders as the variable's name in brackets: how a text reads before it is anyone's."""

    def __str__(self) -> str:
        return f"[{self._undefined_name}]"


@dataclass(frozen=True, slots=True)
class CompiledText:
    """A text ready to render.

    Attributes:
        text: as it stands in the campaign file.
        names: the variables that it refers to, those of included files among them.
    """

    text: TemplateText
    names: frozenset[str]
    _strict: Template
    _noting: Template

    def render(self, variables: Variables) -> str:
        """Return the text for one recipient, outer blanks removed.

        Args:
            variables: by name; a blank one is left out.

        Raises:
            MissingVariablesError: it needs variables that are not there.
            TemplateProblemError: it fails in another way, or is longer than `MAX_LENGTH` characters.
        """
        try:
            return _run(self._strict, variables)
        except UndefinedError as error:
            missing = self.find_missing(variables)
            if missing:
                raise MissingVariablesError(tuple((name, self.text) for name in missing)) from None
            raise self._failure(error) from None
        except (BoundError, *_FAILURES) as error:
            raise self._failure(error) from None

    def find_missing(self, variables: Variables) -> list[str]:
        """Return the variables that the text asks for and that are not there, not only the first."""
        noted: list[str] = _environment_of(self._noting).undefined.noted  # type: ignore[attr-defined]
        noted.clear()
        with contextlib.suppress(BoundError, *_FAILURES):  # what was noted so far is enough to say
            _run(self._noting, variables)
        # An attribute of a variable is no variable of its own.
        return [name for name in noted if name in self.names]

    def _failure(self, error: Exception) -> TemplateProblemError:
        line = _failing_line(error.__traceback__)
        words = "calls itself without end" if isinstance(error, RecursionError) else _sentence(error)
        return TemplateProblemError(
            template_diagnostic("template-failed", f"this text cannot be rendered: {words}", self.text, line)
        )


class TextCompiler:
    """Compiles the texts of one campaign.

    Args:
        include_folder: `{% include %}` reads below it alone.
    """

    def __init__(self, include_folder: Path) -> None:
        self._folder = include_folder
        self._environment = CampaignEnvironment(loader=jinja2.FunctionLoader(self._load))
        # A class of its own, so that what it notes is this compiler's alone.
        noting = type("_NotingHere", (_Noting,), {"noted": [], "__slots__": ()})
        self._noting = CampaignEnvironment(noting, loader=self._environment.loader)
        self._placeholders = CampaignEnvironment(_Placeholder, loader=self._environment.loader)

    def compile(self, text: TemplateText) -> CompiledText:
        """Compile one text.

        Raises:
            TemplateProblemError: it is not a template, or includes what cannot be read.
        """
        try:
            self._environment.steps = 0
            names = self._find_names(text.source, set())
            strict = self._environment.from_string(text.source)
            noting = self._noting.from_string(text.source)
        except jinja2.TemplateNotFound as error:
            message = f"the included file {error.message} is not there, or not below {self._folder.name}/"
            raise TemplateProblemError(template_diagnostic("template-include", message, text)) from None
        except jinja2.TemplateSyntaxError as error:
            where = f" in {error.name}" if error.name else ""
            message = f"this template is wrong{where}: {_sentence(error)}"
            line = None if error.name else error.lineno
            raise TemplateProblemError(template_diagnostic("template-syntax", message, text, line)) from None
        except (RecursionError, SyntaxError, BoundError):
            message = "this template is nested too deep, or includes itself"
            raise TemplateProblemError(template_diagnostic("template-syntax", message, text)) from None
        return CompiledText(text, frozenset(names), strict, noting)

    def outline(self, text: TemplateText, variables: Variables) -> str:
        """Return a text with the names of unknown variables in brackets, for documents about everyone.

        Args:
            text: a text that compiles.
            variables: those that are the same for every recipient.
        """
        try:
            return _run(self._placeholders.from_string(text.source), variables)
        except (BoundError, *_FAILURES):
            return text.source

    def _find_names(self, source: str, visited: set[str]) -> set[str]:
        tree = self._environment.parse(source)
        names = meta.find_undeclared_variables(tree) - {"range"}
        for include in tree.find_all(nodes.Include):
            name = include.template.as_const()
            if name not in visited:
                visited.add(name)
                included = self._load(name)
                if included is not None:
                    names |= self._find_names(included, visited)
                elif not include.ignore_missing:
                    raise jinja2.TemplateNotFound(name)
        return names

    def _load(self, name: str) -> str | None:
        file = self._folder / name
        if not is_readable_below(file, (self._folder,)) or not file.is_file():
            return None
        return file.read_text(encoding="utf-8", errors="replace")


def _environment_of(template: Template) -> CampaignEnvironment:
    return cast("CampaignEnvironment", template.environment)


def _run(template: Template, variables: Mapping[str, Any]) -> str:
    _environment_of(template).steps = 0
    parts: list[str] = []
    length = 0
    for part in template.root_render_func(template.new_context(dict(variables))):
        length += len(part)
        if length > MAX_LENGTH:
            raise BoundError(f"the text is longer than {MAX_LENGTH:,} characters")
        parts.append(part)
    return "".join(parts).strip()


def _failing_line(traceback: TracebackType | None) -> int | None:
    line = None
    while traceback is not None:
        template = traceback.tb_frame.f_globals.get("__jinja_template__")
        if template is not None and template.name is None:
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    return line


def _sentence(error: BaseException) -> str:
    text = str(getattr(error, "message", None) or error).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def template_diagnostic(
    code: str, message: str, text: TemplateText, line: int | None = None, *, hint: str | None = None
) -> Diagnostic:
    """Return an error at the line of the campaign file that a template's line stands in.

    Args:
        code: the error's slug.
        message: what is wrong.
        text: the template.
        line: the template's line, from 1; None points at the value's start.
        hint: what to do about it.
    """
    position = text.position
    if line is not None and text.is_block:
        source_line = (
            ([*text.source.split("\n"), ""])[line - 1] if line <= text.source.count("\n") + 1 else ""
        )
        tag = re.search(r"\{[{%#]", source_line)
        column = text.indent + (tag.start() if tag else 0)
        return Diagnostic("error", code, message, position.file, text.first_line + line - 1, column, hint)
    return Diagnostic("error", code, message, position.file, position.line, position.column, hint)


def variable_diagnostic(
    code: str, message: str, text: TemplateText, name: str, *, hint: str | None = None
) -> Diagnostic:
    """Return an error at the first mention of the variable `name` in a template."""
    for number, line in enumerate(text.source.split("\n"), start=1):
        if re.search(rf"\{{[{{%][^}}]*\b{re.escape(name)}\b", line):
            return template_diagnostic(code, message, text, number, hint=hint)
    return template_diagnostic(code, message, text, hint=hint)


def include_folder(campaign: Campaign) -> Path:
    """Return what `{% include %}` reads below: the `campaigns` folder above the file, else its own folder."""
    for folder in campaign.file.absolute().parents:
        if folder.name == "campaigns" and folder.is_relative_to(campaign.root.absolute()):
            return folder
    return campaign.file.absolute().parent
