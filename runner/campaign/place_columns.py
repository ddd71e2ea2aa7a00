"""One source's time zones or regions: each name is looked up once, the wrong ones are reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from runner.campaign.phone import mask_written
from runner.source.diagnostic import Diagnostic, Problems
from runner.timing.region import RegionProblem, check_region
from runner.timing.zone import ZoneProblem, check_zone

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MOST_KEPT = 10_000
"""Names that are kept; there are 600 zones, and a column of other things may have a million."""
_MOST_DIGITS = 4
"""In a zone's name (`Etc/GMT+12`); what has more may be somebody's phone."""


@dataclass(frozen=True, slots=True)
class PlaceColumn:
    """Reads the names of one source, of one kind.

    Attributes:
        kind: what is named, in words.
        code: of the problems that are found.
        check: returns what a name stands for, or why it is refused.
        file: where they stand.
        column: at which column, from 1; 1 in a CSV file.
        problems: receives what is wrong with them.
    """

    kind: str
    code: str
    check: Callable[[str], str | ZoneProblem | RegionProblem]
    file: Path
    column: int
    problems: Problems
    _checked: dict[str, str | ZoneProblem | RegionProblem | None] = field(default_factory=dict)

    def read(self, written: str, line: int) -> str | None:
        """Return what a name stands for; None if it is blank, or refused, which is reported."""
        try:
            found = self._checked[written]
        except KeyError:
            found = self.check(written) if written.strip() else None
            if len(self._checked) < _MOST_KEPT:
                self._checked[written] = found
        if isinstance(found, ZoneProblem | RegionProblem):
            self.problems.add(self._refuse(written, line, found))
            return None
        return found

    def _refuse(self, written: str, line: int, problem: ZoneProblem | RegionProblem) -> Diagnostic:
        name = written.strip()
        shown = name if sum(map(str.isdigit, name)) <= _MOST_DIGITS else mask_written(name)
        return Diagnostic(
            "error",
            self.code,
            f"the {self.kind} {shown!r} is refused: {problem.reason}",
            self.file,
            line,
            self.column,
            problem.hint,
            problem.reason,
        )


def open_zones(file: Path, column: int, problems: Problems) -> PlaceColumn:
    """Return what reads the time zones of one source: IANA names."""
    return PlaceColumn("time zone", "recipient-timezone-unknown", check_zone, file, column, problems)


def open_regions(file: Path, column: int, problems: Problems, country: str | None) -> PlaceColumn:
    """Return what reads the regions of one source: codes of ISO 3166, as `check_region` returns them.

    Args:
        file: where they stand.
        column: at which column, from 1; 1 in a CSV file.
        problems: receives what is wrong with them.
        country: that of the source's people; None if it does not say.
    """
    check = partial(check_region, country=country)
    return PlaceColumn("region", "recipient-region-unknown", check, file, column, problems)
