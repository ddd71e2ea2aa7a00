"""What a report says of one question, as values.

Rates are exact fractions of 1; None stands where a rate is not defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from runner.report.facts import Scale
    from runner.report.rounding import Interval
    from runner.report.timing import TimeSummary


@dataclass(frozen=True, slots=True)
class ResponseCount:
    """How many chose one response of a multiple-choice question.

    Attributes:
        answer: the response's 1-based index as text; for a response that the campaign does not have, the
            answer as the service gave it, or empty when it was in the participant's own words.
        label: the response's text.
        count: participants who chose it.
        share: of all participants who answered the question.
    """

    answer: str
    label: str
    count: int
    share: Fraction | None


@dataclass(frozen=True, slots=True)
class NetPromoterScore:
    """Promoters less detractors, in hundredths of the answers counted (Reichheld 2003).

    Attributes:
        score: from -100 to 100; None when nothing was counted.
        promoters: answers of 9 and 10.
        passives: answers of 7 and 8.
        detractors: answers from 0 to 6.
        counted: answers that are a whole number from 0 to 10; others are left out of the score.
        interval: of the score, in points; None when there are too few answers for one.
    """

    score: Fraction | None
    promoters: int
    passives: int
    detractors: int
    counted: int
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class SatisfactionScore:
    """The top-two-box share of a satisfaction question.

    Attributes:
        score: satisfied of counted; None when nothing was counted.
        satisfied: answers that are one of the scale's top two.
        counted: answers that are on the scale.
        interval: of the score (Wilson); None when nothing was counted.
    """

    score: Fraction | None
    satisfied: int
    counted: int
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class NumberSummary:
    """The middle of the answers that read as numbers.

    Attributes:
        mean: None when nothing was counted.
        median: None when nothing was counted.
        counted: answers that read as numbers.
        interval: of the mean; None when there are too few answers for one.
    """

    mean: Fraction | None
    median: Fraction | None
    counted: int
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class WordCount:
    """How many participants used a word in their own answers."""

    word: str
    participants: int


@dataclass(frozen=True, slots=True)
class TextSummary:
    """Answers in participants' own words, without the words that few used.

    Attributes:
        counted: participants who answered in their own words.
        median_length: characters.
        longest: characters.
        words: the most frequent words, most used first.
    """

    counted: int
    median_length: Fraction | None
    longest: int
    words: tuple[WordCount, ...]


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """What came back to one question.

    Attributes:
        tag: the question's tag.
        text: the question's text.
        scale: how its answers are read.
        asked: participants who were asked; None for a question that the campaign does not have, and where
            that is not known.
        answers: distinct participants who answered; None, like all that rests on answers, where some launch's
            were not read.
        answer_rate: answers of asked.
        distribution: in the campaign's order, then responses that it does not have; empty when freeform.
        nps: for scale nps.
        csat: for scale csat with three responses or more.
        numbers: for scales csat, ces and number.
        texts: for questions that are answered in participants' own words.
        broke_off: participants who answered this question, and no later one, without ending the survey;
            None for the last question and for one that the campaign does not have.
        time_to_answer: from the answer before it; of the first question, from the start of the launch.
        is_unread: whether it is not known how many were asked, or answered.
        in_part: where the answers to some launches alone were read, what came back to these.
    """

    tag: str
    text: str
    scale: Scale
    asked: int | None
    answers: int | None
    answer_rate: Fraction | None
    distribution: tuple[ResponseCount, ...] = ()
    nps: NetPromoterScore | None = None
    csat: SatisfactionScore | None = None
    numbers: NumberSummary | None = None
    texts: TextSummary | None = None
    broke_off: int | None = None
    time_to_answer: TimeSummary | None = None
    is_unread: bool = False
    in_part: PartialAnswers | None = None

    @property
    def shown(self) -> QuestionReport:
        """What is known of it: of all launches, or of some."""
        return self if self.in_part is None else self.in_part.question


@dataclass(frozen=True, slots=True)
class PartialAnswers:
    """What came back to a question of some launches.

    Attributes:
        launches: how many they are.
        of: launches of the message.
        question: what came back; how many of these were asked is not known.
    """

    launches: int
    of: int
    question: QuestionReport
