"""What a report says of groups of recipients: the audience, arms, values of a column, days; as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import date, datetime
    from fractions import Fraction

    from runner.report.comparison import ArmDifference
    from runner.report.rounding import Interval

SMALL_GROUP = 10
"""Groups of fewer recipients are left out of breakdowns: a rate of so few may tell of one of them."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Recipients of the audience who were not sent to, for one reason.

    Attributes:
        disposition: the plan's name of it, as in `opted_out` or `held_out`.
        recipients: how many.
    """

    disposition: str
    recipients: int


@dataclass(frozen=True, slots=True)
class Audience:
    """The audience as the last `apply` found it.

    Attributes:
        planned_at: when, UTC.
        recipients: each person once.
        reserved: those who were neither sent to, nor to be sent to at once, by reason; most first.
        held_out: of these, the experiment's holdout.
    """

    planned_at: datetime
    recipients: int
    reserved: tuple[Reservation, ...]
    held_out: int


@dataclass(frozen=True, slots=True)
class Volume:
    """Renders, which are what the service charges for (wire facts, "Terms"), and what they cost.

    Attributes:
        renders: what the service says it rendered; None if that is not known of every launch.
        forecast_min: what the sends take if nobody answers.
        forecast_max: what they take if everybody answers every question validly at once.
        asked_again: renders beyond introductions, first asks and conclusions: questions that were asked again
            after an invalid answer; None where that cannot be told.
        plan_share: renders of all that the service's plan allows; None when it does not say.
        cost_usd: that share of the plan's price, in US dollars; None when the service does not say.
    """

    renders: int | None
    forecast_min: int
    forecast_max: int
    asked_again: int | None = None
    plan_share: Fraction | None = None
    cost_usd: Fraction | None = None


@dataclass(frozen=True, slots=True)
class GroupScore:
    """A question's score among one group.

    Attributes:
        tag: the question's.
        measure: `nps` (points), `csat` (a fraction of 1) or `mean`.
        value: None when nothing was counted.
        interval: None when there are too few answers for one.
        counted: answers that it rests on.
    """

    tag: str
    measure: str
    value: Fraction | None
    interval: Interval | None
    counted: int


@dataclass(frozen=True, slots=True)
class Turnout:
    """How a group of recipients responded.

    Attributes:
        name: of the group: an arm's id, or a value of the audience's column.
        sent: recipients of accepted launches.
        answered: of these, participants with at least one result; None where some answers were not read.
        response_rate: answered of sent.
        response_interval: its 95 % Wilson interval.
        completed: participants who reached the end; None likewise.
        scores: the scores of the campaign's scored questions, in its order.
    """

    name: str
    sent: int
    answered: int | None
    response_rate: Fraction | None
    response_interval: Interval | None
    completed: int | None
    scores: tuple[GroupScore, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedArm:
    """An arm as far as the verdict counts it.

    Attributes:
        name: its id.
        sent: people asked.
        answered: of these, those who answered.
    """

    name: str
    sent: int
    answered: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """When and of whom an experiment's verdict is taken (`runner.report.analysis`).

    Attributes:
        method: `sequential`: at every look; `fixed`: on a day that was fixed before.
        due: the day, UTC; None for `sequential`, and as long as too few people have been asked.
        per_arm: the people to ask in each arm; None if their number is not what fixes the day.
        is_due: whether the verdict may be taken.
        arms: what it counts; before it is due, all there is.
    """

    method: Literal["sequential", "fixed"]
    due: date | None
    per_arm: int | None
    is_due: bool
    arms: tuple[CountedArm, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """The arms of a message that has several.

    Attributes:
        arms: in the campaign's order.
        differences: each further arm against the first.
        analysis: of these; None for a message without questions, and where not all answers were read.
    """

    arms: tuple[Turnout, ...]
    differences: tuple[ArmDifference, ...]
    analysis: Analysis | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Turnout by the values of one column of the audience (`--by`).

    Attributes:
        column: as the audience's files call it.
        groups: by name; small ones are not among them.
        suppressed: groups that are left out because they are small.
        suppressed_sent: recipients of these together; None when even that would tell a small number.
        least: recipients that a group needs to be shown.
    """

    column: str
    groups: tuple[Turnout, ...]
    suppressed: int
    suppressed_sent: int | None
    least: int = SMALL_GROUP


@dataclass(frozen=True, slots=True)
class Day:
    """One day of a message, UTC.

    Attributes:
        date: the day.
        sent: recipients who were sent to on it.
        first_answers: participants whose first answer came on it; None where not all answers were read.
        answers: results of it, likewise.
    """

    date: date
    sent: int
    first_answers: int | None
    answers: int | None
