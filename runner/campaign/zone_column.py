"""One source's time zones, read one after the other: each name is looked up once, the wrong ones reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.campaign.phone import mask_written
from runner.source.diagnostic import Diagnostic, Problems
from runner.timing.zone import ZoneProblem, check_zone

if TYPE_CHECKING:
    from pathlib import Path

_MOST_KEPT = 10_000
"""Names that are kept; there are 600 zones, and a column of other things may have a million."""
_MOST_DIGITS = 4
"""In a zone's name (`Etc/GMT+12`); what has more may be somebody's phone."""


@dataclass(frozen=True, slots=True)
class ZoneColumn:
    """Reads the time zones of one source.

    Attributes:
        file: where they stand.
        column: at which column, from 1; 1 in a CSV file.
        problems: receives what is wrong with them.
    """

    file: Path
    column: int
    problems: Problems
    _checked: dict[str, str | ZoneProblem | None] = field(default_factory=dict)

    def read(self, written: str, line: int) -> str | None:
        """Return an IANA name; None if it is blank, or refused, which is reported."""
        try:
            zone = self._checked[written]
        except KeyError:
            zone = check_zone(written) if written.strip() else None
            if len(self._checked) < _MOST_KEPT:
                self._checked[written] = zone
        if isinstance(zone, ZoneProblem):
            self.problems.add(self._refuse(written, line, zone))
            return None
        return zone

    def _refuse(self, written: str, line: int, problem: ZoneProblem) -> Diagnostic:
        name = written.strip()
        shown = name if sum(map(str.isdigit, name)) <= _MOST_DIGITS else mask_written(name)
        return Diagnostic(
            "error",
            "recipient-timezone-unknown",
            f"the time zone {shown!r} is refused: {problem.reason}",
            self.file,
            line,
            self.column,
            problem.hint,
            problem.reason,
        )
