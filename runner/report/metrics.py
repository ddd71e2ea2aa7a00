"""From facts and counts to the numbers of a report. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from runner.report.discrepancies import describe_strays, find_discrepancies
from runner.report.dispositions import Dispositions, estimate_eligibility, response_rates
from runner.report.facts import OptOutFacts, SessionFacts
from runner.report.funnel import count_completed, follow_questions
from runner.report.groups import break_down, describe_experiment
from runner.report.model import CampaignReport, MessageReport, PooledScore, Sessions
from runner.report.provenance import report_runs
from runner.report.questions import list_partly_read, list_unread, summarise_pool, summarise_questions
from runner.report.scores import divide, wilson_interval
from runner.report.tally import DayTally, MessageTally, QuestionTally
from runner.report.timing import UNKNOWN_TIMES, summarise_times
from runner.report.turnout import SMALL_GROUP, Audience, Day, Reservation
from runner.report.volume import measure_volume

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from runner.ledger.report_model import AudienceRow, MessageTotals, PartialCount
    from runner.report.answered import QuestionReport
    from runner.report.answers import Reading
    from runner.report.dispositions import ResponseRates
    from runner.report.facts import CampaignFacts, MessageOutline
    from runner.report.funnel import FunnelStep
    from runner.report.tally import CampaignTally

_SERVICE_COUNTS = frozenset({"queued", "active", "complete", "renders"})
"""The service's own counts that a report shows."""

_REACHED = frozenset({"to_send", "already_sent", "unresolved"})
"""Dispositions of recipients who have been sent to, or were about to be."""


def summarise(facts: CampaignFacts, tally: CampaignTally, *, least: int = SMALL_GROUP) -> CampaignReport:
    """Return a campaign's metrics, the same for the same input.

    Args:
        facts: the campaign and what was sent.
        tally: what was counted in its results.
        least: recipients of the smallest group that a breakdown shows.
    """
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
    readings: Counter[tuple[str, Reading]] = Counter()
    for (message, reading), count in tally.pooled.items():
        parts[message] += count
        readings["", reading] += count
    return PooledScore(summarise_pool(score.question, QuestionTally(readings)), parts)


def _complete(outline: MessageOutline, tally: CampaignTally) -> MessageTally:
    """Return what was counted of a message, with a place for every question that nobody answered."""
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
            # After a reply that opts out services go on as they like.
            steps if is_read and not tally.refusals else None,
            facts.price,
            sessions.blocked,
        ),
        opt_outs=known["opt_outs"],
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
        unread_launches=totals.unread,
        sent_read=totals.sent_read,
        partly_known=_list_parts(totals, {} if _hides_answers(facts, totals) else held),
    )


def _know_rejected(facts: CampaignFacts, totals: MessageTotals) -> int | None:
    """Return the recipients of refused launches; None in a ledger that cannot know of any.

    The service and the lockfile, from which a ledger is filled that no `apply` has planned the message with,
    tell of accepted launches alone.
    """
    is_told = totals.message in facts.audiences or not totals.launches
    return totals.rejected if totals.rejected or is_told else None


def _is_read(facts: CampaignFacts, totals: MessageTotals) -> bool:
    """Return whether the answers to every launch of a message were read, as far as the service lists them."""
    return not totals.unread and not _hides_answers(facts, totals)


def _hides_answers(facts: CampaignFacts, totals: MessageTotals) -> bool:
    """Return whether there are answers that cannot be read: of which launches the rest are is not told."""
    differences = facts.differences.get(totals.message)
    return differences is not None and differences.hidden > 0


def _list_parts(totals: MessageTotals, held: Mapping[str, int]) -> dict[str, PartialCount]:
    """Return the counts that are known of some launches alone: the service's, and what the ledger holds."""
    parts = {name: part for name, part in totals.partly_known.items() if name in _SERVICE_COUNTS}
    return parts | {name: part for name, count in held.items() if (part := totals.know_in_part(count))}


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
    """Return whom the first question has reached, by its tag: who is not queued or blocked.

    How many of an arm's sessions are is not told, so where arms begin in different ways all count, as they do
    where it is not known how many are queued at all.
    """
    firsts = {way.arm: way.questions[0].tag for way in outline.all_ways if way.questions}
    tags = dict.fromkeys(firsts.values())
    if len(tags) == 1:
        return dict.fromkeys(tags, totals.sent - (totals.queued or 0) - blocked)
    return {tag: sum(sent[arm] for arm, first in firsts.items() if first == tag) for tag in tags}


def _count_dispositions(
    totals: MessageTotals, answered: int, completed: int, sessions: SessionFacts, forgotten: int
) -> Dispositions | None:
    """Return the recipients as `runner.report.dispositions` has text messages counted.

    None where it is not known how each session stands: where the service lists fewer than it counts, but for
    those of people who were forgotten. People who were sent to and of whom no session is listed are of
    unknown eligibility.
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
    # Nobody is known to be ineligible: a send that was refused says nothing of the people it was for.
    return response_rates(dispositions, estimate_eligibility(dispositions.eligible, 0))


def _describe_audience(facts: AudienceRow | None) -> Audience | None:
    planned_at = _read_time(None if facts is None else facts.planned_at)
    if facts is None or planned_at is None:
        return None
    reserved = [
        Reservation(name, count) for name, count in facts.dispositions.items() if name not in _REACHED
    ]
    return Audience(
        planned_at=planned_at,
        recipients=facts.recipients,
        reserved=tuple(sorted(reserved, key=lambda one: (-one.recipients, one.disposition))),
        held_out=facts.dispositions.get("held_out", 0),
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
    """Return when that one of the reconciled launches was read that was read longest ago; None for none."""
    times = (_read_time(totals.reconciled_at) for totals in messages)
    return min((time for time in times if time is not None), default=None)


def _read_time(text: str | None) -> datetime | None:
    """Return an ISO 8601 time in UTC; one without a zone is in UTC (reference, section 2).

    None for a text that is no time: ledgers of older versions keep what the service said.
    """
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
