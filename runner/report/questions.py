"""From what was counted of a question to what a report says of it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.answered import PartialAnswers, QuestionReport, ResponseCount, TextSummary
from runner.report.answers import normalise, read_scale
from runner.report.facts import QuestionOutline
from runner.report.scores import divide, net_promoter_score, satisfaction_score, summarise_numbers
from runner.report.timing import quantile, summarise_times
from runner.report.words import list_frequent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from runner.report.answers import Reading
    from runner.report.facts import MessageOutline
    from runner.report.funnel import FunnelStep
    from runner.report.rounding import Interval
    from runner.report.tally import QuestionTally

OWN_WORDS_LABEL = "(in the participant's own words)"
"""Stands for texts that nobody could choose: how many, never which."""
_HALF = Fraction(1, 2)


def summarise_questions(
    outline: MessageOutline,
    tallies: Mapping[str, QuestionTally],
    steps: Iterable[FunnelStep],
    unread: Collection[str] = (),
) -> Iterator[QuestionReport]:
    """Yield what came back to a message's questions, then to those that only results know.

    Args:
        outline: the message.
        tallies: by question tag; one for every question of the message.
        steps: one a question of the message, in its order.
        unread: tags of the questions of which it is not known how many were asked.
    """
    for question, step in zip(outline.questions, steps, strict=True):
        report = _summarise_question(question, tallies[question.tag], step)
        if question.tag in unread:
            report = replace(report, asked=None, answer_rate=None, broke_off=None, is_unread=True)
        yield report
    known = {question.tag for question in outline.questions}
    for tag in sorted(tallies.keys() - known):
        yield _summarise_question(_guess_outline(tag, tallies[tag]), tallies[tag], None)


def list_unread(outline: MessageOutline) -> Iterator[QuestionReport]:
    """Yield a message's questions when nothing is known of the answers."""
    for question in outline.questions:
        yield QuestionReport(question.tag, question.text, question.scale, None, None, None, is_unread=True)


def list_partly_read(questions: Iterable[QuestionReport], launches: int, of: int) -> Iterator[QuestionReport]:
    """Yield questions of which the answers to some launches alone were read.

    Args:
        questions: what came back to these launches.
        launches: how many they are.
        of: launches of the message.
    """
    for one in questions:
        part = replace(one, asked=None, answer_rate=None, broke_off=None, is_unread=True)
        yield QuestionReport(
            one.tag,
            one.text,
            one.scale,
            None,
            None,
            None,
            is_unread=True,
            in_part=PartialAnswers(launches, of, part),
        )


def summarise_pool(question: QuestionOutline, tally: QuestionTally) -> QuestionReport:
    """Return what came back to a question over several messages, each participant's latest answer."""
    return _summarise_question(question, tally, None)


def score_question(
    question: QuestionOutline, readings: Mapping[Reading, int]
) -> tuple[str, Fraction | None, Interval | None, int] | None:
    """Return a question's measure, its value and interval, and the answers counted; None without a score.

    Args:
        question: the question.
        readings: participants by what was kept of their answers.
    """
    numbers = _count_numbers(readings)
    if question.scale == "nps":
        nps = net_promoter_score(numbers)
        return "nps", nps.score, nps.interval, nps.counted
    if question.scale == "csat" and (csat := satisfaction_score(numbers, read_scale(question))):
        return "csat", csat.score, csat.interval, csat.counted
    if question.scale in ("csat", "ces", "number"):
        summary = summarise_numbers(numbers)
        return "mean", summary.mean, summary.interval, summary.counted
    return None


def _summarise_question(
    question: QuestionOutline, tally: QuestionTally, step: FunnelStep | None
) -> QuestionReport:
    readings = tally.count_readings()
    answers = tally.answers
    numbers = _count_numbers(readings)
    return QuestionReport(
        tag=question.tag,
        text=question.text,
        scale=question.scale,
        asked=None if step is None else step.asked,
        answers=answers,
        answer_rate=None if step is None else divide(answers, step.asked),
        distribution=() if question.scale == "text" else tuple(_distribute(question, readings, answers)),
        nps=net_promoter_score(numbers) if question.scale == "nps" else None,
        csat=satisfaction_score(numbers, read_scale(question)) if question.scale == "csat" else None,
        numbers=summarise_numbers(numbers) if question.scale in ("csat", "ces", "number") else None,
        texts=_summarise_texts(tally) if step is not None and not question.responses else None,
        broke_off=None if step is None else step.broke_off,
        time_to_answer=None if step is None else summarise_times(tally.gaps_s),
    )


def _summarise_texts(tally: QuestionTally) -> TextSummary:
    return TextSummary(
        counted=sum(tally.lengths.values()),
        median_length=quantile(tally.lengths, _HALF),
        longest=max(tally.lengths, default=0),
        words=list_frequent(tally.words),
    )


def _distribute(
    question: QuestionOutline, readings: Mapping[Reading, int], answers: int
) -> Iterator[ResponseCount]:
    """Yield the counts of a question's responses in its order, then of strange ones, most chosen first."""
    # By text, not by place: an arm may offer the responses in another order, or fewer of them.
    places: dict[str, int] = {}
    for place, response in enumerate(question.responses):
        places.setdefault(normalise(response), place)
    by_place: Counter[int] = Counter()
    strangers: Counter[tuple[str, str]] = Counter()
    is_freeform = not question.responses and all(reading.label is None for reading in readings)
    for reading, count in readings.items():
        place_of = None if reading.label is None else places.get(normalise(reading.label))
        if place_of is not None:
            by_place[place_of] += count
        elif not is_freeform:
            strangers[reading.answer, OWN_WORDS_LABEL if reading.label is None else reading.label] += count
    for place, response in enumerate(question.responses):
        count = by_place[place]
        yield ResponseCount(str(place + 1), response, count, divide(count, answers))
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
