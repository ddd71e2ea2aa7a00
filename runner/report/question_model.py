"""The values of a report's questions; rates and scores that are not defined, or not known, are None."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from math import sqrt
from typing import Annotated, Literal

from runner.document import Count, Meta, Part

Scale = Literal["nps", "csat", "ces", "number", "choice", "text"]
"""Scales of a question's answers, by their names in the campaign file."""
FEW_ANSWERS = 10
"""A score of fewer answers has no interval, and is left out with a caution: our choice."""
NPS_PSEUDO_ANSWERS = 3
Interval = tuple[float, float]
"""The low and the high end of a 95 % interval, in the unit of its value."""
Rate = Annotated[Fraction, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
"""A fraction of 1; documents round it to four decimal places."""


class ResponseCount(Part, frozen=True):
    """The participants who chose a response, and their share of all who answered the question.

    Attributes:
        answer: the response's 1-based index in the campaign, as text. For a response that the campaign does
            not have, the answer as the service gave it; empty for answers in participants' own words, which
            are counted together.
        label: the response's text; it says so if the campaign does not have it.
        count: participants who chose it.
        share: `count` of the question's `answers`.
    """

    answer: str
    label: str
    count: Count
    share: Rate | None


class NetPromoterScore(Part, frozen=True):
    """Promoters less detractors, in hundredths of the answers counted (Reichheld 2003).

    Attributes:
        score: 100 times the difference of promoters and detractors, over `counted`: from -100 to 100, rounded
            to four decimal places. None when nothing was counted.
        promoters: answers of 9 and 10.
        passives: answers of 7 and 8.
        detractors: answers from 0 to 6.
        counted: answers that are a whole number from 0 to 10.
        interval: low and high end of the score's 95 % interval, in points from -100 to 100; None when there
            are too few answers for one.
    """

    score: Fraction | None
    promoters: Count
    passives: Count
    detractors: Count
    counted: Count
    interval: Interval | None = None

    @property
    def standard_error(self) -> float | None:
        """The standard error of its interval, in points (`runner.report.scores.net_promoter_interval`)."""
        if self.counted < FEW_ANSWERS:
            return None
        counted = self.counted + NPS_PSEUDO_ANSWERS
        added = Fraction(NPS_PSEUDO_ANSWERS, 4)
        promoters, detractors = (self.promoters + added) / counted, (self.detractors + added) / counted
        return 100 * sqrt((promoters + detractors - (promoters - detractors) ** 2) / counted)


class SatisfactionScore(Part, frozen=True):
    """The top-two-box share of a satisfaction question, among answers that are on the scale.

    Attributes:
        score: `satisfied` of `counted`.
        satisfied: answers that are one of the scale's top two (`top_two`).
        counted: answers that are on the scale.
        interval: low and high end of the score's 95 % Wilson interval, as fractions from 0 to 1; None when
            nothing was counted.
        top_two: the responses with the two highest points of the scale, in the campaign's order.
    """

    score: Rate | None
    satisfied: Count
    counted: Count
    interval: Interval | None = None
    top_two: tuple[str, ...] = ()


class Score(Part, frozen=True):
    """A question's score among everybody or a group, with its 95 % interval if there are enough answers.

    Attributes:
        tag: the question's tag.
        measure: `nps` in points, `csat` as a fraction of 1, or `mean`.
        value: rounded to four decimal places; None of fewer than ten answers.
        interval: low and high end of the value's 95 % interval, in its unit; None when there are too few
            answers for one.
        counted: answers that it rests on.
        standard_error: of the value, in its unit, to four significant figures: of an NPS that of its
            interval, of a share √(p(1 - p)/n), of a mean s/√n; None of too few answers.
        satisfied: of a CSAT, the answers of `counted` that are its share; None of other scores, and of fewer
            than ten answers.
    """

    tag: str
    measure: Literal["nps", "csat", "mean"]
    value: Fraction | None
    interval: Interval | None
    counted: Count
    standard_error: float | None = None
    satisfied: Count | None = None

    def leave_out_few(self, *, is_hidden: bool = False) -> Score:
        """Return it as reports have it: without its value, if it `is_hidden` or rests on too few answers."""
        if self.counted >= FEW_ANSWERS and not is_hidden:
            return self
        return self.replace(value=None, interval=None, standard_error=None, satisfied=None)


class QuestionReport(Part, frozen=True):
    """The report of one question.

    Attributes:
        tag: the question's tag.
        text: the question as the campaign has it.
        scale: how the answers are read.
        asked: participants who were asked. The first question reaches everybody whose conversation is not
            queued, and was not kept from beginning by an earlier opt-out; each further one, those who
            answered the one before without ending the survey. None where how
            many are queued is not known, and where some launch's answers were not read.
        answers: distinct participants who answered. None where not all answers to the message were read, like
            all that rests on answers; lists are empty then.
        answer_rate: `answers` of `asked`.
        distribution: responses of a multiple-choice question in the campaign's order, those that nobody chose
            among them; then, most chosen first, those that the campaign does not have. Empty for a freeform
            question.
        nps: for the scale `nps`, else None.
        csat: for the scale `csat` with three responses or more, else None.
        mean: for the scales `csat`, `ces` and `number`: mean of the answers that read as numbers, rounded to
            four decimal places. Responses count by the value that the campaign gives them, or the number or
            known word that they are; those with the value `none` are left out.
        median: for the scales `csat`, `ces` and `number`: median of the same answers, rounded to four decimal
            places.
        mean_interval: low and high end of the mean's 95 % interval, in the unit of the mean; None where there
            is no mean, or too few answers for one.
        mean_standard_error: of the mean, s/√n, to four significant figures; None of fewer than two answers.
        numeric_answers: for the scales `csat`, `ces` and `number`: how many answers `mean` and `median` rest
            on, else None.
    """

    tag: str
    text: str
    scale: Scale
    asked: Count | None = None
    answers: Count | None = None
    answer_rate: Rate | None = None
    distribution: tuple[ResponseCount, ...] = ()
    nps: NetPromoterScore | None = None
    csat: SatisfactionScore | None = None
    mean: Fraction | None = None
    median: Fraction | None = None
    mean_interval: Interval | None = None
    numeric_answers: Count | None = None
    mean_standard_error: float | None = None

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores that its scale has, the main one first."""
        found: list[Score] = []
        if self.nps is not None:
            one = self.nps
            found.append(Score(self.tag, "nps", one.score, one.interval, one.counted, one.standard_error))
        if self.csat is not None:
            share, counted = self.csat.score, self.csat.counted
            error = None if share is None else sqrt(share * (1 - share) / counted)
            satisfied = self.csat.satisfied
            found.append(Score(self.tag, "csat", share, self.csat.interval, counted, error, satisfied))
        if self.numeric_answers is not None:
            error, counted = self.mean_standard_error, self.numeric_answers
            found.append(Score(self.tag, "mean", self.mean, self.mean_interval, counted, error))
        return tuple(found)

    @property
    def score(self) -> Score | None:
        """The main score; None for a scale without one."""
        return next(iter(self.scores), None)


class QuotedComment(Part, frozen=True):
    """A person's own words in answer to a question; names, phones and e-mail addresses are masked.

    Attributes:
        question: the question's tag.
        words: e-mail addresses, phone numbers, and what the audience says of the person are masked.
        score: the person's answer to the question that has the campaign's score; None if they gave none.
        answered_at: when it came: UTC, ISO 8601; None if that is not known.
    """

    question: str
    words: str
    score: Fraction | None
    answered_at: datetime | None


class CommentsReport(Part, frozen=True):
    """People's own words, of each their latest answer to a question.

    Attributes:
        newest: the newest first, at most 300.
        total: all of them.
        left_out: further ones of people who have left the audience: what tells who they are is not known.
        problem: why the audience cannot be read, or be used to mask names, so that none are shown; None if it
            can be.
        is_audience_changed: whether it differs from that of the last `apply`: names that it no longer has are
            not masked.
    """

    newest: tuple[QuotedComment, ...]
    total: Count
    left_out: Count
    problem: str | None = None
    is_audience_changed: bool = False
