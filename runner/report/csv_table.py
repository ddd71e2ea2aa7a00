"""The report for spreadsheets and data frames: one tidy CSV table (RFC 4180).

One row is one measure of one thing, so that a filter on `measure` gives a table of its own. The columns:

- `campaign`, `target`, `message`, `question_tag`, `question_text`: what the row is about. The question's
  columns are empty in rows about a whole message.
- `measure`: what is counted. Of a message: recipients, sent, rejected, unresolved, launches, queued, active,
  complete, participants_answered, participants_completed, renders, results. Of a question: asked, answers,
  response, nps, nps_promoters, nps_passives, nps_detractors, csat, mean, median.
- `answer`, `label`: in rows of the measure `response`, the response's 1-based index and its text.
- `count`: how many: people, launches, renders or results; in the rows nps, csat, mean and median the answers
  that the value rests on.
- `share`: the count as a fraction of 1, four decimal places: of `sent` for participants_answered, of
  participants_answered for participants_completed, of `asked` for answers, of all answers for a response,
  of the counted answers for the nps groups. Empty where undefined, and where a count is a part of nothing.
- `value`: the score of nps (-100 to 100) or csat (a fraction of 1), the mean, the median; four places.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.rounding import store_number
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from runner.report.model import CampaignReport, MessageReport, QuestionReport

COLUMNS = (
    "campaign",
    "target",
    "message",
    "question_tag",
    "question_text",
    "measure",
    "answer",
    "label",
    "count",
    "share",
    "value",
)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@dataclass(frozen=True, slots=True)
class Measure:
    """The part of a row that says how many."""

    name: str
    count: int | None
    share: Fraction | None = None
    value: Fraction | None = None
    answer: str = ""
    label: str = ""


def write_csv(report: CampaignReport) -> str:
    """Return the report as a CSV table, its columns described above: CRLF line ends, a header row.

    Text cells that a spreadsheet would run as a formula start with an apostrophe (OWASP, "CSV injection").
    """
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for message in report.messages:
        about = (report.campaign, report.target, message.id)
        for measure in _measure_message(message):
            writer.writerow(_build_row((*about, "", ""), measure))
        for question in message.questions:
            for measure in _measure_question(question):
                writer.writerow(_build_row((*about, question.tag, question.text), measure))
    return table.getvalue()


def defuse_formula(text: str) -> str:
    """Return a text cell that no spreadsheet runs: one that starts like a formula gets an apostrophe."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _build_row(about: tuple[str, ...], measure: Measure) -> list[str | int | float | None]:
    return [
        *(defuse_formula(text) for text in (*about, measure.name, measure.answer, measure.label)),
        measure.count,
        store_number(measure.share),
        store_number(measure.value),
    ]


def _measure_message(message: MessageReport) -> Iterator[Measure]:
    yield Measure("recipients", message.recipients)
    yield Measure("sent", message.sent)
    yield Measure("rejected", message.rejected)
    yield Measure("unresolved", message.unresolved)
    yield Measure("launches", message.launches)
    yield Measure("queued", message.sessions.queued)
    yield Measure("active", message.sessions.active)
    yield Measure("complete", message.sessions.complete)
    yield Measure("participants_answered", message.participants_answered, message.response_rate)
    yield Measure("participants_completed", message.participants_completed, message.completion_rate)
    yield Measure("renders", message.renders)
    yield Measure("results", message.results)


def _measure_question(question: QuestionReport) -> Iterator[Measure]:
    yield Measure("asked", question.asked)
    yield Measure("answers", question.answers, question.answer_rate)
    for response in question.distribution:
        yield Measure(
            "response", response.count, response.share, answer=response.answer, label=response.label
        )
    yield from _measure_scores(question)


def _measure_scores(question: QuestionReport) -> Iterator[Measure]:
    if question.nps is not None:
        nps = question.nps
        yield Measure("nps", nps.counted, value=nps.score)
        yield Measure("nps_promoters", nps.promoters, divide(nps.promoters, nps.counted))
        yield Measure("nps_passives", nps.passives, divide(nps.passives, nps.counted))
        yield Measure("nps_detractors", nps.detractors, divide(nps.detractors, nps.counted))
    if question.csat is not None:
        yield Measure("csat", question.csat.counted, value=question.csat.score)
    if question.numbers is not None:
        yield Measure("mean", question.numbers.counted, value=question.numbers.mean)
        yield Measure("median", question.numbers.counted, value=question.numbers.median)
