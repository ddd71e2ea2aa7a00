"""The numbers of a report, computed from facts and counts, and the discrepancies among them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from runner.document import build
from runner.ledger.report_model import COUNTED, NamedCount, PartialCount, name_parts
from runner.report.breakdowns import (
    break_down,
    describe_experiment,
    list_partly_read,
    list_unread,
    summarise_question,
    summarise_questions,
)
from runner.report.facts import DayTally, MessageTally, OptOutFacts, QuestionTally, SessionFacts
from runner.report.funnel import count_completed, estimate_eligibility, follow_questions, response_rates
from runner.report.model import (
    Audience,
    CampaignReport,
    Caveat,
    Day,
    MessageReport,
    PooledQuestion,
    QuestionPart,
    RunReport,
    Sessions,
    Volume,
)
from runner.report.people_model import SMALL_GROUP, Dispositions
from runner.report.question_model import UNKNOWN_TIMES
from runner.report.scores import divide, summarise_times, wilson_interval
from runner.source.quantity import read_number
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from fractions import Fraction

    from runner.ledger.report_model import (
        AudienceRow,
        MessageTotals,
        OpenDifferences,
        RunRow,
        SentRow,
        ServicePlan,
    )
    from runner.report.facts import CampaignFacts, CampaignTally, MessageOutline, ScoreOutline
    from runner.report.funnel import FunnelStep
    from runner.report.model import ResponseRates
    from runner.report.question_model import QuestionReport

_Key = TypeVar("_Key")


def measure_volume(renders: int | None, price: ServicePlan | None) -> Volume:
    """Return a message's renders with their share of the plan and of its price, in proportion.

    `price` is None where the service was never asked.
    """
    share = None if price is None else divide(renders, price.renders_max)
    price_usd = None if price is None else _read_price(price.price_usd)
    return Volume(renders, share, None if share is None or price_usd is None else share * price_usd)


def _read_price(text: str | None) -> Fraction | None:
    # An answer may have a decimal comma; a price is decimal text.
    price = None if text is None or "," in text else read_number(text)
    return None if price is None or price < 0 else price


_NAMES = {
    "queued": "how many sessions are queued",
    "active": "how many sessions are active",
    "complete": "how many sessions are complete",
    "renders": "how many renders there were",
    "results": "how many results there are",
}
"""The counts that a report depends on, in words."""

_SERVICE_COUNTS = frozenset({"queued", "active", "complete", "renders"})
"""The service's own counts that a report shows."""

_MOST_TAGS = 5
_REACHED = frozenset({"to_send", "already_sent", "unresolved"})
"""Dispositions of recipients who have been sent to, or are about to be."""


@dataclass(frozen=True)
class _Message:
    """One message: what the ledger knows of it, and its results, with an entry for every question."""

    facts: CampaignFacts
    outline: MessageOutline
    totals: MessageTotals
    tally: MessageTally

    @property
    def sessions(self) -> SessionFacts:
        return self.facts.sessions.get(self.outline.id, SessionFacts())

    @property
    def differences(self) -> OpenDifferences | None:
        return self.facts.differences.get(self.outline.id)

    @property
    def hides_answers(self) -> bool:
        """True if some answers cannot be read; the launches that they belong to are not known."""
        return self.differences is not None and self.differences.hidden > 0

    @property
    def is_read(self) -> bool:
        """True if the answers to every listed launch were read."""
        return not self.totals.unread and not self.hides_answers

    @property
    def has_rate(self) -> bool:
        """True if the response rate is defined, and known."""
        asks = self.is_read and bool(self.outline.questions)
        return asks and 0 < self.totals.sent >= self.tally.participants

    @cached_property
    def sent(self) -> list[SentRow]:
        return [row for row in self.facts.sent if row.message == self.outline.id]

    @cached_property
    def sent_by_arm(self) -> Counter[str]:
        return _add_up((row.arm, row.recipients) for row in self.sent)

    @cached_property
    def reached(self) -> dict[str, int]:
        """Recipients whose session is not queued or blocked, by the tag of their first question.

        Sessions are not told apart by arm: where arms begin in different ways, or the number of queued
        sessions is not known, all count.
        """
        firsts = {way.arm: way.questions[0].tag for way in self.outline.all_ways if way.questions}
        tags = dict.fromkeys(firsts.values())
        if len(tags) == 1:
            return dict.fromkeys(tags, self.totals.sent - (self.totals.queued or 0) - self.sessions.blocked)
        return dict(_add_up((tag, self.sent_by_arm[arm]) for arm, tag in firsts.items()))

    @cached_property
    def steps(self) -> tuple[FunnelStep, ...]:
        return tuple(follow_questions(self.outline, self.tally.paths, self.reached))

    @cached_property
    def completed(self) -> dict[str, int]:
        return count_completed(self.outline, self.tally.paths)


def _add_up(counts: Iterable[tuple[_Key, int]]) -> Counter[_Key]:
    """Return the sums of counts by key."""
    sums: Counter[_Key] = Counter()
    for key, count in counts:
        sums[key] += count
    return sums


def summarise(facts: CampaignFacts, tally: CampaignTally, *, least: int = SMALL_GROUP) -> CampaignReport:
    """Return a campaign's metrics. Breakdowns show no group of fewer than `least` recipients."""
    messages = {}
    for outline, totals in facts.messages:
        counted = tally.messages.get(outline.id, MessageTally())
        blank = {question.tag: QuestionTally() for question in outline.questions}
        whole = replace(counted, questions={**blank, **counted.questions})
        messages[outline.id] = _Message(facts, outline, totals, whole)
    times = (_read_time(totals.reconciled_at) for _, totals in facts.messages)
    pooled = _pool_score(facts.score, tally, messages)
    launches = sum(totals.launches for _, totals in facts.messages)
    strays = f"Results of messages that the campaign does not have, left out here: {tally.strays:,}."
    is_read = all(one.is_read for one in messages.values())
    return CampaignReport(
        campaign=facts.name,
        target=facts.target,
        reconciled_at=min((time for time in times if time is not None), default=None),
        messages=tuple(_summarise_message(one, least) for one in messages.values()),
        participants_answered=tally.participants if is_read else None,
        discrepancies=(strays,) if tally.strays else (),
        runs=tuple(map(_report_run, facts.runs)),
        launches=launches,
        reconciled_launches=launches - sum(totals.unread for _, totals in facts.messages),
        score=None if pooled is None else pooled.question.score,
        questions=() if pooled is None else (pooled,),
    )


def _report_run(row: RunRow) -> RunReport:
    started_at = datetime.fromisoformat(row.run.started_at).astimezone(UTC)
    return build(RunReport, row.run, started_at=started_at, launches=row.launches, recipients=row.recipients)


def _pool_score(
    score: ScoreOutline | None, tally: CampaignTally, messages: Mapping[str, _Message]
) -> PooledQuestion | None:
    if score is None or not all(messages[name].is_read for name in score.messages if name in messages):
        return None
    parts = _add_up((message, count) for (message, _), count in tally.pooled.items())
    readings = _add_up((("", reading), count) for (_, reading), count in tally.pooled.items())
    return PooledQuestion(
        summarise_question(score.question, QuestionTally(readings)),
        tuple(QuestionPart(message, parts[message]) for message in score.messages),
    )


def _summarise_message(one: _Message, least: int) -> MessageReport:
    outline, totals, tally = one.outline, one.totals, one.tally
    held = _count_people(one)
    known: dict[str, int | None] = dict(held) if one.is_read else dict.fromkeys(held)
    ended = divide(known["participants_completed"], known["participants_answered"])
    answered, has_rate = tally.participants, one.has_rate
    dispositions = _count_dispositions(one) if has_rate else None
    reconciled_at = _read_time(totals.reconciled_at)
    return MessageReport(
        id=outline.id,
        tag=outline.tag,
        first_sent_at=_read_time(totals.first_sent_at),
        last_sent_at=_read_time(totals.last_sent_at),
        reconciled_at=reconciled_at,
        launches=totals.launches,
        reconciled_launches=totals.reconciled,
        reconciled_sent=totals.sent_read,
        recipients=totals.sent + totals.unresolved,
        sent=totals.sent,
        rejected=_know_rejected(one),
        unresolved=totals.unresolved,
        sessions=Sessions(totals.queued, totals.active, totals.complete),
        response_rate=divide(answered, totals.sent) if has_rate else None,
        response_rate_interval=wilson_interval(answered, totals.sent) if has_rate else None,
        completion_rate=ended if outline.questions else None,
        renders=totals.renders,
        **known,
        discrepancies=tuple(_find_discrepancies(one)),
        questions=tuple(_summarise_questions(one)),
        audience=_describe_audience(one.facts.audiences.get(outline.id)),
        volume=measure_volume(totals.renders, one.facts.price),
        dispositions=dispositions,
        response_rates=_rate(dispositions) if dispositions else None,
        time_to_first_answer=summarise_times(tally.first_s) if one.is_read else UNKNOWN_TIMES,
        experiment=describe_experiment(outline, tally, one.sent, reconciled_at, is_read=one.is_read),
        breakdowns=tuple(
            break_down(outline, column, groups, least, is_read=one.is_read)
            for column, groups in tally.groups.items()
        ),
        days=tuple(_list_days(one)),
        partly_known=_list_parts(one, held),
    )


def _count_people(one: _Message) -> dict[str, int]:
    """Return the counts that the ledger holds, as far as answers were read."""
    opt_outs = one.facts.opt_outs.get(one.outline.id, OptOutFacts())
    return {
        "participants_answered": one.tally.participants,
        "participants_completed": sum(one.completed.values()),
        "results": one.tally.results,
        "opt_outs": opt_outs.replied + opt_outs.reported,
        "doubtful": opt_outs.doubtful,
        "non_answers": one.tally.non_answers,
    }


def _know_rejected(one: _Message) -> int | None:
    """Return the recipients of refused launches; None if the ledger cannot know of any.

    A ledger filled from the service or the lockfile, in which no `apply` has planned the message, has
    accepted launches only.
    """
    totals = one.totals
    is_told = totals.message in one.facts.audiences or not totals.launches
    return totals.rejected if totals.rejected or is_told else None


def _list_parts(one: _Message, held: Mapping[str, int]) -> tuple[NamedCount, ...]:
    """Return the counts that are known of some launches only: the service's and the ledger's."""
    parts = {name: part for name, part in one.totals.partly_known.items() if name in _SERVICE_COUNTS}
    if not one.hides_answers:
        parts |= {name: part for name, count in held.items() if (part := one.totals.know_in_part(count))}
    return name_parts(parts)


def _summarise_questions(one: _Message) -> Iterator[QuestionReport]:
    totals = one.totals
    if one.hides_answers or (totals.unread and not totals.reconciled):
        return list_unread(one.outline)
    unread: Collection[str] = one.reached.keys() if totals.queued is None else ()
    questions = summarise_questions(one.outline, one.tally.questions, one.steps, unread)
    return list_partly_read(questions, totals.reconciled, totals.launches) if totals.unread else questions


def _count_dispositions(one: _Message) -> Dispositions | None:
    """Return the recipients by disposition, as `runner.report.funnel` defines them.

    None where the service lists fewer sessions than it counts, apart from those of forgotten people.
    Recipients without a listed session are of unknown eligibility.
    """
    totals, sessions = one.totals, one.sessions
    if totals.queued is None or totals.active is None or totals.complete is None:
        return None
    if sessions.listed + one.facts.forgotten < totals.queued + totals.active + totals.complete:
        return None
    answered, completed = one.tally.participants, sum(one.completed.values())
    refusal = sessions.refused + sessions.stopped
    accounted = answered + refusal + sessions.ended
    return Dispositions(
        complete=completed,
        partial=answered - completed,
        refusal=refusal,
        non_contact=sessions.ended,
        other=0,
        unknown_eligibility=max(totals.sent - accounted, sessions.open) + totals.unresolved,
    )


def _rate(dispositions: Dispositions) -> ResponseRates:
    # Nobody is known to be ineligible: a refused send says nothing of its recipients.
    return response_rates(dispositions, estimate_eligibility(dispositions.eligible, 0))


def _describe_audience(facts: AudienceRow | None) -> Audience | None:
    planned_at = _read_time(None if facts is None else facts.planned_at)
    if facts is None or planned_at is None:
        return None
    reserved = [Caveat(name, count) for name, count in facts.dispositions.items() if name not in _REACHED]
    return Audience(
        planned_at=planned_at,
        recipients=facts.recipients,
        control_group=facts.dispositions.get("control_group", 0),
        reserved=tuple(sorted(reserved, key=lambda one: (-one.recipients, one.disposition))),
    )


def _list_days(one: _Message) -> Iterator[Day]:
    sent = _add_up((date.fromisoformat(row.date), row.recipients) for row in one.sent)
    for day in sorted(sent.keys() | one.tally.days.keys()):
        counted = one.tally.days.get(day, DayTally())
        if one.is_read:
            yield Day(day, sent[day], counted.first_answers, counted.answers)
        elif sent[day]:
            yield Day(day, sent[day], None, None)


def _read_time(text: str | None) -> datetime | None:
    """Return an ISO 8601 time in UTC, which is also the default zone.

    None if the text is no time.
    """
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _find_discrepancies(one: _Message) -> Iterator[str]:
    """Yield the discrepancies in one message.

    The service's own counts are compared only if they are known of every launch and every launch was read:
    before that they are old, not wrong.
    """
    totals, differences = one.totals, one.differences
    if differences is not None and differences.waiting:
        yield (
            f"The service contradicts itself about answers: {differences}. Follow-ups that go by answers "
            "wait: run “runner reconcile” again, and if it stays, “runner reconcile --accept-differences”."
        )
    if differences is not None and differences.accepted:
        yield f"Launches whose answers were accepted as the service lists them: {differences.accepted:,}."
    for name in COUNTED:
        part = totals.partly_known.get(name, PartialCount(0, 0))
        lacking = totals.reconciled - part.launches
        if name in _NAMES and getattr(totals, name) is None and lacking > 0:
            yield f"Launches of which the service does not say {_NAMES[name]}: {lacking:,}."
    if totals.reconciled_at is not None and not totals.unread:
        yield from _compare_counts(totals, one.tally, one.facts.forgotten)
    answered = one.tally.participants
    if answered > totals.sent:
        yield (
            f"Participants who answered: {answered:,}; recipients that were sent to: {totals.sent:,}. "
            "No response rate is given."
        )
    for step in one.steps[1:]:
        if step.unaccounted and not totals.unread and totals.queued is not None:
            yield (
                f"Participants who answered “{step.tag}” with no answer in the ledger that leads there: "
                f"{step.unaccounted:,}."
            )
    if one.tally.unknown:
        tags = sorted(one.tally.unknown)
        named = ", ".join(f"“{hide_phones(tag)}”" for tag in tags[:_MOST_TAGS])
        more = ", …" if len(tags) > _MOST_TAGS else ""
        yield (
            f"Answers to questions that the campaign does not have ({named}{more}), left out here: "
            f"{sum(one.tally.unknown.values()):,}."
        )


def _compare_counts(totals: MessageTotals, tally: MessageTally, forgotten: int) -> Iterator[str]:
    """Yield where the service's counts are not the ledger's.

    `forgotten` counts people of the campaign whom the service may still count.
    """
    if totals.results is not None and tally.results != totals.results:
        # Surplus results are no longer listed by the service, or are listed under other guids.
        remedy = (
            " “runner reconcile --full” looks which are not listed any more; “--drop-unlisted” removes them."
            if tally.results > totals.results
            else ""
        )
        yield (
            f"Results that the service counts: {totals.results:,}; in the ledger: {tally.results:,}.{remedy}"
        )
    if totals.queued is None or totals.active is None or totals.complete is None:
        return
    sessions = totals.queued + totals.active + totals.complete
    if not 0 <= sessions - totals.sent <= forgotten:
        yield f"Sessions that the service has: {sessions:,}; recipients that were sent to: {totals.sent:,}."
