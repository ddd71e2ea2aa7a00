"""Reports of nothing, and of texts that nobody would want in them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from runner.report.comparison_model import ExperimentReport, PairComparison
from runner.report.model import (
    Audience,
    CampaignReport,
    Caveat,
    MessageReport,
    PooledQuestion,
    QuestionPart,
    Sessions,
)
from runner.report.people_model import ColumnReport, Dispositions, PeopleReport
from runner.report.question_model import (
    CommentsReport,
    QuestionReport,
    QuotedComment,
    ResponseCount,
    SatisfactionScore,
    Score,
)
from runner.report.scores import divide
from tests.report.sample import START, build_column, build_survey, replace


def build_unanswered(asked: int) -> QuestionReport:
    """Return a question that nobody answered."""
    return QuestionReport(
        tag="q",
        text="Which?",
        scale="choice",
        asked=asked,
        answers=0,
        answer_rate=divide(0, asked),
        distribution=tuple(
            ResponseCount(str(place), label, 0, None) for place, label in enumerate(("Red", "Green"), start=1)
        ),
    )


def build_empty(sent: int = 0, **changes: Any) -> CampaignReport:
    """Return a campaign of one message with one question, which nobody answered."""
    message = MessageReport(
        id="ask",
        tag="tag",
        first_sent_at=None,
        last_sent_at=None,
        reconciled_at=None,
        launches=1,
        reconciled_launches=1,
        recipients=sent,
        sent=sent,
        texted=sent,
        rejected=0,
        unresolved=0,
        sessions=Sessions(0, 0, 0),
        participants_answered=0,
        response_rate=divide(0, sent),
        participants_completed=0,
        completion_rate=None,
        renders=0,
        results=0,
        discrepancies=(),
        questions=(build_unanswered(sent),),
        audience=None,
        plan_share=None,
        cost_usd=None,
        opt_outs=0,
        doubtful=0,
        half_answered_within_s=None,
        days=(),
    )
    people = PeopleReport(recipients=sent, sent=sent, texted=sent, answered=0, dispositions=Dispositions())
    return CampaignReport(
        campaign="pulse",
        target="live",
        reconciled_at=None,
        messages=(replace(message, **changes),),
        people=people,
        launches=1,
        reconciled_launches=1,
    )


def build_hostile(text: str) -> CampaignReport:
    """Return a report in which a text stands wherever one can stand."""
    sample = build_survey()
    question = QuestionReport(
        tag=text,
        text=text,
        scale="csat",
        asked=30,
        answers=20,
        answer_rate=Fraction(2, 3),
        distribution=(
            ResponseCount("1", text, 10, Fraction(1, 2)),
            ResponseCount("2", "A name that has no room below its part", 1, Fraction(1, 20)),
            ResponseCount(text, text, 9, Fraction(9, 20)),
        ),
        csat=SatisfactionScore(Fraction(1, 2), 10, 20),
    )
    choice = replace(question, scale="choice", csat=None)
    group = replace(build_column().groups[0], name=text, scores=(Score(text, "mean", None, None, 0),))
    experiment = ExperimentReport(
        text,
        (group, group),
        (PairComparison("response", text, text, Fraction(1, 10), (0.01, 0.2), 0.01, "differs"),),
    )
    message = replace(
        sample,
        id=text,
        tag=text,
        discrepancies=(text,),
        questions=(question,),
        audience=Audience(START, 20, (Caveat(text, 17),)),
    )
    return CampaignReport(
        campaign=text,
        target=text,
        time_zone="America/New_York",
        first_sent_at=START,
        last_sent_at=START,
        launches=1,
        reconciled_launches=1,
        reconciled_at=START,
        messages=(message,),
        discrepancies=(text,),
        title=text,
        description=text,
        owner=text,
        questions=tuple(PooledQuestion(one, (QuestionPart(text, 20),)) for one in (question, choice)),
        comments=CommentsReport((QuotedComment(text, text, Fraction(1), START),), 1, 0),
        groups=(ColumnReport(text, (group, group), group, 0, None),),
        experiment=experiment,
    )
