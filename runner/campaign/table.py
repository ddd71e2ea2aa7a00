"""CSV files as people have them, read as a stream; the one place where CSV is read."""

from __future__ import annotations

import codecs
import csv
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from runner.source.diagnostic import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"[^"]*"?')


class TableProblemError(Exception):
    """A CSV file cannot be read, or not beyond some line.

    Attributes:
        diagnostic: what is wrong, at the line of the CSV file.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class Row:
    """One record. `line` is the line of the file in which it starts, from 1."""

    line: int
    cells: list[str]


@dataclass(frozen=True, slots=True)
class Table:
    """An open CSV file.

    Attributes:
        file: the file.
        header: the columns' names as written, outer blanks removed.
        rows: the records after the header, blank ones left out. Raises `TableProblemError` at a
            line that cannot be read.
    """

    file: Path
    header: list[str]
    rows: Iterator[Row]

    def find_column(self, name: str) -> int | None:
        """Return the index of the column `name`, without regard to case, blanks, `_` and `-`."""
        wanted = fold_name(name)
        return next((i for i, column in enumerate(self.header) if fold_name(column) == wanted), None)


def fold_name(name: str) -> str:
    """Return a column's name as it is compared: `First Name` and `first_name` are one."""
    return re.sub(r"[\s_-]+", "", name).casefold()


@contextmanager
def open_table(file: Path) -> Iterator[Table]:
    """Open a CSV file and read its header.

    Args:
        file: UTF-8, with or without a byte order mark, or UTF-16 with one; fields separated by
            comma, semicolon, tab or pipe, whichever the header has most of; RFC 4180 quotes.

    Raises:
        TableProblemError: it cannot be opened, has no header, or names a column twice.
    """
    try:
        stream = file.open(encoding=_encoding_of(file), newline="")
    except OSError as error:
        raise _problem(file, 1, "csv-unreadable", f"this file cannot be read: {error.strerror}") from None
    with stream:
        rows = _read_records(file, stream, _delimiter_of(file, stream))
        header = [cell.strip() for cell in next(rows, Row(1, [])).cells]
        _check_header(file, header)
        yield Table(file, header, _check_widths(file, header, rows))


def _encoding_of(file: Path) -> str:
    with file.open("rb") as stream:
        start = stream.read(2)
    return "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _delimiter_of(file: Path, stream: TextIO) -> str:
    try:
        first_line = _QUOTED.sub("", stream.readline())
    except UnicodeError:
        raise _not_unicode(file, 1) from None
    stream.seek(0)
    return max(_DELIMITERS, key=first_line.count)


def _read_records(file: Path, stream: TextIO, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise _problem(
                file,
                line,
                "csv-syntax",
                f"this row is not CSV: {error}",
                'write a cell with a quote, separator or line break in "quotes", its own quotes doubled',
            ) from None
        except UnicodeError:
            raise _not_unicode(file, line) from None
        if cells is None:
            return
        if any(cell and not cell.isspace() for cell in cells):
            yield Row(line, cells)


def _check_header(file: Path, header: list[str]) -> None:
    if not header:
        raise _problem(file, 1, "csv-empty", "this file is empty", "its first row names the columns")
    seen: dict[str, str] = {}
    for name in filter(None, header):
        folded = fold_name(name)
        if folded in seen:
            also = "" if seen[folded] == name else f" (also written `{seen[folded]}`)"
            message = f"the column `{name}` stands twice in the header{also}"
            raise _problem(file, 1, "csv-duplicate-column", message, "rename one of them")
        seen[folded] = name


def _check_widths(file: Path, header: list[str], rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        if len(row.cells) != len(header):
            message = f"this row has {len(row.cells)} cells, the header has {len(header)}"
            hint = "a cell that contains the separator needs quotes"
            raise _problem(file, row.line, "csv-row-width", message, hint)
        yield row


def _not_unicode(file: Path, line: int) -> TableProblemError:
    hint = "save it as “CSV UTF-8” in the spreadsheet"
    return _problem(file, line, "csv-encoding", "this file is not UTF-8 from about here on", hint)


def _problem(file: Path, line: int, code: str, message: str, hint: str | None = None) -> TableProblemError:
    return TableProblemError(Diagnostic("error", code, message, file, line, 1, hint))
