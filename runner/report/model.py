"""The values of a report. Rates are exact fractions of 1; None where a rate is not defined, or not known."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction

from runner.document import UNSET, Count, Document, Moment, Part, UnsetType
from runner.ledger.report_model import AppliedStep, NamedCount
from runner.report.comparison_model import ExperimentReport, SeriesReport
from runner.report.cost import PaidCost
from runner.report.people_model import ColumnReport, PeopleReport, SampleReport
from runner.report.question_model import CommentsReport, QuestionReport, Rate, Score

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
        recipients: recipients sent to, and those whose outcome is not known, together.
        sent: recipients of launches that the service accepted.
        texted: of `sent`, people who got the text, but those who were forgotten: what rates are shares of.
            None unless every launch was read, and everybody in them is known.
        rejected: recipients of launches that the service refused. They are not among `recipients`. None in a
            ledger that was filled from the lockfile or the service, which only tell of accepted launches.
        unresolved: recipients of launches whose outcome is not known.
        sessions: conversations by state, as the service says.
        participants_answered: distinct participants with at least one result. None unless it is known of
            every launch, and for a message that asks nothing.
        response_rate: `participants_answered` of `texted`. Not defined when nobody was texted, when the
            message asks nothing, and when more answered than were texted (then `discrepancies` says so). A
            fraction from 0 to 1, rounded to four decimal places; None where it is not defined, or not known.
        participants_completed: distinct participants who reached the end: they answered the last question, or
            ended the survey early by an answer that does so. None unless it is known of every launch, and
            for a message that asks nothing.
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
        plan_share: `renders` of all that the service's plan allows, as a fraction rounded to four decimal
            places; None when the service does not say.
        cost_usd: that share of the plan's price, in US dollars; None when the service does not say.
        opt_outs: people who opted out by a reply to this message, or whose session the service reports to
            have ended by an opt-out. None unless it is known of every launch.
        doubtful: replies to this message that may opt out and wait for a decision: see `runner optouts`. None
            unless it is known of every launch.
        half_answered_within_s: seconds from the start of the launch within which half of the people who
            answered gave their first answer; None when nobody answered, and where not all answers were read.
        days: those with answers. Empty where not all answers to the message were read.
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
    recipients: Count
    sent: Count
    rejected: Count | None
    unresolved: Count
    sessions: Sessions
    participants_answered: Count | None
    response_rate: Rate | None
    participants_completed: Count | None
    completion_rate: Rate | None
    renders: Count | None
    results: Count | None
    discrepancies: tuple[str, ...]
    questions: tuple[QuestionReport, ...]
    audience: Audience | None
    plan_share: Fraction | None
    cost_usd: Fraction | None
    opt_outs: Count | None
    doubtful: Count | None
    half_answered_within_s: Fraction | None
    days: tuple[Day, ...]
    non_answers: Count | None = 0
    partly_known: tuple[NamedCount, ...] = ()
    texted: Count | None = None


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
        answers: people whose latest answer is to this message; None where some launch's answers were not
            read.
    """

    message: str
    answers: Count | None


class PooledQuestion(Part, frozen=True):
    """A question of the campaign, over all messages that ask it on the same scale.

    Attributes:
        question: what came back: of each person the latest answer. None like all of a question where some
            launch's answers of these messages were not read.
        parts: the messages that ask it, in the campaign's order; each has figures of its own, too.
    """

    question: QuestionReport
    parts: tuple[QuestionPart, ...]


class CampaignReport(Document, frozen=True, kw_only=True):
    """The results of one SMS survey campaign, from the reconciled record.

    It is a function of that record: the same record gives the same document, byte for byte. Phone numbers
    never stand in it; people's own words do if they are asked for, with names, phones and e-mail addresses
    masked. What is not known is null, never 0. It begins with the campaign, where a person counts once; its
    messages follow.

    Attributes:
        campaign: the campaign's name.
        wave: the wave that all figures are of; None for a campaign without waves.
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
        rollout: the step that was open in the last `apply`; None for a campaign without a rollout, or if that
            is not known.
        launches: launches that the service accepted, over all messages.
        reconciled_launches: of these, those whose counts and answers were read, as far as the service has
            them.
        people: the outcome by person.
        sample: the sample that was texted; None where all people are. What is not known of it is null.
        completes: how many people are to answer to the end, after whom nobody is texted any more; None
            without `limits.completes`.
        score: the campaign's one score (`score` of the campaign file), over all messages that ask for it;
            None for none, and where some launch's answers were not read.
        goal: what the score is to reach, in its unit; None for a campaign that does not say.
        series: the campaigns that this one is compared with; None for a campaign of no series.
        questions: of all messages, each once, in the order of the campaign.
        groups: the people by the audience's columns that were asked for.
        unknown_groups: columns that were asked for, by which the people are not known until all answers were
            read.
        experiment: the arms compared; None for a campaign without.
        comments: what people wrote; None unless it was asked for.
        messages: in the order of the campaign.
        discrepancies: what does not add up and belongs to no message, in sentences.
        runs: the runs that sent the campaign, as far as that is on record; the earliest first.
        cost: what its texts have cost so far, by the prices of the target; left out where that has none.
        pruned_at: when the answers were pruned; the figures are as of then. Left out if they are kept. UTC,
            ISO 8601.
    """

    campaign: str
    wave: str | None = None
    target: str
    title: str | None = None
    description: str | None = None
    owner: str | None = None
    time_zone: str = "UTC"
    first_sent_at: datetime | None = None
    last_sent_at: datetime | None = None
    reconciled_at: datetime | None
    next_send_at: datetime | None = None
    rollout: AppliedStep | None = None
    launches: Count = 0
    reconciled_launches: Count = 0
    people: PeopleReport = PeopleReport()
    sample: SampleReport | None = None
    completes: Count | None = None
    score: Score | None = None
    goal: Fraction | None = None
    series: SeriesReport | None = None
    questions: tuple[PooledQuestion, ...] = ()
    groups: tuple[ColumnReport, ...] = ()
    unknown_groups: tuple[str, ...] = ()
    experiment: ExperimentReport | None = None
    comments: CommentsReport | None = None
    messages: tuple[MessageReport, ...]
    discrepancies: tuple[str, ...] = ()
    runs: tuple[RunReport, ...] = ()
    cost: PaidCost | UnsetType = UNSET
    pruned_at: Moment | UnsetType = UNSET

    @property
    def label(self) -> str:
        """The campaign's name, with its wave."""
        return f"{self.campaign} {self.wave}" if self.wave else self.campaign

    @property
    def heading(self) -> str:
        """Its title, or else its name, with its wave."""
        title = self.title or self.campaign
        return f"{title}, {self.wave}" if self.wave else title

    @property
    def is_simulated(self) -> bool:
        """True if nobody was texted."""
        return self.target == SANDBOX_TARGET

    @property
    def unread_launches(self) -> int:
        """Accepted launches of which nothing was ever read."""
        return self.launches - self.reconciled_launches

    @property
    def cost_usd(self) -> Fraction | None:
        """The cost of its texts in US dollars; None where that is not known of every message sent."""
        costs = [message.cost_usd for message in self.messages if message.sent]
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
    """

    planned_at: datetime
    recipients: Count
    reserved: tuple[Caveat, ...]


class Day(Part, frozen=True):
    """One day of a message, in the campaign's time zone.

    Attributes:
        date: the day, ISO 8601.
        answers: results that came on it.
    """

    date: date
    answers: Count
