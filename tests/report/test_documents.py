"""Documents: what they say, in which shape, and that they say the same twice."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.model import MessageTotals
from runner.report.csv_table import COLUMNS
from runner.report.documents import WRITERS
from runner.report.facts import CampaignFacts, MessageOutline, QuestionOutline
from runner.report.markdown import draw_bar
from runner.report.metrics import summarise
from runner.report.rounding import round_exactly
from runner.report.wording import write_footer, write_headline, write_percent, write_score

if TYPE_CHECKING:
    from runner.ledger.model import ResultRow
    from runner.report.model import CampaignReport

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = Path(__file__).parents[2] / "schemas" / "report.schema.json"
SURVEY = MessageOutline("ask", "tag", (QuestionOutline("q", "Which?", ("Red", "Green")),))


def check_schema(text: str) -> Any:
    """Return a JSON report after checking it against the schema and against JSON's own rules."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document = json.loads(text, parse_constant=refuse)
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    checker = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    checker.validate(document)
    return document


def report_one(sent: int) -> CampaignReport:
    totals = MessageTotals("ask", launches=1, sent=sent)
    return summarise(CampaignFacts("pulse", "live", ((SURVEY, totals),)), ())


@pytest.mark.parametrize("name", WRITERS)
def test_documents_are_as_reviewed(name: str, survey_report: CampaignReport, tmp_path: Path) -> None:
    """A change of a document is a change of a file under golden/, to be looked at."""
    suffix, write = WRITERS[name]
    written = tmp_path / f"survey{suffix}"
    written.write_text(write(survey_report), encoding="utf-8", newline="")
    golden = GOLDEN / written.name
    assert written.read_bytes() == golden.read_bytes(), f"look at {written}, and copy it over if it is right"


@pytest.mark.parametrize("name", WRITERS)
def test_documents_are_a_function_of_their_input(
    name: str, survey_facts: CampaignFacts, survey_results: tuple[ResultRow, ...]
) -> None:
    """The same facts, and the same results in another order, make the same bytes."""
    _, write = WRITERS[name]
    forth, back = summarise(survey_facts, survey_results), summarise(survey_facts, survey_results[::-1])
    assert write(forth) == write(back) == write(forth)


@pytest.mark.parametrize("name", WRITERS)
def test_no_document_shows_a_participant(name: str, survey_report: CampaignReport) -> None:
    """Freeform answers and pseudonyms stand in no document."""
    text = WRITERS[name][1](survey_report)
    assert "I like Ada a lot" not in text
    assert "p411" not in text


def test_the_json_document_is_what_the_schema_says(survey_report: CampaignReport) -> None:
    """A full report validates, begins with its format's version, and rounds rates to four places."""
    text = WRITERS["json"][1](survey_report)
    document = check_schema(text)
    assert list(document)[:5] == ["format_version", "campaign", "target", "reconciled_at", "messages"]
    assert document["format_version"] == "1.0"
    ask = document["messages"][0]
    assert ask["response_rate"] == 0.4023
    assert ask["response_rate_interval"] == [0.3727, 0.4327]
    assert ask["completion_rate"] == round(ask["participants_completed"] / 412, 4)


@pytest.mark.parametrize("sent", [0, 3])
def test_an_empty_report_is_valid_json(sent: int) -> None:
    """Where nothing was sent or answered the rates are null, and the document still valid."""
    document = check_schema(WRITERS["json"][1](report_one(sent)))
    assert document["messages"][0]["completion_rate"] is None
    assert document["messages"][0]["questions"][0]["distribution"][0]["count"] == 0


def test_every_property_of_the_schema_is_explained() -> None:
    """Each property has a title and a description, and no object takes others."""

    def check(node: Any) -> None:
        if isinstance(node, list):
            for part in node:
                check(part)
        if not isinstance(node, dict):
            return
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert sorted(node["required"]) == sorted(node["properties"])
            for name, part in node["properties"].items():
                assert part["title"], name
                assert part["description"].endswith("."), name
        for part in node.values():
            check(part)

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    check(schema)


def test_the_csv_table_is_tidy(survey_report: CampaignReport) -> None:
    """Every row has every column, ends in CRLF, and a filter on the measure gives a table."""
    text = WRITERS["csv"][1](survey_report)
    assert text.count("\r\n") == text.count("\n")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    assert tuple(rows[0]) == COLUMNS
    scores = [row for row in rows if row["measure"] == "response" and row["question_tag"] == "nps"]
    assert [row["label"] for row in scores] == [str(number) for number in range(11)]
    assert sum(int(row["count"]) for row in scores) == 412
    assert sum(float(row["share"]) for row in scores) == pytest.approx(1, abs=11 * 5e-5)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (report_one(0), "Nobody was texted yet."),
        (report_one(1), "1 person was texted; 0 answered (0.0 %, 95 % interval 0.0–79.3 %)."),
        (replace(report_one(0), messages=()), "Nothing was sent yet."),
        (
            replace(report_one(0), messages=report_one(1200).messages * 2, participants_answered=1),
            "2,400 texts went out in 2 messages; 1 person answered.",
        ),
        (
            replace(report_one(5), target="sandbox"),
            "5 simulated people were texted; 0 answered (0.0 %, 95 % interval 0.0–43.4 %).",
        ),
    ],
)
def test_a_headline_says_how_it_went(report: CampaignReport, sentence: str) -> None:
    """One sentence says how many were texted and answered, and how sure the rate is."""
    assert write_headline(report) == sentence


@pytest.mark.parametrize("name", ["md", "html"])
def test_a_simulation_says_so(name: str, survey_report: CampaignReport) -> None:
    """A report of the sandbox says that nobody was texted; another one doesn't."""
    _, write = WRITERS[name]
    notice = "SANDBOX: simulated, nobody was texted."
    assert notice in write(replace(survey_report, target="sandbox"))
    assert notice not in write(survey_report)


@pytest.mark.parametrize("name", ["md", "html"])
def test_discrepancies_stand_before_the_figures(name: str, survey_facts: CampaignFacts) -> None:
    """What does not add up is said before any message's figures."""
    text = WRITERS[name][1](summarise(survey_facts, ()))
    assert 0 < text.index("Results that the service counts") < text.index("Recipients")


def test_a_footer_says_as_of_when(survey_report: CampaignReport) -> None:
    """The footer names the target and the time of the oldest figures."""
    assert write_footer(survey_report) == "Target live, reconciled 2026-11-20 12:34 UTC."
    assert write_footer(report_one(1)) == "Target live, not reconciled yet."


def test_the_page_needs_nothing_else(survey_report: CampaignReport) -> None:
    """The page loads nothing, runs nothing, and knows dark, paper and phones."""
    page = WRITERS["html"][1](survey_report)
    for absent in ("<script", "http://", "https://", "src=", "href=", "url(", "@import"):
        assert absent not in page
    for present in ("prefers-color-scheme: dark", "@media print", "max-width: 34rem", "default-src 'none'"):
        assert present in page


@given(st.fractions(-1000, 1000), st.integers(0, 6))
def test_rounding_is_exact(number: Fraction, places: int) -> None:
    """A rounded number is within half a unit of the exact one, and a tie goes away from zero."""
    rounded = Fraction(round_exactly(number, places))
    half = Fraction(1, 2 * 10**places)
    assert abs(rounded - number) <= half
    assert abs(rounded - number) < half or abs(rounded) > abs(number)


@pytest.mark.parametrize(
    ("rate", "text"),
    [(Fraction(1, 2000), "0.1 %"), (Fraction(1), "100.0 %"), (Fraction(412, 1024), "40.2 %"), (None, "–")],
)
def test_percentages_have_one_decimal(rate: Fraction | None, text: str) -> None:
    """A rate is written in percent with one decimal; an undefined one as a dash."""
    assert write_percent(rate) == text


@pytest.mark.parametrize(
    ("score", "text"), [(Fraction(95, 3), "+31.7"), (Fraction(-100), "-100.0"), (Fraction(-1, 99), "+0.0")]
)
def test_scores_have_a_sign(score: Fraction, text: str) -> None:
    """A Net Promoter Score is written with its sign, and never as minus nothing."""
    assert write_score(score) == text


@pytest.mark.parametrize(
    ("share", "bar"),
    [
        (None, ""),
        (Fraction(), ""),
        (Fraction(1, 160), "▏"),
        (Fraction(1, 2), "█" * 10),
        (Fraction(1), "█" * 20),
    ],
)
def test_text_bars_are_as_long_as_their_share(share: Fraction | None, bar: str) -> None:
    """A bar of block characters is its share of twenty, to the eighth."""
    assert draw_bar(share) == bar
