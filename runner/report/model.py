"""The values of a report. Rates are exact fractions of 1; None stands where a rate is not defined."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime
    from fractions import Fraction

    from runner.ledger.report_model import PartialCount
    from runner.report.facts import Scale


SANDBOX_TARGET = "sandbox"
"""The target that texts nobody."""

Interval = tuple[float, float]
"""The low and the high end of a 95 % interval, in the unit of its value."""


@dataclass(frozen=True, slots=True)
class ResponseCount:
    """The participants who chose a response, and their share of all who answered the question.

    `answer` is the response's 1-based index as text; for an unknown response the service's answer, or empty
    if it was in the participant's own words.
    """

    answer: str
    label: str
    count: int
    share: Fraction | None


@dataclass(frozen=True, slots=True)
class NetPromoterScore:
    """Promoters less detractors, in hundredths of the answers counted (Reichheld 2003).

    Attributes:
        score: from -100 to 100; None if nothing was counted.
        promoters: answers of 9 and 10.
        passives: answers of 7 and 8.
        detractors: answers from 0 to 6.
        counted: answers that are a whole number from 0 to 10.
    """

    score: Fraction | None
    promoters: int
    passives: int
    detractors: int
    counted: int
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class SatisfactionScore:
    """The top-two-box share of a satisfaction question, among answers that are on the scale.

    Score and interval (Wilson) are None if nothing was counted. `top_two` are the responses of the two
    highest points.
    """

    score: Fraction | None
    satisfied: int
    counted: int
    interval: Interval | None = None
    top_two: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NumberSummary:
    """The middle of the answers that read as numbers (`counted`).

    Mean and median are None if nothing was counted, the mean's interval if there are too few answers.
    """

    mean: Fraction | None
    median: Fraction | None
    counted: int
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """A question's score among everybody or a group, with its 95 % interval if there are enough answers.

    `measure` is `nps` (points), `csat` (a fraction of 1) or `mean`; `counted` are the answers.
    """

    tag: str
    measure: Literal["nps", "csat", "mean"]
    value: Fraction | None
    interval: Interval | None
    counted: int


@dataclass(frozen=True, slots=True)
class WordCount:
    """The number of participants who used a word in their own answers."""

    word: str
    participants: int


@dataclass(frozen=True, slots=True)
class TextSummary:
    """Answers in participants' own words (`counted`), with lengths in characters and the most frequent words.

    Words that few participants used are left out.
    """

    counted: int
    median_length: Fraction | None
    longest: int
    words: tuple[WordCount, ...]


@dataclass(frozen=True, slots=True)
class TimeSummary:
    """The median and the ninth decile of times, in seconds; None if nothing was counted.

    `counted` is None if not all answers were read.
    """

    counted: int | None
    median_s: Fraction | None
    p90_s: Fraction | None


UNKNOWN_TIMES = TimeSummary(None, None, None)
"""The summary if not all answers were read."""


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """The report of one question.

    Attributes:
        asked: participants asked; None if not known, or if the campaign does not have the question.
        answers: distinct participants who answered; None, like all that depends on it, if some launch's
            answers were not read.
        distribution: in the campaign's order, then unknown responses; empty if freeform.
        nps: for scale nps.
        csat: for scale csat with three responses or more.
        numbers: for scales csat, ces and number.
        texts: for questions answered in participants' own words.
        broke_off: participants who answered this question, and no later one, without ending the survey; None
            for a last question and for one that the campaign does not have.
        time_to_answer: from the answer before it; of the first question, from the start of the launch.
        is_unread: whether it is not known how many were asked, or answered.
        in_part: the answers to some launches, if only these were read.
    """

    tag: str
    text: str
    scale: Scale
    asked: int | None = None
    answers: int | None = None
    answer_rate: Fraction | None = None
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
        """The known part: of all launches, or of some."""
        return self if self.in_part is None else self.in_part.question

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores that its scale has, the main one first."""
        found: list[Score] = []
        if self.nps is not None:
            found.append(Score(self.tag, "nps", self.nps.score, self.nps.interval, self.nps.counted))
        if self.csat is not None:
            found.append(Score(self.tag, "csat", self.csat.score, self.csat.interval, self.csat.counted))
        if self.numbers is not None:
            numbers = self.numbers
            found.append(Score(self.tag, "mean", numbers.mean, numbers.interval, numbers.counted))
        return tuple(found)

    @property
    def score(self) -> Score | None:
        """The main score; None for a scale without one."""
        return next(iter(self.scores), None)


@dataclass(frozen=True, slots=True)
class PartialAnswers:
    """The answers to a question of `launches` of a message's `of` launches, without the number asked."""

    launches: int
    of: int
    question: QuestionReport


@dataclass(frozen=True, slots=True)
class Sessions:
    """Conversations by state; None for a count not known of every launch."""

    queued: int | None
    active: int | None
    complete: int | None


@dataclass(frozen=True, slots=True)
class MessageReport:
    """The outcome of one message.

    A count is None unless it is known of every launch: a sum that leaves some out is no total.

    Attributes:
        first_sent_at: start of its first launch, UTC: the service's own time once it was reconciled.
        last_sent_at: start of its last launch, UTC.
        reconciled_at: the earliest latest reading among its reconciled launches, UTC; None without any.
        launches: launches that the service accepted.
        reconciled_launches: launches of which something was read.
        reconciled_sent: recipients of these.
        recipients: sent and unresolved together.
        sent: recipients of accepted launches.
        rejected: recipients of launches that the service refused; None where the ledger cannot know of any.
        participants_answered: distinct participants with at least one result.
        response_rate: participants_answered of sent; None if nothing was sent, the message has no questions,
            or more people answered than were sent to.
        response_rate_interval: its 95 % Wilson interval.
        participants_completed: participants who answered the last question, or concluded early.
        completion_rate: participants_completed of participants_answered.
        renders: the service's count of renders.
        questions: in the campaign's order, then those that only results know.
        audience: None if no `apply` has recorded it.
        opt_outs: replies to this message that opted out, and opt-outs that the service itself reports.
        doubtful: replies to this message that may opt out, and wait for a decision.
        non_answers: results that answer nothing: blank ones, reactions and automatic replies.
        response_rates: AAPOR's RR1 to RR6 of these.
        time_to_first_answer: from the start of the launch.
        days: from the first to the last with any event; days without events are left out.
        partly_known: counts that are None in total but known of some launches, by name.
    """

    id: str
    tag: str
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    reconciled_at: datetime | None
    launches: int
    reconciled_launches: int
    reconciled_sent: int
    recipients: int
    sent: int
    rejected: int | None
    unresolved: int
    sessions: Sessions
    participants_answered: int | None
    response_rate: Fraction | None
    response_rate_interval: Interval | None
    participants_completed: int | None
    completion_rate: Fraction | None
    renders: int | None
    results: int | None
    discrepancies: tuple[str, ...]
    questions: tuple[QuestionReport, ...]
    audience: Audience | None
    volume: Volume
    opt_outs: int | None
    doubtful: int | None
    dispositions: Dispositions | None
    response_rates: ResponseRates | None
    time_to_first_answer: TimeSummary
    experiment: Experiment | None
    breakdowns: tuple[Breakdown, ...]
    days: tuple[Day, ...]
    non_answers: int | None = 0
    partly_known: Mapping[str, PartialCount] = field(default_factory=dict)

    @property
    def unread_launches(self) -> int:
        """Launches of which nothing was ever read."""
        return self.launches - self.reconciled_launches


@dataclass(frozen=True, slots=True)
class Dispositions:
    """Counts of the people to be asked who are not known to be ineligible, by outcome.

    Attributes:
        complete: complete interviews (I).
        partial: partial interviews (P).
        refusal: refusals and break-offs (R).
        non_contact: non-contacts (NC).
        other: other eligible non-interviews (O).
        unknown_eligibility: of unknown eligibility (UH + UO).
    """

    complete: int = 0
    partial: int = 0
    refusal: int = 0
    non_contact: int = 0
    other: int = 0
    unknown_eligibility: int = 0

    @property
    def interviews(self) -> int:
        """Complete and partial interviews together (I + P)."""
        return self.complete + self.partial

    @property
    def eligible(self) -> int:
        """People known to be eligible: (I + P) + (R + NC + O)."""
        return self.interviews + self.refusal + self.non_contact + self.other


@dataclass(frozen=True, slots=True)
class ResponseRates:
    """AAPOR's six response rates, each from 0 to 1; None for a denominator of 0.

    RR1 is the minimum: complete interviews of all who are or may be eligible; RR3 counts only the estimated
    eligible of the unknown; RR5, the maximum, counts those known to be eligible. RR2, RR4 and RR6 are the
    same with partial interviews as responses.
    """

    rr1: Fraction | None
    rr2: Fraction | None
    rr3: Fraction | None
    rr4: Fraction | None
    rr5: Fraction | None
    rr6: Fraction | None


@dataclass(frozen=True, slots=True)
class RunReport:
    """The part of the campaign that one run sent.

    Attributes:
        started_at: UTC.
        commit: of the campaigns' repository; None if not known.
        dirty: whether files of the campaigns differed from the commit.
        run_url: the page of the CI job, http or https; None for none.
        triggered_by: the person who started the job; None if not known.
        launches: launches that the service accepted.
    """

    id: str
    started_at: datetime
    plan_digest: str
    commit: str | None
    dirty: bool
    run_url: str | None
    triggered_by: str | None
    launches: int
    recipients: int


@dataclass(frozen=True, slots=True)
class ScorePart:
    """The participants whose latest answer is to one message."""

    message: str
    answers: int


@dataclass(frozen=True, slots=True)
class PooledScore:
    """The campaign's one score: of a question that several messages ask.

    Each participant's latest answer counts; of two at one moment, that to the later message. `parts` are in
    the campaign's order. The number asked is not counted here.
    """

    question: QuestionReport
    parts: tuple[ScorePart, ...]


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """A whole report: the input of every document.

    Attributes:
        reconciled_at: the earliest of the messages', UTC; None if nothing was reconciled.
        participants_answered: distinct participants with at least one result, over all messages; None if some
            launch's answers were not read.
        runs: the known runs that sent it, the earliest first.
        score: the campaign's one score; None for none, and if some launch's answers were not read.
    """

    campaign: str
    target: str
    reconciled_at: datetime | None
    messages: tuple[MessageReport, ...]
    participants_answered: int | None
    discrepancies: tuple[str, ...]
    runs: tuple[RunReport, ...] = ()
    score: PooledScore | None = None

    @property
    def is_simulated(self) -> bool:
        """True if nobody was texted."""
        return self.target == SANDBOX_TARGET

    @property
    def launches(self) -> int:
        """Launches that the service accepted, over all messages."""
        return sum(message.launches for message in self.messages)

    @property
    def unread_launches(self) -> int:
        """Accepted launches of which nothing was ever read."""
        return sum(message.unread_launches for message in self.messages)

    @property
    def sent(self) -> int:
        """Texts sent, over all messages; one person may have had several."""
        return sum(message.sent for message in self.messages)


SMALL_GROUP = 10
"""Smaller groups of recipients are left out of breakdowns: their rates may identify somebody."""


@dataclass(frozen=True, slots=True)
class Caveat:
    """Recipients of the audience who were not sent to, for one reason.

    `disposition` is the plan's name of the reason, as in `opted_out` or `held_out`.
    """

    disposition: str
    recipients: int


@dataclass(frozen=True, slots=True)
class Audience:
    """The audience as the last `apply` found it (UTC).

    `reserved` counts recipients neither sent to nor about to be, by reason, most first, with `held_out`.
    """

    planned_at: datetime
    recipients: int
    held_out: int
    reserved: tuple[Caveat, ...]


@dataclass(frozen=True, slots=True)
class Volume:
    """Renders, which are what the service charges for, and their cost.

    Attributes:
        renders: the service's count; None unless known of every launch.
        forecast_min: renders if nobody answers.
        forecast_max: renders if everybody answers every question validly at once.
        asked_again: renders of questions repeated after an invalid answer; None if not known.
        plan_share: renders as a share of the service plan's limit; None if the service does not say.
        cost_usd: that share of the plan's price, in US dollars; None if the service does not say.
    """

    renders: int | None
    forecast_min: int
    forecast_max: int
    asked_again: int | None = None
    plan_share: Fraction | None = None
    cost_usd: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Turnout:
    """The response of a group of recipients.

    Attributes:
        name: an arm's id, or a value of the audience's column.
        sent: recipients of accepted launches.
        answered: of these, participants with at least one result; None if some answers were not read.
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
    scores: tuple[Score, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedArm:
    """An arm in the verdict: the people asked, and of these the people who answered."""

    name: str
    sent: int
    answered: int


Verdict = Literal["too_early", "too_few", "no_difference_shown", "differs"]


@dataclass(frozen=True, slots=True)
class ArmDifference:
    """The comparison of an arm with the first one.

    Attributes:
        difference: the arm's proportion less the first one's; None if either is not defined.
        interval: its interval, which together with those of all other arms holds in 95 of 100 experiments;
            None likewise, and before the analysis is due.
        p_value: adjusted for the number of comparisons, as the interval is; None likewise.
        verdict: the test's result. The interval, by another method, may just disagree with it.
    """

    arm: str
    against: str
    difference: Fraction | None
    interval: tuple[float, float] | None
    p_value: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class VariantAnalysis:
    """The time of an experiment's verdict, and the people counted (`runner.report.comparison`).

    Attributes:
        method: `sequential`: at every look; `fixed`: on a day fixed beforehand.
        due: the day, UTC; None for `sequential`, and until enough people have been asked.
        per_arm: the people to ask in each arm, if their number fixes the day.
        arms: the people counted; before the verdict is due, all.
    """

    method: Literal["sequential", "fixed"]
    due: date | None
    per_arm: int | None
    is_due: bool
    arms: tuple[CountedArm, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """The arms of a message that has several, and each further arm's difference from the first.

    There is no analysis for a message without questions, or if some answers were not read.
    """

    arms: tuple[Turnout, ...]
    differences: tuple[ArmDifference, ...]
    analysis: VariantAnalysis | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Turnout by the values of one column of the audience (`--by`).

    Attributes:
        groups: by name, without small ones.
        suppressed: the number of groups left out because they are small.
        suppressed_sent: recipients of these together; None if even that would reveal a small number.
        least: recipients that a group needs to be shown.
    """

    column: str
    groups: tuple[Turnout, ...]
    suppressed: int
    suppressed_sent: int | None
    least: int = SMALL_GROUP


@dataclass(frozen=True, slots=True)
class Day:
    """One day of a message, UTC: recipients sent to, first answers, and all results.

    Answers are None if some were not read.
    """

    date: date
    sent: int
    first_answers: int | None
    answers: int | None
