"""A report by a template of the user (`--template`), which gets the JSON document.

The template's `report` is the document as `schemas/report.schema.json` describes it. The template is escaped
for HTML if the file's name ends in `.html`, `.htm` or `.xml`, also before `.j2`. An unknown name is an error.
Its author may not be the user: so it runs in Jinja2's sandbox, cannot change its input, and cannot read other
files. A template for a chat message:

    {{ report.campaign }}:
    {% for message in report.messages %}
    {{ message.id }}: {{ message.sent }} sent, {{ "%.1f" | format(100 * message.response_rate) }} % answered
    {% endfor %}
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from jinja2 import DictLoader, StrictUndefined, TemplateSyntaxError, select_autoescape
from jinja2.exceptions import TemplateNotFound
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.errors import RunnerError
from runner.report.documents.formats import describe_report

if TYPE_CHECKING:
    from runner.report.model import CampaignReport

_ESCAPED = ("html", "htm", "xml", "html.j2", "htm.j2", "xml.j2")


def write_with_template(report: CampaignReport, template_text: str, name: str) -> str:
    """Return the report as written by a user's template; the ending of its `name` decides on HTML escaping.

    Raises:
        RunnerError: the template is not valid, or fails; with its name and line.
    """
    environment = ImmutableSandboxedEnvironment(
        loader=DictLoader({}),
        autoescape=select_autoescape(_ESCAPED),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    try:
        code = environment.compile(template_text, name=name, filename=name)
        template = environment.template_class.from_code(environment, code, environment.make_globals(None))
        return template.render(report=describe_report(report).to_dict())
    except TemplateSyntaxError as error:
        raise RunnerError(f"{name}, line {error.lineno}: {error.message}") from None
    except TemplateNotFound as error:
        place = f"{name}, line {_find_line(error, name)}"
        raise RunnerError(f"{place}: no other file can be read: {error.message}") from None
    except Exception as error:  # noqa: BLE001  # an expression of the template can raise anything
        raise RunnerError(
            f"{name}, line {_find_line(error, name)}: {str(error) or type(error).__name__}",
            hint="docs/reference/report-templates.md says what a template can use",
        ) from None


def _find_line(error: BaseException, name: str) -> int:
    """Return the template's line that an error comes from; Jinja2 puts its lines into tracebacks."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == name), 1)
