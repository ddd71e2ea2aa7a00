"""The report as one self-contained HTML page, and reports by a template of the user (`--template`).

The page has no scripts and loads nothing; it fits screen, phone and paper. Bars in tables are backgrounds as
wide as their share, which grow with their column; other charts are SVG.
Its Jinja2 environment is not the one for campaigns: here every value is escaped, while campaigns render to
plain text messages, where escaping would put `&amp;` on people's phones.
A user's template gets `report`, a `CampaignReport`, and filters and functions. It is escaped for HTML if the
file's name ends in `.html`, `.htm` or `.xml`, also before `.j2`. An unknown name is an error. Its author may
not be the user: so it runs in Jinja2's sandbox, cannot change its input, and cannot read other files.

Filters: `count` (1,024), `percent` (40.2 %), `score` (+31.6), `number` (3.45), `points` (+4.2 points),
`percent_range`, `score_range`, `number_range` (of intervals), `duration` (3 min 20 s, of seconds), `time`
(2026-11-20 12:34 UTC), `line` (a text on one line), `glue` (no line ends inside a percentage).
Functions: `write_…` return sentences, `list_…` lists of them, `tabulate_…` tables of `caption`, `columns` and
`rows`, `draw_…` charts as SVG, for use with `| safe`. A template for a chat message:

    {{ report.campaign }}: {{ write_headline(report) }}
    {% for message in report.messages %}
    {% for question in message.questions if question.nps %}
    {{ question.text }} {{ question.nps.score | score }} ({{ question.nps.interval | score_range }})
    {% endfor %}
    {% endfor %}
"""

from __future__ import annotations

import re
import traceback
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import (
    DictLoader,
    Environment,
    PackageLoader,
    StrictUndefined,
    TemplateSyntaxError,
    select_autoescape,
)
from jinja2.exceptions import TemplateNotFound
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runner.errors import RunnerError
from runner.report.documents import charts, findings, tables, wording
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.report.model import CampaignReport


_BETWEEN_ENDS = re.compile(r"(?<=\d) to (?=[-+]?\d)")


def glue_units(text: str) -> str:
    """Return a text in which no line ends inside a percentage or an interval."""
    glued = text.replace(" %", "\u00a0%").replace("–", "\u2060–\u2060")
    return _BETWEEN_ENDS.sub("\u00a0to\u00a0", glued)


FILTERS: Mapping[str, Callable[..., str]] = {
    "count": wording.write_count,
    "duration": wording.format_duration,
    "glue": glue_units,
    "line": wording.write_line,
    "number": wording.write_number,
    "number_range": wording.write_number_range,
    "percent": wording.write_percent,
    "percent_range": wording.write_percent_range,
    "points": wording.write_points,
    "score": wording.write_score,
    "score_range": wording.write_score_range,
    "time": wording.write_time,
}
"""Filters by their name in templates; a missing value is written as a dash."""

_MODULES = charts, findings, tables, wording
_SHOWN = ("draw_", "has_", "is_", "list_", "tabulate_", "write_")

FUNCTIONS: Mapping[str, Any] = {
    "AAPOR_NOTE": findings.AAPOR_NOTE,
    "FREEFORM_NOTE": findings.FREEFORM_NOTE,
    "NOT_DEFINED": wording.NOT_DEFINED,
    "NOT_KNOWN": wording.NOT_KNOWN,
    "SIMULATION_NOTE": wording.SIMULATION_NOTE,
    "divide": divide,
} | {
    name: value
    for module in _MODULES
    for name, value in vars(module).items()
    if name.startswith(_SHOWN) and value not in FILTERS.values()
}
"""Constants, and functions of the documents, by their name in templates."""


def write_html(report: CampaignReport) -> str:
    """Return the report as an HTML page, in UTF-8's characters, ending in a line break."""
    return render_page("report.html.j2", report=report)


def render_page(template: str, **values: Any) -> str:
    """Return a page from one of our own templates, by its name in the folder `templates`."""
    return build_environment().get_template(template).render(values)


_SYNTAX: Mapping[str, Any] = {
    "undefined": StrictUndefined,
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
}


_ESCAPED = ("html", "htm", "xml", "html.j2", "htm.j2", "xml.j2")


@cache
def build_environment() -> Environment:
    """Return the environment of our own templates."""
    environment = Environment(
        loader=PackageLoader("runner.report"), autoescape=select_autoescape(_ESCAPED), **_SYNTAX
    )
    environment.globals.update(FUNCTIONS)
    environment.filters.update(FILTERS, stored=wording.store_number)
    return environment


def write_with_template(report: CampaignReport, template_text: str, name: str) -> str:
    """Return the report as written by a user's template; the ending of its `name` decides on HTML escaping.

    Raises:
        RunnerError: the template is not valid, or fails; with its name and line.
    """
    environment = _build_sandboxed_environment()
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
            hint="docs/reference/report-templates.md has the names that a template can use",
        ) from None


def _build_sandboxed_environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=DictLoader({}), autoescape=select_autoescape(_ESCAPED), **_SYNTAX
    )
    environment.globals.update(FUNCTIONS)
    environment.filters.update(FILTERS)
    return environment


def _find_line(error: BaseException, name: str) -> int:
    """Return the template's line that an error comes from; Jinja2 puts its lines into tracebacks."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == name), 1)
