"""CSV files as people have them, held against the standard library's reader."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.audience.encoding import BytePlace, read_foreign
from runner.audience.table import TableProblemError, normalize_name, open_table

if TYPE_CHECKING:
    from pathlib import Path

NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=2, max_size=4, unique=True)
CELLS = st.text(
    st.one_of(
        st.sampled_from([*",;\t|\"\n\r '", "ö", "€", "👍"]),
        st.characters(codec="utf-8", exclude_characters="\0"),
    ),
    max_size=8,
)
TABLES = NAMES.flatmap(
    lambda names: st.tuples(
        st.just(names), st.lists(st.lists(CELLS, min_size=len(names), max_size=len(names)), max_size=6)
    )
)
LINE_BREAK = re.compile(r"\r\n|\r|\n")
SPECIAL = re.compile(r"[\",;\t|\r\n]")


def write_row(row: list[str], delimiter: str, line_end: str, *, quote_all: bool) -> str:
    """Return a record as RFC 4180 writes it."""
    quoted = [
        '"' + cell.replace('"', '""') + '"' if quote_all or SPECIAL.search(cell) else cell for cell in row
    ]
    return delimiter.join(quoted) + line_end


@given(
    TABLES,
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]),
    st.booleans(),
)
def test_reads_what_was_written(
    tmp_path: Path,
    table: tuple[list[str], list[list[str]]],
    delimiter: str,
    line_end: str,
    encoding: str,
    quote_all: bool,  # noqa: FBT001  hypothesis passes it
) -> None:
    """Every written row comes back, with the line it starts in, whatever delimiter, quotes and encoding.

    Line breaks within cells come back as LF, so that checkouts with other line ends read alike.
    """
    names, rows = table
    written = [write_row(row, delimiter, line_end, quote_all=quote_all) for row in [names, *rows]]
    file = tmp_path / "table.csv"
    file.write_bytes("".join(written).encode(encoding))
    expected = []
    line = 1
    for row, text in zip([names, *rows], written, strict=True):
        if "".join(row).strip():
            expected.append((line, [LINE_BREAK.sub("\n", cell) for cell in row]))
        line += len(LINE_BREAK.findall(text))
    with open_table(file) as found:
        assert found.header == [LINE_BREAK.sub("\n", name) for name in names]
        assert list(found.rows) == expected[1:]
    stream = io.StringIO(file.read_bytes().decode(encoding), newline=None)
    assert [row for _, row in expected] == [
        row for row in csv.reader(stream, delimiter=delimiter) if "".join(row).strip()
    ]


@pytest.mark.parametrize(
    ("wanted", "index"),
    [("phone", 0), ("Phone", 0), ("first_name", 1), ("FIRST-NAME", 1), ("firstname", 1), ("nobody", None)],
)
def test_columns_are_found_as_people_write_them(tmp_path: Path, wanted: str, index: int | None) -> None:
    """Case, blanks, `_` and `-` make no difference in a column's name."""
    file = tmp_path / "table.csv"
    file.write_text(" Phone ,First Name,\n", encoding="utf-8")
    with open_table(file) as table:
        assert table.find_column(wanted) == index


UNREADABLE_FILES_SAY_WHERE: list[tuple[bytes, str, int]] = [
    (b"", "csv-empty", 1),
    (b"\xef\xbb\xbf", "csv-empty", 1),
    (b"\n\n", "csv-empty", 1),
    (b"a,b,A\n", "csv-duplicate-column", 1),
    (b"first name,first_name\n", "csv-duplicate-column", 1),
    (b'a,b\n1,"2\n3,4\n', "csv-syntax", 2),
    (b'a,b\n1,"2"x\n', "csv-syntax", 2),
    (b'a,b\n"1\n1",2\n3,"4"5\n', "csv-syntax", 4),
    (b"a,b\n1,2\n3,\x81\n", "csv-encoding-unknown", 3),
    (b"\x8d,b\n", "csv-encoding-unknown", 1),
    (b"a,b\n" + b"1,2\n" * 5_000 + b"3,\x9d\n", "csv-encoding-unknown", 5_002),
    (b"a,b\n" + b"x" * 140_000 + b",1\n", "csv-syntax", 2),
    (b"a,b\r1,2\r\r3,\x9d\r", "csv-encoding-unknown", 4),
    (b"a,b\n1,2\n3,\0\n", "csv-nul", 3),
    ("a,b\n1,2\n3,\0\n".encode("utf-16-be"), "csv-nul", 3),
    (b"PK\x03\x04whatever", "csv-workbook", 1),
    (b"+14155550101,Ada\n", "csv-header-missing", 1),
    (b"\n(415) 555-0101,Ada\n", "csv-header-missing", 2),
    (b"1.4155E+10,Ada\n", "csv-header-missing", 1),
    (b"sep=;\na;A\n", "csv-duplicate-column", 2),
    ("a,b\n1,2\n".encode("utf-16")[:-1], "csv-encoding", 2),
]


def test_unreadable_files_say_where(tmp_path: Path) -> None:
    """A file that cannot be read is refused at the line at which it cannot."""
    for raw, code, line in UNREADABLE_FILES_SAY_WHERE:
        file = tmp_path / "table.csv"
        file.write_bytes(raw)
        with pytest.raises(TableProblemError) as caught, open_table(file) as table:
            list(table.rows)
        assert (caught.value.diagnostic.code, caught.value.diagnostic.line) == (code, line)


QUOTES_BEHIND_BLANKS_ARE_QUOTES_IF_ALL_ARE: list[tuple[str, list[list[str]]]] = [
    ('a, b\n1, "x"\n', [["1", "x"]]),
    ('a,b\n1, "x, y"\n2, z\n', [["1", "x, y"], ["2", "z"]]),
    ('a;b\n1; "x;y"\n', [["1", "x;y"]]),
    ('sep=;\na; b\n1; "x"\n', [["1", "x"]]),
    ('a,b\n1, "x\ny"\n', [["1", "x\ny"]]),
    ('a,b\n1, "x" y\n', [["1", ' "x" y']]),
    ('a,b\n1, "x"\n2, "y" z\n', [["1", ' "x"'], ["2", ' "y" z']]),
    ('a,b\n1,"x, ""y"""\n', [["1", 'x, "y"']]),
    ("a, b\n1, x\n", [["1", " x"]]),
]


def test_quotes_behind_blanks_are_quotes_if_all_are(tmp_path: Path) -> None:
    """`1, "x"` is read as meant where each quote that begins so ends the cell, too."""
    for text, rows in QUOTES_BEHIND_BLANKS_ARE_QUOTES_IF_ALL_ARE:
        file = tmp_path / "table.csv"
        file.write_text(text, encoding="utf-8")
        with open_table(file) as table:
            assert [cells for _, cells in table.rows] == rows
            assert [note.code for note in table.iterate_notes()] == ["csv-blanks"] * table.skips_blanks


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_in_two_encodings_are_refused(tmp_path: Path, end: str) -> None:
    """No single encoding reads such a file: either somebody's name or somebody else's would be wrong."""
    file = tmp_path / "table.csv"
    rows = [row.encode() for row in ("name", "Ada", "Zoë", "Łukasz")] + ["José".encode("cp1252")]
    file.write_bytes(end.encode().join([*rows, b""]))
    with pytest.raises(TableProblemError) as caught, open_table(file) as table:
        list(table.rows)
    problem = caught.value.diagnostic
    assert problem.message == "this file mixes UTF-8 (line 3) and another encoding (line 5)"
    assert (problem.code, problem.line, problem.column) == ("csv-encoding", 5, 4)


def test_a_line_that_is_windows_1252_elsewhere_is_no_mixture(tmp_path: Path) -> None:
    """Two bytes that would be a character of UTF-8 are none where the rest of the line is not UTF-8."""
    file = tmp_path / "table.csv"
    file.write_bytes("name\n„Spaß“\n«\xa0café\xa0»\n".encode("cp1252"))
    foreign = read_foreign(str(file))
    assert foreign is not None
    assert (foreign.utf8_line, foreign.readings["windows-1252"]) == (None, "„Spaß“")


WHAT_SPREADSHEETS_ADD_IS_LEFT_OUT: list[tuple[str, list[str], list[tuple[int, list[str]]]]] = [
    ("sep=;\na;b\n1,5;2\n", ["a", "b"], [(3, ["1,5", "2"])]),
    ('"sep=|"\r\na|b\r\n1|2\r\n', ["a", "b"], [(3, ["1", "2"])]),
    ("\n\na;b\n\n1;2\n;\n3;4\n", ["a", "b"], [(5, ["1", "2"]), (7, ["3", "4"])]),
    ("a,b\n1,2,,\n3,4\n", ["a", "b"], [(2, ["1", "2"]), (3, ["3", "4"])]),
    ("a,b,,\n1,2\n3,4,,\n", ["a", "b", "", ""], [(2, ["1", "2", "", ""]), (3, ["3", "4", "", ""])]),
    ("a,b\n1\n1,2,3\n", ["a", "b"], [(2, ["1"]), (3, ["1", "2", "3"])]),
    ('"a\n,,,";b;c\n1;2;3\n', ["a\n,,,", "b", "c"], [(3, ["1", "2", "3"])]),
    ("\u200bphone\ufeff,2026-11-21\n1,2\n", ["phone", "2026-11-21"], [(2, ["1", "2"])]),
]


def test_what_spreadsheets_add_is_left_out(tmp_path: Path) -> None:
    """A `sep=` line, blank lines and trailing delimiters change nothing; ragged rows stay as they are."""
    for text, header, rows in WHAT_SPREADSHEETS_ADD_IS_LEFT_OUT:
        file = tmp_path / "table.csv"
        file.write_bytes(text.encode())
        with open_table(file) as table:
            assert (table.header, list(table.rows)) == (header, rows)


@given(st.text(st.sampled_from(["a", "é", "\r", "\n"]), max_size=40), st.integers(0, 40))
def test_the_byte_that_is_not_utf_8_is_found(tmp_path: Path, text: str, offset: int) -> None:
    """Line and column of a wrong byte are those that a search from the start would count."""
    before = text.encode("ascii", "ignore")[:offset]
    file = tmp_path / "table.csv"
    file.write_bytes(before + b"\xeb" + text.encode("cp1252"))
    lines = re.split(rb"\r\n|\r|\n", before)
    found = read_foreign(str(file))
    assert found is not None
    assert found.place == BytePlace(len(lines), len(lines[-1]) + 1, 0xEB)


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    """A file that is gone by the time it is read is refused with a reason."""
    with pytest.raises(TableProblemError) as caught, open_table(tmp_path / "gone.csv"):
        pass
    assert caught.value.diagnostic.message == "this file cannot be read: No such file or directory"


@given(st.binary(max_size=60))
def test_any_bytes_are_a_table_or_a_problem(tmp_path: Path, raw: bytes) -> None:
    """No bytes make the reader fail in another way than with a problem."""
    file = tmp_path / "table.csv"
    file.write_bytes(raw)
    with contextlib.suppress(TableProblemError), open_table(file) as table:
        names = [name for name in table.header if name]
        assert len({normalize_name(name) for name in names}) == len(names)
        assert all(line >= 1 for line, _ in table.rows)
