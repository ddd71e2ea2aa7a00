"""How a report writes figures, and the sentences it begins and ends with; nothing is escaped yet."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from runner.report.rounding import round_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from fractions import Fraction

    from runner.ledger.report_model import PartialCount
    from runner.report.model import CampaignReport, MessageReport
    from runner.report.rounding import Interval

SIMULATION_NOTE = "SANDBOX: simulated, nobody was texted."
"""Stands on a report of the target that texts nobody."""

NOT_DEFINED = "–"
NOT_KNOWN = "not known"
# Controls (line breaks, NUL), lone surrogates, and the marks that reverse the text after them.
_UNPRINTABLE = frozenset({"Cc", "Cs"})
_DIRECTION_MARKS = frozenset(
    map(chr, (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))),
)


def write_line(text: str) -> str:
    """Return a text on one line, without control characters and marks that change the writing direction."""
    blanks = (" " if unicodedata.category(char) in _UNPRINTABLE else char for char in text)
    return " ".join("".join(char for char in blanks if char not in _DIRECTION_MARKS).split())


def write_count(count: int | None) -> str:
    """Return a count with thousands separators: `1,024`; None is not known."""
    return NOT_KNOWN if count is None else f"{count:,}"


def write_known(message: MessageReport, name: str, count: int | None) -> str:
    """Return a count of a message: `1,024`, or `not known (120 in 60 of 61 launches)`.

    Args:
        message: the message.
        name: of the count, as in `partly_known`.
        count: None if it is not known.
    """
    part = message.partly_known.get(name) if count is None else None
    return write_count(count) if part is None else f"{NOT_KNOWN} ({write_part(part, message)})"


def write_part(part: PartialCount, message: MessageReport) -> str:
    """Return what is known of some launches of a message: `120 in 60 of 61 launches`."""
    return f"{part.count:,} in {part.launches:,} of {message.launches:,} launches"


def write_percent(rate: Fraction | None) -> str:
    """Return a rate as a percentage with one decimal: `40.2 %`."""
    return NOT_DEFINED if rate is None else f"{round_exactly(rate * 100, 1)} %"


def write_number(number: Fraction | None, places: int = 2) -> str:
    """Return a number with a fixed count of decimals: `3.45`."""
    return NOT_DEFINED if number is None else f"{round_exactly(number, places):,}"


def write_score(score: Fraction | None) -> str:
    """Return a Net Promoter Score with its sign and one decimal: `+31.6`."""
    return NOT_DEFINED if score is None else f"{round_exactly(score, 1):+}"


def write_points(difference: Fraction | None) -> str:
    """Return a difference of rates in percentage points, with its sign: `+4.2 points`."""
    return NOT_DEFINED if difference is None else f"{write_score(difference * 100)} points"


def write_percent_range(interval: Interval | None) -> str:
    """Return an interval of a rate: `37.3–43.3 %`."""
    return NOT_DEFINED if interval is None else f"{100 * interval[0]:.1f}–{100 * interval[1]:.1f} %"


def write_score_range(interval: Interval | None) -> str:
    """Return an interval of a signed score: `-1.2 to +8.1`."""
    if interval is None:
        return NOT_DEFINED
    # Adding nothing turns minus nothing into nothing.
    low, high = (round(end, 1) + 0.0 for end in interval)
    return f"{low:+.1f} to {high:+.1f}"


def write_number_range(interval: Interval | None) -> str:
    """Return an interval of a number: `3.45 to 3.87`."""
    return NOT_DEFINED if interval is None else f"{interval[0]:,.2f} to {interval[1]:,.2f}"


def write_time(time: datetime) -> str:
    """Return a UTC time to the minute: `2026-11-20 12:34 UTC`."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def count_nouns(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 launch`, `2 launches`; the plural has an s unless it is given."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def write_headline(report: CampaignReport) -> str:
    """Return the one sentence that says how the campaign did."""
    if len(report.messages) == 1:
        return write_message_headline(report.messages[0], is_simulated=report.is_simulated)
    if not report.sent:
        return "Nothing was sent yet."
    queued = sum(message.sessions.queued or 0 for message in report.messages)
    noun = "simulated text" if report.is_simulated else "text"
    messages = count_nouns(sum(message.sent > 0 for message in report.messages), "message")
    texts = f"{count_nouns(report.sent - queued, noun)} went out in {messages}{_write_queued(queued)}"
    if report.participants_answered is None:
        return f"{texts}; how many people answered is not known."
    return f"{texts}; {count_nouns(report.participants_answered, 'person', 'people')} answered."


def _write_queued(queued: int) -> str:
    """Return how many texts wait at the service for a person's earlier session; empty for none."""
    if not queued:
        return ""
    return f", {queued:,} {'is' if queued == 1 else 'are'} still queued at the service"


def write_message_headline(message: MessageReport, *, is_simulated: bool) -> str:
    """Return the one sentence that says how a message did."""
    if not message.sent:
        return "Nobody was texted yet."
    kind = "simulated " if is_simulated else ""
    queued = message.sessions.queued or 0
    out = message.sent - queued
    were = "was" if out == 1 else "were"
    texted = f"{count_nouns(out, kind + 'person', kind + 'people')} {were} texted{_write_queued(queued)}"
    if not message.questions:
        return f"{texted}."
    if message.participants_answered is None:
        part = message.partly_known.get("participants_answered")
        known = "" if part is None else f": {write_part(part, message)}"
        return f"{texted}; how many answered is not known{known}."
    if message.response_rate is None or message.response_rate_interval is None:
        return f"{texted}; {message.participants_answered:,} answered."
    interval = f"95 % interval {write_percent_range(message.response_rate_interval)}"
    rate = write_percent(message.response_rate)
    return f"{texted}; {message.participants_answered:,} answered ({rate}, {interval})."


def write_sending_time(message: MessageReport) -> str:
    """Return when a message was sent, as a sentence; empty when it was not."""
    if message.first_sent_at is None or message.last_sent_at is None:
        return ""
    first, last = write_time(message.first_sent_at), write_time(message.last_sent_at)
    return f"Sent {first}." if first == last else f"Sent from {first} to {last}."


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
    read = report.launches - report.unread_launches
    launches = f", {read:,} of {report.launches:,} launches" if report.unread_launches else ""
    return f"Target {report.target}, reconciled {write_time(report.reconciled_at)}{launches}."
