"""What a report says in words and figures: the same in Markdown and HTML, and not yet escaped for either."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.rounding import round_exactly
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from fractions import Fraction

    from runner.report.model import CampaignReport, MessageReport, NetPromoterScore, QuestionReport

FREEFORM_NOTE = "Answered in the participants’ own words, which a report does not show."
"""Stands in for the answers to a freeform question."""

NOT_DEFINED = "–"
# Controls (line breaks, NUL), lone surrogates, and the marks that reverse the text after them.
_UNPRINTABLE = frozenset({"Cc", "Cs"})
_DIRECTION_MARKS = frozenset(
    map(chr, (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
)


@dataclass(frozen=True, slots=True)
class FunnelRow:
    """One row of a message's funnel: how many, and of whom they are what share."""

    label: str
    count: int
    share: Fraction | None = None
    whole: str = ""


def write_line(text: str) -> str:
    """Return a text on one line, without control characters and marks that change the writing direction."""
    blanks = (" " if unicodedata.category(char) in _UNPRINTABLE else char for char in text)
    return " ".join("".join(char for char in blanks if char not in _DIRECTION_MARKS).split())


def write_count(count: int) -> str:
    """Return a count with thousands separators: `1,024`."""
    return f"{count:,}"


def write_percent(rate: Fraction | None) -> str:
    """Return a rate as a percentage with one decimal: `40.2 %`."""
    return NOT_DEFINED if rate is None else f"{round_exactly(rate * 100, 1)} %"


def write_number(number: Fraction | None, places: int = 2) -> str:
    """Return a number with a fixed count of decimals: `3.45`."""
    return NOT_DEFINED if number is None else f"{round_exactly(number, places):,}"


def write_score(score: Fraction | None) -> str:
    """Return a Net Promoter Score with its sign and one decimal: `+31.6`."""
    return NOT_DEFINED if score is None else f"{round_exactly(score, 1):+}"


def write_time(time: datetime) -> str:
    """Return a UTC time to the minute: `2026-11-20 12:34 UTC`."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def write_headline(report: CampaignReport) -> str:
    """Return the one sentence that says how the campaign did."""
    if len(report.messages) == 1:
        return write_message_headline(report.messages[0], is_simulated=report.is_simulated)
    if not report.sent:
        return "Nothing was sent yet."
    texts = _count_nouns(report.sent, "simulated text" if report.is_simulated else "text")
    messages = _count_nouns(sum(message.sent > 0 for message in report.messages), "message")
    answered = _count_nouns(report.participants_answered, "person", "people")
    return f"{texts} went out in {messages}; {answered} answered."


def write_message_headline(message: MessageReport, *, is_simulated: bool) -> str:
    """Return the one sentence that says how a message did."""
    if not message.sent:
        return "Nobody was texted yet."
    kind = "simulated " if is_simulated else ""
    were = "was" if message.sent == 1 else "were"
    texted = f"{_count_nouns(message.sent, kind + 'person', kind + 'people')} {were} texted"
    if message.response_rate is None or message.response_rate_interval is None:
        return (
            f"{texted}."
            if not message.questions
            else f"{texted}; {message.participants_answered:,} answered."
        )
    low, high = message.response_rate_interval
    interval = f"95 % interval {100 * low:.1f}–{100 * high:.1f} %"
    rate = write_percent(message.response_rate)
    return f"{texted}; {message.participants_answered:,} answered ({rate}, {interval})."


def write_sending_time(message: MessageReport) -> str:
    """Return when a message was sent, as a sentence; empty when it was not."""
    if message.first_sent_at is None or message.last_sent_at is None:
        return ""
    first, last = write_time(message.first_sent_at), write_time(message.last_sent_at)
    return f"Sent {first}." if first == last else f"Sent from {first} to {last}."


def list_funnel(message: MessageReport) -> Iterator[FunnelRow]:
    """Yield the rows of a message's funnel; rows that only trouble fills are left out when empty."""
    sent = message.sent
    yield FunnelRow("Recipients", message.recipients)
    if message.unresolved:
        share = divide(message.unresolved, message.recipients)
        yield FunnelRow("Outcome not known", message.unresolved, share, "recipients")
    yield FunnelRow("Sent", sent, divide(sent, message.recipients), "recipients")
    if message.sessions.queued:
        queued = message.sessions.queued
        yield FunnelRow("Still queued", queued, divide(queued, sent), "sent")
    if message.sessions.active:
        active = message.sessions.active
        yield FunnelRow("In progress", active, divide(active, sent), "sent")
    complete = message.sessions.complete
    yield FunnelRow("Ended", complete, divide(complete, sent), "sent")
    if message.questions:
        yield FunnelRow("Answered", message.participants_answered, message.response_rate, "sent")
        yield FunnelRow(
            "Reached the end", message.participants_completed, message.completion_rate, "answered"
        )
    if message.rejected:
        yield FunnelRow("Refused", message.rejected)


def write_volume(message: MessageReport) -> str:
    """Return what a message took, as a sentence."""
    parts = (
        _count_nouns(message.launches, "launch", "launches"),
        _count_nouns(message.renders, "render"),
        _count_nouns(message.results, "result"),
    )
    return f"{', '.join(parts)}."


def write_turnout(question: QuestionReport) -> str:
    """Return how many were asked and answered, as a sentence."""
    if question.asked is None:
        return f"{question.answers:,} answered; the campaign does not have this question."
    rate = "" if question.answer_rate is None else f" ({write_percent(question.answer_rate)})"
    return f"{question.asked:,} asked, {question.answers:,} answered{rate}."


def list_scores(question: QuestionReport) -> Iterator[str]:
    """Yield the scores of a question, each as a line."""
    if question.nps is not None:
        yield _write_nps(question.nps)
    if question.csat is not None:
        csat = question.csat
        score = write_percent(csat.score)
        yield f"CSAT {score}: {csat.satisfied:,} of {csat.counted:,} chose one of the top two responses."
    if question.numbers is not None:
        numbers = question.numbers
        mean, median = write_number(numbers.mean), write_number(numbers.median)
        yield f"Mean {mean}, median {median}, of {_count_nouns(numbers.counted, 'answer')}."


def is_freeform(question: QuestionReport) -> bool:
    """Tell whether a question's answers are words that a report does not show."""
    return not question.distribution and question.scale in ("text", "choice")


def list_warnings(report: CampaignReport) -> Iterator[str]:
    """Yield every discrepancy of a report, those of a message with its id."""
    yield from report.discrepancies
    for message in report.messages:
        for sentence in message.discrepancies:
            yield f"{message.id}: {sentence}"


def write_footer(report: CampaignReport) -> str:
    """Return where the figures come from, and as of when."""
    if report.reconciled_at is None:
        return f"Target {report.target}, not reconciled yet."
    return f"Target {report.target}, reconciled {write_time(report.reconciled_at)}."


def _write_nps(nps: NetPromoterScore) -> str:
    groups = (
        ("promoters", nps.promoters),
        ("passives", nps.passives),
        ("detractors", nps.detractors),
    )
    parts = ", ".join(f"{name} {write_percent(divide(count, nps.counted))}" for name, count in groups)
    return f"NPS {write_score(nps.score)}: {parts}, of {_count_nouns(nps.counted, 'answer')}."


def _count_nouns(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
