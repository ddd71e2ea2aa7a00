"""A report like a real one, as a value: a survey in two arms, a follow-up to its detractors, and a reminder.

1,060 people in the audience, 50 of them in the control group; every count fits the others.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeVar

from runner.document import Part
from runner.report.comparison import compare_arms, share
from runner.report.comparison_model import (
    AnalysisReport,
    ArmShare,
    ExperimentReport,
    SplitReport,
)
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
from runner.report.people_model import ColumnReport, Dispositions, GroupReport, PeopleReport, outcome_rates
from runner.report.question_model import QuestionReport, Score
from runner.report.scores import divide, wilson_interval
from tests.report.sample_questions import build_questions, distribute

START = datetime(2026, 11, 18, 14, 0, 3, tzinfo=UTC)
DAYS = tuple(
    Day(date(2026, 11, 18 + number), answers) for number, answers in enumerate((1066, 344, 121, 47, 15, 4))
)


T = TypeVar("T")


def replace(one: T, **changes: Any) -> T:
    """Return a part of a report, or another value, with other values for some fields."""
    changed: T = one.replace(**changes) if isinstance(one, Part) else dataclasses.replace(one, **changes)  # type: ignore[type-var]
    return changed


def build_group(name: str, texted: int, answered: int, completed: int, score: int) -> GroupReport:
    """Return a group whose Net Promoter Score is known to ten points either way."""
    return GroupReport(
        name=name,
        texted=texted,
        answered=answered,
        response_rate=divide(answered, texted),
        response_rate_interval=wilson_interval(answered, texted) if texted else None,
        completed=completed,
        scores=(
            Score("nps", "nps", Fraction(score), (score - 10.2, score + 9.9), answered, 5.1),
            Score("service", "csat", Fraction(11, 16), (0.61, 0.75), answered, 0.0361, 11 * answered // 16),
        ),
    )


def build_experiment() -> ExperimentReport:
    """Return two arms, of which the second answers more."""
    arms = (build_group("short", 491, 182, 131, 22), build_group("friendly", 491, 220, 170, 32))
    samples = [share(arm.name, arm.answered or 0, arm.texted or 0) for arm in arms]
    split = SplitReport(
        tuple(ArmShare(arm.name, 497, Fraction(1, 2), Fraction(1, 2)) for arm in arms),
        1.0,
        is_as_planned=True,
    )
    return ExperimentReport(
        message="ask",
        arms=arms,
        comparisons=compare_arms("response", samples),
        analysis=AnalysisReport("fixed", date(2026, 11, 20), None, is_due=True, answered_later=4),
        split=split,
    )


def build_column() -> ColumnReport:
    return ColumnReport(
        column="city",
        groups=(
            build_group("Lyon", 241, 112, 90, 34),
            build_group("Nantes", 96, 37, 26, 29),
            build_group("Paris", 430, 178, 131, 28),
            build_group("Marseille", 198, 70, 51, 18),
        ),
        everybody=build_group("", 982, 402, 301, 27),
        suppressed=3,
        suppressed_texted=17,
    )


def build_people() -> PeopleReport:
    """Return the survey's people, as the messages after it went to some of them."""
    dispositions = Dispositions(301, 101, 11, 463, 0, 82, 40)
    return PeopleReport(
        recipients=998,
        sent=994,
        unresolved=4,
        control_group=50,
        queued=12,
        blocked=0,
        texted=982,
        answered=402,
        response_rate=divide(402, 982),
        response_rate_interval=wilson_interval(402, 982),
        replaced=40,
        response_rate_without_replaced=divide(402, 942),
        completed=301,
        completion_rate=divide(301, 402),
        opted_out=17,
        open=89,
        is_interim=True,
        dispositions=dispositions,
        rates=outcome_rates(dispositions),
    )


def build_survey() -> MessageReport:
    return MessageReport(
        id="ask",
        tag="customer-pulse-2026q4",
        first_sent_at=START,
        last_sent_at=START + timedelta(minutes=2, seconds=38),
        reconciled_at=START + timedelta(days=6),
        launches=4,
        recipients=998,
        sent=994,
        reconciled_launches=4,
        rejected=2,
        unresolved=4,
        sessions=Sessions(queued=12, active=77, complete=905),
        participants_answered=402,
        texted=982,
        response_rate=divide(402, 982),
        participants_completed=301,
        completion_rate=divide(301, 402),
        renders=3391,
        results=1597,
        discrepancies=("Results that the service counts: 1,601; in the ledger: 1,597.",),
        questions=build_questions(),
        audience=Audience(
            planned_at=START - timedelta(minutes=10),
            recipients=1060,
            reserved=(Caveat("control_group", 50), Caveat("opted_out", 8), Caveat("no_consent", 2)),
        ),
        plan_share=Fraction(3391, 1_000_000),
        cost_usd=Fraction(3391, 100),
        opt_outs=14,
        doubtful=2,
        half_answered_within_s=Fraction(12 * 60 + 20),
        days=DAYS,
    )


def build_text(name: str, sent: int, sent_at: datetime) -> MessageReport:
    """Return a message that asks nothing."""
    return MessageReport(
        id=name,
        tag=f"customer-pulse-2026q4-{name}",
        first_sent_at=sent_at,
        last_sent_at=sent_at,
        reconciled_at=sent_at + timedelta(days=4),
        launches=1,
        recipients=sent,
        sent=sent,
        texted=sent,
        reconciled_launches=1,
        rejected=0,
        unresolved=0,
        sessions=Sessions(0, 0, sent),
        participants_answered=None,
        response_rate=None,
        participants_completed=None,
        completion_rate=None,
        renders=sent,
        results=0,
        discrepancies=(),
        questions=(),
        audience=None,
        plan_share=None,
        cost_usd=None,
        opt_outs=3,
        doubtful=0,
        half_answered_within_s=None,
        days=(),
    )


def build_follow_up() -> MessageReport:
    """Return a message to the survey's detractors, with one question."""
    sent_at = START + timedelta(days=2)
    return replace(
        build_text("sorry", 82, sent_at),
        sessions=Sessions(0, 4, 78),
        participants_answered=37,
        response_rate=divide(37, 82),
        participants_completed=37,
        completion_rate=Fraction(1),
        renders=201,
        results=37,
        questions=(
            QuestionReport(
                tag="call",
                text="We are sorry. May we call you?",
                scale="choice",
                asked=82,
                answers=37,
                answer_rate=divide(37, 82),
                distribution=distribute({"Yes, please": 21, "No": 16}),
            ),
        ),
        half_answered_within_s=Fraction(380),
        days=(Day(sent_at.date(), 30), Day(date(2026, 11, 22), 7)),
    )


def build_sample() -> CampaignReport:
    """Return the whole report."""
    messages = (build_survey(), build_follow_up(), build_text("reminder", 585, START + timedelta(days=1)))
    questions = tuple(
        PooledQuestion(question, (QuestionPart(message.id, question.answers),))
        for message in messages
        for question in message.questions
    )
    launches = sum(message.launches for message in messages)
    return CampaignReport(
        campaign="customer-pulse-2026q4",
        target="live",
        reconciled_at=START + timedelta(days=6),
        messages=messages,
        discrepancies=(),
        runs=build_runs(),
        title="Customer pulse, fourth quarter",
        owner="cx@example.com",
        first_sent_at=START,
        last_sent_at=START + timedelta(days=2),
        launches=launches,
        reconciled_launches=launches,
        people=build_people(),
        questions=questions,
        groups=(build_column(),),
        experiment=build_experiment(),
    )


def build_runs() -> tuple[RunReport, ...]:
    """Return a run of CI, and one of somebody's own machine with changes in the files."""
    url = "https://github.com/acme/surveys/actions/runs/19273645"
    traced = RunReport(
        id="1f" * 8,
        started_at=START,
        plan_digest="3c" * 16,
        commit="9d" * 20,
        dirty=False,
        run_url=url,
        triggered_by="ada[bot]",
        launches=2,
        recipients=994,
    )
    own = replace(
        traced,
        id="2e" * 8,
        started_at=START + timedelta(days=1),
        plan_digest="4b" * 16,
        dirty=True,
        run_url=None,
        triggered_by=None,
        recipients=640,
    )
    return (traced, own)
