"""The numbers of a report, computed from facts and counts, and the discrepancies among them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from runner.document import UNSET, build
from runner.ledger.model import parse_moment
from runner.ledger.report_model import MessageTotals, NamedCount
from runner.report.breakdowns import add_up, break_down, summarise_question
from runner.report.experiment import describe_experiment
from runner.report.facts import CampaignFacts, CampaignOutline, CampaignTally, MessageOutline, MessageTally
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
)
from runner.report.people_model import SMALL_GROUP, PeopleReport, outcome_rates
from runner.report.scores import divide, rate_response
from runner.source.quantity import read_number
from runner.wording import hide_phones

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

    from runner.ledger.report_model import AudienceRow, OpenDifferences, RunRow, ServicePlan
    from runner.report.question_model import QuestionReport


def price_renders(renders: int | None, plan: ServicePlan | None) -> tuple[Fraction | None, Fraction | None]:
    """Return the share of a message's renders in the service's plan, and in proportion of its price.

    `plan` is None where the service was never asked.
    """
    share = None if plan is None else divide(renders, plan.renders_max)
    written = "" if plan is None else plan.price_usd or ""
    # An answer may have a decimal comma; a price is decimal text.
    price = None if "," in written else read_number(written)
    return share, None if share is None or price is None or price < 0 else share * price


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
    """One message: what the ledger knows of it, and its results."""

    facts: CampaignFacts
    outline: MessageOutline
    counted: CampaignTally

    @property
    def totals(self) -> MessageTotals:
        return self.facts.totals.get(self.outline.id, MessageTotals(self.outline.id))

    @property
    def tally(self) -> MessageTally:
        return self.counted.messages.get(self.outline.id, MessageTally())

    @property
    def differences(self) -> OpenDifferences | None:
        return self.facts.differences.get(self.outline.id)

    @property
    def hides_answers(self) -> bool:
        """True if some answers cannot be read; the launches that they belong to are not known."""
        return self.differences is not None and self.differences.hidden > 0

    @property
    def is_read(self) -> bool:
        """True if the answers to every listed launch were read, and the outcome of some launch is known."""
        is_known = self.totals.launches or not self.totals.unresolved
        return bool(is_known) and not self.totals.unread and not self.hides_answers

    @cached_property
    def texted(self) -> int | None:
        """Recipients who got the text; None unless the ledger has all of them, but those forgotten."""
        is_whole = self.tally.sent + self.facts.forgotten >= self.totals.sent
        is_known = is_whole and self.is_read and self.totals.queued is not None
        return self.tally.texted if is_known else None

    @property
    def knows_sessions(self) -> bool:
        """True if it is known how each session stands, apart from those of forgotten people.

        The service may list fewer sessions than it counts.
        """
        totals = self.totals
        if totals.queued is None or totals.active is None or totals.complete is None:
            return False
        counted = totals.queued + totals.active + totals.complete
        return self.is_read and self.tally.listed + self.facts.forgotten >= counted


def summarise(facts: CampaignFacts, tally: CampaignTally, *, least: int = SMALL_GROUP) -> CampaignReport:
    """Return a campaign's metrics. Groups of fewer than `least` people are not shown."""
    outline = facts.outline
    messages = {one.id: _Message(facts, one, tally) for one in outline.messages}
    is_read = all(one.is_read for one in messages.values())
    reported = tuple(map(_summarise_message, messages.values()))
    people = _summarise_people(facts, tally.people, messages)
    questions = tuple(_pool_questions(outline, tally, messages, reported))
    first_sent_at = min(filter(None, (one.first_sent_at for one in reported)), default=None)
    scored = None if outline.score is None else questions[outline.score].question
    return CampaignReport(
        campaign=facts.name,
        wave=facts.wave or None,
        target=facts.target,
        reconciled_at=min(filter(None, (one.reconciled_at for one in reported)), default=None),
        messages=reported,
        discrepancies=tuple(_find_own_discrepancies(tally, people)),
        runs=tuple(map(_report_run, facts.runs)),
        time_zone=outline.time_zone.key,
        title=outline.title,
        description=outline.description,
        owner=outline.owner,
        first_sent_at=first_sent_at,
        next_send_at=outline.not_before if first_sent_at is None else None,
        last_sent_at=max(filter(None, (one.last_sent_at for one in reported)), default=None),
        rollout=facts.step,
        launches=sum(one.launches for one in reported),
        reconciled_launches=sum(one.reconciled_launches for one in reported),
        people=people,
        score=None if scored is None or scored.score is None else scored.score.leave_out_few(),
        sample=facts.describe_sample(tally.people),
        goal=outline.goal,
        completes=outline.completes,
        cost=UNSET if facts.cost is None else facts.cost,
        questions=questions,
        groups=tuple(
            break_down(outline.questions, column, groups, least, outline.score)
            for column, groups in tally.groups.items()
            if people.texted is not None
        ),
        unknown_groups=tuple(tally.groups) if people.texted is None else (),
        experiment=describe_experiment(outline, tally.arms, is_read=is_read and people.texted is not None),
    )


def _find_own_discrepancies(tally: CampaignTally, people: PeopleReport) -> Iterator[str]:
    """Yield the discrepancies that belong to no message."""
    if tally.strays:
        yield f"Results of messages that the campaign does not have, left out here: {tally.strays:,}."
    if people.uncertain:
        yield (
            f"People of whom it is not known whether they were texted: {people.uncertain:,}. Their surveys "
            "had ended when they were first read. They are not counted as texted, so rates may be too high."
        )


def find_as_of(facts: CampaignFacts) -> datetime | None:
    """Return the oldest reading of the launches; None if some was not reconciled."""
    sent = [one for one in facts.totals.values() if one.launches]
    times = [parse_moment(one.reconciled_at or "") for one in sent]
    return None if any(one.unread for one in sent) else min(filter(None, times), default=None)


_OF_TEXTED = ("queued", "blocked", "withdrawn", "uncertain", "texted")
_OF_ANSWERS = ("answered", "completed")
_OF_SESSIONS = ("open", "replaced", "dispositions")


def _summarise_people(
    facts: CampaignFacts, tally: PeopleReport, messages: Mapping[str, _Message]
) -> PeopleReport:
    """Return the outcome by person: of what was counted what is known, with its rates."""
    controls = [row.dispositions.get("control_group", 0) for row in facts.audiences.values()]
    surveys = [one for one in messages.values() if one.outline.questions]
    is_read = all(one.is_read for one in messages.values())
    is_known = is_read and bool(tally.sent or not tally.unresolved)
    knows_texted = is_known and all(one.texted is not None for one in messages.values())
    knows_answers = is_known and bool(surveys)
    knows_sessions = knows_answers and all(one.knows_sessions for one in surveys if one.totals.launches)
    unknown = [
        *(("opted_out",) if not is_known else ()),
        *(_OF_TEXTED if not knows_texted else ()),
        *(_OF_ANSWERS if not knows_answers else ()),
        *(_OF_SESSIONS if not knows_sessions else ()),
    ]
    people = tally.replace(
        control_group=max(controls) if controls and facts.outline.has_control_group else None,
        is_interim=bool(tally.open or tally.unresolved) or not is_read,
        **dict.fromkeys(unknown),
    )
    return _rate(people)


def _rate(people: PeopleReport) -> PeopleReport:
    """Return people with the rates of what is known of them, as `runner.report.people_model` defines them."""
    answered, dispositions = people.answered, people.dispositions
    rate, interval = rate_response(people.texted, answered)
    people = people.replace(
        response_rate=rate,
        response_rate_interval=interval,
        completion_rate=divide(people.completed, answered),
    )
    if dispositions is None:
        return people
    rest = None if rate is None or people.texted is None else people.texted - dispositions.replaced
    return people.replace(
        rates=outcome_rates(dispositions), response_rate_without_replaced=divide(answered, rest)
    )


def _report_run(row: RunRow) -> RunReport:
    started_at = datetime.fromisoformat(row.run.started_at).astimezone(UTC)
    return build(RunReport, row.run, started_at=started_at, launches=row.launches, recipients=row.recipients)


def _pool_questions(
    outline: CampaignOutline,
    tally: CampaignTally,
    messages: Mapping[str, _Message],
    reported: Iterable[MessageReport],
) -> Iterator[PooledQuestion]:
    """Yield every question over all messages that ask it."""
    known = {(message.id, one.tag): one for message in reported for one in message.questions}
    for number, pooled in enumerate(outline.questions):
        if len(pooled.messages) == 1:
            own = known[pooled.messages[0], pooled.question.tag]
            yield PooledQuestion(own, (QuestionPart(pooled.messages[0], own.answers),))
        elif not all(messages[name].is_read for name in pooled.messages):
            unread = summarise_question(pooled.question, None)
            yield PooledQuestion(unread, tuple(QuestionPart(name, None) for name in pooled.messages))
        else:
            counted = tally.questions[number]
            parts = add_up((message, count) for (message, _), count in counted.readings.items())
            readings = add_up((reading, count) for (_, reading), count in counted.readings.items())
            is_known = all(messages[name].texted is not None for name in pooled.messages)
            yield PooledQuestion(
                summarise_question(pooled.question, readings, counted.asked if is_known else None),
                tuple(QuestionPart(name, parts[name]) for name in pooled.messages),
            )


def _summarise_message(one: _Message) -> MessageReport:
    outline, totals, tally = one.outline, one.totals, one.tally
    held = _count_people(one)
    known: dict[str, int | None] = dict(held) if one.is_read else dict.fromkeys(held)
    if not outline.questions:
        known |= {"participants_answered": None, "participants_completed": None}
    ended = divide(known["participants_completed"], known["participants_answered"])
    rate, _ = rate_response(one.texted if outline.questions else None, tally.answered)
    plan_share, cost_usd = price_renders(totals.renders, one.facts.price)
    return build(
        MessageReport,
        totals,
        id=outline.id,
        tag=outline.tag,
        first_sent_at=parse_moment(totals.first_sent_at or ""),
        last_sent_at=parse_moment(totals.last_sent_at or ""),
        reconciled_at=parse_moment(totals.reconciled_at or ""),
        reconciled_launches=totals.reconciled,
        recipients=totals.sent + totals.unresolved,
        texted=one.texted,
        rejected=_know_rejected(one),
        sessions=Sessions(totals.queued, totals.active, totals.complete),
        response_rate=rate,
        completion_rate=ended if outline.questions else None,
        **known,
        discrepancies=tuple(_find_discrepancies(one)),
        questions=tuple(_summarise_questions(one)),
        audience=_describe_audience(one.facts.audiences.get(outline.id)),
        plan_share=plan_share,
        cost_usd=cost_usd,
        half_answered_within_s=tally.median_first_s if one.is_read else None,
        days=tuple(Day(*pair) for pair in sorted(tally.days.items()))
        if one.is_read and outline.questions
        else (),
        partly_known=_list_parts(one, held),
    )


def _count_people(one: _Message) -> dict[str, int]:
    """Return the counts that the ledger holds, as far as answers were read."""
    return {
        "participants_answered": one.tally.answered,
        "participants_completed": one.tally.completed,
        "results": one.tally.results,
        "opt_outs": one.tally.opted_out,
        "doubtful": one.facts.doubtful.get(one.outline.id, 0),
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
    parts = [part for part in one.totals.partly_known if part.name in _SERVICE_COUNTS]
    for name, count in held.items() if not one.hides_answers else ():
        parts += one.totals.know_in_part(name, count)
    return tuple(sorted(parts, key=lambda part: part.name))


def _summarise_questions(one: _Message) -> Iterator[QuestionReport]:
    firsts = {way[0].tag for way in one.outline.all_ways.values() if way}
    for question in one.outline.questions:
        is_known = one.is_read and (one.texted is not None or question.tag not in firsts)
        asked = one.tally.asked.get(question.tag, 0) if is_known else None
        readings = one.tally.questions.get(question.tag, {}) if one.is_read else None
        yield summarise_question(question, readings, asked)


def _describe_audience(facts: AudienceRow | None) -> Audience | None:
    planned_at = None if facts is None else parse_moment(facts.planned_at)
    if facts is None or planned_at is None:
        return None
    reserved = [Caveat(name, count) for name, count in facts.dispositions.items() if name not in _REACHED]
    return Audience(
        planned_at=planned_at,
        recipients=facts.recipients,
        reserved=tuple(sorted(reserved, key=lambda one: (-one.recipients, one.disposition))),
    )


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
    known = {part.name: part.launches for part in totals.partly_known}
    for name, what in _NAMES.items():
        lacking = totals.reconciled - known.get(name, 0)
        if getattr(totals, name) is None and lacking > 0:
            yield f"Launches of which the service does not say {what}: {lacking:,}."
    if totals.reconciled_at is not None and not totals.unread:
        yield from _compare_counts(totals, one.tally, one.facts.forgotten)
    answered = one.tally.answered
    if answered > totals.sent:
        yield (
            f"Participants who answered: {answered:,}; recipients that were sent to: {totals.sent:,}. "
            "No response rate is given."
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
        )
        found = f"Results that the service counts: {totals.results:,}; in the ledger: {tally.results:,}."
        yield f"{found}{remedy if tally.results > totals.results else ''}"
    if totals.queued is None or totals.active is None or totals.complete is None:
        return
    sessions = totals.queued + totals.active + totals.complete
    if not 0 <= sessions - totals.sent <= forgotten:
        yield f"Sessions that the service has: {sessions:,}; recipients that were sent to: {totals.sent:,}."
