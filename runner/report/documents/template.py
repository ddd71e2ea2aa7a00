"""A report by a template of the user (`--template`), which gets the JSON document.

Its author may not be the user: so it runs in Jinja2's sandbox, cannot change its input, and cannot read other
files. An unknown name is an error.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from jinja2 import StrictUndefined, TemplateSyntaxError, select_autoescape
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
    except Exception as error:  # noqa: BLE001  an expression of the template can raise anything
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == name), 1)
        line = error.lineno if isinstance(error, TemplateSyntaxError) else line
        raise RunnerError(
            f"{name}, line {line}: {str(error).partition(chr(10))[0] or type(error).__name__}",
            hint="docs/reference/report-templates.md says what a template can use",
        ) from None
