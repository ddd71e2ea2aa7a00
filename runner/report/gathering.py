"""The input of a report, gathered: outlines of the campaign, facts of the ledger, results that opt out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from runner.campaign.model import SCORED
from runner.ledger.model import ENDED
from runner.ledger.people.opt_outs import read_forgotten
from runner.ledger.people.replies import count_waiting
from runner.ledger.report_model import MessageTotals
from runner.ledger.results import sendings
from runner.ledger.results.differences import read_differences
from runner.ledger.results.reconciled import read_totals
from runner.ledger.results.runs import count_by_run
from runner.ledger.results.sendings import iterate_opt_out_replies
from runner.optout.reply import classify
from runner.report.facts import (
    AnalysisPlan,
    CampaignFacts,
    MessageOutline,
    OptOutFacts,
    QuestionOutline,
    ScoreOutline,
    SessionFacts,
    WayOutline,
)
from runner.text.include import include_folder
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign, Message, Question
    from runner.ledger.report_model import OptOutReply
    from runner.ledger.target_key import LedgerConnection


def outline_messages(campaign: Campaign) -> Iterator[MessageOutline]:
    """Yield a campaign's messages, in its order."""
    compiler = TextCompiler(include_folder(campaign))
    for message in campaign.messages:
        arms = campaign.list_arms(message.id) or {"": message}
        ways = tuple(_outline_way(campaign, compiler, arm, varied) for arm, varied in arms.items())
        base = _outline_way(campaign, compiler, "", message)
        questions = _merge_questions(base, *ways)
        yield MessageOutline(message.id, message.tag, questions, ways, _outline_analysis(campaign))


def _outline_analysis(campaign: Campaign) -> AnalysisPlan:
    analysis = None if campaign.variants is None else campaign.variants.analysis
    if analysis is None:
        return AnalysisPlan()
    return AnalysisPlan(date.fromisoformat(analysis.at) if analysis.at else None, analysis.per_arm)


def outline_score(campaign: Campaign, outlines: Sequence[MessageOutline]) -> ScoreOutline | None:
    """Return the question whose score is the campaign's, with the messages that ask it, or None.

    This is the score that the campaign names; otherwise the first scored question that a message and its
    follow-ups ask on the same scale.
    """
    if campaign.score is not None:
        return next(_list_shared(outlines, campaign.score, least=1), None)
    families: dict[str, list[MessageOutline]] = {}
    first: dict[str, str] = {}
    for message, outline in zip(campaign.messages, outlines, strict=True):
        first[message.id] = first.get(message.after.message, message.id) if message.after else message.id
        families.setdefault(first[message.id], []).append(outline)
    shared = (found for family in families.values() for found in _list_shared(family))
    return next(shared, None)


def _list_shared(
    outlines: Sequence[MessageOutline], tag: str | None = None, least: int = 2
) -> Iterator[ScoreOutline]:
    """Yield scored questions that several messages ask on the same scale, in the messages' order."""
    questions = [question for outline in outlines for question in outline.questions]
    for question in questions:
        if question.scale not in SCORED or tag not in (None, question.tag):
            continue
        asking = tuple(
            outline.id
            for outline in outlines
            if any((one.tag, one.scale) == (question.tag, question.scale) for one in outline.questions)
        )
        if len(asking) >= least:
            yield ScoreOutline(question, asking)


def _merge_questions(*ways: WayOutline) -> tuple[QuestionOutline, ...]:
    """Return the questions of all ways, each tag once, as the message or else the first arm asks it."""
    questions: dict[str, QuestionOutline] = {}
    for way in ways:
        for question in way.questions:
            questions.setdefault(question.tag, question)
    return tuple(questions.values())


def _outline_way(campaign: Campaign, compiler: TextCompiler, arm: str, message: Message) -> WayOutline:
    questions = (_outline_question(campaign, compiler, question) for question in message.questions)
    return WayOutline(arm, tuple(questions))


def _outline_question(campaign: Campaign, compiler: TextCompiler, question: Question) -> QuestionOutline:
    ending = question.conclude_on
    return QuestionOutline(
        tag=question.tag,
        text=compiler.outline(question.text, campaign.vars),
        responses=tuple(compiler.outline(response, campaign.vars) for response in question.responses),
        scale=question.scale,
        conclude_on=compiler.outline(ending, campaign.vars) if ending else None,
        values=question.values,
    )


def gather_facts(
    connection: LedgerConnection,
    campaign: Campaign,
    target: str,
    outlines: Sequence[MessageOutline],
    campaign_id: int,
    refusals: Refusals,
) -> CampaignFacts:
    """Return the ledger's data on a campaign and its messages."""
    ids = campaign.message_ids
    left_out = sendings.count_left_out(connection, campaign_id, ids)
    # Launches that the ledger should not contain are not missing from it.
    totals = {
        message: counted
        if counted.results is None
        else replace(counted, results=counted.results - left_out[message])
        for message, counted in read_totals(connection, campaign_id, ids).items()
    }
    reported = sendings.count_reported_opt_outs(connection, target, campaign_id, ids)
    doubtful = count_waiting(connection, target, campaign_id, ids)
    return CampaignFacts(
        campaign.name,
        target,
        messages=tuple((one, totals.get(one.id, MessageTotals(one.id))) for one in outlines),
        sent=tuple(sendings.count_sent_by_day(connection, campaign_id, ids)),
        audiences={row.message: row for row in sendings.read_audiences(connection, campaign_id, ids)},
        opt_outs={
            one.id: OptOutFacts(refusals.opt_outs[one.id], reported[one.id], doubtful[one.id])
            for one in outlines
        },
        sessions=_gather_sessions(connection, campaign_id, ids, refusals),
        forgotten=len(read_forgotten(connection, campaign_id)),
        price=sendings.read_service_plan(connection, target),
        runs=tuple(count_by_run(connection, campaign_id)),
        differences=read_differences(connection, campaign_id, ids),
        score=outline_score(campaign, outlines),
    )


def _gather_sessions(
    connection: LedgerConnection, campaign_id: int, message_ids: Mapping[str, str], refusals: Refusals
) -> dict[str, SessionFacts]:
    found: dict[str, Counter[str]] = {}
    for row in sendings.count_sessions(connection, campaign_id, message_ids):
        silent = "stopped" if row.stopped else "ended" if row.status == ENDED else "open"
        counts = {"listed": row.count, "replied" if row.replied else silent: row.count}
        found.setdefault(row.message, Counter()).update(counts, blocked=row.count * row.blocked)
    return {
        message: SessionFacts(
            **{name: count for name, count in counts.items() if name != "replied"},
            refused=refusals.refusing[message],
        )
        for message, counts in found.items()
    }


@dataclass(frozen=True, slots=True)
class Refusals:
    """The results of a campaign that opt out, and so are no answers.

    Attributes:
        results: the ledger's number of the launch and `result_guid` of each.
        opt_outs: the number of those that are opt-outs on record, by message id.
        people: the message id and the pseudonym of everybody whose reply to it is one.
        refusing: the people who opted out by reply and answered nothing, by message id.
    """

    results: Collection[tuple[int, str]]
    opt_outs: Counter[str]
    people: Collection[tuple[str, str]]
    refusing: Counter[str]


def read_refusals(connection: LedgerConnection, campaign_id: int, message_ids: Mapping[str, str]) -> Refusals:
    """Return a campaign's results that opt out; `message_ids` maps former ids of messages to present ones."""
    refused: set[tuple[int, str]] = set()
    confirmed: set[tuple[str, int, str]] = set()
    people: set[tuple[str, str]] = set()
    answered: dict[tuple[str, str], bool] = {}
    for reply in iterate_opt_out_replies(connection, campaign_id):
        opts_out = _opts_out(reply)
        person = message_ids.get(reply.message, reply.message), reply.participant
        answered[person] = answered.get(person, False) or not opts_out
        if opts_out:
            refused.add((reply.launch_id, reply.result_guid))
        if reply.state == "confirmed":
            confirmed.add((person[0], reply.launch_id, reply.result_guid))
            people.add(person)
    return Refusals(
        refused,
        Counter(message for message, _, _ in confirmed),
        people,
        Counter(message for (message, _), has_answered in answered.items() if not has_answered),
    )


def _opts_out(reply: OptOutReply) -> bool:
    """Return whether a result is an opt-out, and so no answer.

    One that a person confirmed, or that needed no decision, is; a doubtful one is an answer until somebody
    confirms that it opts out. Who was let in again has still not answered by writing STOP.
    """
    if reply.state == "dismissed":
        return classify(reply.response).kind == "sure"
    return reply.state == "confirmed"
