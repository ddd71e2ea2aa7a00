"""Documents: what they say, in which shape, and that they say the same twice."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.document import round_exactly
from runner.report.documents.formats import COLUMNS, WRITERS, round_ends
from runner.report.documents.page import write_index
from tests.report.examples import EXAMPLES, build_reminded
from tests.report.odd_reports import build_empty
from tests.report.sample import replace

if TYPE_CHECKING:
    from runner.report.model import CampaignReport

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = Path(__file__).parents[2] / "schemas" / "report.schema.json"


def check_golden(written: Path, text: str) -> None:
    written.write_text(text, encoding="utf-8", newline="")
    golden = GOLDEN / written.name
    assert written.read_bytes() == golden.read_bytes(), f"look at {written}, and copy it over if it is right"


def check_schema(text: str) -> Any:
    """Return a JSON report after checking it against the schema and against JSON's own rules."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document = json.loads(text, parse_constant=refuse)
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    checker = jsonschema.Draft202012Validator(
        schema,
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )
    checker.validate(document)
    return document


@pytest.mark.parametrize("name", WRITERS)
def test_documents_are_as_reviewed(name: str, sample_report: CampaignReport, tmp_path: Path) -> None:
    """A change of a document is a change of a file under golden/, to be looked at."""
    suffix, write = WRITERS[name]
    report = build_reminded() if name in ("html", "md") else sample_report
    check_golden(tmp_path / f"survey{suffix}", write(report))


def test_the_index_is_as_reviewed(tmp_path: Path) -> None:
    """A change of the page across campaigns is a change of a file under golden/."""
    reports = [make() for make in EXAMPLES.values()]
    check_golden(tmp_path / "index.html", write_index(reports, {"pilot": "pilot.html"}))


@pytest.mark.parametrize("name", WRITERS)
def test_documents_are_a_function_of_their_input(name: str, sample_report: CampaignReport) -> None:
    """The same values make the same bytes, whatever the day."""
    _, write = WRITERS[name]
    with freeze_time("2020-01-01", real_asyncio=True):
        first = write(sample_report)
    with freeze_time("2031-12-31", real_asyncio=True):
        assert write(sample_report) == first


def test_the_json_document_is_what_the_schema_says(sample_report: CampaignReport) -> None:
    """A full report validates, begins with its format's version, and rounds rates to four places."""
    text = WRITERS["json"][1](sample_report)
    document = check_schema(text)
    assert list(document)[:5] == ["format_version", "campaign", "wave", "target", "title"]
    assert document["format_version"] == "1.0"
    ask = document["messages"][0]
    assert ask["response_rate"] == 0.4094
    assert document["people"]["response_rate_interval"] == [0.379, 0.4404]
    assert ask["completion_rate"] == round(301 / 402, 4)
    assert document["people"]["rates"]["rr2"] == round(402 / 998, 4)
    assert ask["questions"][0]["nps"]["interval"] == [19.9, 35.0]
    assert ask["half_answered_within_s"] == 740.0
    assert document["experiment"]["comparisons"][0]["verdict"] == "differs"
    assert document["groups"][0]["suppressed_texted"] == 17


@pytest.mark.parametrize("sent", [0, 3])
def test_an_empty_report_is_valid_json(sent: int) -> None:
    """Where nothing was sent or answered the rates are null, and the document still valid."""
    document = check_schema(WRITERS["json"][1](build_empty(sent)))
    assert document["messages"][0]["completion_rate"] is None
    assert document["messages"][0]["questions"][0]["distribution"][0]["count"] == 0


def read_rows(report: CampaignReport) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(WRITERS["csv"][1](report), newline=""), strict=True))


def test_the_csv_table_is_the_document(sample_report: CampaignReport) -> None:
    """Every value of the JSON document is one row, which its columns name, and lines end in LF."""
    text = WRITERS["csv"][1](sample_report)
    assert "\r" not in text
    rows = read_rows(sample_report)
    assert tuple(rows[0]) == COLUMNS
    keys = [tuple(list(row.values())[:-1]) for row in rows]
    assert len(keys) == len(set(keys))
    values = [row["value"] for row in rows] + [sample_report.campaign, sample_report.target]
    assert sorted(value.removeprefix("'") for value in values) == sorted(
        list_leaves(json.loads(WRITERS["json"][1](sample_report)))
    )


def list_leaves(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for part in parts for leaf in list_leaves(part)]
    return ["" if value is None else value if isinstance(value, str) else json.dumps(value)]


def test_a_filter_on_the_measure_gives_a_table(sample_report: CampaignReport) -> None:
    """Responses, arms and groups are rows of their own, by their names."""
    rows = read_rows(sample_report)

    def select(measure: str, question: str = "", message: str = "") -> dict[str, str]:
        found = [row for row in rows if (row["message"], row["question"]) == (message, question)]
        return {row["item"]: row["value"] for row in found if row["measure"] == measure}

    assert select("nps.score", "nps") == select("nps.score", "nps", "ask")
    assert list(select("distribution.count", "nps", "ask")) == [str(number) for number in range(11)]
    assert sum(map(int, select("distribution.count", "nps").values())) == 402
    assert select("experiment.arms.response_rate") == {"short": "0.3707", "friendly": "0.4481"}
    assert select("experiment.comparisons.difference") == {"friendly": "0.0774"}
    assert list(select("groups.groups.texted")) == [
        f"city / {city}" for city in ("Lyon", "Nantes", "Paris", "Marseille")
    ]
    assert select("nps.interval.low", "nps") == {"": "19.9"}


@pytest.mark.parametrize("name", ["md", "html"])
def test_a_simulation_says_so(name: str) -> None:
    """A report of the sandbox says that nobody was texted; another one doesn't."""
    _, write = WRITERS[name]
    notice = "SANDBOX: simulated, nobody was texted."
    assert notice in write(replace(build_reminded(), target="sandbox"))
    assert notice not in write(build_reminded())


def test_the_page_needs_nothing_else() -> None:
    """The page loads nothing, runs nothing, links to the jobs that sent alone, and knows dark, paper, phones."""
    page = WRITERS["html"][1](build_reminded())
    for run in build_reminded().runs:
        page = page.replace(f'<a href="{run.run_url}">', "")
    for absent in ("<script", "http://", "https://", "src=", "href=", "url(", "@import"):
        assert absent not in page
    for present in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem", "default-src 'none'"):
        assert present in page


@given(st.fractions(-1000, 1000), st.integers(0, 6))
@settings(max_examples=30)
def test_rounding_is_exact(number: Fraction, places: int) -> None:
    """A rounded number is within half a unit of the exact one, and a tie goes away from zero."""
    rounded = Fraction(round_exactly(number, places))
    half = Fraction(1, 2 * 10**places)
    assert abs(rounded - number) <= half
    assert abs(rounded - number) < half or abs(rounded) > abs(number)


def test_intervals_are_stored_without_a_minus_before_nothing() -> None:
    """Both ends have four places, and an end that rounds to nothing has no sign."""
    assert str(round_ends((-0.00001, 1 / 3))) == "(0.0, 0.3333)"
