"""The report as Markdown (GitHub's flavour): for pull requests, job summaries and wikis."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.report.wording import (
    FREEFORM_NOTE,
    is_freeform,
    list_funnel,
    list_scores,
    list_warnings,
    write_count,
    write_footer,
    write_headline,
    write_line,
    write_message_headline,
    write_percent,
    write_sending_time,
    write_turnout,
    write_volume,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from runner.report.model import CampaignReport, MessageReport, QuestionReport

BAR_WIDTH = 20
"""Characters of a bar that stands for everybody."""

_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_MARKED = re.compile(r"[\\`*_{}\[\]()#!|~$^=]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
# A colon or dot taken apart keeps GitHub from making links of what somebody wrote.
_LINK_STARTS = re.compile(r"(?i)(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")


def write_markdown(report: CampaignReport) -> str:
    """Return the report as Markdown; texts of campaigns and participants can break or inject nothing."""
    lines = [f"# {escape_markdown(report.campaign)}", ""]
    if report.is_simulated:
        lines += ["> **SANDBOX: simulated, nobody was texted.**", ""]
    lines += [f"**{write_headline(report)}**", ""]
    warnings = [f"> - {escape_markdown(warning)}" for warning in list_warnings(report)]
    if warnings:
        lines += ["> [!WARNING]", "> The figures do not add up:", ">", *warnings, ""]
    for message in report.messages:
        lines += _write_message(report, message)
    lines += ["---", "", escape_markdown(write_footer(report))]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    """Return a text on one line that Markdown shows as it is, in a paragraph, heading or table cell."""
    escaped = _MARKED.sub(r"\\\g<0>", write_line(text)).translate(_ENTITIES)
    return _LINK_STARTS.sub(_part_link, escaped)


def draw_bar(share: Fraction | None) -> str:
    """Return a share as a bar of block characters, to the eighth of a character."""
    eighths = 0 if share is None else round(share * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def _part_link(found: re.Match[str]) -> str:
    return f"{found[1]}&#58;" if found[1] else f"{found[3]}&#46;"


def _write_message(report: CampaignReport, message: MessageReport) -> Iterator[str]:
    yield from (f"## {escape_markdown(message.id)}", "")
    if len(report.messages) > 1:
        yield from (write_message_headline(message, is_simulated=report.is_simulated), "")
    rows = (
        (row.label, write_count(row.count), f"{write_percent(row.share)} of {row.whole}" if row.whole else "")
        for row in list_funnel(message)
    )
    yield from _write_table(("Step", "People", "Share"), ":--|--:|:--", rows)
    yield from (" ".join(filter(None, (write_sending_time(message), write_volume(message)))), "")
    for question in message.questions:
        yield from _write_question(question)


def _write_question(question: QuestionReport) -> Iterator[str]:
    yield from (f"### {escape_markdown(question.text)}", "")
    tag = f"{escape_markdown(question.tag)}: " if question.tag else ""
    yield from (f"{tag}{write_turnout(question)}", "")
    for line in list_scores(question):
        yield from (f"**{line}**", "")
    if is_freeform(question):
        yield from (FREEFORM_NOTE, "")
    if question.distribution:
        rows = (
            (
                escape_markdown(response.label),
                write_count(response.count),
                write_percent(response.share),
                draw_bar(response.share),
            )
            for response in question.distribution
        )
        yield from _write_table(("Response", "Answers", "Share", ""), ":--|--:|--:|:--", rows)


def _write_table(head: tuple[str, ...], rule: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{rule}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
