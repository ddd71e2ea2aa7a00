"""Templates of a campaign's owner: what they can do, and what they are told when they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.errors import RunnerError
from runner.report.documents.formats import write_with_template
from tests.report.odd_reports import build_hostile

if TYPE_CHECKING:
    from runner.report.model import CampaignReport

EXAMPLE = Path(__file__).parent / "templates" / "chat.txt.j2"


def test_a_template_writes_the_report(sample_report: CampaignReport) -> None:
    """The example has what the JSON document has, by its keys."""
    text = write_with_template(sample_report, EXAMPLE.read_text(encoding="utf-8"), "chat.txt.j2")
    assert text == (
        "customer-pulse-2026q4 on live: 402 people answered.\n"
        "- ask: 40.9 % of 994\n"
        "  - How likely are you to recommend us, from 0 to 10? 27.6\n"
        "- sorry: 45.1 % of 82\n"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", "&lt;b&gt;"),
        ("page.HTML", "&lt;b&gt;"),
        ("page.htm", "&lt;b&gt;"),
        ("page.html.j2", "&lt;b&gt;"),
        ("feed.xml", "&lt;b&gt;"),
        ("feed.xml.j2", "&lt;b&gt;"),
        ("chat.txt", "<b>"),
        ("chat.md.j2", "<b>"),
    ],
)
def test_the_name_says_whether_texts_are_escaped(name: str, text: str) -> None:
    """Names of HTML and XML escape what stands in the report; others don't."""
    assert write_with_template(build_hostile("<b>"), "{{ report.campaign }}", name) == text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a\n{% for %}", "t.txt, line 2: Expected an expression, got 'end of statement block'"),
        ("a\n\n{{ nothing }}", "t.txt, line 3: 'nothing' is undefined"),
        (
            "{{ report.nothing }}",
            "t.txt, line 1: 'dict object' has no attribute 'nothing'",
        ),
        ("\n{{ 1 / 0 }}", "t.txt, line 2: division by zero"),
        ("{{ report.campaign | shout }}", "t.txt, line 1: No filter named 'shout'."),
        ("{% include 'other.txt' %}", "t.txt, line 1: no loader for this environment specified"),
        ("a\n{% extends 'other.txt' %}", "t.txt, line 2: no loader for this environment specified"),
        (
            "{{ report.__class__ }}",
            "t.txt, line 1: access to attribute '__class__' of 'dict' object is unsafe.",
        ),
        (
            "{% for n in range(1000000) %}{% endfor %}",
            "t.txt, line 1: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).",
        ),
    ],
)
def test_a_wrong_template_says_where(source: str, message: str, sample_report: CampaignReport) -> None:
    """Every mistake has the file's name, the line and what is wrong."""
    with pytest.raises(RunnerError) as caught:
        write_with_template(sample_report, source, "t.txt")
    assert caught.value.message == message


def test_a_failing_template_has_a_hint(sample_report: CampaignReport) -> None:
    """Who used a wrong name is told where the page is."""
    with pytest.raises(RunnerError) as caught:
        write_with_template(sample_report, "{{ nothing }}", "t.txt")
    assert caught.value.hint == "docs/reference/report-templates.md says what a template can use"


def test_a_template_cannot_change_the_report(sample_report: CampaignReport) -> None:
    """The report and what is in it stay as they are."""
    with pytest.raises(RunnerError):
        write_with_template(sample_report, "{{ report.messages.clear() }}", "t.txt")
    with pytest.raises(RunnerError):
        write_with_template(sample_report, "{% set report.campaign = 'x' %}", "t.txt")
