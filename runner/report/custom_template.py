"""Reports by a template of the campaign's owner (`runner report --template FILE`).

The template is Jinja2 and gets `report`, a `CampaignReport` (`model`), and the filters and functions of
`vocabulary`. What it writes is escaped for HTML when the file's name ends in `.html`, `.htm` or `.xml`, also
before `.j2`; everything else is written as it is. A name that there is not is an error, never nothing.

Whoever writes the template may be somebody else than who runs it: so it runs in Jinja2's sandbox, cannot
change what it is given, and cannot read other files. A template for a chat message:

    {{ report.campaign }}: {{ write_headline(report) }}
    {% for message in report.messages %}
    {% for question in message.questions if question.nps %}
    {{ question.text }} {{ question.nps.score | score }} ({{ question.nps.interval | score_range }})
    {% endfor %}
    {% endfor %}
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from jinja2 import DictLoader, StrictUndefined, TemplateSyntaxError
from jinja2.exceptions import TemplateNotFound
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.errors import RunnerError
from runner.report.vocabulary import FILTERS, FUNCTIONS

if TYPE_CHECKING:
    from runner.report.model import CampaignReport

_ESCAPED_SUFFIXES = (".html", ".htm", ".xml", ".html.j2", ".htm.j2", ".xml.j2")


def write_with_template(report: CampaignReport, template_text: str, name: str) -> str:
    """Return the report as a template of the user's writes it.

    Args:
        report: what the template gets as `report`.
        template_text: the template.
        name: the template's file name, for messages; its ending says whether values are escaped for HTML.

    Raises:
        RunnerError: when the template is not one, or fails; with its name and line.
    """
    environment = _build_environment(name)
    try:
        code = environment.compile(template_text, name=name, filename=name)
        template = environment.template_class.from_code(environment, code, environment.make_globals(None))
        return template.render(report=report)
    except TemplateSyntaxError as error:
        raise RunnerError(f"{name}, line {error.lineno}: {error.message}") from None
    except TemplateNotFound as error:
        place = f"{name}, line {_find_line(error, name)}"
        raise RunnerError(f"{place}: no other file can be read: {error.message}") from None
    except Exception as error:  # noqa: BLE001  # an expression of the template can raise anything
        raise RunnerError(
            f"{name}, line {_find_line(error, name)}: {str(error) or type(error).__name__}",
            hint="the names that a template can use are listed in the README",
        ) from None


def _build_environment(name: str) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=DictLoader({}),
        autoescape=name.lower().endswith(_ESCAPED_SUFFIXES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(FUNCTIONS)
    environment.filters.update(FILTERS)
    return environment


def _find_line(error: BaseException, name: str) -> int:
    """Return the template's line that an error comes from; Jinja2 puts its lines into tracebacks."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == name), 1)
