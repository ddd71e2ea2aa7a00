"""Audiences in slices: whatever a file holds and wherever it is cut, what is read is what one pass reads."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, NamedTuple

import fsspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.audience.audience import AudienceTally, Role, iterate_audience, read_excluded
from runner.audience.findings import Findings
from runner.audience.slices import (
    BrokenSliceError,
    Slice,
    SlicedRow,
    find_cuts,
    iterate_slice,
    join_slices,
    list_large,
    note_findings,
    plan_slices,
)
from runner.campaign.load import load_campaign
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign

YAML = """\
version: 1
recipients:
  - phone: "+14155550101"
    vars: {name: Ada}
  - phone: "+1 415 555 0102."
  - csv: people.csv
    region: US
    timezone_column: tz
    consent: {source_column: source, date_column: day}
  - phone: nonsense
exclude:
  - csv: people.csv
    region: US
messages:
  - id: hello
    text: Hello
policy: {consent: required}
"""
HEADER = "phone,name,tz,source,day"
NAMES = frozenset({"name"})


Row = tuple[int, int, str, object, object, object]


class Reading(NamedTuple):
    """An audience as it was read: rows, how many there are and are left out, and problems with what was counted of them."""

    rows: list[Row]
    seen: tuple[int, int]
    problems: list[Diagnostic]
    omitted: list[tuple[str, Path, int]]
    counts: tuple[int, int, int]


def tell(problems: Problems) -> tuple[list[Diagnostic], list[tuple[str, Path, int]], tuple[int, int, int]]:
    counts = problems.error_count, problems.warning_count, problems.note_count
    return list(problems), problems.omitted(), counts


def read_in_slices(campaign: Campaign, role: Role, block_bytes: int) -> tuple[Reading, list[Slice]]:
    """Read an audience as processes that share nothing would: what goes between them is pickled."""
    large = list_large(campaign, role, block_bytes)
    slices = plan_slices(campaign, role, {location: find_cuts(location, block_bytes) for location in large})
    while True:
        try:
            return _read(campaign, role, slices), slices
        except _Broken as error:
            slices = join_slices(slices, error.part)


class _Broken(Exception):  # noqa: N818  it is no error here
    def __init__(self, part: Slice) -> None:
        super().__init__()
        self.part = part


def _read(campaign: Campaign, role: Role, slices: list[Slice]) -> Reading:
    rows: list[SlicedRow] = []
    count = invalid = 0
    problems = Problems()
    findings: dict[int, Findings] = {}
    for part in slices:
        own, tally, mended = Problems(), AudienceTally(), Findings()
        try:
            rows += iterate_slice(campaign, pickle.loads(pickle.dumps(part)), NAMES, own, tally, mended)  # noqa: S301
        except BrokenSliceError:
            raise _Broken(part) from None
        problems.merge(pickle.loads(pickle.dumps(own)))  # noqa: S301
        findings.setdefault(part.source, Findings()).merge(pickle.loads(pickle.dumps(mended)))  # noqa: S301
        count += tally.rows
        invalid += tally.invalid
    for source, mended in findings.items():
        note_findings(campaign, role, source, mended, problems)
    found: list[Row] = [
        (row.source, row.line, row.phone, row.vars, row.timezone, row.consent) for row in rows
    ]
    return Reading(found, (count, invalid), *tell(problems))


def read_at_once(campaign: Campaign) -> Reading:
    problems, tally = Problems(), AudienceTally()
    rows: list[Row] = [
        (one.source, one.line, one.phone, one.vars, one.timezone, (one.has_consent, one.consent_day))
        for one in iterate_audience(campaign, NAMES, problems, tally)
    ]
    return Reading(rows, (tally.rows, tally.invalid), *tell(problems))


def drop_duplicates(reading: Reading) -> Reading:
    first: dict[str, Row] = {}
    for row in reading.rows:
        first.setdefault(row[2], row)
    return reading._replace(rows=list(first.values()))


@pytest.fixture
def people(campaign: Callable[[str], Campaign], tmp_path: Path) -> Campaign:
    (tmp_path / "people.csv").write_text(HEADER, encoding="utf-8")
    return campaign(YAML)


CELLS = st.sampled_from(
    [
        "+14155550103",
        "(415) 555-0104",
        "=4155550105",
        "12",
        "",
        " ",
        "Zoë",
        "名",
        "a\nb",
        'say "hi"',
        "x,y",
        "Europe/Berlin",
        "Mars",
        "web",
        "2026-03-01",
        "3/1/2026",
    ]
)
NUMBERS = st.integers(2_000_000, 9_999_999).map(lambda number: f"415{number}")


def quote(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set('",\n;') else cell


ROWS = st.builds(
    lambda phone, cells, tail, comma: comma.join(map(quote, (phone, *cells))) + tail,
    st.one_of(NUMBERS, CELLS),
    st.lists(CELLS, min_size=3, max_size=5),
    st.sampled_from(["", "", ",", " "]),
    st.sampled_from([",", ",", ", "]),
)
WILD = st.sampled_from(['5" pipe,a', '"', "\0", "\ufeff", "\ud800", '"a"b,c', ",,,,", "", " ", "é" * 3])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
HEADERS = st.sampled_from(
    [
        HEADER,
        "sep=,\n" + HEADER,
        "\n \n" + HEADER,
        HEADER.replace("name", '"na\nme"'),
        "\ufeff" + HEADER,
        "name",
        "",
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw a CSV file: mostly right, here and there wild, in mixed line ends."""
    rows = draw(st.lists(st.one_of(ROWS, ROWS, ROWS, WILD), max_size=12))
    lines = [draw(HEADERS), *rows]
    text = "".join(line + draw(ENDS) for line in lines)
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    if draw(st.integers(0, 9)) == 0:
        text = text.replace(",", ";")
    encoding = draw(st.sampled_from(["utf-8"] * 8 + ["utf-16", "cp1252"]))
    return text.encode(encoding, "surrogatepass" if encoding == "utf-8" else "replace")


@pytest.fixture
def lenient(campaign: Callable[[str], Campaign], tmp_path: Path) -> Campaign:
    """The same people, with rows that cannot be read left out."""
    (tmp_path / "people.csv").write_text(HEADER, encoding="utf-8")
    return campaign(YAML.replace("    timezone_column", "    invalid_rows: skip\n    timezone_column"))


@settings(max_examples=50)
@given(text=texts(), block_bytes=st.integers(1, 60))
def test_rows_that_are_left_out_are_counted_alike(
    lenient: Campaign, tmp_path: Path, text: bytes, block_bytes: int
) -> None:
    """In slices or at once, the same rows are left out, each is counted once, and the others add up."""
    (tmp_path / "people.csv").write_bytes(text)
    found, _ = read_in_slices(lenient, "recipients", block_bytes)
    whole = read_at_once(lenient)
    assert drop_duplicates(found) == whole
    if not whole.counts[0] - 1:  # the phone in the campaign file is wrong, and no other row
        assert whole.seen[0] == whole.seen[1] + len(found.rows) + 1


@pytest.mark.slow
@settings(max_examples=300)
@given(text=texts(), block_bytes=st.integers(1, 60))
@example(text=(HEADER + '\n4155550103,"a\nb\n"c,,,\n4155550104,d,,,\n').encode(), block_bytes=20)
@example(text=(HEADER + '\r\n4155550103,5" pipe,,,\r\n4155550104,"a\r\nb",,,\r\n').encode(), block_bytes=30)
@example(text=(HEADER + "\r\n" + "4155550103,Zoë,,,\r\n" * 3).encode(), block_bytes=1)
def test_slices_read_what_one_pass_reads(
    people: Campaign, tmp_path: Path, text: bytes, block_bytes: int
) -> None:
    """Rows, lines, counts and problems of all slices together are those of the whole file."""
    (tmp_path / "people.csv").write_bytes(text)
    found, _ = read_in_slices(people, "recipients", block_bytes)
    assert drop_duplicates(found) == read_at_once(people)
    excluded, _ = read_in_slices(people, "exclude", block_bytes)
    problems = Problems()
    assert {row[2] for row in excluded.rows} == read_excluded(people, problems)
    assert (excluded.problems, excluded.omitted, excluded.counts) == tell(problems)


def test_a_large_file_is_cut_into_slices_of_about_a_block(people: Campaign, tmp_path: Path) -> None:
    """A plain file is read in as many slices as it has blocks, line breaks in quotes or not."""
    rows = "".join(f'415{2_000_000 + number},"a\nb ""c""",,,\n' for number in range(1000))
    (tmp_path / "people.csv").write_text(f"{HEADER}\n{rows}")
    found, slices = read_in_slices(people, "recipients", 4096)
    cut = [part for part in slices if part.kind == "csv"]
    assert len(cut) == -(-(tmp_path / "people.csv").stat().st_size // 4096)
    assert max(part.stop - part.start for part in cut) < 2 * 4096
    assert [row[1] for row in found.rows if row[0] == 2] == list(range(2, 2002, 2))
    assert [part.kind for part in slices if part.kind != "csv"] == ["inline", "inline"]


def test_a_stray_quote_makes_a_file_one_slice(people: Campaign, tmp_path: Path) -> None:
    """A quote that opens nothing leads the count astray: the file is read in one, and rightly."""
    rows = "".join(f'415{2_000_000 + number},"a\nb",,,\n' for number in range(200))
    (tmp_path / "people.csv").write_text(f'{HEADER}\n4155550103,5" pipe,,,\n{rows}')
    found, slices = read_in_slices(people, "recipients", 512)
    assert [part.kind for part in slices] == ["inline", "whole", "inline"]
    assert drop_duplicates(found) == read_at_once(people)


def test_blanks_behind_commas_are_no_part_of_cells_in_any_slice(people: Campaign, tmp_path: Path) -> None:
    """The first rows' dialect holds for all slices, and is said once."""
    rows = "".join(f'415{2_000_000 + number}, "a, b", "", "", ""\n' for number in range(200))
    (tmp_path / "people.csv").write_text(f"{HEADER}\n{rows}")
    found, slices = read_in_slices(people, "recipients", 2048)
    assert {part.kind for part in slices} == {"inline", "csv"}
    assert {str(row[3]) for row in found.rows if row[0] == 2} == {"{'name': 'a, b'}"}
    assert [one.code for one in found.problems].count("csv-blanks") == 1
    assert drop_duplicates(found) == read_at_once(people)


@pytest.mark.parametrize("damage", ["é".encode("cp1252"), b"\0", b"\xe2\x82"])
def test_what_is_not_plain_utf8_is_one_slice(people: Campaign, tmp_path: Path, damage: bytes) -> None:
    """How a file is encoded is found out of all of it: its reader looks at all of it, too."""
    rows = "".join(f"415{2_000_000 + number},a,,,\n" for number in range(100)).encode()
    (tmp_path / "people.csv").write_bytes(HEADER.encode() + b"\n" + rows + b"4155550103," + damage + b",,,\n")
    found, slices = read_in_slices(people, "recipients", 512)
    assert [part.kind for part in slices] == ["inline", "whole", "inline"]
    assert drop_duplicates(found) == read_at_once(people)


def test_a_file_of_one_block_is_not_cut(people: Campaign) -> None:
    """Small files are one slice each, and nobody looks at them before."""
    assert list_large(people, "recipients") == []
    assert [part.kind for part in plan_slices(people, "recipients", {})] == ["inline", "whole", "inline"]


def test_a_missing_file_is_a_problem_of_its_slice(people: Campaign, tmp_path: Path) -> None:
    """A file that has gone is said as one pass says it."""
    (tmp_path / "people.csv").unlink()
    found, _ = read_in_slices(people, "recipients", 10)
    assert drop_duplicates(found) == read_at_once(people)
    assert "csv-unreadable" in {problem.code for problem in found.problems}


def test_files_at_urls_are_read_in_slices(tmp_path: Path) -> None:
    """On object storage, too, a file is cut and read as one on a disk."""
    rows = "".join(f'415{2_000_000 + number},"a\né",,,\n' for number in range(300))
    system = fsspec.filesystem("memory")
    system.pipe_file("/slices/people.csv", f"{HEADER}\n{rows}".encode())
    file = tmp_path / "campaign.yaml"
    file.write_text(YAML.replace("people.csv", "memory://slices/people.csv"), encoding="utf-8")
    campaign, problems = load_campaign(file, current=tmp_path, allowed=("memory://slices",))
    assert campaign is not None, problems
    found, slices = read_in_slices(campaign, "recipients", 1000)
    system.rm("/slices", recursive=True)
    assert len([part for part in slices if part.kind == "csv"]) > 5
    assert [row[1] for row in found.rows if row[0] == 2] == list(range(2, 602, 2))
