"""The report as Markdown (GitHub's flavour): for pull requests, job summaries and wikis.

GitHub refuses comments of more than 65,536 characters. So tables and the document have a limited length, each
with a sentence on what is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from runner.report.documents import findings, tables
from runner.report.documents.wording import (
    NOT_DEFINED,
    SIMULATION_NOTE,
    count_nouns,
    list_warnings,
    write_footer,
    write_headline,
    write_line,
    write_message_headline,
    write_sending_time,
    write_untraced,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from runner.report.documents.tables import Column, ReportTable
    from runner.report.model import CampaignReport, MessageReport, QuestionReport

LONGEST = 65_000
"""Characters of a document at most: GitHub's limit, less some for text around it."""

_MOST_WARNINGS = 20

BAR_WIDTH = 20
"""Characters of a bar of 100 %."""

MOST_ROWS = 40
"""Rows of a table at most."""

LONGEST_TEXT = 300
"""Characters of one text at most, before it is escaped."""

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# Parentheses are markup behind a bracket alone, and an exclamation mark before one: brackets are escaped,
# and none is written beside a text.
_MARKED = re.compile(r"[\\`*_{}\[\]#|~$^=]|!(?=\S)")
_NUMBERED = re.compile(r"^(\d+)\)")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
# An escaped colon or dot keeps GitHub from making links of participants' texts.
_LINK_STARTS = re.compile(r"(?i)(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")
_RULES = {"text": ":--", "figure": "--:", "bar": ":--", "link": ":--"}
_URL_CHARACTERS = ":/?#@!$&'*+,;=%~"

Part = list[str]
"""Lines that are kept or left out together; an empty line separates parts."""


def write_markdown(report: CampaignReport) -> str:
    """Return the report as Markdown, with texts of campaigns and participants escaped."""
    footer = ["---", "", escape_markdown(write_footer(report))]
    kept: list[Part] = []
    left_out = 0
    room = LONGEST - _measure(footer) - 100
    for part in _list_parts(report):
        # After the first omission everything is left out, so that there are no gaps in between.
        if left_out or _measure(part) > room:
            left_out += 1
            continue
        room -= _measure(part)
        kept.append(part)
    if left_out:
        kept.append([f"> {_say_left_out(left_out, 'part')} left out of this document, which is long."])
    return "\n".join("\n".join([*part, ""]) for part in [*kept, footer])


def _measure(part: Part) -> int:
    return sum(len(line) + 1 for line in part) + 1


def _say_left_out(count: int, noun: str) -> str:
    return f"{count_nouns(count, 'more ' + noun)} {'is' if count == 1 else 'are'}"


def _list_parts(report: CampaignReport) -> Iterator[Part]:
    yield [f"# {escape_markdown(report.campaign)}"]
    if report.is_simulated:
        yield [f"> **{SIMULATION_NOTE}**"]
    yield [f"**{write_headline(report)}**"]
    found = list(findings.list_findings(report))
    if found:
        yield [f"- {escape_markdown(finding)}" for finding in found]
    warnings = list(list_warnings(report))
    if warnings:
        yield list(_write_warnings(warnings))
    for message in report.messages:
        yield from _list_message_parts(report, message)
    if report.runs:
        yield ["## How it was sent", "", *draw_table(tables.tabulate_runs(report.runs))]
    yield from _say(write_untraced(report))
    yield from _list_sources(report)


def _write_warnings(warnings: list[str]) -> Iterator[str]:
    yield from ("> [!WARNING]", "> The figures do not add up:", ">")
    yield from (f"> - {escape_markdown(warning)}" for warning in warnings[:_MOST_WARNINGS])
    if len(warnings) > _MOST_WARNINGS:
        yield f"> - {_say_left_out(len(warnings) - _MOST_WARNINGS, 'warning')} left out here."


def _list_message_parts(report: CampaignReport, message: MessageReport) -> Iterator[Part]:
    yield [f"## {escape_markdown(message.id)}"]
    if len(report.messages) > 1:
        yield [write_message_headline(message, is_simulated=report.is_simulated)]
    yield draw_table(tables.tabulate_funnel(message))
    yield from _say(write_sending_time(message), findings.write_volume(message))
    if message.sent:
        yield from _say(findings.write_audience(message.audience), findings.write_holdout(message.audience))
    if message.audience is not None and message.audience.reserved:
        yield draw_table(tables.tabulate_reserved(message.audience))
    for question in message.questions:
        yield list(_join(_list_question_parts(question)))
    yield from _list_timing_parts(message)
    yield from _list_group_parts(message)
    yield ["### Opt-outs, renders and cost"]
    yield from _say(
        findings.write_opt_outs(message),
        findings.write_non_answers(message),
        *findings.list_volume(message),
    )
    if message.response_rates is not None:
        yield [escape_markdown(findings.write_rates(message.response_rates))]


def _list_question_parts(question: QuestionReport) -> Iterator[Part]:
    yield [f"### {escape_markdown(question.text)}"]
    tag = f"{escape_markdown(question.tag)}: " if question.tag else ""
    yield [f"{tag}{findings.write_turnout(question)}"]
    shown = question.shown
    yield from (
        [line if findings.has_few_answers(shown) else f"**{line}**"] for line in findings.list_scores(shown)
    )
    if findings.is_freeform(shown):
        yield [findings.FREEFORM_NOTE]
    yield from _say(findings.write_texts(shown))
    if shown.texts is not None and shown.texts.words:
        yield draw_table(tables.tabulate_words(shown))
    if shown.distribution:
        yield draw_table(tables.tabulate_responses(shown))


def _list_timing_parts(message: MessageReport) -> Iterator[Part]:
    if message.questions:
        yield ["### How far people came, and how fast"]
        yield from _say(findings.write_times(message.time_to_first_answer, "gave their first answer"))
        yield draw_table(tables.tabulate_questions(message.questions))
    if len(message.days) > 1:
        yield ["### Over time"]
        yield draw_table(tables.tabulate_days(message.days))


def _list_group_parts(message: MessageReport) -> Iterator[Part]:
    if message.experiment is not None and message.questions:
        yield ["### Arms compared"]
        for difference in message.experiment.differences:
            yield [f"**{escape_markdown(findings.write_verdict(difference))}**"]
        if message.experiment.analysis is not None:
            yield [escape_markdown(findings.write_analysis(message.experiment.analysis))]
        yield draw_table(tables.tabulate_groups("Arm", message.experiment.arms, "How each arm responded"))
        if message.experiment.differences:
            yield draw_table(tables.tabulate_differences(message.experiment))
    for breakdown in message.breakdowns:
        yield [f"### By {escape_markdown(breakdown.column)}"]
        if breakdown.groups:
            yield draw_table(
                tables.tabulate_groups(breakdown.column, breakdown.groups, "How each group responded")
            )
        yield from _say(findings.write_suppressed(breakdown))


def _list_sources(report: CampaignReport) -> Iterator[Part]:
    sources = [f"{one.term}: {one.source}." for one in findings.list_explanations(report) if one.source]
    if sources:
        yield ["### Sources of the formulas"]
        yield [f"- {escape_markdown(source)}" for source in sources]


def _say(*sentences: str) -> Iterator[Part]:
    said = " ".join(filter(None, sentences))
    if said:
        yield [escape_markdown(said)]


def _join(parts: Iterable[Part]) -> Iterator[str]:
    for number, part in enumerate(parts):
        yield from ([""] if number else [])
        yield from part


def escape_markdown(text: str) -> str:
    """Return a text as one line of Markdown that shows it literally, in a paragraph, heading or table cell.

    A very long text ends in an ellipsis.
    """
    line = write_line(text)
    if len(line) > LONGEST_TEXT:
        line = line[: LONGEST_TEXT - 1].rstrip() + "…"
    escaped = _NUMBERED.sub(r"\1\\)", _MARKED.sub(r"\\\g<0>", line)).translate(_ENTITIES)
    return _LINK_STARTS.sub(_part_link, escaped)


def draw_bar(share: Fraction | None) -> str:
    """Return a share as a bar of block characters, to the eighth of a character."""
    eighths = 0 if share is None else round(share * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def draw_table(table: ReportTable) -> list[str]:
    """Return a table's lines; below the most rows allowed, a sentence gives the number left out."""
    lines = [
        f"| {' | '.join(escape_markdown(column.name) for column in table.columns)} |",
        f"|{'|'.join(_RULES[column.kind] for column in table.columns)}|",
    ]
    for row in table.rows[:MOST_ROWS]:
        cells = map(_write_cell, table.columns, row)
        lines.append(f"| {' | '.join(cells)} |")
    left_out = len(table.rows) - MOST_ROWS
    if left_out > 0:
        lines += ["", f"{left_out:,} more {'row is' if left_out == 1 else 'rows are'} left out here."]
    return lines


def _write_cell(column: Column, cell: str | Fraction | None) -> str:
    if column.kind == "link":
        return f"[open]({quote(str(cell), safe=_URL_CHARACTERS)})" if cell else NOT_DEFINED
    if not isinstance(cell, str):
        return draw_bar(cell)
    return escape_markdown(cell) if column.kind == "text" else cell


def _part_link(found: re.Match[str]) -> str:
    return f"{found[1]}&#58;" if found[1] else f"{found[3]}&#46;"
