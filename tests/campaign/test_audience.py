"""The audience: every source as one stream, each phone once, blank values left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from runner.audience.audience import AudienceTally, iterate_audience, known_names, read_excluded
from runner.campaign.model import Policy
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
    assert known_names(people, 1) == [*shared, "Mobile_Phone", "First_Name", "plan", "secret"]


def test_bad_rows_are_left_out_and_reported(people: Campaign, tmp_path: Path) -> None:
    """Every bad row is reported at its line, and the good ones are still yielded."""
    (tmp_path / "people.csv").write_text(CSV + "4155550104,Di\n12,Ed,,\n4155550105,Flo,,\n", encoding="utf-8")
    problems, tally = Problems(), AudienceTally()
    found = list(iterate_audience(people, frozenset(), problems, tally))
    assert [r.phone for r in found][-1] == "+14155550105"
    assert [(d.code, d.line) for d in problems] == [("csv-row-width", 5), ("recipient-phone-invalid", 6)]


ZONES = """\
version: 1
recipients:
  - phone: "+14155550101"
    timezone: Europe/Lisbon
    consent: {source: form}
  - csv: people.csv
    timezone_column: tz
    consent: {source_column: source, date_column: agreed on}
policy: {consent: required}
messages:
  - id: hello
    text: Hello
"""
ZONES_CSV = """\
phone,TZ,Source,Agreed_On
+14155550102,America/New_York,web,2026-03-01
+14155550103,,web,
+14155550104, Asia/Tokyo ,shop,2026-03-01T09:30:00Z
+14155550105,America/New_York,,2026-03-01
"""


@pytest.fixture
def with_zones(campaign: Callable[[str], Campaign], tmp_path: Path) -> Campaign:
    (tmp_path / "people.csv").write_text(ZONES_CSV, encoding="utf-8")
    return campaign(ZONES)


def test_zones_and_consent_are_the_recipients_own(with_zones: Campaign) -> None:
    """A blank zone goes by the number; consent takes a source and, where the file has dates, a date."""
    problems = Problems()
    found = list(iterate_audience(with_zones, frozenset(), problems, AudienceTally()))
    assert [(r.timezone, r.has_consent) for r in found] == [
        ("Europe/Lisbon", True),
        ("America/New_York", True),
        (None, False),
        ("Asia/Tokyo", True),
        ("America/New_York", False),
    ]
    assert list(problems) == []


A_SOURCE_THAT_IS_BLANK_OR_A_WORD_FOR_NO_IS_NO_CO: list[str] = [
    *('{source: " "}', '{source: " ", date: 2026-03-01}', '{source: "\u00a0"}'),
    *(
        "{source: No}",
        '{source: "n/a"}',
        '{source: "N.A."}',
        "{source: REVOKED}",
        '{source: " Opted  out "}',
    ),
    *('{source: "-"}', '{source: "0"}', "{source: unknown}", "{source: Não}", '{source: "none."}'),
]


def test_a_source_that_is_blank_or_a_word_for_no_is_no_consent(
    campaign: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """What goes for a row of a file goes for a recipient who is written in the campaign, too."""
    for consent in A_SOURCE_THAT_IS_BLANK_OR_A_WORD_FOR_NO_IS_NO_CO:
        (tmp_path / "people.csv").write_text(ZONES_CSV, encoding="utf-8")
        inline = campaign(ZONES.replace("{source: form}", consent))
        first = next(iterate_audience(inline, frozenset(), Problems(), AudienceTally()))
        assert not first.has_consent


def test_zone_and_consent_columns_are_variables_too(with_zones: Campaign) -> None:
    """That a column has a meaning of its own keeps no text from naming it."""
    found = list(iterate_audience(with_zones, frozenset({"tz", "source"}), Problems(), AudienceTally()))
    assert [r.vars for r in found[1:3]] == [{"tz": "America/New_York", "source": "web"}, {"source": "web"}]


def test_consent_is_only_read_where_it_is_required(with_zones: Campaign, tmp_path: Path) -> None:
    """A campaign that does not ask for consent doesn't mind an unreadable date of it."""
    (tmp_path / "people.csv").write_text(ZONES_CSV.replace("2026-03-01", "1.3.26"), encoding="utf-8")
    lax, problems = replace(with_zones, policy=Policy()), Problems()
    found = list(iterate_audience(lax, frozenset(), problems, AudienceTally()))
    assert not any(r.has_consent for r in found)
    assert list(problems) == []


def test_rows_with_wrong_zones_and_dates_are_yielded_without_them(
    with_zones: Campaign, tmp_path: Path
) -> None:
    """They are reported row by row, and their texts are checked all the same."""
    rows = ["+14155550106,EST,web,2026-03-01", "+14155550107,Asia/Tokyo,web,3/1/2026", "12,EST,,"]
    (tmp_path / "people.csv").write_text(ZONES_CSV + "\n".join(rows), encoding="utf-8")
    problems = Problems()
    found = list(iterate_audience(with_zones, frozenset(), problems, AudienceTally()))
    assert [(r.timezone, r.has_consent) for r in found[-2:]] == [(None, True), ("Asia/Tokyo", False)]
    assert [(d.code, d.line) for d in problems] == [
        ("recipient-timezone-unknown", 6),
        ("recipient-consent-date", 7),
        ("recipient-phone-invalid", 8),
        ("recipient-timezone-unknown", 8),
    ]


def test_what_may_be_a_phone_is_masked(with_zones: Campaign, tmp_path: Path) -> None:
    """A column that was mistaken for zones or dates puts nobody's phone into a log."""
    (tmp_path / "people.csv").write_text(
        "phone,tz,source,agreed_on\n+14155550106,+14155550106,web,+14155550106\n", encoding="utf-8"
    )
    problems = Problems()
    list(iterate_audience(with_zones, frozenset(), problems, AudienceTally()))
    assert [d.message for d in problems] == [
        "the date of consent '+14•••••••06' is no ISO 8601 date since the first SMS, 1992-12-03",
        "the time zone '+14•••••••06' is refused: there is no such time zone",
    ]
