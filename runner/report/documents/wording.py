"""Figures and general sentences of a report as text, not yet escaped; and figures for programs (`store_…`).

Exact numbers become decimal, rounded half away from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from runner.document import PLACES, round_exactly
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from fractions import Fraction

    from runner.ledger.report_model import NamedCount
    from runner.report.model import CampaignReport, MessageReport
    from runner.report.question_model import Interval


SIMULATION_NOTE = "SANDBOX: simulated, nobody was texted."
"""The note on reports of the target that texts nobody."""

NOT_DEFINED = "–"
NOT_KNOWN = "not known"


def write_count(count: int | None) -> str:
    """Return a count with thousands separators: `1,024`; None is not known."""
    return NOT_KNOWN if count is None else f"{count:,}"


def write_known(message: MessageReport, name: str, count: int | None) -> str:
    """Return a message's count: `1,024`, or `not known (120 in 60 of 61 launches)`.

    `name` is the count's, as in `partly_known`.
    """
    part = message.find_part(name) if count is None else None
    return write_count(count) if part is None else f"{NOT_KNOWN} ({write_part(part, message)})"


def write_part(part: NamedCount, message: MessageReport) -> str:
    """Return a count known of some launches: `120 in 60 of 61 launches`."""
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
    # Adding zero turns minus zero into zero.
    low, high = (round(end, 1) + 0.0 for end in interval)
    return f"{low:+.1f} to {high:+.1f}"


def write_number_range(interval: Interval | None) -> str:
    """Return an interval of a number: `3.45 to 3.87`."""
    return NOT_DEFINED if interval is None else f"{interval[0]:,.2f} to {interval[1]:,.2f}"


@dataclass(frozen=True, slots=True)
class ScoreFormat:
    """The way scores of one measure are written.

    Attributes:
        name: in a sentence.
        write: of a value.
        write_range: of its interval.
    """

    name: str
    write: Callable[[Fraction | None], str]
    write_range: Callable[[Interval | None], str]

    @property
    def label(self) -> str:
        """The name at the start of a sentence."""
        return self.name[0].upper() + self.name[1:]


SCORE_FORMATS: Mapping[str, ScoreFormat] = {
    "nps": ScoreFormat("NPS", write_score, write_score_range),
    "csat": ScoreFormat("CSAT", write_percent, write_percent_range),
    "mean": ScoreFormat("mean", write_number, write_number_range),
}
"""The formats of scores, by measure."""


def write_time(time: datetime) -> str:
    """Return a UTC time to the minute: `2026-11-20 12:34 UTC`."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def write_headline(report: CampaignReport) -> str:
    """Return one sentence on the campaign's outcome."""
    if len(report.messages) == 1:
        return write_message_headline(report.messages[0], is_simulated=report.is_simulated)
    if not report.sent:
        return "Nothing was sent yet."
    queued = sum(message.sessions.queued or 0 for message in report.messages)
    noun = "simulated text" if report.is_simulated else "text"
    messages = count_words(sum(message.sent > 0 for message in report.messages), "message")
    texts = f"{count_words(report.sent - queued, noun)} went out in {messages}{_write_queued(queued)}"
    if report.participants_answered is None:
        return f"{texts}; how many people answered is not known."
    return f"{texts}; {count_words(report.participants_answered, 'person', 'people')} answered."


def _write_queued(queued: int) -> str:
    """Return how many texts wait at the service for a person's earlier session; empty for none."""
    if not queued:
        return ""
    return f", {queued:,} {'is' if queued == 1 else 'are'} still queued at the service"


def write_message_headline(message: MessageReport, *, is_simulated: bool) -> str:
    """Return one sentence on a message's outcome."""
    if not message.sent:
        return "Nobody was texted yet."
    kind = "simulated " if is_simulated else ""
    queued = message.sessions.queued or 0
    out = message.sent - queued
    were = "was" if out == 1 else "were"
    texted = f"{count_words(out, kind + 'person', kind + 'people')} {were} texted{_write_queued(queued)}"
    if not message.questions:
        return f"{texted}."
    if message.participants_answered is None:
        part = message.find_part("participants_answered")
        known = "" if part is None else f": {write_part(part, message)}"
        return f"{texted}; how many answered is not known{known}."
    if message.response_rate is None or message.response_rate_interval is None:
        return f"{texted}; {message.participants_answered:,} answered."
    interval = f"95 % interval {write_percent_range(message.response_rate_interval)}"
    rate = write_percent(message.response_rate)
    return f"{texted}; {message.participants_answered:,} answered ({rate}, {interval})."


def write_sending_time(message: MessageReport) -> str:
    """Return a sentence on a message's sending time; empty if it was not sent."""
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
    """Return the source of the figures, and their time."""
    if report.reconciled_at is None:
        return f"Target {report.target}, not reconciled yet."
    read = report.launches - report.unread_launches
    launches = f", {read:,} of {report.launches:,} launches" if report.unread_launches else ""
    return f"Target {report.target}, reconciled {write_time(report.reconciled_at)}{launches}."


_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S
_DAY_S = 24 * _HOUR_S
_UNITS = ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min"), (1, "s"))


def format_duration(seconds: Fraction) -> str:
    """Return a duration in its two largest units: `42 s`, `3 min 20 s`, `5 h 10 min`, `2 d 3 h`.

    The smaller unit is rounded, half away from zero, and left out if it is 0: `3 min`, `1 d`. Less than half
    a second is `0 s`. A negative duration, of clocks that disagree, has a minus.
    """
    whole = 0
    # The rounded value chooses the units: 3,599.6 s is an hour.
    for step_s, limit_s in ((1, _HOUR_S), (_MINUTE_S, _DAY_S), (_HOUR_S, inf)):
        whole = int(round_exactly(abs(seconds) / step_s, 0)) * step_s
        if whole < limit_s:
            break
    parts, rest = [], whole
    for unit_s, sign in _UNITS:
        count, rest = divmod(rest, unit_s)
        if count:
            parts.append(f"{count:,} {sign}")
    minus = "−" if seconds < 0 and whole else ""
    return minus + (" ".join(parts) or "0 s")


def store_number(number: Fraction | None) -> float | None:
    """Return a number as documents for programs hold it: four decimal places, or None."""
    return None if number is None else float(round_exactly(number, PLACES))


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def defuse_formula(text: str) -> str:
    """Return a text cell with an apostrophe before it if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def distinguish(names: Iterable[str]) -> list[str]:
    """Return names made distinct by numbers, regardless of case, as the engine compares them."""
    found: dict[str, str] = {}
    for name in names:
        candidates = (name, *(f"{name} ({number})" for number in range(2, len(found) + 2)))
        free = next(candidate for candidate in candidates if candidate.casefold() not in found)
        found[free.casefold()] = free
    return list(found.values())
