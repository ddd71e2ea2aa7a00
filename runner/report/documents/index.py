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
    write_percent_range,
    write_period,
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
    columns: dict[Column, list[Cell]] = {
        Column("Campaign", "text"): [_name(one, links) for one in ordered],
        Column("Sent", "text"): [_write_period(one) for one in ordered],
        Column("People texted"): [one.people.texted if one.launches else NOT_DEFINED for one in ordered],
        Column("Response"): [_write_response(one) for one in ordered],
        Column(INTERVAL): [_write_interval(one) for one in ordered],
        Column("Score"): [_write_score(one) for one in ordered],
        Column(f"Its {INTERVAL}"): [_write_certainty(one) for one in ordered],
        Column("Earlier surveys", "line"): [_draw_series(one) for one in ordered],
    }
    kept = {column: cells for column, cells in columns.items() if column.kind != "line" or any(cells)}
    table = TableBlock(
        tuple(kept), list(zip(*kept.values(), strict=True)), "The latest first. Everybody counts once."
    )
    is_simulated = any(report.is_simulated for report in reports)
    notice = [Sentence(SIMULATION_NOTE, "notice")] if is_simulated else []
    return write_page(
        count_words(len(reports), "campaign"), "Campaign reports", notice, [Section("", [table])]
    )


def _rank(report: CampaignReport) -> tuple[bool, str]:
    first = report.first_sent_at
    return first is not None, "" if first is None else first.isoformat()


def _name(report: CampaignReport, links: Mapping[str, str]) -> Cell:
    title = report.title or report.campaign
    return Link(title, links[report.campaign]) if report.campaign in links else title


def _write_period(report: CampaignReport) -> str:
    return write_period(report.first_sent_at, report.last_sent_at, report.time_zone) or "not sent yet"


def _write_response(report: CampaignReport) -> str:
    people = report.people
    if not report.questions or not people.texted:
        return NOT_DEFINED if people.texted is not None or not report.launches else NOT_KNOWN
    return write_percent(people.response_rate, people.texted)


def _write_interval(report: CampaignReport) -> str:
    return write_percent_range(report.people.response_rate_interval, report.people.texted)


def _write_score(report: CampaignReport) -> str:
    score = find_score(report)
    if score is None or not report.launches:
        return NOT_DEFINED
    return f"{name_score(score)} {write_score(score)}"


def _write_certainty(report: CampaignReport) -> str:
    score = find_score(report)
    if score is None or not report.launches:
        return NOT_DEFINED
    return write_certainty(score).removeprefix(f"{INTERVAL} ") or NOT_DEFINED


def _draw_series(report: CampaignReport) -> Cell:
    """Return the scores of the series up to this campaign, without words: the rows above have them."""
    waves = [] if report.series is None else report.series.waves
    values = [
        None if one.score is None else float(one.score)
        for one in waves
        if report.first_sent_at is not None and one.first_sent_at <= report.first_sent_at
    ]
    return Line(values) if len(values) > 1 else ""
