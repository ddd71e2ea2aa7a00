"""From facts and results to the numbers of a report: pure, and one pass over the results."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runner.report.answers import read_scale
from runner.report.discrepancies import describe_strays, find_discrepancies
from runner.report.facts import QuestionOutline
from runner.report.funnel import follow_questions, list_completed
from runner.report.model import CampaignReport, MessageReport, QuestionReport, ResponseCount, Sessions
from runner.report.scores import (
    divide,
    net_promoter_score,
    satisfaction_score,
    summarise_numbers,
    wilson_interval,
)
from runner.report.tally import CampaignTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

    from runner.ledger.model import MessageTotals, ResultRow
    from runner.report.answers import Reading
    from runner.report.facts import CampaignFacts, MessageOutline
    from runner.report.tally import MessageTally, QuestionTally

OWN_WORDS_LABEL = "(in the participant's own words)"
"""Stands for texts that nobody could choose: how many, never which."""


def summarise(facts: CampaignFacts, results: Iterable[ResultRow]) -> CampaignReport:
    """Return a campaign's metrics.

    Args:
        facts: the campaign and what was sent.
        results: every reconciled result of the campaign, once, in any order; read as a stream. Memory grows
            with participants and questions, not with results, and no freeform text is kept.

    Returns:
        The report, the same for the same input in whatever order.
    """
    tally = CampaignTally(outline for outline, _ in facts.messages)
    tally.add_all(results)
    return CampaignReport(
        campaign=facts.name,
        target=facts.target,
        reconciled_at=_find_earliest([totals for _, totals in facts.messages if totals.launches]),
        messages=tuple(
            _summarise_message(outline, totals, tally.messages[outline.id])
            for outline, totals in facts.messages
        ),
        participants_answered=tally.count_participants(),
        discrepancies=describe_strays(tally.strays),
    )


def _summarise_message(outline: MessageOutline, totals: MessageTotals, tally: MessageTally) -> MessageReport:
    answered = len(tally.list_participants())
    completed = len(list_completed(outline, tally))
    has_rate = bool(outline.questions) and 0 < totals.sent >= answered
    return MessageReport(
        id=outline.id,
        tag=outline.tag,
        first_sent_at=_read_time(totals.first_sent_at),
        last_sent_at=_read_time(totals.last_sent_at),
        reconciled_at=_read_time(totals.reconciled_at),
        launches=totals.launches,
        recipients=totals.sent + totals.unresolved,
        sent=totals.sent,
        rejected=totals.rejected,
        unresolved=totals.unresolved,
        sessions=Sessions(totals.queued, totals.active, totals.complete),
        participants_answered=answered,
        response_rate=divide(answered, totals.sent) if has_rate else None,
        response_rate_interval=wilson_interval(answered, totals.sent) if has_rate else None,
        participants_completed=completed,
        completion_rate=divide(completed, answered) if outline.questions else None,
        renders=totals.renders,
        results=tally.results,
        discrepancies=find_discrepancies(outline, totals, tally),
        questions=tuple(_summarise_questions(outline, totals, tally)),
    )


def _summarise_questions(
    outline: MessageOutline, totals: MessageTotals, tally: MessageTally
) -> Iterator[QuestionReport]:
    for question, step in zip(outline.questions, follow_questions(outline, totals, tally), strict=True):
        yield _summarise_question(question, tally.questions[question.tag], step.asked)
    known = {question.tag for question in outline.questions}
    for tag in sorted(tally.questions.keys() - known):
        answers = tally.questions[tag]
        yield _summarise_question(_guess_outline(tag, answers), answers, None)


def _summarise_question(question: QuestionOutline, tally: QuestionTally, asked: int | None) -> QuestionReport:
    readings = tally.count_readings()
    answers = len(tally.participants)
    numbers = _count_numbers(readings)
    return QuestionReport(
        tag=question.tag,
        text=question.text,
        scale=question.scale,
        asked=asked,
        answers=answers,
        answer_rate=None if asked is None else divide(answers, asked),
        distribution=() if question.scale == "text" else tuple(_distribute(question, readings, answers)),
        nps=net_promoter_score(numbers) if question.scale == "nps" else None,
        csat=satisfaction_score(numbers, read_scale(question)) if question.scale == "csat" else None,
        numbers=summarise_numbers(numbers) if question.scale in ("csat", "ces", "number") else None,
    )


def _distribute(
    question: QuestionOutline, readings: Mapping[Reading, int], answers: int
) -> Iterator[ResponseCount]:
    """Yield the counts of a question's responses in its order, then of strange ones, most chosen first."""
    by_place: Counter[int] = Counter()
    strangers: Counter[tuple[str, str]] = Counter()
    is_freeform = not question.responses and all(reading.label is None for reading in readings)
    for reading, count in readings.items():
        if reading.position is not None:
            by_place[reading.position] += count
        elif not is_freeform:
            strangers[reading.answer, OWN_WORDS_LABEL if reading.label is None else reading.label] += count
    for place, response in enumerate(question.responses, start=1):
        count = by_place[place]
        yield ResponseCount(str(place), response, count, divide(count, answers))
    for (answer, label), count in sorted(strangers.items(), key=lambda item: (-item[1], item[0])):
        yield ResponseCount(answer, label, count, divide(count, answers))


def _guess_outline(tag: str, tally: QuestionTally) -> QuestionOutline:
    """Return what a question must have been, of which only results are known.

    It is multiple choice when every answer is an index and one differs from its response: the service gives
    freeform answers the same text twice (wire facts, result records). When in doubt it is freeform, so that
    no text of a participant's own is ever shown.
    """
    readings = tally.count_readings()
    is_choice = all(reading.label is not None for reading in readings) and any(
        reading.answer != reading.label for reading in readings
    )
    text = min(tally.texts, key=lambda text: (-tally.texts[text], text))
    return QuestionOutline(tag=tag, text=text, scale="choice" if is_choice else "text")


def _count_numbers(readings: Mapping[Reading, int]) -> Counter[Fraction]:
    numbers: Counter[Fraction] = Counter()
    for reading, count in readings.items():
        if reading.number is not None:
            numbers[reading.number] += count
    return numbers


def _find_earliest(messages: list[MessageTotals]) -> datetime | None:
    """Return when the oldest of the launches was reconciled; None when one never was, or there are none."""
    times = [_read_time(totals.reconciled_at) for totals in messages]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


def _read_time(text: str | None) -> datetime | None:
    """Return an ISO 8601 time in UTC; one without a zone is in UTC (reference, section 2)."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
