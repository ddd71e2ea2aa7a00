"""From what was counted of groups of recipients to what a report says of them. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from runner.report.analysis import analyse
from runner.report.funnel import count_completed
from runner.report.questions import score_question
from runner.report.scores import divide, wilson_interval
from runner.report.turnout import Breakdown, Experiment, GroupScore, Turnout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.ledger.report_model import SentRow
    from runner.report.answers import Reading
    from runner.report.facts import MessageOutline
    from runner.report.tally import GroupTally, MessageTally, Paths


def describe_experiment(
    outline: MessageOutline,
    tally: MessageTally,
    sent: Sequence[SentRow],
    as_of: datetime | None,
    *,
    is_read: bool = True,
) -> Experiment | None:
    """Return how the arms of a message did; None for a message that goes out in one way.

    Args:
        outline: the message.
        tally: what was counted.
        sent: recipients of the message, by arm and day.
        as_of: when its launches were reconciled, that of the oldest reading; None when none was.
        is_read: whether the answers to every launch were read: else nothing is said of who answered.
    """
    arms = [way.arm for way in outline.ways if way.arm]
    if not arms:
        return None
    recipients: Counter[str] = Counter()
    for row in sent:
        recipients[row.arm] += row.recipients
    turnouts = tuple(
        _describe_group(
            outline,
            arm,
            recipients[arm],
            {key: count for key, count in tally.paths.items() if key[0] == arm},
            {tag: question.count_readings(arm) for tag, question in tally.questions.items()},
        )
        for arm in arms
    )
    if not is_read:
        return Experiment(tuple(map(_hide_answers, turnouts)), ())
    if not outline.questions:
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
    """Return the turnout by the values of a column, without groups in which people could be made out.

    A group of fewer than `least` recipients is left out, and so is the next larger one if otherwise the
    total would give the small ones away: what is left out together is at least that many. (Primary and
    secondary suppression: L. Willenborg, T. de Waal, "Elements of Statistical Disclosure Control", 2001,
    chapter 6.) Scores that rest on fewer answers are left out by the same rule: the score of everybody, which
    the report has as well, would give them away.

    Args:
        outline: the message.
        column: the audience's name of it.
        groups: by value; an empty one stands for recipients who are in the audience no more.
        least: recipients.
        is_read: as for `describe_experiment`.
    """
    hidden = _choose_hidden(groups, least)
    shown = [(name, group) for name, group in groups.items() if name not in hidden]
    scoreless = _choose_scoreless(outline, groups, hidden, least)
    hidden_sent = sum(groups[name].sent for name in hidden)
    described = (
        _describe_group(
            outline,
            name,
            group.sent,
            group.paths,
            group.readings,
            {tag for tag, names in scoreless.items() if name in names},
        )
        for name, group in shown
    )
    return Breakdown(
        column=column,
        groups=tuple(described if is_read else map(_hide_answers, described)),
        suppressed=len(hidden),
        suppressed_sent=hidden_sent if hidden_sent >= least else None,
        least=least,
    )


def _choose_hidden(groups: Mapping[str, GroupTally], least: int) -> set[str]:
    return _choose_small({name: group.sent for name, group in groups.items()}, least)


def _choose_scoreless(
    outline: MessageOutline, groups: Mapping[str, GroupTally], hidden: Collection[str], least: int
) -> dict[str, set[str]]:
    """Return the groups whose score of a question is left out, by its tag: the hidden ones among them."""
    chosen = {}
    for question in outline.questions:
        scores = {
            name: score_question(question, group.readings.get(question.tag, Counter()))
            for name, group in groups.items()
        }
        # Groups without an answer have no score, and give nothing away.
        counted = {name: score[3] for name, score in scores.items() if score is not None and score[3]}
        chosen[question.tag] = _choose_small(counted, least, hidden)
    return chosen


def _choose_small(sizes: Mapping[str, int], least: int, hidden: Collection[str] = ()) -> set[str]:
    """Return what to leave out: what is hidden anyway, what is small, and what it takes to hide these."""
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
    sent: int,
    paths: Paths,
    readings: Mapping[str, Mapping[Reading, int]],
    scoreless: Collection[str] = (),
) -> Turnout:
    answered = sum(paths.values())
    has_rate = bool(outline.questions) and 0 < sent >= answered
    return Turnout(
        name=name,
        sent=sent,
        answered=answered,
        response_rate=divide(answered, sent) if has_rate else None,
        response_interval=wilson_interval(answered, sent) if has_rate else None,
        completed=sum(count_completed(outline, paths).values()),
        scores=tuple(_score_group(outline, readings, scoreless)),
    )


def _hide_answers(group: Turnout) -> Turnout:
    """Return a group of which not all answers were read: how many there are is not known, nor any score."""
    return replace(
        group, answered=None, completed=None, response_rate=None, response_interval=None, scores=()
    )


def _score_group(
    outline: MessageOutline, readings: Mapping[str, Mapping[Reading, int]], scoreless: Collection[str]
) -> Iterator[GroupScore]:
    for question in outline.questions:
        score = score_question(question, readings.get(question.tag, Counter()))
        if score is None:
            continue
        measure, value, interval, counted = score
        if question.tag in scoreless:
            value, interval = None, None
        yield GroupScore(question.tag, measure, value, interval, counted)
