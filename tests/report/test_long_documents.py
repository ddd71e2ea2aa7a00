"""Markdown that GitHub takes: under its limit whatever the campaign, and honest about what is left out."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from runner.report.documents.page import MOST_ROWS, write_markdown
from runner.report.question_model import ResponseCount
from tests.report.examples import build_choice, build_many, build_reminded, pool
from tests.report.sample import replace

if TYPE_CHECKING:
    from runner.report.model import CampaignReport

GITHUB_LIMIT = 65_536


def build_long(questions: int, responses: int, text: str) -> CampaignReport:
    """Return a report whose questions have many responses, of a text that takes room."""
    question = replace(
        build_choice(),
        distribution=tuple(
            ResponseCount(str(place), text, 1, Fraction(1, responses)) for place in range(1, responses + 1)
        ),
    )
    messages = tuple(replace(one, questions=(question,) * questions) for one in build_reminded().messages)
    return replace(build_reminded(), messages=messages, questions=pool(*[question] * questions), score=None)


@pytest.mark.parametrize(
    "report",
    [
        build_long(300, 5, "yes"),
        build_long(20, 200, "@" * 160),
        build_long(1, 500, "<" * 5000),
        build_many(),
        replace(build_reminded(), discrepancies=("<" * 5000,) * 500),
    ],
    ids=["questions", "responses", "texts", "messages", "warnings"],
)
def test_a_document_stays_under_the_limit(report: CampaignReport) -> None:
    """However much there is to say, GitHub takes it, and the footer stands."""
    text = write_markdown(report)
    assert len(text) < GITHUB_LIMIT
    assert text.splitlines()[-1].startswith("Figures as of ")


def test_what_is_left_out_is_said() -> None:
    """After the last part that has room a sentence says how many more there are."""
    text = write_markdown(build_long(300, 5, "yes"))
    sentence = text.splitlines()[-5]
    assert sentence.startswith("> ")
    assert sentence.endswith(" more parts are left out of this document, which is long.")
    assert "left out of this document" not in write_markdown(build_reminded())


@pytest.mark.parametrize(
    ("more", "sentence"),
    [(1, "… and 1 more row"), (9, "… and 9 more rows")],
)
def test_a_long_table_ends_with_a_sentence(more: int, sentence: str) -> None:
    """The rows that are left out are counted, below the table and not in it."""
    text = write_markdown(build_long(1, MOST_ROWS + more, "yes"))
    assert f"\n\n{sentence}\n" in text
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    cells = [token.content for token in tokens if token.type == "inline"]
    assert cells.count("yes") == MOST_ROWS
