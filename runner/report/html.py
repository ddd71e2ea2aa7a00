"""The report as one self-contained HTML page: no network, no scripts, fit for screen, phone and paper.

This is a Jinja2 environment of its own, beside the one for campaigns, because the two must not be alike. The
templates here are ours and ship with the package, and what goes into them is somebody else's text: so every
value is escaped. A campaign's templates are theirs and render to plain text messages: escaping would put
`&amp;` on people's phones, and those templates need a sandbox, which these don't.

Bars within tables are backgrounds as wide as their share: they need no coordinates, and grow with their
column. (The browser's own `meter` would do, if browsers drew it alike.) All else is charts (`charts`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from runner.report.rounding import store_number
from runner.report.vocabulary import FILTERS, FUNCTIONS

if TYPE_CHECKING:
    from runner.report.model import CampaignReport


def write_html(report: CampaignReport) -> str:
    """Return the report as an HTML page, in UTF-8's characters, ending in a line break."""
    return render_page("report.html.j2", report=report)


def render_page(template: str, **values: Any) -> str:
    """Return a page from one of our own templates.

    Args:
        template: its name in the folder `templates`.
        values: what it shows, by the names that it uses.
    """
    return _build_environment().get_template(template).render(values)


@cache
def _build_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("runner.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(FUNCTIONS)
    environment.filters.update(FILTERS, stored=store_number)
    return environment
