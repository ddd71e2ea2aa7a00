"""Parquet audiences: the texts that a CSV file would have, whatever types the columns are of."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runner.audience.audience import AudienceTally, iterate_audience, known_names, read_excluded
from runner.audience.parquet_table import open_parquet
from runner.audience.table import TableProblemError
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign

YAML = """\
version: 1
recipients:
  - parquet: people.parquet
    phone_column: mobile
    region: US
    timezone_column: tz
    region_column: state
    consent: {source_column: source, date_column: day}
exclude:
  - parquet: people.parquet
    phone_column: mobile
    region: US
messages:
  - id: hello
    text: Hello {{ first_name }}
policy: {consent: required}
"""
PEOPLE: dict[str, list[Any]] = {
    "Mobile": ["4155550101", "(415) 555-0102.", "12", None, "4155550101", "+1 415 555 0103."],
    "First Name": ["Ada", "Bo", "Cy", "Di", "Ada", None],
    "tz": ["Europe/Berlin", None, None, None, None, "Mars"],
    "state": ["Florida", "ca", None, None, None, "Mars"],
    "source": ["web"] * 6,
    "day": [date(2026, 3, 1)] * 6,
    "unread": [[1]] * 6,
}
NAMES = frozenset({"first_name"})


def write(file: Path, columns: dict[str, list[Any]], group_rows: int = 1000) -> None:
    pq.write_table(pa.table(columns), file, row_group_size=group_rows)


def read_column(file: Path, values: pa.Array) -> list[str]:
    pq.write_table(pa.table({"a": values, "b": pa.array([None] * len(values))}), file)
    with open_parquet(file, str(file), ["A"]) as table:
        assert table.header == ["a", "b"]
        rows = list(table.rows)
    assert [row for row, _ in rows] == list(range(1, len(values) + 1))
    assert {cells[1] for _, cells in rows} == {""}
    return [cells[0] for _, cells in rows]


@pytest.fixture
def people(campaign: Callable[[str], Campaign], tmp_path: Path) -> Campaign:
    write(tmp_path / "people.parquet", PEOPLE, 2)
    return campaign(YAML)


def test_a_parquet_file_is_read_as_a_csv_file_is(people: Campaign) -> None:
    """Rows take the place of lines; phones, zones, regions, consent and what is wrong are those of a CSV file."""
    problems, tally = Problems(), AudienceTally()
    found = list(iterate_audience(people, NAMES, problems, tally))
    assert [
        (one.phone, one.line, one.vars, one.timezone, one.region, one.has_consent, one.consent_day)
        for one in found
    ] == [
        ("+14155550101", 1, {"first_name": "Ada"}, "Europe/Berlin", "US-FL", True, date(2026, 3, 1)),
        ("+14155550102", 2, {"first_name": "Bo"}, None, "US-CA CA", True, date(2026, 3, 1)),
        ("+14155550103", 6, {}, None, None, True, date(2026, 3, 1)),
    ]
    assert (tally.rows, tally.duplicates) == (6, 1)
    assert [(one.code, one.line, one.message) for one in problems] == [
        (
            "phone-punctuation",
            2,
            "2 phones have stray punctuation around them: repaired in rows 2 and 6",
        ),
        (
            "recipient-phone-invalid",
            3,
            "the phone '12' is refused: it has too few digits",
        ),
        ("recipient-phone-invalid", 4, "the phone is blank"),
        ("recipient-region-unknown", 6, "the region 'Mars' is refused: there is no such country or state"),
        ("recipient-timezone-unknown", 6, "the time zone 'Mars' is refused: there is no such time zone"),
    ]
    assert read_excluded(people, Problems()) == {f"+1415555010{number}" for number in (1, 2, 3)}
    assert known_names(people, 0) == [name.replace(" ", "_") for name in PEOPLE]


VALUES: list[tuple[pa.Array, list[str]]] = [
    (pa.array([14155550101, None]), ["14155550101", ""]),
    (pa.array([14155550101.0, None, float("nan"), 2.5, 1e300]), ["14155550101", "", "", "2.5", "1e+300"]),
    (pa.array([True, False, None]), ["true", "false", ""]),
    (pa.array([Decimal("12.50"), None]), ["12.50", ""]),
    (pa.array([date(2026, 3, 1), None]), ["2026-03-01", ""]),
    (pa.array([datetime(2026, 3, 1, 9, 30)]), ["2026-03-01T09:30:00"]),  # noqa: DTZ001  files have such
    *(
        (
            pa.array([datetime(2026, 3, 1, 9, 30, tzinfo=UTC), None], pa.timestamp(unit, "Europe/Berlin")),
            ["2026-03-01T09:30:00+00:00", ""],
        )
        for unit in ("us", "ns")
    ),
    (pa.array([time(9, 30), None]), ["09:30:00", ""]),
    (pa.array(["a", None, "ß"]), ["a", "", "ß"]),
    (pa.array(["a", None], pa.large_string()), ["a", ""]),
    (pa.array(["a", None, "a"]).dictionary_encode(), ["a", "", "a"]),
    (pa.array([None, None]), ["", ""]),
]


def test_values_are_the_texts_that_csv_files_have(tmp_path: Path) -> None:
    """Whole numbers have no decimal point, whatever their type; dates and times are ISO 8601; null is blank."""
    for values, texts in VALUES:
        assert read_column(tmp_path / "a.parquet", values) == texts, values.type


def test_a_column_of_no_cells_is_refused(tmp_path: Path) -> None:
    """Lists, structures and bytes have no text of their own: they are refused where they are wanted."""
    file = tmp_path / "a.parquet"
    for values, kind in (([[1]], "BIGINT[]"), ([b"a"], "BLOB"), ([{"a": 1}], "STRUCT(a BIGINT)")):
        with pytest.raises(TableProblemError) as caught:
            read_column(file, pa.array(values))
        said = caught.value.diagnostic
        assert (said.code, said.file, said.line) == ("parquet-type", file, 1)
        assert said.message == f"the column `a` is of the type {kind}, whose values are no cells of a table"
        assert said.hint == "write it as text, number, date or boolean"


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    """Two columns of one name are told as in a CSV file, behind columns with parts of their own, too."""
    file = tmp_path / "a.parquet"
    columns = [pa.array([{"x": [1]}]), pa.array(["a"]), pa.array(["b"])]
    pq.write_table(pa.Table.from_arrays(columns, ["deep", "name", "Name"]), file)
    with pytest.raises(TableProblemError) as caught, open_parquet(file, str(file), ["name"]):
        pass
    assert caught.value.diagnostic.code == "csv-duplicate-column"


def test_a_name_is_no_pattern(tmp_path: Path) -> None:
    """A file whose name has `*` and quotes in it, in a folder that looks like a partition, is that file alone."""
    folder = tmp_path / "state=FL"
    folder.mkdir()
    for name, person in (("a[1]*'.parquet", "Ada"), ("a[1]b'.parquet", "Bob")):
        write(folder / name, {"name": [person]})
    file = folder / "a[1]*'.parquet"
    with open_parquet(file, str(file), ["name"]) as table:
        assert (table.header, list(table.rows)) == (["name"], [(1, ["Ada"])])


def test_a_nul_is_refused_at_its_row(tmp_path: Path) -> None:
    """No text has a NUL in it, as in CSV files."""
    with pytest.raises(TableProblemError) as caught:
        read_column(tmp_path / "a.parquet", pa.array(["a"] * 20_000 + ["b\0"]))
    assert (caught.value.diagnostic.code, caught.value.diagnostic.line) == ("csv-nul", 20_001)


def test_what_is_no_parquet_file_is_said(people: Campaign, tmp_path: Path) -> None:
    """A file of another kind is named, and the rest of the campaign still read."""
    (tmp_path / "people.parquet").write_text("phone\n4155550101\n", encoding="utf-8")
    problems = Problems()
    assert list(iterate_audience(people, NAMES, problems, AudienceTally())) == []
    assert [(one.code, one.message) for one in problems] == [
        ("parquet-unreadable", "this file is not Parquet, or damaged")
    ]


def test_parquet_at_a_url_is_read(tmp_path: Path) -> None:
    """Object storage is read through fsspec, as CSV files are."""
    system = fsspec.filesystem("memory")
    write(tmp_path / "people.parquet", PEOPLE)
    system.pipe_file("/people/people.parquet", (tmp_path / "people.parquet").read_bytes())
    url = "memory://people/people.parquet"
    with open_parquet(tmp_path / "people.parquet", url, ["first_name"]) as table:
        assert [(line, cells[1]) for line, cells in table.rows][1:3] == [(2, "Bo"), (3, "Cy")]
    system.rm("/people", recursive=True)


REPEATED = """
import resource, sys
import pyarrow as pa, pyarrow.parquet as pq
from pathlib import Path
from runner.audience.parquet_table import open_parquet

cells = pa.DictionaryArray.from_arrays(pa.array([0] * 400_000, pa.int32()), pa.array(["x" * 10_000]))
file = Path("people.parquet")
pq.write_table(pa.table({"name": cells}), file)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open_parquet(file, str(file), ["name"]) as table:
    rows = sum(len(cells[0]) == 10_000 for _, cells in table.rows)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(rows, after - before < 200 << 10)
"""


@pytest.mark.slow
def test_one_long_cell_in_all_rows_takes_little_memory(tmp_path: Path) -> None:
    """A file of some kilobytes that stands for four gigabytes of text is read in a small part of them."""
    done = subprocess.run(
        [sys.executable, "-c", REPEATED], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert (tmp_path / "people.parquet").stat().st_size < 100_000
    assert done.stdout == "400000 True\n"


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_cell_longer_than_a_text_is_refused(
    people: Campaign, tmp_path: Path, *, use_dictionary: bool
) -> None:
    """A cell is no longer than a rendered text may be; the error names its row."""
    table = pa.table({**PEOPLE, "First Name": ["Ada", "Bo", "Cy", "x" * 10_001, None, None]})
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=2, use_dictionary=use_dictionary)
    problems = Problems()
    list(iterate_audience(people, NAMES, problems, AudienceTally()))
    (found,) = (one for one in problems if one.code == "parquet-cell")
    assert (found.line, found.message, found.hint) == (
        4,
        "a cell of this row is longer than 10,000 characters",
        "shorten it, or leave the column out",
    )
