"""A page across campaigns: the outcome of each, by person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.documents.page import SIMULATION_NOTE
from runner.report.documents.questions import find_score
from runner.report.documents.wording import (
    INTERVAL,
    NOT_DEFINED,
    NOT_KNOWN,
    name_score,
    write_certainty,
    write_percent,
    write_period,
    write_response_range,
    write_score,
)
from runner.view.blocks import Column, Line, Link, Section, Sentence, TableBlock
from runner.view.html import write_page
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.report.model import CampaignReport
    from runner.view.blocks import Cell


def write_index(reports: Sequence[CampaignReport], links: Mapping[str, str]) -> str:
    """Return an HTML page across campaigns: a table of them, the latest first.

    `links` has addresses of campaigns' reports relative to this page, percent-encoded; not every campaign
    needs one.
    """
    ordered = sorted(reports, key=lambda report: report.campaign)
    ordered.sort(key=_rank, reverse=True)
    columns: list[str | Column] = ["Campaign", Column("Sent", "text"), "People texted", "Response", INTERVAL]
    columns += ["Score", f"{INTERVAL} of the score"]
    rows: list[tuple[Cell, ...]] = [(_name(one, links), *_outline(one)) for one in ordered]
    lines = list(map(_draw_series, ordered))
    if any(lines):
        columns.append(Column("Earlier surveys", "line"))
        rows = [(*row, line) for row, line in zip(rows, lines, strict=True)]
    table = TableBlock(columns, rows, "The latest first. Each person counts once.")
    is_simulated = any(report.is_simulated for report in reports)
    notice = [Sentence(SIMULATION_NOTE, "notice")] if is_simulated else []
    title = count_words(len(reports), "campaign")
    return write_page(title, "Campaign reports", notice, [Section("", [table])])


def _rank(report: CampaignReport) -> tuple[bool, str]:
    first = report.first_sent_at
    return first is not None, "" if first is None else first.isoformat()


def _name(report: CampaignReport, links: Mapping[str, str]) -> Cell:
    title = report.title or report.campaign
    return Link(title, links[report.campaign]) if report.campaign in links else title


def _outline(report: CampaignReport) -> tuple[Cell, ...]:
    """Return what a campaign came to: a caution stands in place of the interval of a score of few answers."""
    people, score = report.people, find_score(report)
    if not report.launches:
        return ("not sent yet", *[NOT_DEFINED] * 5)
    is_unknown = people.texted is None or people.answered is None
    response = (
        write_percent(people.response_rate, people.texted),
        write_response_range(people.response_rate_interval, people.texted),
    )
    return (
        write_period(report.first_sent_at, report.last_sent_at, report.time_zone),
        people.texted,
        *((NOT_KNOWN, NOT_DEFINED) if is_unknown and report.questions else response),
        NOT_DEFINED if score is None else f"{name_score(score)} {write_score(score)}",
        NOT_DEFINED if score is None else write_certainty(score).removeprefix(f"{INTERVAL} "),
    )


def _draw_series(report: CampaignReport) -> Cell:
    """Return the scores of the series up to this campaign, without words: the rows above have them."""
    waves = [] if report.series is None else report.series.waves
    values = [
        None if one.score is None else float(one.score)
        for one in waves
        if report.first_sent_at is not None and one.first_sent_at <= report.first_sent_at
    ]
    return Line(values) if len(values) > 1 else ""
