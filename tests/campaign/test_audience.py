"""The audience: every source as one stream, each phone once, blank values left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.campaign.audience import AudienceTally, iterate_audience, known_names, read_excluded
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign

YAML = """\
version: 1
vars: {company: Acme, plan: free, blank: "  ", nothing: null}
recipients:
  - phone: "+14155550101"
    vars: {first_name: Ada, plan: ""}
  - csv: people.csv
    phone_column: mobile_phone
    region: US
exclude:
  - phone: (415) 555-0199
    region: US
  - csv: people.csv
    phone_column: Mobile Phone
    region: US
messages:
  - id: hello
    text: Hello
"""
CSV = "Mobile Phone,First Name,plan,secret\n(415) 555-0101,Bo,,x\n4155550102,Cy,pro,y\n+14155550103, ,,z\n"


@pytest.fixture
def people(campaign: Callable[[str], Campaign], tmp_path: Path) -> Campaign:
    (tmp_path / "people.csv").write_text(CSV, encoding="utf-8")
    return campaign(YAML)


def test_the_first_mention_of_a_phone_wins(people: Campaign) -> None:
    """A phone that was mentioned before is counted as a duplicate, however it is written."""
    problems, tally = Problems(), AudienceTally()
    found = list(iterate_audience(people, frozenset({"first_name", "plan"}), problems, tally))
    assert [(r.phone, r.vars.get("first_name"), r.source, r.line) for r in found] == [
        ("+14155550101", "Ada", 0, 4),
        ("+14155550102", "Cy", 1, 3),
        ("+14155550103", None, 1, 4),
    ]
    assert (tally.rows, tally.duplicates) == (4, 1)
    assert list(problems) == []


def test_blank_values_give_way(people: Campaign) -> None:
    """A blank cell or value leaves the campaign's own in force, and a blank one there is missing."""
    found = list(iterate_audience(people, frozenset({"plan", "blank"}), Problems(), AudienceTally()))
    assert [r.vars for r in found] == [
        {"company": "Acme", "plan": "free", "first_name": "Ada"},
        {"company": "Acme", "plan": "pro"},
        {"company": "Acme", "plan": "free"},
    ]


def test_excluded_phones_are_read_like_recipients(people: Campaign) -> None:
    """Exclusions come from phones and from files, in any form that recipients may have."""
    assert read_excluded(people, Problems()) == {f"+141555501{n}" for n in ("01", "02", "03", "99")}


def test_names_are_known_by_source(people: Campaign) -> None:
    """What a source's recipients can have is what stands in the file and in the campaign."""
    shared = ["company", "plan", "blank", "nothing"]
    assert known_names(people, 0) == [*shared, "first_name", "plan"]
    assert known_names(people, 1) == [*shared, "Mobile Phone", "First Name", "plan", "secret"]


def test_bad_rows_are_left_out_and_reported(people: Campaign, tmp_path: Path) -> None:
    """Every bad row is reported at its line, and the good ones are still yielded."""
    (tmp_path / "people.csv").write_text(CSV + "4155550104,Di\n12,Ed,,\n4155550105,Flo,,\n", encoding="utf-8")
    problems, tally = Problems(), AudienceTally()
    found = list(iterate_audience(people, frozenset(), problems, tally))
    assert [r.phone for r in found][-1] == "+14155550105"
    assert [(d.code, d.line) for d in problems] == [("csv-row-width", 5), ("recipient-phone-invalid", 6)]
