"""The names that a report's templates can use, ours and those of a campaign's owner.

Filters: `count` (1,024), `percent` (40.2 %), `score` (+31.6), `number` (3.45), `points` (+4.2 points),
`percent_range`, `score_range`, `number_range` (of intervals), `duration` (3 min 20 s, of seconds), `time`
(2026-11-20 12:34 UTC), `line` (a text on one line), `glue` (no line ends inside a percentage).

Functions: `write_…` give sentences, `list_…` lists of them, `tabulate_…` tables of `caption`, `columns` and
`rows`, `draw_…` charts as SVG, to be put into a page with `| safe`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runner.report import explanations, figures, findings, provenance, tables, tiles, waves, wording
from runner.report.scores import divide
from runner.report.timing import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BETWEEN_ENDS = re.compile(r"(?<=\d) to (?=[-+]?\d)")


def glue_units(text: str) -> str:
    """Return a text in which no line ends inside a percentage or an interval."""
    glued = text.replace(" %", "\u00a0%").replace("–", "\u2060–\u2060")
    return _BETWEEN_ENDS.sub("\u00a0to\u00a0", glued)


FILTERS: Mapping[str, Callable[..., str]] = {
    "count": wording.write_count,
    "duration": format_duration,
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
"""By name in templates; what a filter does not get a value for it writes as a dash."""

FUNCTIONS: Mapping[str, Any] = {
    "AAPOR_NOTE": explanations.AAPOR_NOTE,
    "FREEFORM_NOTE": findings.FREEFORM_NOTE,
    "NOT_DEFINED": wording.NOT_DEFINED,
    "NOT_KNOWN": wording.NOT_KNOWN,
    "SIMULATION_NOTE": wording.SIMULATION_NOTE,
} | {
    function.__name__: function
    for function in (
        divide,
        explanations.list_explanations,
        explanations.tabulate_dispositions,
        explanations.tabulate_rates,
        figures.draw_days,
        figures.draw_distribution,
        figures.draw_funnel,
        figures.draw_groups,
        figures.draw_nps,
        findings.has_few_answers,
        findings.is_freeform,
        findings.list_findings,
        findings.list_scores,
        findings.list_volume,
        findings.write_analysis,
        findings.write_audience,
        findings.write_cost,
        findings.write_holdout,
        findings.write_opt_outs,
        findings.write_suppressed,
        findings.write_texts,
        findings.write_times,
        findings.write_turnout,
        findings.write_verdict,
        findings.write_volume,
        provenance.tabulate_runs,
        provenance.write_untraced,
        tables.list_funnel,
        tables.tabulate_days,
        tables.tabulate_differences,
        tables.tabulate_funnel,
        tables.tabulate_groups,
        tables.tabulate_questions,
        tables.tabulate_reserved,
        tables.tabulate_responses,
        tables.tabulate_words,
        tiles.list_tiles,
        waves.write_change,
        wording.list_warnings,
        wording.write_footer,
        wording.write_headline,
        wording.write_message_headline,
        wording.write_sending_time,
    )
}
"""By name in templates."""
