"""The report as Markdown (GitHub's flavour): for pull requests, job summaries and wikis.

GitHub refuses a comment of more than 65,536 characters. So tables end after some rows and the document after
some parts, each with a sentence that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.explanations import list_explanations
from runner.report.findings import (
    FREEFORM_NOTE,
    has_few_answers,
    is_freeform,
    list_findings,
    list_scores,
    list_volume,
    write_analysis,
    write_audience,
    write_holdout,
    write_opt_outs,
    write_rates,
    write_suppressed,
    write_texts,
    write_times,
    write_turnout,
    write_verdict,
    write_volume,
)
from runner.report.markdown_text import draw_table, escape_markdown
from runner.report.provenance import tabulate_runs, write_untraced
from runner.report.tables import (
    tabulate_days,
    tabulate_differences,
    tabulate_funnel,
    tabulate_groups,
    tabulate_questions,
    tabulate_reserved,
    tabulate_responses,
    tabulate_words,
)
from runner.report.wording import (
    SIMULATION_NOTE,
    count_nouns,
    list_warnings,
    write_footer,
    write_headline,
    write_message_headline,
    write_sending_time,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.report.answered import QuestionReport
    from runner.report.model import CampaignReport, MessageReport

LONGEST = 65_000
"""Characters of a document at most; GitHub's limit less some, for what others put around it."""

_MOST_WARNINGS = 20

Part = list[str]
"""Lines that stand or go together; what follows them is apart by an empty line."""


def write_markdown(report: CampaignReport) -> str:
    """Return the report as Markdown; texts of campaigns and participants can break or inject nothing."""
    footer = ["---", "", escape_markdown(write_footer(report))]
    kept: list[Part] = []
    left_out = 0
    room = LONGEST - _measure(footer) - 100
    for part in _list_parts(report):
        # Once something is left out everything is: a reader must not wonder what lies between.
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
    findings = list(list_findings(report))
    if findings:
        yield [f"- {escape_markdown(finding)}" for finding in findings]
    warnings = list(list_warnings(report))
    if warnings:
        yield list(_write_warnings(warnings))
    for message in report.messages:
        yield from _list_message_parts(report, message)
    if report.runs:
        yield ["## How it was sent", "", *draw_table(tabulate_runs(report.runs))]
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
    yield draw_table(tabulate_funnel(message))
    yield from _say(write_sending_time(message), write_volume(message))
    if message.sent:
        yield from _say(write_audience(message.audience), write_holdout(message.audience))
    if message.audience is not None and message.audience.reserved:
        yield draw_table(tabulate_reserved(message.audience))
    for question in message.questions:
        yield list(_join(_list_question_parts(question)))
    yield from _list_timing_parts(message)
    yield from _list_group_parts(message)
    yield ["### Opt-outs, renders and cost"]
    yield from _say(write_opt_outs(message), *list_volume(message.volume))
    if message.response_rates is not None:
        yield [escape_markdown(write_rates(message.response_rates))]


def _list_question_parts(question: QuestionReport) -> Iterator[Part]:
    yield [f"### {escape_markdown(question.text)}"]
    tag = f"{escape_markdown(question.tag)}: " if question.tag else ""
    yield [f"{tag}{write_turnout(question)}"]
    shown = question.shown
    yield from ([line if has_few_answers(shown) else f"**{line}**"] for line in list_scores(shown))
    if is_freeform(shown):
        yield [FREEFORM_NOTE]
    yield from _say(write_texts(shown))
    if shown.texts is not None and shown.texts.words:
        yield draw_table(tabulate_words(shown))
    if shown.distribution:
        yield draw_table(tabulate_responses(shown))


def _list_timing_parts(message: MessageReport) -> Iterator[Part]:
    if message.questions:
        yield ["### How far people came, and how fast"]
        yield from _say(write_times(message.time_to_first_answer, "gave their first answer"))
        yield draw_table(tabulate_questions(message.questions))
    if len(message.days) > 1:
        yield ["### Over time"]
        yield draw_table(tabulate_days(message.days))


def _list_group_parts(message: MessageReport) -> Iterator[Part]:
    if message.experiment is not None and message.questions:
        yield ["### Arms compared"]
        for difference in message.experiment.differences:
            yield [f"**{escape_markdown(write_verdict(difference))}**"]
        if message.experiment.analysis is not None:
            yield [escape_markdown(write_analysis(message.experiment.analysis))]
        yield draw_table(tabulate_groups("Arm", message.experiment.arms, "How each arm responded"))
        if message.experiment.differences:
            yield draw_table(tabulate_differences(message.experiment))
    for breakdown in message.breakdowns:
        yield [f"### By {escape_markdown(breakdown.column)}"]
        if breakdown.groups:
            yield draw_table(tabulate_groups(breakdown.column, breakdown.groups, "How each group responded"))
        yield from _say(write_suppressed(breakdown))


def _list_sources(report: CampaignReport) -> Iterator[Part]:
    sources = [f"{one.term}: {one.source}." for one in list_explanations(report) if one.source]
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
