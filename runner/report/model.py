"""The values of a report. Rates are exact fractions of 1; None where a rate is not defined, or not known."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import Literal

from runner.document import Count, Document, Part
from runner.ledger.report_model import NamedCount
from runner.report.comparison_model import ExperimentReport, SeriesReport, Verdict
from runner.report.people_model import (
    SMALL_GROUP,
    ColumnReport,
    Dispositions,
    PeopleReport,
)
from runner.report.question_model import Interval, QuestionReport, Rate, Score, TimeSummary

SANDBOX_TARGET = "sandbox"
"""The target that texts nobody."""


class Sessions(Part, frozen=True):
    """Conversations by state; None for a count not known of every launch.

    Attributes:
        queued: conversations that wait for an earlier one of the same participant. None unless it is known of
            every launch.
        active: conversations in progress. None unless it is known of every launch.
        complete: conversations that have ended. None unless it is known of every launch.
    """

    queued: Count | None
    active: Count | None
    complete: Count | None


class MessageReport(Part, frozen=True):
    """The outcome of one message.

    Attributes:
        id: the message's id in the campaign file.
        tag: the message's project tag.
        first_sent_at: start of the first launch; None when nothing was sent. UTC, ISO 8601.
        last_sent_at: start of the last launch; None when nothing was sent. UTC, ISO 8601.
        reconciled_at: when that one of the message's reconciled launches was read that was read longest ago;
            None when none was. UTC, ISO 8601.
        launches: launches that the service accepted.
        reconciled_launches: of `launches`, those whose counts and answers were read, as far as the service
            has them.
        reconciled_sent: recipients of the launches that were reconciled: what counts of some launches are
            shares of.
        recipients: recipients sent to, and those whose outcome is not known, together.
        sent: recipients of launches that the service accepted.
        texted: of `sent`, people whose text neither waits at the service for an earlier survey to end, nor
            was kept back by an earlier opt-out: what rates are shares of. None unless every launch was read.
        rejected: recipients of launches that the service refused. They are not among `recipients`. None in a
            ledger that was filled from the lockfile or the service, which only tell of accepted launches.
        unresolved: recipients of launches whose outcome is not known.
        sessions: conversations by state, as the service says.
        participants_answered: distinct participants with at least one result. None unless it is known of
            every launch.
        response_rate: `participants_answered` of `sent`. Not defined when nothing was sent, when the message
            asks nothing, and when more answered than were sent to (then `discrepancies` says so). A fraction
            from 0 to 1, rounded to four decimal places; None where it is not defined, or not known.
        response_rate_interval: low and high end of the response rate's 95 % Wilson score interval (Wilson
            1927), as fractions from 0 to 1 rounded to four decimal places; None where the rate is None.
        participants_completed: distinct participants who reached the end: they answered the last question, or
            ended the survey early by an answer that does so. None unless it is known of every launch.
        completion_rate: `participants_completed` of `participants_answered`: completed over started. Not
            defined when nobody answered, and when the message asks nothing. A fraction from 0 to 1, rounded
            to four decimal places; None where it is not defined, or not known.
        renders: what the service says it rendered, and charges for. None unless it is known of every launch.
        results: results that the ledger holds, earlier answers of the same participant to the same question
            among them. None unless it is known of every launch.
        discrepancies: what does not add up: within the record, and between the record and the service's own
            counts. Launches of which the service counts more results than it lists are among them, with what
            to do.
        questions: in the order of the campaign.
        audience: the audience as the last `apply` found it; None when no `apply` has left word of it.
        volume: renders, and what they cost.
        opt_outs: replies to this message that opted out, and those that the service itself reports. None
            unless it is known of every launch.
        doubtful: replies to this message that may opt out and wait for a decision: see `runner optouts`. None
            unless it is known of every launch.
        dispositions: the recipients as the survey field counts them; None for a message without questions,
            and where the counts or answers of some launch, or how each session stands, are not known.
        response_rates: of the dispositions; None for a message without questions.
        time_to_first_answer: from the start of the launch to a participant's first answer.
        experiment: the arms compared; None for a message of one arm.
        breakdowns: turnout by the values of the audience's columns that were asked for.
        days: from the first on which anything happened to the last; days without anything are left out.
        non_answers: results to this message that answer nothing and count as no answer: blank ones, reactions
            of phones (Liked "…") and automatic replies. None unless it is known of every launch.
        partly_known: of the counts that are None, those that are known of some launches.
    """

    id: str
    tag: str
    first_sent_at: datetime | None
    last_sent_at: datetime | None
    reconciled_at: datetime | None
    launches: Count
    reconciled_launches: Count
    reconciled_sent: Count
    recipients: Count
    sent: Count
    rejected: Count | None
    unresolved: Count
    sessions: Sessions
    participants_answered: Count | None
    response_rate: Rate | None
    response_rate_interval: Interval | None
    participants_completed: Count | None
    completion_rate: Rate | None
    renders: Count | None
    results: Count | None
    discrepancies: tuple[str, ...]
    questions: tuple[QuestionReport, ...]
    audience: Audience | None
    volume: Volume
    opt_outs: Count | None
    doubtful: Count | None
    dispositions: Dispositions | None
    response_rates: ResponseRates | None
    time_to_first_answer: TimeSummary
    experiment: Experiment | None
    breakdowns: tuple[Breakdown, ...]
    days: tuple[Day, ...]
    non_answers: Count | None = 0
    partly_known: tuple[NamedCount, ...] = ()
    texted: Count | None = None

    @property
    def unread_launches(self) -> int:
        """Launches of which nothing was ever read."""
        return self.launches - self.reconciled_launches

    def find_part(self, name: str) -> NamedCount | None:
        """Return a count that is None in total but known of some launches."""
        return next((one for one in self.partly_known if one.name == name), None)


class ResponseRates(Part, frozen=True):
    """AAPOR's six response rates, each from 0 to 1; None for a denominator of 0.

    Attributes:
        rr1: I / ((I + P) + (R + NC + O) + (UH + UO)).
        rr2: (I + P) / ((I + P) + (R + NC + O) + (UH + UO)).
        rr3: I / ((I + P) + (R + NC + O) + e (UH + UO)).
        rr4: (I + P) / ((I + P) + (R + NC + O) + e (UH + UO)).
        rr5: I / ((I + P) + (R + NC + O)).
        rr6: (I + P) / ((I + P) + (R + NC + O)).
    """

    rr1: Rate | None
    rr2: Rate | None
    rr3: Rate | None
    rr4: Rate | None
    rr5: Rate | None
    rr6: Rate | None


class RunReport(Part, frozen=True):
    """The part of the campaign that one run sent.

    Attributes:
        id: as the lockfile calls it.
        started_at: UTC, ISO 8601.
        plan_digest: of what it was to send, as `runner plan` prints it.
        commit: of the repository that the campaigns are in; None outside of one.
        dirty: whether files of the campaigns differed from the commit.
        run_url: the page of the CI job; None outside of one.
        triggered_by: by whose hand the CI job ran; None outside of one.
        launches: launches of the campaign that the service accepted from it.
        recipients: recipients of these launches.
    """

    id: str
    started_at: datetime
    plan_digest: str
    commit: str | None
    dirty: bool
    run_url: str | None
    triggered_by: str | None
    launches: Count
    recipients: Count


class QuestionPart(Part, frozen=True):
    """The part of one message in a question that several may ask.

    Attributes:
        message: the message's id.
        answers: people whose latest answer is to this message.
    """

    message: str
    answers: Count


class PooledQuestion(Part, frozen=True):
    """A question of the campaign, over all messages that ask it on the same scale.

    Attributes:
        question: what came back: of each person the latest answer. None like all of a question where some
            launch's answers of these messages were not read.
        parts: the messages that ask it, in the campaign's order; each has figures of its own, too.
    """

    question: QuestionReport
    parts: tuple[QuestionPart, ...]


class CampaignReport(Document, frozen=True):
    """The results of one SMS survey campaign, from the reconciled record.

    It is a function of that record: the same record gives the same document, byte for byte. Answers in
    participants' own words and phone numbers never stand in it. What is not known is null, never 0.
    It begins with the campaign, where a person counts once; its messages follow.

    Attributes:
        campaign: the campaign's name.
        target: name of the target that the campaign was sent through. `sandbox` means simulated: nobody was
            texted.
        title: what people call the campaign; None for a campaign that does not say.
        description: what it is about; None for a campaign that does not say.
        owner: whom to ask about it; None for a campaign that does not say.
        time_zone: the campaign's, in which days are counted: an IANA name.
        first_sent_at: start of the first launch; None when nothing was sent. UTC, ISO 8601.
        last_sent_at: start of the last launch; None when nothing was sent. UTC, ISO 8601.
        reconciled_at: when that one of the reconciled launches of the campaign was read that was read longest
            ago; None when none was. UTC, ISO 8601. `reconciled_launches` says how many of `launches` were.
        next_send_at: the earliest moment at which it may be sent; None once it was sent, and for a campaign
            that fixes none. UTC, ISO 8601.
        launches: launches that the service accepted, over all messages.
        reconciled_launches: of these, those whose counts and answers were read, as far as the service has
            them.
        people: the outcome by person.
        score: the campaign's one score (`score` of the campaign file), over all messages that ask for it;
            None for none, and where some launch's answers were not read.
        goal: what the score is to reach, in its unit; None for a campaign that does not say.
        series: the campaigns that this one is compared with; None for a campaign of no series.
        questions: of all messages, each once, in the order of the campaign.
        groups: the people by the audience's columns that were asked for.
        experiment: the arms compared; None for a campaign without.
        messages: in the order of the campaign.
        participants_answered: distinct participants with at least one answer, over all messages; a reply that
            opts out is none. None where some launch's answers were not read.
        discrepancies: what does not add up and belongs to no message, in sentences.
        runs: the runs that sent the campaign, as far as that is on record; the earliest first.
    """

    campaign: str
    target: str
    reconciled_at: datetime | None
    messages: tuple[MessageReport, ...]
    participants_answered: Count | None
    discrepancies: tuple[str, ...]
    runs: tuple[RunReport, ...] = ()
    title: str | None = None
    description: str | None = None
    owner: str | None = None
    time_zone: str = "UTC"
    first_sent_at: datetime | None = None
    last_sent_at: datetime | None = None
    next_send_at: datetime | None = None
    launches: Count = 0
    reconciled_launches: Count = 0
    people: PeopleReport = PeopleReport()
    score: Score | None = None
    goal: Fraction | None = None
    series: SeriesReport | None = None
    questions: tuple[PooledQuestion, ...] = ()
    groups: tuple[ColumnReport, ...] = ()
    experiment: ExperimentReport | None = None

    @property
    def is_simulated(self) -> bool:
        """True if nobody was texted."""
        return self.target == SANDBOX_TARGET

    @property
    def unread_launches(self) -> int:
        """Accepted launches of which nothing was ever read."""
        return self.launches - self.reconciled_launches

    @property
    def sent(self) -> int:
        """Texts sent, over all messages; one person may have had several."""
        return sum(message.sent for message in self.messages)

    @property
    def cost_usd(self) -> Fraction | None:
        """What its texts cost, in US dollars; None where that is not known of every message sent."""
        costs = [message.volume.cost_usd for message in self.messages if message.sent]
        known = [cost for cost in costs if cost is not None]
        return sum(known, Fraction()) if known and len(known) == len(costs) else None

    @property
    def scored_question(self) -> QuestionReport | None:
        """The question whose score is the campaign's, over all messages."""
        asked = (one.question for one in self.questions)
        return next((one for one in asked if self.score and one.tag == self.score.tag), None)


class Caveat(Part, frozen=True):
    """Recipients of the audience who were not sent to, for one reason.

    Attributes:
        disposition: the plan's name of the reason, as in `opted_out`.
        recipients: how many.
    """

    disposition: str
    recipients: Count


class Audience(Part, frozen=True):
    """The audience as the last `apply` found it (UTC).

    Attributes:
        planned_at: when. UTC, ISO 8601.
        recipients: each person once.
        reserved: recipients who were neither sent to, nor to be sent to at once, by reason; most first.
        control_group: the experiment's holdout; it is also among `reserved`.
    """

    planned_at: datetime
    recipients: Count
    control_group: Count
    reserved: tuple[Caveat, ...]


class Volume(Part, frozen=True):
    """Renders, which are what the service charges for, and their cost.

    Attributes:
        renders: what the service says it rendered. None unless it is known of every launch.
        plan_share: `renders` of all that the service's plan allows, as a fraction rounded to four decimal
            places; None when the service does not say.
        cost_usd: that share of the plan's price, in US dollars; None when the service does not say.
    """

    renders: Count | None
    plan_share: Fraction | None = None
    cost_usd: Fraction | None = None


class Turnout(Part, frozen=True):
    """The response of a group of recipients.

    Attributes:
        name: an arm's id, or a value of the audience's column; `(empty)` for blank cells, and for people who
            have left the audience.
        sent: recipients of launches that the service accepted.
        answered: of these, participants with at least one result. None where some launch's answers were not
            read.
        response_rate: `answered` of `sent`.
        response_interval: low and high end of the rate's 95 % Wilson interval, as fractions from 0 to 1; None
            where the rate is None.
        completed: participants who reached the end. None where some launch's answers were not read.
        scores: of the campaign's scored questions, in its order.
    """

    name: str
    sent: Count
    answered: Count | None
    response_rate: Rate | None
    response_interval: Interval | None
    completed: Count | None
    scores: tuple[Score, ...] = ()


class CountedArm(Part, frozen=True):
    """An arm in the verdict: the people asked, and of these the people who answered.

    Attributes:
        name: the arm's id.
        sent: people asked.
        answered: of these, those who answered.
    """

    name: str
    sent: Count
    answered: Count


class ArmDifference(Part, frozen=True):
    """The comparison of an arm with the first one.

    Attributes:
        arm: the arm's id.
        against: the first arm's id.
        difference: of the response rates, as a fraction of 1 rounded to four decimal places; None when one is
            not defined.
        interval: low and high end of the difference's interval (Newcombe 1998, method 10), as fractions of 1,
            adjusted for the number of comparisons as the p-value is (Bonferroni): together these intervals
            hold in 95 of 100 experiments. None when a rate is not defined, and as long as it is too early.
        p_value: two-sided, adjusted for the number of comparisons (Bonferroni), to four significant figures:
            of Fisher's exact test where the analysis is `fixed`, else the always-valid p-value (mSPRT, Johari
            et al. 2022). None when a rate is not defined, and as long as it is too early.
        verdict: what may be said: too early (the analysis is not due), too few people to tell, no difference
            shown (which does not mean that there is none), or they differ.
    """

    arm: str
    against: str
    difference: Rate | None
    interval: tuple[float, float] | None
    p_value: float | None
    verdict: Verdict


class VariantAnalysis(Part, frozen=True):
    """The time of an experiment's verdict, and the people counted (`runner.report.comparison`).

    Attributes:
        method: `sequential`: at every look, by a test and intervals that hold however often one looks;
            `fixed`: once, of the people asked and the answers before the day that `due` names.
        due: the first day, UTC, on which the verdict may be taken; None for `sequential`, and as long as
            fewer than `per_arm` people of some arm have been asked.
        per_arm: people to ask in each arm: the verdict is due on the seventh day after; None where a day was
            fixed, or nothing.
        is_due: whether the verdict may be taken: every launch was reconciled on the day or later. Always true
            for `sequential`.
        arms: what the verdict counts; before it is due, all there is.
    """

    method: Literal["sequential", "fixed"]
    due: date | None
    per_arm: Count | None
    is_due: bool
    arms: tuple[CountedArm, ...]


class Experiment(Part, frozen=True):
    """The arms of a message that has several, and each further arm's difference from the first.

    Attributes:
        arms: in the campaign's order.
        differences: each further arm against the first.
        analysis: the time of the verdicts, and the people that they count; None for a message without
            questions, and where not all answers were read.
    """

    arms: tuple[Turnout, ...]
    differences: tuple[ArmDifference, ...]
    analysis: VariantAnalysis | None = None


class Breakdown(Part, frozen=True):
    """Turnout by the values of one column of the audience (`--by`).

    Attributes:
        column: as the audience's files call it.
        groups: by name.
        suppressed: groups that are left out, so that no group of fewer than `least` people can be made out.
        suppressed_sent: recipients of these together; None when even that would tell a small number.
        least: recipients that a group needs to be shown.
    """

    column: str
    groups: tuple[Turnout, ...]
    suppressed: Count
    suppressed_sent: Count | None
    least: Count = SMALL_GROUP


class Day(Part, frozen=True):
    """One day of a message, UTC: recipients sent to, first answers, and all results.

    Attributes:
        date: the day, ISO 8601.
        sent: recipients who were sent to on it.
        first_answers: participants whose first answer came on it. None where not all answers to the message
            were read.
        answers: results of it. None where not all answers to the message were read.
    """

    date: date
    sent: Count
    first_answers: Count | None
    answers: Count | None
