"""Brings rows to the engine by way of a file: a million of them in the time of a thousand inserts."""

from __future__ import annotations

import csv
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING

from runner.errors import RunnerError
from runner.report.columns.engine import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

LONGEST_TEXT = 40_000
"""Characters of a text that are kept: more than one message can have in its 255 segments (3GPP TS 23.040)."""
_LONGEST_LINE = 4_000_000
"""Bytes."""
_MOST_BYTES = 4
"""Of a character in UTF-8 (RFC 3629)."""
_BLOCK = 1000


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows that the engine can read.

    Attributes:
        select: the statement that reads them; every column is text.
        count: how many there are.
    """

    select: str
    count: int


@contextmanager
def stage_rows(folder: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[Staged]:
    """Write rows to a file that is there while the block lasts.

    Args:
        folder: this user's alone.
        columns: their names.
        rows: a value a column.

    Raises:
        RunnerError: the file cannot be written.
    """
    file = folder / "staged.csv"
    try:
        yield Staged(select_staged(file, columns), _write(file, rows))
    except OSError as error:
        raise RunnerError(
            f"the copy of the results in {folder} cannot be written: {error.strerror}",
            hint="make room on the disk, and check that this user may write there",
        ) from None
    finally:
        file.unlink(missing_ok=True)


def _write(file: Path, rows: Iterable[Sequence[object]]) -> int:
    count, waiting = 0, iter(rows)
    with file.open("w", encoding="utf-8", newline="") as staged:
        while block := list(islice(waiting, _BLOCK)):
            count += len(block)
            staged.write(_format(block))
    return count


def _format(block: Sequence[Sequence[object]]) -> str:
    """Return the lines of some rows, none of which is longer than the engine reads."""
    lines = _join(block)
    if len(lines) <= _LONGEST_LINE // _MOST_BYTES:
        return lines
    return _join([[v[:LONGEST_TEXT] if isinstance(v, str) else v for v in row] for row in block])


def _join(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV (RFC 4180) with every value quoted.

    Where no value has a quote in it, nothing is to be escaped: that takes a third of the writer's time.
    """
    width = len(rows[0])
    line = ",".join(['"%s"'] * width) + "\n"
    plain = "".join([line % tuple(row) for row in rows])
    if plain.count('"') == 2 * width * len(rows):
        return plain
    lines = StringIO(newline="")
    csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def select_staged(file: Path, columns: Sequence[str]) -> str:
    """Return the statement that reads CSV (RFC 4180) with every value quoted; every column is text.

    Args:
        file: in UTF-8, without a header.
        columns: their names.
    """
    types = ", ".join(f"{quote(name)}: 'VARCHAR'" for name in columns)
    return f"""
        SELECT left(COLUMNS(*), {LONGEST_TEXT}) FROM read_csv({quote(str(file))}, header = false,
          auto_detect = false, delim = ',', quote = '"', escape = '"', new_line = '\\n',
          allow_quoted_nulls = false, max_line_size = {_LONGEST_LINE}, columns = {{{types}}})"""
