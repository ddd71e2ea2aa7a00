"""A campaign like a real one: a survey that 412 of 1,024 people answered, and a nudge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.ledger.model import MessageTotals, ResultRow
from runner.report.facts import CampaignFacts, MessageOutline, QuestionOutline
from runner.report.metrics import summarise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.model import CampaignReport

NPS = QuestionOutline(
    tag="nps",
    text="How likely are you to recommend us, from 0 to 10?",
    responses=tuple(str(number) for number in range(11)),
    scale="nps",
)
SATISFACTION = QuestionOutline(
    tag="service",
    text="How satisfied are you with our service?",
    responses=("Very dissatisfied", "Dissatisfied", "Neither", "Satisfied", "Very satisfied"),
    scale="csat",
)
AGAIN = QuestionOutline(
    tag="contact",
    text="May we ask you one more thing?",
    responses=("Sure", "Rather not"),
    conclude_on="Rather not",
)
VISITS = QuestionOutline(tag="visits", text="How often did you visit us this year?", scale="number")
REASON = QuestionOutline(tag="reason", text="What is the main reason for your score?", scale="text")
ASK = MessageOutline("ask", "customer-pulse-2026q4", (NPS, SATISFACTION, AGAIN, VISITS, REASON))
NUDGE = MessageOutline("nudge", "customer-pulse-2026q4-nudge")

ASK_TOTALS = MessageTotals(
    message="ask",
    launches=3,
    sent=1024,
    unresolved=6,
    rejected=2,
    queued=12,
    active=95,
    complete=917,
    renders=3391,
    results=1514,
    first_sent_at="2026-11-18T14:00:03.120000Z",
    last_sent_at="2026-11-18T14:02:41Z",
    reconciled_at="2026-11-20T12:34:56Z",
)
NUDGE_TOTALS = MessageTotals(
    message="nudge",
    launches=2,
    sent=612,
    complete=612,
    renders=612,
    first_sent_at="2026-11-20T14:00:00Z",
    last_sent_at="2026-11-20T14:00:00Z",
    reconciled_at="2026-11-20T14:05:00+00:00",
)
SCORES = (10, 9, 8, 10, 7, 9, 3, 10, 8, 6, 9, 10, 5, 8, 9, 0, 10)


def _answer_survey(number: int) -> Iterator[tuple[str, str, str]]:
    """Yield one participant's tag, answer and response for each question answered."""
    score = SCORES[number % len(SCORES)]
    yield "nps", str(score + 1), str(score)
    if number % 11 == 10:
        return
    place = (1, 5, 4, 4, 3, 5, 4, 2, 5)[number % 9]
    yield "service", str(place), SATISFACTION.responses[place - 1]
    if number % 7 == 6:
        return
    contact = number % 4 == 3
    yield "contact", str(contact + 1), AGAIN.responses[contact]
    if contact:
        return
    visits = (1, 2, 2, 3, 12)[number % 5]
    yield "visits", str(visits), str(visits)
    if number % 3:
        yield "reason", "I like Ada a lot", "I like Ada a lot"


def list_results() -> Iterator[ResultRow]:
    for number in range(412):
        for order, (tag, answer, response) in enumerate(_answer_survey(number), start=1):
            yield ResultRow(
                message="ask",
                participant=f"p{number}",
                question_tag=tag,
                question_text="as it was asked",
                question_display_order=order,
                answer=answer,
                response=response,
                created=f"2026-11-19T{number % 24:02}:00:00.{order:06}",
                guid=f"{number:08}-{order}",
            )


@pytest.fixture(scope="session")
def survey_facts() -> CampaignFacts:
    """A survey and a nudge, sent through a live target."""
    return CampaignFacts("customer-pulse", "live", ((ASK, ASK_TOTALS), (NUDGE, NUDGE_TOTALS)))


@pytest.fixture(scope="session")
def survey_results() -> tuple[ResultRow, ...]:
    """The results of the survey."""
    return tuple(list_results())


@pytest.fixture(scope="session")
def survey_report(survey_facts: CampaignFacts, survey_results: tuple[ResultRow, ...]) -> CampaignReport:
    """The survey's report."""
    return summarise(survey_facts, survey_results)
