"""From what was counted of groups of recipients to what a report says of them. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.report.comparison import compare_arms
from runner.report.funnel import count_completed
from runner.report.questions import score_question
from runner.report.scores import divide, wilson_interval
from runner.report.turnout import Breakdown, Experiment, GroupScore, Turnout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.report.answers import Reading
    from runner.report.facts import MessageOutline
    from runner.report.tally import GroupTally, MessageTally, Paths


def describe_experiment(
    outline: MessageOutline, tally: MessageTally, sent: Mapping[str, int]
) -> Experiment | None:
    """Return how the arms of a message did; None for a message that goes out in one way.

    Args:
        outline: the message.
        tally: what was counted.
        sent: recipients by arm.
    """
    arms = [way.arm for way in outline.ways if way.arm]
    if not arms:
        return None
    turnouts = tuple(
        _describe_group(
            outline,
            arm,
            sent.get(arm, 0),
            {key: count for key, count in tally.paths.items() if key[0] == arm},
            {tag: question.count_readings(arm) for tag, question in tally.questions.items()},
        )
        for arm in arms
    )
    # More answers than sends are a discrepancy, of which no test can make sense.
    counts = [(arm.name, min(arm.answered, arm.sent), arm.sent) for arm in turnouts]
    return Experiment(turnouts, compare_arms(counts) if outline.questions else ())


def break_down(
    outline: MessageOutline, column: str, groups: Mapping[str, GroupTally], least: int
) -> Breakdown:
    """Return the turnout by the values of a column, without groups in which people could be made out.

    A group of fewer than `least` recipients is left out, and so is the next larger one if otherwise the
    total would give the small ones away: what is left out together is at least that many. (Primary and
    secondary suppression: L. Willenborg, T. de Waal, "Elements of Statistical Disclosure Control", 2001,
    chapter 6.) Scores that rest on fewer answers are left out as well.

    Args:
        outline: the message.
        column: the audience's name of it.
        groups: by value; an empty one stands for recipients who are in the audience no more.
        least: recipients.
    """
    hidden = _choose_hidden(groups, least)
    shown = [(name, group) for name, group in groups.items() if name not in hidden]
    hidden_sent = sum(groups[name].sent for name in hidden)
    return Breakdown(
        column=column,
        groups=tuple(
            _describe_group(outline, name, group.sent, group.paths, group.readings, least)
            for name, group in shown
        ),
        suppressed=len(hidden),
        suppressed_sent=hidden_sent if hidden_sent >= least else None,
        least=least,
    )


def _choose_hidden(groups: Mapping[str, GroupTally], least: int) -> set[str]:
    ascending = sorted(groups, key=lambda name: (groups[name].sent, name))
    hidden = [name for name in ascending if groups[name].sent < least]
    if hidden:
        for name in ascending[len(hidden) :]:
            if sum(groups[one].sent for one in hidden) >= least:
                break
            hidden.append(name)
    return set(hidden)


def _describe_group(
    outline: MessageOutline,
    name: str,
    sent: int,
    paths: Paths,
    readings: Mapping[str, Mapping[Reading, int]],
    least: int = 0,
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
        scores=tuple(_score_group(outline, readings, least)),
    )


def _score_group(
    outline: MessageOutline, readings: Mapping[str, Mapping[Reading, int]], least: int
) -> Iterator[GroupScore]:
    for question in outline.questions:
        score = score_question(question, readings.get(question.tag, Counter()))
        if score is None:
            continue
        measure, value, interval, counted = score
        if counted < least:
            value, interval = None, None
        yield GroupScore(question.tag, measure, value, interval, counted)
