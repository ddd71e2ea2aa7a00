"""What a reader of a report may want explained: how to read it, and where its formulas come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.tables import Column, Table
from runner.report.wording import write_count, write_percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.dispositions import Dispositions, ResponseRates
    from runner.report.model import CampaignReport

AAPOR_NOTE = (
    "Outcome rates as the American Association for Public Opinion Research defines them (AAPOR, Standard "
    "Definitions, 10th edition, 2023). A partial interview counts from the first answer on."
)
"""Stands with the response rates, which the standard wants named with their definition."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One entry of "How to read this": what is explained, how, and by which source."""

    term: str
    text: str
    source: str


_RESPONSE = Explanation(
    "Response rate and its 95 % interval",
    "People with at least one answer, of the people texted. Another draw of as many people like these would "
    "give a somewhat different rate; 95 of 100 such intervals hold the true one.",
    "E. B. Wilson (1927), Journal of the American Statistical Association 22, 209–212",
)
_NPS = Explanation(
    "NPS (Net Promoter Score)",
    "Percentage of 9 and 10 less percentage of 0 to 6; from -100 to +100.",
    "F. F. Reichheld (2003), Harvard Business Review, December",
)
_CSAT = Explanation(
    "CSAT (customer satisfaction)",
    "Share of answers that are one of the top two responses, with its Wilson interval.",
    "Wilson (1927), as above",
)
_ARMS = Explanation(
    "Arms compared",
    "The difference of two response rates with its 95 % interval. “No difference shown” does not mean that "
    "there is none: there may be too few people to show it. P-values and intervals are adjusted alike for "
    "the number of comparisons. Where the campaign fixes no day and no size, they are those of a test that "
    "may be looked at any number of times.",
    "R. G. Newcombe (1998), Statistics in Medicine 17, 873–890, method 10; O. J. Dunn (1961), Journal of the "
    "American Statistical Association 56, 52–64; R. Johari et al. (2022), Operations Research 70, 1806–1821",
)
_MEAN = Explanation(
    "Mean and its 95 % interval",
    "Student’s interval, with the skewness taken off: where most answers are near one end of the scale, it "
    "reaches further to where the few are.",
    "P. Hall (1992), Journal of the Royal Statistical Society B 54, 221–228",
)
_TIMES = Explanation(
    "Times",
    "Half, and nine in ten, of those who answered took at most so long. Those who never answered are not "
    "among them.",
    "",
)
_COMPLETION = Explanation(
    "Completion",
    "People who answered the last question, or ended the survey early by an answer that does so, of those "
    "who answered at all.",
    "",
)
_RATES = Explanation(
    "AAPOR response rates",
    "RR1 to RR6 differ in whether partial interviews count, and in how many of the people of whom nothing is "
    "known are taken to be eligible.",
    "AAPOR (2023), Standard Definitions, 10th edition",
)
_PRIVACY = Explanation(
    "What is not here",
    "Phone numbers, answers in people’s own words, and groups so small that a rate may tell of one person.",
    "",
)


def list_explanations(report: CampaignReport) -> Iterator[Explanation]:
    """Yield the explanations of what is in a report."""
    messages = report.messages
    questions = [question.shown for message in messages for question in message.questions]
    if questions:
        yield _RESPONSE
        yield _COMPLETION
        yield _TIMES
    if any(question.nps is not None for question in questions):
        yield _NPS
    if any(question.csat is not None for question in questions):
        yield _CSAT
    if any(question.numbers is not None for question in questions):
        yield _MEAN
    if any(message.experiment is not None for message in messages):
        yield _ARMS
    if any(message.response_rates is not None for message in messages):
        yield _RATES
    yield _PRIVACY


def tabulate_dispositions(dispositions: Dispositions) -> Table:
    """Return the recipients as the survey field counts them."""
    rows = (
        ("Complete interviews", "I", dispositions.complete),
        ("Partial interviews", "P", dispositions.partial),
        ("Refusals", "R", dispositions.refusal),
        ("Non-contacts", "NC", dispositions.non_contact),
        ("Other eligible", "O", dispositions.other),
        ("Unknown eligibility", "UH + UO", dispositions.unknown_eligibility),
    )
    columns = (Column("Disposition", "text"), Column("Letter"), Column("People"))
    return Table(
        "Final dispositions",
        columns,
        tuple((name, letter, write_count(count)) for name, letter, count in rows),
    )


def tabulate_rates(rates: ResponseRates) -> Table:
    """Return the six response rates, each with its formula."""
    known = "(I + P) + (R + NC + O)"
    rows = (
        ("RR1", f"I / ({known} + (UH + UO))", rates.rr1),
        ("RR2", f"(I + P) / ({known} + (UH + UO))", rates.rr2),
        ("RR3", f"I / ({known} + e (UH + UO))", rates.rr3),
        ("RR4", f"(I + P) / ({known} + e (UH + UO))", rates.rr4),
        ("RR5", f"I / ({known})", rates.rr5),
        ("RR6", f"(I + P) / ({known})", rates.rr6),
    )
    columns = (Column("Rate", "text"), Column("Formula", "text"), Column("Value"))
    return Table(
        "Response rates; e is the share of the unknown that is taken to be eligible",
        columns,
        tuple((name, formula, write_percent(rate)) for name, formula, rate in rows),
    )
