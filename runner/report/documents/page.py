"""A report as blocks, and so as a page in HTML and as Markdown.

GitHub refuses comments of more than 65,536 characters. So tables and the document have a limited length in
Markdown, each with a sentence on what is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.documents import charts, findings, tables, wording
from runner.view import html, markdown
from runner.view.blocks import Beside, Items, Section, Sentence, Tiles
from runner.wording import escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.model import CampaignReport, MessageReport
    from runner.report.question_model import QuestionReport
    from runner.view.blocks import Block, Style

LONGEST = 65_000
"""Characters of a document in Markdown at most: GitHub's limit, less some for text around it."""
MOST_ROWS = 40
"""Rows of a table in Markdown at most."""


def write_html(report: CampaignReport) -> str:
    """Return the report as an HTML page, in UTF-8's characters, ending in a line break."""
    return html.write_page(
        report.campaign,
        "Campaign report",
        list(_show_findings(report)),
        list(_show_campaign(report)),
        wording.write_footer(report),
    )


def write_markdown(report: CampaignReport) -> str:
    """Return the report as Markdown, with texts of campaigns and participants escaped."""
    blocks = [*_show_findings(report), *_show_campaign(report)]
    title, footer = (
        f"# {escape_markdown(report.campaign)}\n\n",
        f"\n---\n\n{escape_markdown(wording.write_footer(report))}\n",
    )
    room = LONGEST - len(title) - len(footer)
    return title + markdown.write_markdown(blocks, most_rows=MOST_ROWS, longest=room) + footer


def _show_findings(report: CampaignReport) -> Iterator[Block]:
    yield Sentence(wording.write_headline(report), "strong")
    yield Items(list(findings.list_findings(report)))
    if report.is_simulated:
        yield Sentence(wording.SIMULATION_NOTE, "notice")
    yield Items(list(wording.list_warnings(report)), "The figures do not add up")


def _show_campaign(report: CampaignReport) -> Iterator[Block]:
    for message in report.messages:
        yield Section(message.id, list(_show_message(report, message)))
    if report.runs:
        yield Section("How it was sent", [tables.tabulate_runs(report.runs)])
    yield Section("How to read this", [Items(list(findings.list_explanations(report)))], is_folded=True)


def _show_message(report: CampaignReport, message: MessageReport) -> Iterator[Block]:
    if len(report.messages) > 1:
        yield Sentence(wording.write_message_headline(message, is_simulated=report.is_simulated))
    yield Tiles(list(tables.list_tiles(message)))
    left: list[Block] = []
    if message.sent:
        left += _say(findings.write_audience(message.audience), findings.write_holdout(message.audience))
    if message.audience:
        left.append(tables.tabulate_reserved(message.audience))
    left += _say(wording.write_sending_time(message))
    yield Beside([tables.tabulate_funnel(message)], left)
    for question in message.questions:
        yield Section(question.text, list(_show_question(question)))
    if message.questions:
        said = _say(findings.write_times(message.time_to_first_answer, "gave their first answer"))
        yield Section(
            "How far people came, and how fast", [*said, tables.tabulate_questions(message.questions)]
        )
    if len(message.days) > 1:
        drawn = list(charts.draw_days(message.days))
        table = tables.tabulate_days(message.days)
        yield Section("Over time", [Beside(drawn, [table]) if drawn else table])
    yield from _show_groups(message)
    sentences = (
        findings.write_opt_outs(message),
        findings.write_non_answers(message),
        findings.write_cost(message),
    )
    yield Section("Opt-outs, renders and cost", list(_say(*sentences, style="")))
    if message.dispositions and message.response_rates:
        counts = tables.tabulate_dispositions(message.dispositions)
        rates = Beside([counts], [tables.tabulate_rates(message.response_rates)])
        title = "Response rates as the survey field defines them (AAPOR)"
        yield Section(title, [Sentence(findings.AAPOR_NOTE, "quiet"), rates], is_folded=True)


def _show_question(question: QuestionReport) -> Iterator[Block]:
    shown = question.shown
    yield Sentence(f"{question.tag}: {findings.write_turnout(question)}".removeprefix(": "), "quiet")
    for score in findings.list_scores(shown):
        yield Sentence(score, "" if findings.has_few_answers(shown) else "strong")
    if findings.is_freeform(shown):
        yield Sentence(findings.FREEFORM_NOTE, "quiet")
    drawn, table = list(charts.draw_nps(shown.nps)), tables.tabulate_responses(shown)
    yield Beside(drawn, [table]) if drawn else table


def _show_groups(message: MessageReport) -> Iterator[Block]:
    experiment = message.experiment
    if experiment and message.questions:
        blocks: list[Block] = [
            Sentence(findings.write_verdict(one), "strong") for one in experiment.differences
        ]
        if experiment.analysis:
            blocks.append(Sentence(findings.write_analysis(experiment.analysis)))
        if experiment.differences:
            drawn = list(charts.draw_groups(experiment.arms))
            blocks.append(Beside(drawn, [tables.tabulate_differences(experiment)]))
        blocks.append(tables.tabulate_groups("Arm", experiment.arms, "How each arm responded"))
        yield Section("Arms compared", blocks)
    for breakdown in message.breakdowns:
        chart = charts.draw_groups(breakdown.groups)
        table = tables.tabulate_groups(breakdown.column, breakdown.groups, "How each group responded")
        yield Section(f"By {breakdown.column}", [*chart, table, *_say(findings.write_suppressed(breakdown))])


def _say(*sentences: str, style: Style = "quiet") -> Iterator[Block]:
    """Yield sentences as one paragraph; none if all are empty."""
    text = " ".join(filter(None, sentences))
    if text:
        yield Sentence(text, style)
