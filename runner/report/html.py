"""The report as one self-contained HTML page: no network, no scripts, fit for screen, phone and paper.

This is a Jinja2 environment of its own, beside the one for campaigns, because the two must not be alike. The
templates here are ours and ship with the package, and what goes into them is somebody else's text: so every
value is escaped. A campaign's templates are theirs and render to plain text messages: escaping would put
`&amp;` on people's phones, and those templates need a sandbox, which these don't.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from runner.report import wording
from runner.report.scores import divide

if TYPE_CHECKING:
    from fractions import Fraction

    from runner.report.model import CampaignReport

BAR_UNITS = 1000
"""Width of a bar that stands for everybody, in units of its own coordinates."""


def write_html(report: CampaignReport) -> str:
    """Return the report as an HTML page, in UTF-8's characters, ending in a line break."""
    return _build_environment().get_template("report.html.j2").render(report=report)


def measure_bar(share: Fraction | None) -> int:
    """Return how long a share's bar is, in bar units."""
    return 0 if share is None else round(share * BAR_UNITS)


def glue_units(text: str) -> str:
    """Return a text in which no line ends inside a percentage or a range of them."""
    return text.replace(" %", "\u00a0%").replace("–", "\u2060–\u2060")


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
    environment.globals.update(
        BAR_UNITS=BAR_UNITS,
        FREEFORM_NOTE=wording.FREEFORM_NOTE,
        divide=divide,
        is_freeform=wording.is_freeform,
        list_funnel=wording.list_funnel,
        list_scores=wording.list_scores,
        list_warnings=wording.list_warnings,
        write_footer=wording.write_footer,
        write_headline=wording.write_headline,
        write_message_headline=wording.write_message_headline,
        write_sending_time=wording.write_sending_time,
        write_turnout=wording.write_turnout,
        write_volume=wording.write_volume,
    )
    environment.filters.update(
        bar=measure_bar,
        count=wording.write_count,
        glue=glue_units,
        line=wording.write_line,
        number=wording.write_number,
        percent=wording.write_percent,
        score=wording.write_score,
    )
    return environment
