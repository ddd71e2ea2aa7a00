"""The report for spreadsheets and data frames: one tidy CSV table (RFC 4180).

One row is one measure of one thing, so that a filter on `measure` gives a table of its own. The columns:

- `campaign`, `target`, `message`, `question_tag`, `question_text`: what the row is about. The question's
  columns are empty in rows about a whole message. Rows without a message are of the campaign's one score.
- `measure`: what is counted; the module `measures` lists them all.
- `answer`, `label`: in rows of the measure `response`, the response's 1-based index and its text; in rows
  about an arm, a group, a day, a reason or a word, `label` names it, and of a group `answer` is the
  audience's column.
- `count`: how many: people, launches, renders or results; in rows of scores and times the answers that the
  value rests on.
- `share`: the count as a fraction of 1, four decimal places. Empty where undefined, and where a count is a
  part of nothing.
- `value`: a score, a rate, a time in seconds, an amount; four places.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from runner.report.measures import list_message_measures, list_question_measures
from runner.report.rounding import store_number

if TYPE_CHECKING:
    from runner.report.measures import Measure
    from runner.report.model import CampaignReport

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


def write_csv(report: CampaignReport) -> str:
    """Return the report as a CSV table, its columns described above: a header row, then one line a row.

    Lines end in LF, as in files of answers. Text cells that a spreadsheet would run as a formula start with
    an apostrophe (OWASP, "CSV injection").
    """
    lines = _Lines()
    # Only what could end a line is quoted: with LF alone at the ends, a CR in a text would not be.
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    if report.score is not None:
        pooled = report.score.question
        for measure in list_question_measures(pooled):
            row = _build_row((report.campaign, report.target, "", pooled.tag, pooled.text), measure)
            writer.writerow(row)
    for message in report.messages:
        about = (report.campaign, report.target, message.id)
        for measure in list_message_measures(message):
            # A measure of a group may be of one question's score.
            writer.writerow(_build_row((*about, measure.question_tag, ""), measure))
        for question in message.questions:
            for measure in list_question_measures(question):
                writer.writerow(_build_row((*about, question.tag, question.text), measure))
    return "".join(lines)


class _Lines(list[str]):
    """Takes the writer's lines, and ends each in LF."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


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
