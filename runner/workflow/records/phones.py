"""Phones of a command line or a CSV file, in E.164 form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.audience.phone import PhoneProblem, mask_written, parse_phone
from runner.audience.rows import PhoneColumn
from runner.audience.table import TableProblemError, open_table
from runner.errors import UsageError
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runner.audience.table import Table


def parse_phones(written: Sequence[str]) -> list[str]:
    """Return phones of a command line in E.164 form, each once.

    Raises:
        UsageError: lists the invalid ones.
    """
    parsed = [(text, parse_phone(text, None)) for text in written]
    wrong = [(text, found) for text, found in parsed if isinstance(found, PhoneProblem)]
    if wrong:
        refused = [f"the phone {mask_written(text)!r} is refused: {found.reason}" for text, found in wrong]
        raise UsageError("; ".join(refused), hint="write it as in +14155550101")
    return list(dict.fromkeys(found for _, found in parsed if isinstance(found, str)))


def iterate_phones(file: Path, column: str, region: str | None, problems: Problems) -> Iterator[str]:
    """Yield the phones of a CSV file in E.164 form, as a stream.

    `region` is the ISO 3166-1 alpha-2 code for national numbers, if any. Invalid rows are left out and go to
    `problems`.
    """
    try:
        with open_table(file) as table:
            problems.extend(table.iterate_notes())
            index = table.find_column(column)
            if index is None:
                problems.add(_no_column(table, column))
                return
            phones = PhoneColumn(file, 1, region, "opt-out-phone-invalid", problems)
            for line, cells in table.rows:
                if len(cells) != len(table.header):
                    problems.add(table.width_problem(line, cells))
                elif (phone := phones.read(cells[index], line)) is not None:
                    yield phone
            phones.note_repairs()
    except TableProblemError as error:
        problems.add(error.diagnostic)


def _no_column(table: Table, column: str) -> Diagnostic:
    hint = f"name the one that holds the phones with --phone-column; the file has: {', '.join(table.header)}"
    message = f"there is no column `{column}`"
    return Diagnostic("error", "csv-phone-column", message, table.file, table.line, 1, hint)
