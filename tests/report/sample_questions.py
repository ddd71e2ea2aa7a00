"""The questions of the sample report, with what came back to them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.question_model import (
    NetPromoterScore,
    QuestionReport,
    ResponseCount,
    SatisfactionScore,
)
from runner.report.scores import divide, wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.report.question_model import Interval

SCORES = (9, 4, 6, 10, 11, 17, 25, 51, 76, 87, 106)
SATISFACTION = {
    "Very dissatisfied": 21,
    "Dissatisfied": 34,
    "Neither satisfied nor dissatisfied": 58,
    "Satisfied": 139,
    "Very satisfied": 119,
}


def distribute(counts: dict[str, int]) -> tuple[ResponseCount, ...]:
    whole = sum(counts.values())
    return tuple(
        ResponseCount(str(place), label, count, divide(count, whole))
        for place, (label, count) in enumerate(counts.items(), start=1)
    )


def build_nps(counts: Sequence[int] = SCORES, interval: Interval | None = (19.9, 35.0)) -> QuestionReport:
    """Return the first question, from how often each score was given."""
    counted, promoters, detractors = sum(counts), sum(counts[9:]), sum(counts[:7])
    return QuestionReport(
        tag="nps",
        text="How likely are you to recommend us, from 0 to 10?",
        scale="nps",
        asked=982,
        answers=counted,
        answer_rate=divide(counted, 982),
        distribution=distribute({str(score): count for score, count in enumerate(counts)}),
        nps=NetPromoterScore(
            score=divide(100 * (promoters - detractors), counted),
            promoters=promoters,
            passives=counted - promoters - detractors,
            detractors=detractors,
            counted=counted,
            interval=interval,
        ),
    )


def build_questions() -> tuple[QuestionReport, ...]:
    """Return the survey's questions in its order."""
    return build_nps(), build_service(), build_contact(), build_visits(), build_reason()


def build_service() -> QuestionReport:
    satisfied = SATISFACTION["Satisfied"] + SATISFACTION["Very satisfied"]
    return QuestionReport(
        tag="service",
        text="How satisfied are you with our service?",
        scale="csat",
        asked=402,
        answers=371,
        answer_rate=divide(371, 402),
        distribution=distribute(SATISFACTION),
        csat=SatisfactionScore(divide(satisfied, 371), satisfied, 371, wilson_interval(satisfied, 371)),
        mean=Fraction(1414, 371),
        median=Fraction(4),
        mean_interval=(3.69, 3.93),
        numeric_answers=371,
    )


def build_contact() -> QuestionReport:
    return QuestionReport(
        tag="contact",
        text="May we ask you one more thing?",
        scale="choice",
        asked=371,
        answers=349,
        answer_rate=divide(349, 371),
        distribution=distribute({"Sure": 262, "Rather not": 87}),
    )


def build_visits() -> QuestionReport:
    return QuestionReport(
        tag="visits",
        text="How often did you visit us this year?",
        scale="number",
        asked=262,
        answers=254,
        answer_rate=divide(254, 262),
        mean=Fraction(4),
        median=Fraction(2),
        mean_interval=(3.5, 4.5),
        numeric_answers=250,
    )


def build_reason() -> QuestionReport:
    return QuestionReport(
        tag="reason",
        text="What is the main reason for your score?",
        scale="text",
        asked=254,
        answers=214,
        answer_rate=divide(214, 254),
    )
