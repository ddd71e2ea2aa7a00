"""CSV files as people have them, held against the standard library's reader."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from runner.audience.encoding import BytePlace, read_foreign
from runner.audience.table import normalize_name, open_table
from runner.source.diagnostic import ProblemError

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


def test_a_line_that_is_windows_1252_elsewhere_is_no_mixture(tmp_path: Path) -> None:
    """Two bytes that would be a character of UTF-8 are none where the rest of the line is not UTF-8."""
    file = tmp_path / "table.csv"
    file.write_bytes("name\n„Spaß“\n«\xa0café\xa0»\n".encode("cp1252"))
    foreign = read_foreign(lambda: file.open("rb"))
    assert foreign is not None
    assert (foreign.utf8_line, foreign.readings["windows-1252"]) == (None, "„Spaß“")


@given(st.text(st.sampled_from(["a", "é", "\r", "\n"]), max_size=40), st.integers(0, 40))
def test_the_byte_that_is_not_utf_8_is_found(tmp_path: Path, text: str, offset: int) -> None:
    """Line and column of a wrong byte are those that a search from the start would count."""
    before = text.encode("ascii", "ignore")[:offset]
    file = tmp_path / "table.csv"
    file.write_bytes(before + b"\xeb" + text.encode("cp1252"))
    lines = re.split(rb"\r\n|\r|\n", before)
    found = read_foreign(lambda: file.open("rb"))
    assert found is not None
    assert found.place == BytePlace(len(lines), len(lines[-1]) + 1, 0xEB)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_table_or_a_problem(tmp_path: Path, raw: bytes) -> None:
    """No bytes make the reader fail in another way than with a problem."""
    file = tmp_path / "table.csv"
    file.write_bytes(raw)
    with contextlib.suppress(ProblemError), open_table(file) as table:
        names = [name for name in table.header if name]
        assert len({normalize_name(name) for name in names}) == len(names)
        assert all(line >= 1 for line, _ in table.rows)
