"""The numbers of a report, computed from facts and counts, and the discrepancies among them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from runner.document import build
from runner.ledger.report_model import COUNTED, NamedCount, PartialCount, name_parts
from runner.report.breakdowns import (
    break_down,
    describe_experiment,
    list_partly_read,
    list_unread,
    summarise_pool,
    summarise_questions,
)
from runner.report.facts import DayTally, MessageTally, OptOutFacts, QuestionTally, SessionFacts
from runner.report.funnel import count_completed, estimate_eligibility, follow_questions, response_rates
from runner.report.model import (
    SMALL_GROUP,
    UNKNOWN_TIMES,
    Audience,
    CampaignReport,
    Caveat,
    Day,
    Dispositions,
    MessageReport,
    PooledScore,
    RunReport,
    ScorePart,
    Sessions,
    Volume,
)
from runner.report.scores import divide, summarise_times, wilson_interval
from runner.source.quantity import read_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from runner.ledger.report_model import AudienceRow, MessageTotals, OpenDifferences, RunRow, ServicePlan
    from runner.report.facts import AnswerReading, CampaignFacts, CampaignTally, MessageOutline
    from runner.report.funnel import FunnelStep
    from runner.report.model import QuestionReport, ResponseRates


def measure_volume(
    outline: MessageOutline,
    totals: MessageTotals,
    sent: Mapping[str, int],
    completed: Mapping[str, int],
    steps: Sequence[FunnelStep] | None,
    price: ServicePlan | None,
    blocked: int = 0,
) -> Volume:
    """Return a message's renders, forecast and cost.

    Introduction, each question asked or asked again, and conclusion are one render each. A
    render costs its share of the plan's price for the plan's renders. `steps` is None where they do not tell
    what was rendered, `price` where the service was never asked; `blocked` counts sessions that an earlier
    opt-out kept from beginning.
    """
    share = None if price is None else divide(totals.renders, price.renders_max)
    price_usd = None if price is None else _read_price(price.price_usd)
    return Volume(
        renders=totals.renders,
        forecast_min=sum(sent.get(way.arm, 0) * way.renders_min for way in outline.all_ways),
        forecast_max=sum(sent.get(way.arm, 0) * way.renders_max for way in outline.all_ways),
        asked_again=_count_asked_again(outline, totals, sent, completed, steps, blocked),
        plan_share=share,
        cost_usd=None if share is None or price_usd is None else share * price_usd,
    )


def _count_asked_again(
    outline: MessageOutline,
    totals: MessageTotals,
    sent: Mapping[str, int],
    completed: Mapping[str, int],
    steps: Sequence[FunnelStep] | None,
    blocked: int,
) -> int | None:
    """Return the renders that only invalid answers explain; None if that is not known."""
    beginnings = {(way.introduces, way.questions[0].tag) for way in outline.all_ways if way.questions}
    renders, queued = totals.renders, totals.queued
    if steps is None or totals.reconciled_at is None or renders is None or queued is None:
        return None
    unreached = queued + blocked
    if not outline.questions or (len(beginnings) > 1 and unreached):
        return None
    introductions = sum(sent.get(way.arm, 0) for way in outline.all_ways if way.introduces)
    if all(way.introduces for way in outline.all_ways):
        introductions -= unreached
    conclusions = sum(completed.get(way.arm, 0) for way in outline.all_ways if way.concludes)
    again = renders - introductions - conclusions - sum(step.asked for step in steps)
    return again if again >= 0 else None


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


def find_discrepancies(
    outline: MessageOutline,
    totals: MessageTotals,
    tally: MessageTally,
    steps: Sequence[FunnelStep],
    forgotten: int,
    differences: OpenDifferences | None = None,
) -> tuple[str, ...]:
    """Return the discrepancies in one message.

    The service's own counts are compared only if they are known of every launch and every launch was read:
    before that they are old, not wrong. `forgotten` counts people of the campaign whom the service may still
    count; `differences` are launches about whose answers the service contradicts itself.
    """
    has_counts = totals.reconciled_at is not None and not totals.unread
    return (
        *_name_differences(differences),
        *_name_missing_counts(totals),
        *(_compare_counts(totals, tally, forgotten) if has_counts else ()),
        *_check_participants(totals, tally),
        *(_check_order(steps) if not totals.unread and totals.queued is not None else ()),
        *_name_unknown_questions(outline, tally),
    )


def describe_strays(strays: int) -> tuple[str, ...]:
    """Return sentences on results that belong to no message of the campaign."""
    if not strays:
        return ()
    return (f"Results of messages that the campaign does not have, left out here: {strays:,}.",)


def _name_differences(differences: OpenDifferences | None) -> Iterator[str]:
    if differences is None:
        return
    if differences.waiting:
        yield (
            f"The service contradicts itself about answers: {differences}. Follow-ups that go by answers "
            "wait: run “runner reconcile” again, and if it stays, “runner reconcile --accept-differences”."
        )
    if differences.accepted:
        yield f"Launches whose answers were accepted as the service lists them: {differences.accepted:,}."


def _name_missing_counts(totals: MessageTotals) -> Iterator[str]:
    """Yield the counts that the service leaves out although the launches were read."""
    for name in COUNTED:
        part = totals.partly_known.get(name, PartialCount(0, 0))
        lacking = totals.reconciled - part.launches
        if name in _NAMES and getattr(totals, name) is None and lacking > 0:
            yield f"Launches of which the service does not say {_NAMES[name]}: {lacking:,}."


def _compare_counts(totals: MessageTotals, tally: MessageTally, forgotten: int) -> Iterator[str]:
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


def _check_participants(totals: MessageTotals, tally: MessageTally) -> Iterator[str]:
    answered = tally.participants
    if answered > totals.sent:
        yield (
            f"Participants who answered: {answered:,}; recipients that were sent to: {totals.sent:,}. "
            "No response rate is given."
        )


def _check_order(steps: Sequence[FunnelStep]) -> Iterator[str]:
    for step in steps[1:]:
        if step.unaccounted:
            yield (
                f"Participants who answered “{step.tag}” with no answer in the ledger that leads there: "
                f"{step.unaccounted:,}."
            )


def _name_unknown_questions(outline: MessageOutline, tally: MessageTally) -> Iterator[str]:
    known = {question.tag for question in outline.questions}
    for tag in sorted(tally.questions.keys() - known):
        count = tally.questions[tag].answers
        name = f"tagged “{tag}”" if tag else "without a tag"
        yield f"Participants who answered a question {name}, which the campaign does not have: {count:,}."
    if tally.unlisted:
        yield f"Further questions that the campaign does not have, left out here: {tally.unlisted:,}."


_SERVICE_COUNTS = frozenset({"queued", "active", "complete", "renders"})
"""The service's own counts that a report shows."""

_REACHED = frozenset({"to_send", "already_sent", "unresolved"})
"""Dispositions of recipients who have been sent to, or are about to be."""


def summarise(facts: CampaignFacts, tally: CampaignTally, *, least: int = SMALL_GROUP) -> CampaignReport:
    """Return a campaign's metrics. Breakdowns show no group of fewer than `least` recipients."""
    return CampaignReport(
        campaign=facts.name,
        target=facts.target,
        reconciled_at=_find_earliest([totals for _, totals in facts.messages]),
        messages=tuple(
            _summarise_message(facts, outline, totals, _complete(outline, tally), least)
            for outline, totals in facts.messages
        ),
        participants_answered=tally.participants
        if all(_is_read(facts, totals) for _, totals in facts.messages)
        else None,
        discrepancies=describe_strays(tally.strays),
        runs=report_runs(facts.runs),
        score=_pool_score(facts, tally),
    )


def _pool_score(facts: CampaignFacts, tally: CampaignTally) -> PooledScore | None:
    score = facts.score
    if score is None:
        return None
    asking = [totals for outline, totals in facts.messages if outline.id in score.messages]
    if not all(_is_read(facts, totals) for totals in asking):
        return None
    parts = dict.fromkeys(score.messages, 0)
    readings: Counter[tuple[str, AnswerReading]] = Counter()
    for (message, reading), count in tally.pooled.items():
        parts[message] += count
        readings["", reading] += count
    found = tuple(ScorePart(*one) for one in parts.items())
    return PooledScore(summarise_pool(score.question, QuestionTally(readings)), found)


def _complete(outline: MessageOutline, tally: CampaignTally) -> MessageTally:
    """Return a message's tally with an entry for every question, answered or not."""
    counted = tally.messages.get(outline.id, MessageTally())
    blank = {question.tag: QuestionTally() for question in outline.questions}
    return replace(counted, questions={**blank, **counted.questions})


def _summarise_message(
    facts: CampaignFacts, outline: MessageOutline, totals: MessageTotals, tally: MessageTally, least: int
) -> MessageReport:
    sent = _count_sent(facts, outline.id)
    sessions = facts.sessions.get(outline.id, SessionFacts())
    reached = _count_reached(outline, totals, sent, sessions.blocked)
    steps = tuple(follow_questions(outline, tally.paths, reached))
    answered, completed = tally.participants, count_completed(outline, tally.paths)
    is_read = _is_read(facts, totals)
    has_rate = is_read and bool(outline.questions) and 0 < totals.sent >= answered
    opt_outs = facts.opt_outs.get(outline.id, OptOutFacts())
    held = {
        "participants_answered": answered,
        "participants_completed": sum(completed.values()),
        "results": tally.results,
        "opt_outs": opt_outs.replied + opt_outs.reported,
        "doubtful": opt_outs.doubtful,
        "non_answers": opt_outs.non_answers,
    }
    known = held if is_read else dict.fromkeys(held)
    dispositions = _count_dispositions(
        totals,
        answered,
        held["participants_completed"],
        sessions,
        facts.forgotten,
    )
    return MessageReport(
        id=outline.id,
        tag=outline.tag,
        first_sent_at=_read_time(totals.first_sent_at),
        last_sent_at=_read_time(totals.last_sent_at),
        reconciled_at=_read_time(totals.reconciled_at),
        launches=totals.launches,
        reconciled_launches=totals.reconciled,
        reconciled_sent=totals.sent_read,
        recipients=totals.sent + totals.unresolved,
        sent=totals.sent,
        rejected=_know_rejected(facts, totals),
        unresolved=totals.unresolved,
        sessions=Sessions(totals.queued, totals.active, totals.complete),
        participants_answered=known["participants_answered"],
        response_rate=divide(answered, totals.sent) if has_rate else None,
        response_rate_interval=wilson_interval(answered, totals.sent) if has_rate else None,
        participants_completed=known["participants_completed"],
        completion_rate=divide(known["participants_completed"], known["participants_answered"])
        if outline.questions
        else None,
        renders=totals.renders,
        results=known["results"],
        discrepancies=find_discrepancies(
            outline, totals, tally, steps, facts.forgotten, facts.differences.get(outline.id)
        ),
        questions=tuple(_summarise_questions(facts, outline, totals, tally, steps, reached)),
        audience=_describe_audience(facts.audiences.get(outline.id)),
        volume=measure_volume(
            outline,
            totals,
            sent,
            completed,
            # After a reply that opts out the service goes on as it likes.
            steps if is_read and not tally.refusals else None,
            facts.price,
            sessions.blocked,
        ),
        opt_outs=known["opt_outs"],
        doubtful=known["doubtful"],
        non_answers=known["non_answers"],
        dispositions=dispositions if has_rate else None,
        response_rates=_rate(dispositions) if has_rate and dispositions else None,
        time_to_first_answer=summarise_times(tally.first_s) if is_read else UNKNOWN_TIMES,
        experiment=describe_experiment(
            outline,
            tally,
            [row for row in facts.sent if row.message == outline.id],
            _read_time(totals.reconciled_at),
            is_read=is_read,
        ),
        breakdowns=tuple(
            break_down(outline, column, groups, least, is_read=is_read)
            for column, groups in tally.groups.items()
        ),
        days=tuple(_list_days(facts, outline.id, tally, is_read=is_read)),
        partly_known=_list_parts(totals, {} if _hides_answers(facts, totals) else held),
    )


def _know_rejected(facts: CampaignFacts, totals: MessageTotals) -> int | None:
    """Return the recipients of refused launches; None if the ledger cannot know of any.

    A ledger filled from the service or the lockfile, in which no `apply` has planned the message, has
    accepted launches only.
    """
    is_told = totals.message in facts.audiences or not totals.launches
    return totals.rejected if totals.rejected or is_told else None


def _is_read(facts: CampaignFacts, totals: MessageTotals) -> bool:
    """Return whether the answers to every listed launch of a message were read."""
    return not totals.unread and not _hides_answers(facts, totals)


def _hides_answers(facts: CampaignFacts, totals: MessageTotals) -> bool:
    """Return whether some answers cannot be read; the launches that they belong to are not known."""
    differences = facts.differences.get(totals.message)
    return differences is not None and differences.hidden > 0


def _list_parts(totals: MessageTotals, held: Mapping[str, int]) -> tuple[NamedCount, ...]:
    """Return the counts that are known of some launches only: the service's and the ledger's."""
    parts = {name: part for name, part in totals.partly_known.items() if name in _SERVICE_COUNTS}
    return name_parts(
        parts | {name: part for name, count in held.items() if (part := totals.know_in_part(count))}
    )


def _summarise_questions(
    facts: CampaignFacts,
    outline: MessageOutline,
    totals: MessageTotals,
    tally: MessageTally,
    steps: Sequence[FunnelStep],
    reached: Mapping[str, int],
) -> Iterator[QuestionReport]:
    if _hides_answers(facts, totals) or (totals.unread and not totals.reconciled):
        return list_unread(outline)
    unread: Collection[str] = reached.keys() if totals.queued is None else ()
    questions = summarise_questions(outline, tally.questions, steps, unread)
    if totals.unread:
        return list_partly_read(questions, totals.reconciled, totals.launches)
    return questions


def _count_sent(facts: CampaignFacts, message: str) -> Counter[str]:
    """Return the recipients of a message by arm."""
    sent: Counter[str] = Counter()
    for count in facts.sent:
        if count.message == message:
            sent[count.arm] += count.recipients
    return sent


def _count_reached(
    outline: MessageOutline, totals: MessageTotals, sent: Counter[str], blocked: int
) -> dict[str, int]:
    """Return the recipients whose session is not queued or blocked, by the tag of their first question.

    Sessions are not told apart by arm: where arms begin in different ways, or the number of queued sessions
    is not known, all count.
    """
    firsts = {way.arm: way.questions[0].tag for way in outline.all_ways if way.questions}
    tags = dict.fromkeys(firsts.values())
    if len(tags) == 1:
        return dict.fromkeys(tags, totals.sent - (totals.queued or 0) - blocked)
    return {tag: sum(sent[arm] for arm, first in firsts.items() if first == tag) for tag in tags}


def _count_dispositions(
    totals: MessageTotals, answered: int, completed: int, sessions: SessionFacts, forgotten: int
) -> Dispositions | None:
    """Return the recipients by disposition, as `runner.report.funnel` defines them.

    None where the service lists fewer sessions than it counts, apart from those of forgotten people.
    Recipients without a listed session are of unknown eligibility.
    """
    if totals.queued is None or totals.active is None or totals.complete is None:
        return None
    if sessions.listed + forgotten < totals.queued + totals.active + totals.complete:
        return None
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
        reserved=tuple(sorted(reserved, key=lambda one: (-one.recipients, one.disposition))),
        control_group=facts.dispositions.get("control_group", 0),
    )


def _list_days(facts: CampaignFacts, message: str, tally: MessageTally, *, is_read: bool) -> Iterator[Day]:
    sent: Counter[date] = Counter()
    for count in facts.sent:
        if count.message == message:
            sent[date.fromisoformat(count.date)] += count.recipients
    for day in sorted(sent.keys() | tally.days.keys()):
        counted = tally.days.get(day, DayTally())
        if is_read:
            yield Day(day, sent[day], counted.first_answers, counted.answers)
        elif sent[day]:
            yield Day(day, sent[day], None, None)


def _find_earliest(messages: Sequence[MessageTotals]) -> datetime | None:
    """Return the earliest time at which a reconciled launch was read; None if none was."""
    times = (_read_time(totals.reconciled_at) for totals in messages)
    return min((time for time in times if time is not None), default=None)


def _read_time(text: str | None) -> datetime | None:
    """Return an ISO 8601 time in UTC, which is also the default zone.

    None if the text is no time.
    """
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def report_runs(rows: Iterable[RunRow]) -> tuple[RunReport, ...]:
    """Return the part that each run sent, in the order of the ledger."""
    return tuple(
        build(
            RunReport,
            row.run,
            started_at=datetime.fromisoformat(row.run.started_at).astimezone(UTC),
            launches=row.launches,
            recipients=row.recipients,
        )
        for row in rows
    )
