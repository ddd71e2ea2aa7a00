"""Phones of a command line or a CSV file, in E.164 form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, get_args

from runner.audience.findings import Findings
from runner.audience.phone import is_mobile, mask_phone, mask_written, parse_phone
from runner.audience.rows import PhoneColumn
from runner.audience.table import open_table
from runner.campaign.model import PhoneForm
from runner.errors import UsageError
from runner.source.diagnostic import CellProblem, Diagnostic, ProblemError, Problems
from runner.workflow.campaigns import DEFAULT_FOLDER, load_campaigns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runner.audience.table import Table
    from runner.workflow.scope import Scope


def parse_phones(written: Sequence[str]) -> list[str]:
    """Return phones of a command line, written with their country codes, in E.164 form, each once."""
    return _read_phones(written, [], "write it as in +14155550101")


def read_phones(scope: Scope, written: Sequence[str], region: str | None) -> list[str]:
    """Return phones of a command line in E.164 form, each once.

    Those in national form are of `region` (ISO 3166-1 alpha-2); without one, of the regions of the campaigns'
    recipients.
    """
    regions = [] if region is None else [region]
    if region is None and not all(map(is_mobile, written)) and (scope.paths or DEFAULT_FOLDER.exists()):
        regions = _list_regions(scope)
    return _read_phones(written, regions, "write it as in +14155550101, or name its country with --region")


def _read_phones(written: Sequence[str], regions: Sequence[str], hint: str) -> list[str]:
    phones, refused = list[str](), list[str]()
    for text in written:
        found = {region: parse_phone(text, region) for region in (None, *regions)}
        readings = {phone: region for region, phone in found.items() if isinstance(phone, str)}
        if len(readings) > 1:
            listed = " or ".join(f"{mask_phone(phone)} ({region})" for phone, region in readings.items())
            raise UsageError(
                f"{mask_written(text)!r} can be {listed}",
                hint="say which with --region, or write it with its country code",
            )
        phones += readings
        if not readings:
            reasons = [one.reason for one in found.values() if isinstance(one, CellProblem)]
            refused.append(f"the phone {mask_written(text)!r} is refused: {reasons[-1]}")
    if refused:
        raise UsageError("; ".join(refused), hint=hint)
    return list(dict.fromkeys(phones))


def _list_regions(scope: Scope) -> list[str]:
    """Return the regions of the national numbers in the campaigns' audiences; none if one is not known."""
    loaded = load_campaigns(scope, Problems(), keeps_rules=False)
    if loaded.faults:
        return []
    return sorted(
        {
            region
            for campaign in loaded.campaigns
            for one in campaign.recipients
            if (region := one.country) is not None
        }
    )


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
            findings = Findings(file, 1, problems)
            phones = PhoneColumn(findings, reading.region, "opt-out-phone-invalid", form=reading.form)
            for line, cells in table.rows:
                if len(cells) != len(table.header):
                    problems.add(table.width_problem(line, cells))
                else:
                    yield from phones.read(cells[index], line)
            findings.sum_up()
    except ProblemError as error:
        problem = error.diagnostics[0]
        is_foreign = problem.code == "csv-encoding-unknown"
        problems.add(replace(problem, hint="save it as “CSV UTF-8”") if is_foreign else problem)


def _no_column(table: Table, column: str) -> Diagnostic:
    hint = f"name the one that holds the phones with --phone-column; the file has: {', '.join(table.header)}"
    message = f"there is no column `{column}`"
    return Diagnostic("error", "csv-phone-column", message, table.file, table.line, 1, hint)
