"""A report's questions, experiments and breakdowns, from counted answers and groups of recipients."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.campaign.scales import read_points
from runner.report.comparison import analyse
from runner.report.facts import GroupTally
from runner.report.funnel import count_completed
from runner.report.model import Breakdown, Experiment, Turnout
from runner.report.question_model import PartialAnswers, QuestionReport, ResponseCount
from runner.report.scores import (
    divide,
    net_promoter_score,
    satisfaction_score,
    summarise_numbers,
    wilson_interval,
)
from runner.source.normalize import fold_answer
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from fractions import Fraction

    from runner.ledger.report_model import SentRow
    from runner.report.facts import (
        AnswerReading,
        MessageOutline,
        MessageTally,
        QuestionOutline,
        QuestionTally,
    )
    from runner.report.funnel import FunnelStep


OWN_WORDS_LABEL = "(in the participant's own words)"
"""The label of texts that were not offered: their number is shown, never the texts."""
NO_VALUE = "(empty)"
"""The name of the group of recipients whose cell is blank, or who have left the audience."""


def summarise_questions(
    outline: MessageOutline,
    tallies: Mapping[str, QuestionTally],
    steps: Iterable[FunnelStep],
    unread: Collection[str] = (),
) -> Iterator[QuestionReport]:
    """Yield the report of each question of a message.

    There is a tally for every question, and a step, in the message's order; `unread` has the tags of
    questions of which it is not known how many were asked.
    """
    for question, step in zip(outline.questions, steps, strict=True):
        report = summarise_question(question, tallies[question.tag]).replace(
            asked=step.asked, answer_rate=divide(step.answered, step.asked), broke_off=step.broke_off
        )
        if question.tag in unread:
            report = report.replace(asked=None, answer_rate=None, broke_off=None, is_unread=True)
        yield report


def list_unread(outline: MessageOutline) -> Iterator[QuestionReport]:
    """Yield a message's questions without answers, as none were read."""
    for question in outline.questions:
        yield QuestionReport(question.tag, hide_phones(question.text), question.scale, is_unread=True)


def list_partly_read(questions: Iterable[QuestionReport], launches: int, of: int) -> Iterator[QuestionReport]:
    """Yield questions with the answers to `launches` of a message's `of` launches."""
    for one in questions:
        part = one.replace(asked=None, answer_rate=None, broke_off=None, is_unread=True)
        known = PartialAnswers(launches, of, part)
        yield QuestionReport(one.tag, one.text, one.scale, is_unread=True, in_part=known)


def summarise_question(question: QuestionOutline, tally: QuestionTally) -> QuestionReport:
    """Return the report of a question from its answers, without the number of those who were asked."""
    readings, answers = tally.count_readings(), tally.answers
    return _score_question(question, readings).replace(
        answers=answers,
        distribution=() if question.scale == "text" else tuple(_distribute(question, readings, answers)),
    )


def _score_question(question: QuestionOutline, readings: Mapping[AnswerReading, int]) -> QuestionReport:
    """Return the report of a question with nothing but its scores."""
    numbers = _count_numbers(readings)
    points = read_points(question.scale, question.responses, question.values)
    scored = QuestionReport(
        tag=question.tag,
        # Reports name nobody, whatever a campaign's own texts hold.
        text=hide_phones(question.text),
        scale=question.scale,
        nps=net_promoter_score(numbers) if question.scale == "nps" else None,
        csat=satisfaction_score(numbers, points, tuple(map(hide_phones, question.responses)))
        if question.scale == "csat"
        else None,
    )
    if question.scale not in ("csat", "ces", "number"):
        return scored
    summary = summarise_numbers(numbers)
    return scored.replace(
        mean=summary.mean,
        median=summary.median,
        mean_interval=summary.interval,
        numeric_answers=summary.counted,
    )


def _distribute(
    question: QuestionOutline, readings: Mapping[AnswerReading, int], answers: int
) -> Iterator[ResponseCount]:
    """Yield the counts of a question's responses in its order, then of unknown ones, most chosen first."""
    # By text, not by place: an arm may offer the responses in another order, or fewer of them.
    places: dict[str, int] = {}
    for place, response in enumerate(question.responses):
        places.setdefault(fold_answer(response), place)
    by_place: Counter[int] = Counter()
    strangers: Counter[tuple[str, str]] = Counter()
    is_freeform = not question.responses and all(reading.label is None for reading in readings)
    for reading, count in readings.items():
        place_of = None if reading.label is None else places.get(fold_answer(reading.label))
        if place_of is not None:
            by_place[place_of] += count
        elif not is_freeform:
            strangers[reading.answer, _label_stranger(question, reading.label)] += count
    for place, response in enumerate(question.responses):
        count = by_place[place]
        yield ResponseCount(str(place + 1), hide_phones(response), count, divide(count, answers))
    for (answer, label), count in sorted(strangers.items(), key=lambda item: (-item[1], item[0])):
        yield ResponseCount(answer, hide_phones(label), count, divide(count, answers))


def _label_stranger(question: QuestionOutline, label: str | None) -> str:
    """Return the label of an answer that is none of the responses, if the question has any."""
    if label is None:
        return OWN_WORDS_LABEL
    return f"{label} (not in the campaign)" if question.responses else label


def _count_numbers(readings: Mapping[AnswerReading, int]) -> Counter[Fraction]:
    numbers: Counter[Fraction] = Counter()
    for reading, count in readings.items():
        if reading.number is not None:
            numbers[reading.number] += count
    return numbers


def describe_experiment(
    outline: MessageOutline,
    tally: MessageTally,
    sent: Sequence[SentRow],
    as_of: datetime | None,
    *,
    is_read: bool = True,
) -> Experiment | None:
    """Return the results of a message's arms; None for a message that goes out in one way.

    `as_of` is the oldest reading of its reconciled launches. Unless every launch's answers `is_read`, turnout
    is left out.
    """
    arms = [way.arm for way in outline.ways if way.arm]
    if not arms:
        return None
    recipients: Counter[str] = Counter()
    for row in sent:
        recipients[row.arm] += row.recipients
    groups = {
        arm: GroupTally(
            recipients[arm],
            {key: count for key, count in tally.paths.items() if key[0] == arm},
            {tag: question.count_readings(arm) for tag, question in tally.questions.items()},
        )
        for arm in arms
    }
    turnouts = tuple(_describe_group(outline, arm, group, is_read=is_read) for arm, group in groups.items())
    if not is_read or not outline.questions:
        return Experiment(turnouts, ())
    analysis, differences = analyse(outline.analysis, arms, sent, tally.arm_days, as_of)
    return Experiment(turnouts, differences, analysis)


def break_down(
    outline: MessageOutline,
    column: str,
    groups: Mapping[str, GroupTally],
    least: int,
    *,
    is_read: bool = True,
) -> Breakdown:
    """Return the turnout by the values of a column, without groups in which people could be identified.

    A group of fewer than `least` recipients is left out, and so is the next larger one if the total would
    otherwise reveal the small ones (primary and secondary suppression: L. Willenborg, T. de Waal, "Elements
    of Statistical Disclosure Control", 2001, chapter 6). Scores of fewer answers are left out by the same
    rule, since the score of everybody would reveal them.
    """
    hidden = _choose_small({name: group.sent for name, group in groups.items()}, least)
    scoreless = _choose_scoreless(outline, groups, hidden, least)
    hidden_sent = sum(groups[name].sent for name in hidden)
    return Breakdown(
        column=column,
        groups=tuple(
            _describe_group(
                outline,
                # Reports name nobody, whatever the column holds.
                hide_phones(name) or NO_VALUE,
                group,
                {tag for tag in scoreless if name in scoreless[tag]},
                is_read=is_read,
            )
            for name, group in groups.items()
            if name not in hidden
        ),
        suppressed=len(hidden),
        suppressed_sent=hidden_sent if hidden_sent >= least else None,
        least=least,
    )


def _choose_scoreless(
    outline: MessageOutline, groups: Mapping[str, GroupTally], hidden: Collection[str], least: int
) -> dict[str, set[str]]:
    """Return the groups whose score of a question is left out, by its tag, with the hidden groups."""
    chosen = {}
    for question in outline.questions:
        scores = {
            name: _score_question(question, group.readings.get(question.tag, {})).score
            for name, group in groups.items()
        }
        # Groups without an answer have no score, and reveal nothing.
        counted = {
            name: score.counted for name, score in scores.items() if score is not None and score.counted
        }
        chosen[question.tag] = _choose_small(counted, least, hidden)
    return chosen


def _choose_small(sizes: Mapping[str, int], least: int, hidden: Collection[str] = ()) -> set[str]:
    """Return the groups to leave out: hidden ones, small ones, and those needed to conceal these."""
    ascending = sorted(sizes, key=lambda name: (sizes[name], name))
    chosen = {name for name in ascending if name in hidden or sizes[name] < least}
    if chosen:
        for name in ascending:
            if sum(sizes[one] for one in chosen) >= least:
                break
            chosen.add(name)
    return chosen


def _describe_group(
    outline: MessageOutline,
    name: str,
    group: GroupTally,
    scoreless: Collection[str] = (),
    *,
    is_read: bool,
) -> Turnout:
    """Return a group's turnout; without answers and scores if not all answers were read."""
    if not is_read:
        return Turnout(name, group.sent, None, None, None, None)
    answered = sum(group.paths.values())
    has_rate = bool(outline.questions) and 0 < group.sent >= answered
    scores = (
        (question.tag, _score_question(question, group.readings.get(question.tag, {})).score)
        for question in outline.questions
    )
    return Turnout(
        name=name,
        sent=group.sent,
        answered=answered,
        response_rate=divide(answered, group.sent) if has_rate else None,
        response_interval=wilson_interval(answered, group.sent) if has_rate else None,
        completed=sum(count_completed(outline, group.paths).values()),
        scores=tuple(
            score.replace(value=None, interval=None) if tag in scoreless else score
            for tag, score in scores
            if score is not None
        ),
    )
