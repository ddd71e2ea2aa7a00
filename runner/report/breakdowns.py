"""A report's questions, and its groups of people, from counted answers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from runner.campaign.message_model import SCORED
from runner.campaign.scales import read_points
from runner.report.facts import AnswerReading, GroupTally, PooledOutline, QuestionOutline, Tally
from runner.report.people_model import ColumnReport, GroupReport
from runner.report.question_model import QuestionReport, ResponseCount, Score
from runner.report.scores import Z_95, add_mean, divide, net_promoter_score, rate_response, satisfaction_score
from runner.source.normalize import fold_answer
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


_Key = TypeVar("_Key")
OWN_WORDS_LABEL = "(in the participant's own words)"
"""The label of texts that were not offered: their number is shown, never the texts."""
_WORDED = ("nps", "csat", "ces")
NO_VALUE = "(empty)"
"""The name of the group of recipients whose cell is blank, or who have left the audience."""


def summarise_question(
    question: QuestionOutline, readings: Tally | None, asked: int | None = None
) -> QuestionReport:
    """Return the report of a question from its answers and the people who were asked, as far as known."""
    if readings is None:
        return QuestionReport(question.tag, hide_phones(question.text), question.scale)
    answers = sum(readings.values())
    return score_question(question, readings).replace(
        asked=asked,
        answers=answers,
        answer_rate=divide(answers, asked),
        distribution=() if question.scale == "text" else tuple(_distribute(question, readings, answers)),
    )


def score_question(question: QuestionOutline, readings: Tally, z: float = Z_95) -> QuestionReport:
    """Return the report of a question with nothing but its scores; `z` is the reach of their intervals."""
    found = ((one.number, count) for one, count in readings.items())
    numbers = add_up((number, count) for number, count in found if number is not None)
    points = read_points(question.scale, question.responses, question.values)
    scored = QuestionReport(
        tag=question.tag,
        # Reports name nobody, whatever a campaign's own texts hold.
        text=hide_phones(question.text),
        scale=question.scale,
        nps=net_promoter_score(numbers, z) if question.scale == "nps" else None,
        csat=satisfaction_score(numbers, points, tuple(map(hide_phones, question.responses)), z)
        if question.scale == "csat"
        else None,
    )
    return add_mean(scored, numbers, z) if question.scale in ("csat", "ces", "number") else scored


def _distribute(question: QuestionOutline, readings: Tally, answers: int) -> Iterator[ResponseCount]:
    """Yield the counts of a question's responses in its order, then of unknown ones, most chosen first."""
    # By text, not by place: an arm may offer the responses in another order, or fewer of them.
    places: dict[str, int] = {}
    for place, response in enumerate(question.responses):
        places.setdefault(fold_answer(response), place)
    points = read_points(question.scale, question.responses, question.values)
    by_place: Counter[int] = Counter()
    strangers: Counter[tuple[str, str]] = Counter()
    is_freeform = not question.responses and all(reading.label is None for reading in readings)
    for reading, count in readings.items():
        place_of = None if reading.label is None else places.get(fold_answer(reading.label))
        if place_of is None and reading.number is not None and question.scale in _WORDED:
            # A message may offer the same points in other words.
            place_of = next((place for place, point in enumerate(points) if point == reading.number), None)
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


def add_up(counts: Iterable[tuple[_Key, int]]) -> Counter[_Key]:
    """Return the sums of counts by key."""
    sums: Counter[_Key] = Counter()
    for key, count in counts:
        sums[key] += count
    return sums


def break_down(
    questions: Sequence[PooledOutline],
    column: str,
    groups: Mapping[str, GroupTally],
    least: int,
    main: int | None = None,
) -> ColumnReport:
    """Return the people by the values of a column, without groups in which people could be identified.

    A group of fewer than `least` people is left out, and so is the next larger one if the total would
    otherwise reveal the small ones (primary and secondary suppression: L. Willenborg, T. de Waal, "Elements
    of Statistical Disclosure Control", 2001, chapter 6). Scores of fewer answers are left out by the same
    rule, since the score of everybody would reveal them.
    `main` is the number of the question by whose score groups are sorted; None for their response.
    """
    hidden = _choose_small({name: group.texted for name, group in groups.items()}, least)
    scoreless = _choose_scoreless(questions, groups, hidden, least)
    hidden_texted = sum(groups[name].texted for name in hidden)
    shown = [
        describe_group(
            questions,
            # Reports name nobody, whatever the column holds.
            hide_phones(name) or NO_VALUE,
            groups[name],
            {number for number in scoreless if name in scoreless[number]},
        )
        for name in sorted(groups.keys() - hidden)
    ]
    place = None if main is None else sum(one.question.scale in SCORED for one in questions[:main])
    return ColumnReport(
        column=column,
        groups=tuple(sorted(shown, key=lambda group: _rank(group, place))),
        everybody=describe_group(questions, "", _merge_groups(groups.values())),
        suppressed=len(hidden),
        suppressed_texted=hidden_texted if hidden_texted >= least else None,
        least=least,
    )


def _rank(group: GroupReport, place: int | None) -> tuple[bool, Fraction]:
    """Return what to sort a group by: the highest first, those without a value last.

    It is the response, or the score at a `place` of the group's scores.
    """
    value = group.response_rate if place is None else group.scores[place].value
    return value is None, -(value or Fraction())


def _merge_groups(groups: Iterable[GroupTally]) -> GroupTally:
    texted = answered = completed = 0
    readings: dict[int, Counter[AnswerReading]] = {}
    for group in groups:
        texted, answered = texted + group.texted, answered + group.answered
        completed += group.completed or 0
        for number, counts in group.readings.items():
            readings.setdefault(number, Counter()).update(counts)
    return GroupTally(texted, answered, completed, readings)


def _choose_scoreless(
    questions: Sequence[PooledOutline], groups: Mapping[str, GroupTally], hidden: Collection[str], least: int
) -> dict[int, set[str]]:
    """Return the groups whose score of a question is left out, by its number, with the hidden groups."""
    chosen = {}
    for number, pooled in enumerate(questions):
        scores = (
            (name, score_question(pooled.question, group.readings.get(number, {})).score)
            for name, group in groups.items()
        )
        # Groups without an answer have no score, and reveal nothing.
        counted = {name: score.counted for name, score in scores if score is not None and score.counted}
        chosen[number] = _choose_small(counted, least, hidden)
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


def describe_group(
    questions: Sequence[PooledOutline],
    name: str,
    group: GroupTally,
    scoreless: Collection[int] = (),
    reach: float | None = Z_95,
    score_reaches: Mapping[int, float | None] = MappingProxyType({}),
) -> GroupReport:
    """Return the response of a group, and its scores but those of `scoreless` questions.

    `reach` is that of its intervals in standard errors, `score_reaches` of those of the scores of some
    questions; None for no intervals.
    """
    scores: list[Score] = []
    for number, pooled in enumerate(questions):
        own = score_reaches.get(number, reach)
        score = score_question(pooled.question, group.readings.get(number, {}), own or Z_95).score
        if score is not None:
            score = score.leave_out_few(is_hidden=number in scoreless)
            scores.append(score if own else score.replace(interval=None))
    rate, interval = rate_response(group.texted, group.answered, reach)
    return GroupReport(
        name=name,
        texted=group.texted,
        answered=group.answered,
        response_rate=rate,
        response_rate_interval=interval,
        completed=group.completed,
        scores=tuple(scores),
    )
