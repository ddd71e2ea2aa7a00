"""The input of a report, gathered: outlines of the campaign, facts of the ledger, results that opt out."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING

from runner.campaign.answers import outline_all, outline_responses
from runner.campaign.message_model import SCORED, Message
from runner.campaign.scales import read_points
from runner.ledger.model import CampaignLaunches
from runner.ledger.people.opt_outs import read_forgotten
from runner.ledger.people.replies import count_waiting
from runner.ledger.results import sendings
from runner.ledger.results.differences import read_differences
from runner.ledger.results.reconciled import read_charges, read_totals
from runner.ledger.results.runs import count_by_run
from runner.ledger.results.sendings import iterate_opt_out_replies
from runner.optout.reply import classify
from runner.report.cost import PaidCost, add_up_cost
from runner.report.facts import (
    CampaignFacts,
    CampaignOutline,
    ExperimentOutline,
    MessageOutline,
    PooledOutline,
    QuestionOutline,
)
from runner.source.normalize import fold_answer
from runner.text.include import include_folder
from runner.text.template import TextCompiler
from runner.timing.zone import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from runner.campaign.model import Campaign
    from runner.ledger.target_key import LedgerConnection
    from runner.report.facts import Way
    from runner.source.money import Prices


_PERCENT = 100


def outline_campaign(campaign: Campaign) -> CampaignOutline:
    """Return a campaign as its file has it."""
    messages = tuple(_outline_messages(campaign))
    questions = tuple(pool_questions(messages))
    variants = campaign.variants
    experiment = None
    if variants is not None and variants.of is not None and variants.arms:
        weights, analysis = {arm.id: arm.weight for arm in variants.arms}, variants.analysis
        at = date.fromisoformat(analysis.at) if analysis and analysis.at else None
        experiment = ExperimentOutline(variants.of, weights, at, analysis.per_arm if analysis else None)
    score = _find_score(campaign, questions)
    goal = campaign.score_target
    if goal is not None and score is not None and questions[score].question.scale == "csat":
        goal /= _PERCENT
    return CampaignOutline(
        messages=messages,
        questions=questions,
        score=score,
        experiment=experiment,
        has_control_group=variants is not None and variants.holdout > 0,
        time_zone=load_zone(campaign.schedule.timezone or "UTC"),
        not_before=campaign.schedule.not_before,
        title=campaign.title,
        description=campaign.description,
        owner=campaign.owner,
        goal=goal,
        sample=campaign.sample,
        completes=campaign.limits.completes,
    )


def _outline_messages(campaign: Campaign) -> Iterator[MessageOutline]:
    compiler = TextCompiler(include_folder(campaign))
    for message in campaign.messages:
        base = _outline_questions(campaign, compiler, message)
        arms = campaign.list_arms(message.id) or {"": message}
        ways = {arm: _outline_questions(campaign, compiler, varied) for arm, varied in arms.items()}
        # Each tag once, as the message or else the first arm asks it.
        questions: dict[str, QuestionOutline] = {}
        for question in chain(base, *ways.values()):
            questions.setdefault(question.tag, question)
        yield MessageOutline(message.id, message.tag, tuple(questions.values()), ways)


def pool_questions(messages: Sequence[MessageOutline]) -> Iterator[PooledOutline]:
    """Yield every question, each tag and scale once, with the responses of all messages."""
    asked: dict[tuple[str, str], list[tuple[MessageOutline, QuestionOutline]]] = {}
    for message in messages:
        for question in message.questions:
            asked.setdefault((question.tag, question.scale), []).append((message, question))
    for asking in asked.values():
        first = asking[0][1]
        if first.scale not in SCORED and first.responses:
            offered: dict[str, str] = {}
            for text in (text for _, one in asking for text in one.responses):
                offered.setdefault(fold_answer(text), text)
            first = replace(first, responses=tuple(offered.values()), values=())
        ways = (way for message, _ in asking for way in message.all_ways.values())
        yield PooledOutline(first, tuple(message.id for message, _ in asking), _list_labels(first, ways))


def _list_labels(question: QuestionOutline, ways: Iterable[Way]) -> dict[str, Fraction | None]:
    """Return all responses to a question, with the points that they count as."""
    found: dict[str, tuple[str, Fraction | None]] = {}
    for one in chain.from_iterable(ways):
        if (one.tag, one.scale) == (question.tag, question.scale):
            points = read_points(one.scale, one.responses, one.values)
            for label, point in zip(one.responses, points, strict=True):
                found.setdefault(fold_answer(label), (label, point))
    return dict(found.values())


def _find_score(campaign: Campaign, questions: Sequence[PooledOutline]) -> int | None:
    """Return the number of the question whose score is the campaign's, or None.

    This is the one that the campaign names; otherwise the first scored question that a message and its
    follow-ups ask on the same scale; otherwise the only scored question.
    """
    scored = [number for number, one in enumerate(questions) if one.question.scale in SCORED]
    if campaign.score is not None:
        return next((one for one in scored if questions[one].question.tag == campaign.score), None)
    first: dict[str, str] = {}
    for message in campaign.messages:
        first[message.id] = first.get(message.after.message, message.id) if message.after else message.id
    shared = (
        number
        for number in scored
        if len(questions[number].messages) > len({first[one] for one in questions[number].messages})
    )
    return next(shared, scored[0] if len(scored) == 1 else None)


def _outline_questions(campaign: Campaign, compiler: TextCompiler, message: Message) -> Way:
    return tuple(
        QuestionOutline(
            tag=question.tag,
            text=compiler.outline(question.text, campaign.vars),
            responses=tuple(compiler.outline(response, campaign.vars) for response in question.responses),
            scale=question.scale,
            values=question.values,
            translations=outline_responses(campaign, compiler, question),
            endings=outline_all(campaign, compiler, question.conclude_on) if question.conclude_on else (),
        )
        for question in message.questions
    )


def read_cost(
    connection: LedgerConnection, asked: CampaignLaunches, prices: Prices | None
) -> PaidCost | None:
    """Return what launches have cost so far; None without prices."""
    return None if prices is None else add_up_cost(read_charges(connection, asked), prices)


def gather_facts(
    connection: LedgerConnection,
    campaign: Campaign,
    target: str,
    prices: Prices | None,
    outline: CampaignOutline,
    campaign_id: int,
) -> CampaignFacts:
    """Return the ledger's data on a campaign and its messages, in its wave if it has waves."""
    asked = CampaignLaunches(campaign_id, campaign.message_ids, campaign.wave)
    left_out = sendings.count_left_out(connection, asked)
    # Launches that the ledger should not contain are not missing from it.
    totals = {
        message: counted
        if counted.results is None
        else replace(counted, results=counted.results - left_out[message])
        for message, counted in read_totals(connection, asked).items()
    }
    return CampaignFacts(
        campaign.name,
        target,
        outline,
        totals=totals,
        audiences={row.message: row for row in sendings.read_audiences(connection, asked)},
        doubtful=count_waiting(connection, target, asked),
        forgotten=len(read_forgotten(connection, campaign_id)),
        price=sendings.read_service_plan(connection, target),
        runs=tuple(count_by_run(connection, asked)),
        differences=read_differences(connection, asked),
        wave=campaign.wave,
        step=sendings.read_step(connection, campaign_id),
        cost=read_cost(connection, asked, prices),
    )


def read_refusals(connection: LedgerConnection, campaign_id: int) -> dict[tuple[int, str], bool]:
    """Return a campaign's results that opt out, and so are no answers.

    The keys are the ledger's number of the launch and `result_guid`; the values, whether it is an opt-out on
    record: its author may have been let in again, and has still not answered by writing STOP. A doubtful one
    is an answer until somebody confirms that it opts out.
    """
    return {
        (reply.launch_id, reply.result_guid): reply.state == "confirmed"
        for reply in iterate_opt_out_replies(connection, campaign_id)
        if reply.state == "confirmed"
        or (reply.state == "dismissed" and classify(reply.response).kind == "sure")
    }
