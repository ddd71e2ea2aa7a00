"""A page across campaigns: the outcome of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.documents.wording import (
    NOT_DEFINED,
    SCORE_FORMATS,
    SIMULATION_NOTE,
    write_count,
    write_percent,
    write_percent_range,
)
from runner.view.blocks import Column, Link, Section, Sentence, TableBlock
from runner.view.html import write_page
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from runner.report.model import CampaignReport, MessageReport


def write_index(reports: Sequence[CampaignReport], links: Mapping[str, str]) -> str:
    """Return an HTML page across campaigns: a table of them, the latest first.

    `links` has addresses of campaigns' reports relative to this page, percent-encoded; not every campaign
    needs one.
    """
    ordered = sorted(reports, key=lambda report: report.campaign)
    ordered.sort(key=_rank, reverse=True)
    rows = [
        (Link(one.campaign, links[one.campaign]) if one.campaign in links else one.campaign, *_outline(one))
        for one in ordered
    ]
    table = TableBlock(
        (
            "Campaign",
            "Sent on",
            "Texts sent",
            "People answered",
            "Response",
            "95 % interval",
            Column("Scores", "text"),
        ),
        rows,
        "The latest first. The response rate is that of the survey that was sent to the most people.",
    )
    section = Section("What each came to", [table])
    is_simulated = any(report.is_simulated for report in reports)
    notice = [Sentence(SIMULATION_NOTE, "notice")] if is_simulated else []
    return write_page(count_words(len(reports), "campaign"), "Campaign reports", notice, [section])


def _outline(report: CampaignReport) -> tuple[str, ...]:
    """Return a campaign's dates, sent, answered, response rate, its interval, and scores, as texts.

    The rate is of the message with questions that was sent to the most people: a person may have had several.
    """
    surveys = [message for message in report.messages if message.questions and message.sent]
    main = max(surveys, key=lambda message: message.sent, default=None)
    counts = _write_dates(report), write_count(report.sent), write_count(report.participants_answered)
    if main is None:
        return (*counts, NOT_DEFINED, NOT_DEFINED, NOT_DEFINED)
    interval = write_percent_range(main.response_rate_interval)
    return (*counts, write_percent(main.response_rate), interval, _write_scores(main))


def _rank(report: CampaignReport) -> tuple[bool, str]:
    first = _find_first_sending(report)
    return first is not None, "" if first is None else first.isoformat()


def _write_dates(report: CampaignReport) -> str:
    sent = [message for message in report.messages if message.first_sent_at and message.last_sent_at]
    if not sent:
        return "not sent yet"
    first = min(f"{message.first_sent_at:%Y-%m-%d}" for message in sent)
    last = max(f"{message.last_sent_at:%Y-%m-%d}" for message in sent)
    return first if first == last else f"{first} to {last}"


def _write_scores(message: MessageReport) -> str:
    scores = [
        f"{SCORE_FORMATS[score.measure].name} {SCORE_FORMATS[score.measure].write(score.value)}"
        for question in message.questions
        if (score := question.score) is not None and question.scale != "number"
    ]
    return ", ".join(scores) or NOT_DEFINED


def _find_first_sending(report: CampaignReport) -> datetime | None:
    """Return the start of a campaign's sending; None if nothing was sent."""
    times = [message.first_sent_at for message in report.messages if message.first_sent_at is not None]
    return min(times, default=None)
