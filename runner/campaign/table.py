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
_GUESSED = "cp1252"
_BLOCK = 1 << 20
_ENCODING_HINT = "save it as “CSV UTF-8” in the spreadsheet"
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
        guess: a warning if the file is read as Windows-1252, since it is not UTF-8.
        rows: the records after the header, blank ones left out, whatever their width. Raises
            `TableProblemError` at a line that cannot be read.
    """

    file: Path
    header: list[str]
    guess: Diagnostic | None
    rows: Iterator[Row]

    def find_column(self, name: str) -> int | None:
        """Return the index of the column `name`, without regard to case, blanks, `_` and `-`."""
        wanted = fold_name(name)
        return next((i for i, column in enumerate(self.header) if fold_name(column) == wanted), None)

    def width_problem(self, row: Row) -> Diagnostic:
        """Return what is wrong with a row that has more or fewer cells than the header."""
        cells = "1 cell" if len(row.cells) == 1 else f"{len(row.cells):,} cells"
        message = f"this row has {cells}, the header has {len(self.header):,}"
        hint = "a cell that contains the separator needs quotes"
        return Diagnostic("error", "csv-row-width", message, self.file, row.line, 1, hint)


def fold_name(name: str) -> str:
    """Return a column's name as it is compared: `First Name` and `first_name` are one."""
    return re.sub(r"[\s_-]+", "", name).casefold()


@contextmanager
def open_table(file: Path) -> Iterator[Table]:
    """Open a CSV file and read its header.

    Args:
        file: UTF-8, with or without a byte order mark, UTF-16 with one, or else Windows-1252;
            fields separated by comma, semicolon, tab or pipe, whichever the header has most of;
            RFC 4180 quotes.

    Raises:
        TableProblemError: it cannot be opened, has no header, or names a column twice.
    """
    try:
        encoding = _encoding_of(file)
        stream = file.open(encoding=encoding, newline="")
    except OSError as error:
        raise _problem(file, 1, "csv-unreadable", f"this file cannot be read: {error.strerror}") from None
    with stream:
        rows = _read_records(file, stream, _delimiter_of(file, stream))
        header = [cell.strip() for cell in next(rows, Row(1, [])).cells]
        _check_header(file, header)
        yield Table(file, header, _warn_of_guess(file) if encoding == _GUESSED else None, rows)


def _encoding_of(file: Path) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with file.open("rb") as stream:
        block = stream.read(_BLOCK)
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        try:
            while block:
                decoder.decode(block)
                block = stream.read(_BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _GUESSED
    return "utf-8-sig"


def _delimiter_of(file: Path, stream: TextIO) -> str:
    try:
        first_line = _QUOTED.sub("", stream.readline())
    except UnicodeError:
        raise _not_unicode(file) from None
    stream.seek(0)
    return max(_DELIMITERS, key=first_line.count)


def _read_records(file: Path, stream: TextIO, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            is_open = "unexpected end" in str(error)
            raise _problem(
                file,
                line,
                "csv-syntax",
                "a quote opens in this row and never closes" if is_open else f"this row is not CSV: {error}",
                'write a cell with a quote, separator or line break in "quotes", its own quotes doubled',
            ) from None
        except UnicodeError:
            raise _not_unicode(file) from None
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


def _not_unicode(file: Path) -> TableProblemError:
    line = _first_line_not_in(_GUESSED, file)
    return _problem(file, line, "csv-encoding", "this line is neither UTF-8 nor Windows-1252", _ENCODING_HINT)


def _warn_of_guess(file: Path) -> Diagnostic:
    message = "this line is not UTF-8: the file is read as Windows-1252"
    line = _first_line_not_in("utf-8", file)
    return Diagnostic("warning", "csv-encoding-guessed", message, file, line, 1, _ENCODING_HINT)


def _first_line_not_in(encoding: str, file: Path) -> int:
    # A stream is decoded block by block: which line it was, only the bytes tell.
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                raw.decode(encoding)
            except UnicodeDecodeError:
                return number
    return 1


def _problem(file: Path, line: int, code: str, message: str, hint: str | None = None) -> TableProblemError:
    return TableProblemError(Diagnostic("error", code, message, file, line, 1, hint))
