"""CSV files as people have them, read as a stream; the only module that reads or writes audiences' CSV."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TextIO

from runner.audience.encoding import BytePlace, choose_encoding, find_undefined, read_foreign
from runner.source.diagnostic import Diagnostic, Position, ProblemError
from runner.source.encrypted import STARTS, EncryptedFileError, open_plain, quote_cell
from runner.source.stand_in import find_stand_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runner.audience.encoding import ForeignText, OpenFile


DELIMITERS = ",;\t|"
_START = 1 << 20
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""First bytes of .xlsx and .ods (ZIP, APPNOTE 4.3.7) and .xls files (MS-CFB 2.2)."""
_QUOTED = re.compile(r'"[^"]*"?')
_SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=([^\w"\s]|\t)"?[,;\t|]*\s*', re.IGNORECASE)
_HEADER_LIMIT = 1 << 17
"""The most characters before a header's quotes close."""
_ANEW_HINT = "export it again as “CSV UTF-8”"
_ENCODING_HINT = "save it as “CSV UTF-8” in the spreadsheet"
_MIXED_HINT = "rows of another file were added: save each file as “CSV UTF-8” before they are joined"
_QUOTE_HINT = 'write a cell with a quote, separator or line break in "quotes", its own quotes doubled'
_PHONE_LIKE = re.compile(r"(?<!\w)\d(?:(?:[^\w:]|_){0,3}\d){6}|\d[.,]\d+[eE]\+?\d\d")
"""Seven digits in any writing, which are no column's name; behind letters they are, as in `QID1234567`."""
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?:(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))?(?!\d)")
"""Years, and days in eight digits: what is left of dates and seasons has fewer than seven."""
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def _find_dialect(stream: TextIO) -> tuple[str, int]:
    """Find the delimiter: the one that Excel's first line `sep=` names, else the most frequent in the header.

    Return it, and the number of lines before the header. The stream is read on from the file's start by some
    lines.

    Raises:
        UnicodeError: the lines are not in the stream's encoding.
    """
    line = stream.readline(_HEADER_LIMIT)
    named = _SEPARATOR_LINE.fullmatch(line)
    if named:
        return named[1], 1
    while line and not line.strip():
        line = stream.readline(_HEADER_LIMIT)
    while line.count('"') % 2 and len(line) < _HEADER_LIMIT:
        more = stream.readline(_HEADER_LIMIT)
        if not more:
            break
        line += more
    return max(DELIMITERS, key=_QUOTED.sub("", line).count), 0


@dataclass(frozen=True, slots=True)
class Table:
    """An open CSV file.

    Attributes:
        header: the columns' names as written, without outer blanks and invisible characters.
        line: the header's line, from 1.
        rows: the records after the header, each with its first line, from 1, without blank ones. A correct
            record has as many cells as the header. Raises `ProblemError` at a line that cannot be read.
    """

    file: Path
    header: list[str]
    line: int
    rows: Iterator[tuple[int, list[str]]]

    def find_column(self, name: str) -> int | None:
        """Return the index of a column, by its own name or the one that templates use (`name_columns`)."""
        for names, fold in ((self.header, fold_marks), (name_columns(self.header), normalize_name)):
            wanted = fold(name)
            if (found := next((i for i, one in enumerate(names) if fold(one) == wanted), None)) is not None:
                return found
        return None

    def width_problem(self, line: int, cells: list[str]) -> Diagnostic:
        """Return the problem of a row that has more or fewer cells than the header."""
        count = "1 cell" if len(cells) == 1 else f"{len(cells):,} cells"
        message = f"this row has {count}, the header has {len(self.header):,}"
        hint = (
            "a cell that contains the separator needs quotes"
            if len(cells) > len(self.header)
            else "a cell that is blank still needs its separator, and one with a line break needs quotes"
        )
        kind = "long" if len(cells) > len(self.header) else "short"
        return Diagnostic("error", "csv-row-width", message, self.file, line, 1, hint, kind)


def normalize_name(name: str) -> str:
    """Return a column's name for comparison, by its letters and digits alone.

    `First Name` and `first_name` are one. So are composed and decomposed
    letters, full-width and other digits, and `Order #` and `order`.
    """
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name)).casefold()


def fold_marks(name: str) -> str:
    """Return a column's name for comparison with its marks: `Order` and `Order #` are two."""
    return re.sub(r"[\s_-]+", "", unicodedata.normalize("NFKC", name)).casefold()


def name_variable(written: str) -> str:
    """Return a name as templates write it, empty if no letter or digit is in it.

    All but letters and digits becomes `_`, and one is put before a leading digit: `What is your first name?`
    is `What_is_your_first_name`, `Order #` is `Order`, `2nd name` is `_2nd_name`.
    """
    name = re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", written)).strip("_")
    return f"_{name}" if name[:1].isdigit() else name


def name_columns(header: Iterable[str]) -> list[str]:
    """Return the variables' names of columns, each once (`name_variable`); empty for a column without a name.

    A name that is taken gets a number, as in `Order_2`; one without letters and digits is `column_` and its
    place.
    """
    taken, names = set[str](), list[str]()
    for place, written in enumerate(header, start=1):
        plain, number = name_variable(written) or (f"column_{place}" if written else ""), 1
        name = plain
        while name and normalize_name(name) in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(normalize_name(name))
        names.append(name)
    return names


@contextmanager
def open_table(
    file: Path, location: str | None = None, encoding: str | None = None, identity: str = ""
) -> Iterator[Table]:
    """Open a CSV file and read its header.

    The file is UTF-8 or UTF-16, with or without a byte order mark, if no encoding is named. Its fields are
    separated by comma, semicolon, tab or pipe: the most frequent in the header, or the one that a first line
    `sep=…` names. It has RFC 4180 quotes; lines end in CRLF, LF or CR, within cells as well, and are read as
    LF.

    Args:
        file: for messages.
        location: a path or a URL.
        encoding: the encoding that a person names; None to detect it.
        identity: the key of an encrypted file.

    Raises:
        ProblemError: it cannot be opened, is no text, is in another encoding, has no header, or names a
            column twice.
    """
    open_file = partial(open_plain, location or str(file), identity)
    try:
        with open_file() as raw:
            start = raw.read(_START)
        if (stand_in := find_stand_in(file, start)) is not None:
            raise ProblemError(stand_in)
        if start.startswith(_WORKBOOKS):
            message = "this is a spreadsheet's own file, not a CSV file"
            raise table_problem(file, 1, "csv-workbook", message, "export the sheet as “CSV UTF-8”")
        if start.startswith(STARTS):
            message = "this file is encrypted with age, and its name does not say so"
            raise table_problem(file, 1, "audience-misnamed", message, "let its name end in .csv.age")
        stream = io.TextIOWrapper(open_file(), encoding=choose_encoding(start, encoding))
        with stream:
            yield _read_table(file, stream, open_file)
    except EncryptedFileError as error:
        raise table_problem(file, 1, error.code, error.message, error.hint) from None
    except OSError as error:
        raise table_problem(
            file, 1, "csv-unreadable", f"this file cannot be read: {error.strerror}"
        ) from None


def _read_table(file: Path, stream: TextIO, open_file: OpenFile) -> Table:
    """Return the table in a text that begins with its header; its rows are read on from the stream.

    Raises:
        ProblemError: it has no header, or names a column twice.
    """
    try:
        delimiter, skipped = _find_dialect(stream)
        stream.seek(0)
        for _ in range(skipped):
            stream.readline()
    except UnicodeError:
        raise _not_readable(file, open_file, stream.encoding, 1) from None
    records = _read_records(file, stream, open_file, delimiter, skipped + 1)
    line, cells = next(((n, row) for n, row in records if not _is_blank(row)), (1, []))
    header = [_INVISIBLE.sub("", cell).strip() for cell in cells]
    check_header(file, line, header)
    return Table(file, header, line, _fit_rows(records, header))


def _read_records(
    file: Path, stream: TextIO, open_file: OpenFile, delimiter: str, first: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a text from its header on, in line `first`; blanks before a cell are left out."""
    lines = _refuse_nul(file, stream, first)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = first
    try:
        for cells in reader:
            yield line, cells
            line = first + reader.line_num
    except csv.Error:
        message = "a quote in this row is out of place, or opens and never closes, or a cell is too long"
        raise table_problem(file, line, "csv-syntax", message, _QUOTE_HINT) from None
    except UnicodeError:
        raise _not_readable(file, open_file, stream.encoding, line) from None


def _refuse_nul(file: Path, stream: TextIO, first: int) -> Iterator[str]:
    for number, line in enumerate(stream, start=first):
        if "\0" in line:
            message = "this row has a NUL character in it: the file is damaged, or no text"
            raise ProblemError(
                Position(file, number, line.index("\0") + 1).problem("csv-nul", message, _ANEW_HINT)
            )
        yield line


def _fit_rows(records: Iterable[tuple[int, list[str]]], header: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Leave out blank rows; fit rows to the header's width if they differ only in blank cells at the end."""
    width = len(header)
    named = max((index for index, name in enumerate(header, start=1) if name), default=width)
    for line, cells in records:
        if not cells or (not cells[0].strip() and _is_blank(cells)):
            continue
        if len(cells) > width and _is_blank(cells[width:]):
            del cells[width:]
        elif named <= len(cells) < width:
            cells.extend([""] * (width - len(cells)))
        yield line, cells


def _is_blank(cells: Iterable[str]) -> bool:
    return not any(map(str.strip, cells))


def check_header(file: Path, line: int, header: list[str]) -> None:
    """Refuse a header, in this line from 1, that names no columns, or one twice; raises ProblemError."""
    if not header:
        raise table_problem(file, 1, "csv-empty", "this file is empty", "its first row names the columns")
    has_names = "phone" in map(fold_marks, header)
    if not has_names and any(
        _PHONE_LIKE.search(name) and _PHONE_LIKE.search(_YEAR.sub("", name)) for name in header
    ):
        message = "the first row looks like a person, not like a header: there is a phone in it"
        raise table_problem(
            file, line, "csv-header-missing", message, "put a row above it that names the columns: phone, …"
        )
    seen: dict[str, str] = {}
    for name in filter(None, header):
        folded = fold_marks(name)
        if folded in seen:
            also = "" if seen[folded] == name else f" (also written `{seen[folded]}`)"
            message = f"the column `{name}` stands twice in the header{also}"
            raise table_problem(file, line, "csv-duplicate-column", message, "rename one of them")
        seen[folded] = name


def _not_readable(file: Path, open_file: OpenFile, encoding: str, line: int) -> ProblemError:
    """Return the error for a file that is not in its encoding, noticed in this line."""
    if encoding.startswith("utf-16"):
        message = "this row is not UTF-16, as which the file is read"
        return table_problem(file, line, "csv-encoding", message, _ENCODING_HINT)
    if encoding.startswith("utf-8") and (foreign := read_foreign(open_file)) is not None:
        return ProblemError(_describe_foreign(file, foreign))
    place = find_undefined(open_file, encoding) or BytePlace(line, 1, 0)
    message = f"byte 0x{place.value:02X} in this row is not {encoding}, which `encoding` says"
    where = Position(file, place.line, place.column)
    return ProblemError(where.problem("csv-encoding", message, _ENCODING_HINT))


def _describe_foreign(file: Path, foreign: ForeignText) -> Diagnostic:
    line, column, _ = foreign.place
    if foreign.utf8_line is not None:
        message = f"this file mixes UTF-8 (line {foreign.utf8_line:,}) and another encoding (line {line:,})"
        return Position(file, line, column).problem("csv-encoding", message, _MIXED_HINT)
    read = [f"{quote_cell(file, text)!r} in {name}" for name, text in foreign.readings.items()]
    message = f"this row is not UTF-8: its text is {', '.join(read[:-1])}, or {read[-1]}"
    first = next(iter(foreign.readings))
    hint = f"write `encoding: {first}` beside the file, or the one that reads right, or {_ENCODING_HINT}"
    return Position(file, line, column).problem("csv-encoding-unknown", message, hint)


def table_problem(file: Path, line: int, code: str, message: str, hint: str | None = None) -> ProblemError:
    """Return the error for a line, from 1, of a file."""
    return ProblemError(Diagnostic("error", code, message, file, line, 1, hint))
