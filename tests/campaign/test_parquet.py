"""Parquet audiences: the texts that a CSV file would have, whatever types the columns are of."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runner.audience.audience import AudienceTally, iterate_audience, known_names, read_excluded
from runner.audience.findings import Findings
from runner.audience.parquet_table import open_parquet
from runner.audience.slices import SlicedRow, iterate_slice, plan_slices
from runner.audience.table import TableProblemError
from runner.campaign.load import load_campaign
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


@pytest.mark.parametrize("slice_rows", [1, 2, 3, 4, 100])
def test_slices_of_row_groups_are_read_as_the_whole_file(people: Campaign, slice_rows: int) -> None:
    """Row groups are read each by itself, with the numbers that their rows have in the file."""
    slices = plan_slices(people, "recipients", {}, slice_rows)
    assert len(slices) == {1: 3, 2: 3, 3: 2, 4: 2, 100: 1}[slice_rows]
    rows: list[SlicedRow] = []
    merged = Problems()
    for part in slices:
        problems = Problems()
        rows += iterate_slice(people, part, NAMES, problems, AudienceTally(), Findings())
        merged.merge(problems)
    assert [(row.line, row.phone, row.region) for row in rows] == [
        (1, "+14155550101", "US-FL"),
        (2, "+14155550102", "US-CA CA"),
        (5, "+14155550101", None),
        (6, "+14155550103", None),
    ]
    assert [(one.code, one.line) for one in merged] == [
        ("recipient-phone-invalid", 3),
        ("recipient-phone-invalid", 4),
        ("recipient-region-unknown", 6),
        ("recipient-timezone-unknown", 6),
    ]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([14155550101, None]), ["14155550101", ""]),
        (pa.array([14155550101.0, None, float("nan"), 2.5, 1e300]), ["14155550101", "", "", "2.5", "1e+300"]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array([Decimal("12.50"), None]), ["12.50", ""]),
        (pa.array([date(2026, 3, 1), None]), ["2026-03-01", ""]),
        (pa.array([datetime(2026, 3, 1, 9, 30)]), ["2026-03-01T09:30:00"]),  # noqa: DTZ001  files have such
        (
            pa.array([datetime(2026, 3, 1, 9, 30, tzinfo=UTC), None], pa.timestamp("ns", "UTC")),
            ["2026-03-01T09:30:00+00:00", ""],
        ),
        (pa.array([time(9, 30), None]), ["09:30:00", ""]),
        (pa.array(["a", None, "ß"]), ["a", "", "ß"]),
        (pa.array(["a", None], pa.large_string()), ["a", ""]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", "", "a"]),
        (pa.array([None, None]), ["", ""]),
    ],
    ids=lambda values: str(values.type) if isinstance(values, pa.Array) else "",
)
def test_values_are_the_texts_that_csv_files_have(tmp_path: Path, values: pa.Array, texts: list[str]) -> None:
    """Whole numbers have no decimal point, whatever their type; dates and times are ISO 8601; null is blank."""
    assert read_column(tmp_path / "a.parquet", values) == texts


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1]], pa.list_(pa.field("element", pa.int64()))),
        pa.array([b"a"]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.duration("s")),
    ],
    ids=lambda values: str(values.type),
)
def test_a_column_of_no_cells_is_refused(tmp_path: Path, values: pa.Array) -> None:
    """Lists, structures, bytes and durations have no text of their own: they are refused where they are wanted."""
    file = tmp_path / "a.parquet"
    with pytest.raises(TableProblemError) as caught:
        read_column(file, values)
    said = caught.value.diagnostic
    assert (said.code, said.file, said.line) == ("parquet-type", file, 1)
    assert (
        said.message == f"the column `a` is of the type {values.type}, whose values are no cells of a table"
    )
    assert said.hint == "write it as text, number, date or boolean"


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
    assert [part.kind for part in plan_slices(people, "recipients", {})] == ["whole"]


def test_columns_that_are_missing_are_said(people: Campaign, tmp_path: Path) -> None:
    """A file without the phones' column is refused as a CSV file is."""
    write(tmp_path / "people.parquet", {key: [""] for key in ("phone", "tz", "state", "source", "day")})
    problems = Problems()
    assert list(iterate_audience(people, NAMES, problems, AudienceTally())) == []
    assert [one.message for one in problems] == ["there is no column `mobile`"]


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path) -> None:
    """Parquet needs an extra: without it the campaign's file says what to install, at the key."""
    write(tmp_path / "people.parquet", PEOPLE)
    (tmp_path / "campaign.yaml").write_text(YAML, encoding="utf-8")
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path; from runner.campaign.load import load_campaign\n"
        "for one in load_campaign(Path('campaign.yaml'), current=Path('.'))[1]:\n"
        "    print(one.line, one.code, one.message, one.hint, sep='; ')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    words = "parquet-library; Parquet needs PyArrow, which is not installed"
    hint = "install the extra `cluster`: in the clone, `pipx install --force '.[cluster]'`"
    assert done.stdout == f"3; {words}; {hint}\n10; {words}; {hint}\n"


def test_a_misspelt_path_names_its_neighbour(tmp_path: Path) -> None:
    """A misspelt path names a Parquet file of nearly the same name."""
    write(tmp_path / "people.parquet", PEOPLE)
    file = tmp_path / "other.yaml"
    file.write_text(YAML.replace("people.parquet", "peple.parquet"), encoding="utf-8")
    loaded, problems = load_campaign(file, current=tmp_path)
    assert loaded is None
    assert {one.message for one in problems} == {
        "there is no file peple.parquet: did you mean people.parquet?"
    }


REPEATED = """
import resource, sys
import pyarrow as pa, pyarrow.parquet as pq
from pathlib import Path
from runner.audience.parquet_table import open_parquet

cells = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), pa.array(["x" * 100_000]))
file = Path("people.parquet")
pq.write_table(pa.table({"name": cells}), file)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open_parquet(file, str(file), ["name"]) as table:
    rows = sum(len(cells[0]) == 100_000 for _, cells in table.rows)
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
    assert done.stdout == "40000 True\n"


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_cell_longer_than_a_csv_files_is_refused(
    people: Campaign, tmp_path: Path, *, use_dictionary: bool
) -> None:
    """A cell is no longer than one of a CSV file may be; the error names its row."""
    table = pa.table({**PEOPLE, "First Name": ["Ada", "Bo", "Cy", "x" * 131_073, None, None]})
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=2, use_dictionary=use_dictionary)
    problems = Problems()
    list(iterate_audience(people, NAMES, problems, AudienceTally()))
    (found,) = (one for one in problems if one.code == "parquet-cell")
    assert (found.line, found.message, found.hint) == (
        4,
        "a cell of this row is longer than 131,072 characters",
        "shorten it, or leave the column out",
    )


@pytest.mark.slow
def test_a_row_group_of_gigabytes_is_refused_before_it_is_read(people: Campaign, tmp_path: Path) -> None:
    """A column that is too large to hold in one row group is told from the file's own index."""
    names = pa.array(["x" * 1_000_000] * 300)
    columns = {name: pa.array([str(row) for row in range(300)]) for name in ("Mobile", "tz", "source", "day")}
    pq.write_table(
        pa.table({**columns, "First Name": names}),
        tmp_path / "people.parquet",
        use_dictionary=False,
        compression="zstd",
    )
    problems = Problems()
    list(iterate_audience(people, NAMES, problems, AudienceTally()))
    assert [(one.code, one.line, one.message, one.hint) for one in problems] == [
        (
            "parquet-large",
            1,
            "the column `First Name` of this row group is larger than 256 MiB",
            "write the file with smaller row groups",
        )
    ]
