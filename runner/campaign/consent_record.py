"""Consent on record, in a campaign or row after row: who agreed, and dates that say nothing reported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from runner.campaign.model import Position
from runner.campaign.phone import mask_written
from runner.source.diagnostic import Diagnostic, Problems

if TYPE_CHECKING:
    from pathlib import Path

_DATE_LIKE = re.compile(r"\d{1,4}[./ -]\d{1,2}[./ -]\d{1,4}")
_ISO_LIKE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2})?)?")
_HINT = "write year, month and day, as in 2026-03-01: elsewhere 3/1/2026 is the third of January"
_MISSING_HINT = "look up when the person agreed, and write year, month and day, as in 2026-03-01"


def is_on_record(source: str, date: str | None) -> bool:
    """Return whether somebody's consent is on record: a source and, where dates are kept, a date.

    Args:
        source: where they agreed; blank if they did not.
        date: when, one that `find_date_problem` finds nothing wrong with; blank if it is not known, None
            where no dates are kept.
    """
    return bool(source.strip()) and (date is None or bool(date.strip()))


def find_date_problem(written: str, place: Position) -> Diagnostic | None:
    """Return what is wrong with a date of consent, or None.

    Args:
        written: a date, or a date and time, ISO 8601.
        place: where it stands.
    """
    try:
        datetime.fromisoformat(written)
    except ValueError:
        pass
    else:
        return None
    if _ISO_LIKE.fullmatch(written):
        message, hint = f"the date of consent {written!r} does not exist", _MISSING_HINT
    else:
        shown = written if _DATE_LIKE.fullmatch(written) else mask_written(written)
        message, hint = f"the date of consent {shown!r} is not an ISO 8601 date", _HINT
    return Diagnostic("error", "recipient-consent-date", message, place.file, place.line, place.column, hint)


@dataclass(frozen=True, slots=True)
class ConsentRecord:
    """Reads the consent columns of an audience file.

    Attributes:
        file: where they stand.
        source: the index of the column that says where a recipient agreed.
        date: the index of the column that says when; None if the file does not say.
        problems: receives dates that cannot be read.
    """

    file: Path
    source: int
    date: int | None
    problems: Problems

    def read(self, cells: list[str], line: int) -> bool:
        """Return whether consent is on record: a source and, where the file has dates, a date."""
        date = None if self.date is None else cells[self.date].strip()
        if date:
            problem = find_date_problem(date, Position(self.file, line, 1))
            if problem is not None:
                self.problems.add(problem)
                return False
        return is_on_record(cells[self.source], date)
