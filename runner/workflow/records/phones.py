"""Phones of a command line or a CSV file, in E.164 form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, get_args

from runner.audience.phone import PhoneProblem, mask_written, parse_phone
from runner.audience.rows import PhoneColumn
from runner.audience.table import TableProblemError, open_table
from runner.campaign.model import PhoneForm
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


PHONE_FORMS: tuple[PhoneForm, ...] = get_args(PhoneForm)


class PhoneReading(NamedTuple):
    """The reading of the phones of a CSV file.

    Attributes:
        column: the column that has them.
        region: the ISO 3166-1 alpha-2 code for national numbers, if any.
        form: the form of digits without a prefix, where a person has said so.
    """

    column: str
    region: str | None = None
    form: PhoneForm | None = None


def iterate_phones(file: Path, reading: PhoneReading, problems: Problems) -> Iterator[str]:
    """Yield the phones of a CSV file in E.164 form, as a stream; of digits with several readings, all.

    Invalid rows are left out and go to `problems`.
    """
    column = reading.column
    try:
        with open_table(file) as table:
            index = table.find_column(column)
            if index is None:
                problems.add(_no_column(table, column))
                return
            phones = PhoneColumn(
                file, 1, reading.region, "opt-out-phone-invalid", problems, form=reading.form
            )
            for line, cells in table.rows:
                if len(cells) != len(table.header):
                    problems.add(table.width_problem(line, cells))
                else:
                    yield from phones.read(cells[index], line)
            problems.extend(phones.findings.iterate_notes(file, 1))
    except TableProblemError as error:
        problem = error.diagnostic
        is_foreign = problem.code == "csv-encoding-unknown"
        problems.add(replace(problem, hint="save it as “CSV UTF-8”") if is_foreign else problem)


def _no_column(table: Table, column: str) -> Diagnostic:
    hint = f"name the one that holds the phones with --phone-column; the file has: {', '.join(table.header)}"
    message = f"there is no column `{column}`"
    return Diagnostic("error", "csv-phone-column", message, table.file, table.line, 1, hint)
