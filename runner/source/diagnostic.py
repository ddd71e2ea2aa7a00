"""Problems as data: collected while files are read, shown by the command line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Severity = Literal["error", "warning", "note"]

SHOWN_OF_A_KIND = 20
"""Problems of one kind that are listed one by one; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem of one file.

    Attributes:
        severity: `error` stops a plan, `warning` doesn't; `note` reports a repair.
        code: a stable slug, such as `recipient-phone-invalid`.
        line: from 1; for a CSV the line in that file.
        column: from 1.
        kind: separates counts of the same code, such as the reason for refusing a phone.
    """

    severity: Severity
    code: str
    message: str
    file: Path
    line: int
    column: int
    hint: str | None = None
    kind: str = ""


class CellProblem(NamedTuple):
    """The reason for refusing a phone, name or date; it completes "the … is refused: "."""

    reason: str
    hint: str = ""


class Position(NamedTuple):
    """A place in a file. `line` and `column` count from 1."""

    file: Path
    line: int
    column: int

    def problem(
        self, code: str, message: str, hint: str | None = None, severity: Severity = "error"
    ) -> Diagnostic:
        """Return a problem at this position."""
        return Diagnostic(severity, code, message, self.file, self.line, self.column, hint)


class ProblemError(Exception):
    """An error of a file or text that cannot be used, for the reasons in `diagnostics`."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics


@dataclass(slots=True)
class Problems:
    """The first problems of each kind in each file, and the number of the rest, to bound memory."""

    error_count: int = 0
    warning_count: int = 0
    note_count: int = 0
    _kept: list[Diagnostic] = field(default_factory=list)
    _counts: Counter[tuple[str, Path, str]] = field(default_factory=Counter)

    def add(self, diagnostic: Diagnostic) -> None:
        """Record one problem."""
        if diagnostic.severity == "error":
            self.error_count += 1
        elif diagnostic.severity == "warning":
            self.warning_count += 1
        else:
            self.note_count += 1
        kind = (diagnostic.code, diagnostic.file, diagnostic.kind)
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN_OF_A_KIND:
            self._kept.append(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Record several problems."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def take_out_warnings(self, file: Path, code: str) -> int:
        """Remove the warnings of a code about a file, and return their number."""
        if not any((one.file, one.code, one.severity) == (file, code, "warning") for one in self._kept):
            return 0
        kinds = [kind for kind in self._counts if kind[:2] == (code, file)]
        count = sum(self._counts.pop(kind) for kind in kinds)
        self._kept = [one for one in self._kept if (one.file, one.code) != (file, code)]
        self.warning_count -= count
        return count

    def merge(self, later: Problems) -> None:
        """Add the problems of later lines of the same files, as if read in one pass."""
        room = {kind: SHOWN_OF_A_KIND - count for kind, count in self._counts.items()}
        for diagnostic in later._kept:
            kind = (diagnostic.code, diagnostic.file, diagnostic.kind)
            room[kind] = room.get(kind, SHOWN_OF_A_KIND) - 1
            if room[kind] >= 0:
                self._kept.append(diagnostic)
        self._add_counts(later)

    def merge_mixed(self, parts: Iterable[Problems]) -> None:
        """Add the problems of parts with interleaved lines of the same files, as if read in one pass."""
        mixed = Problems()
        for part in parts:
            mixed._append(part)
        mixed._kept.sort(key=lambda diagnostic: (diagnostic.line, diagnostic.column))
        # Keeps those of the first lines.
        self.merge(mixed)

    def _append(self, other: Problems) -> None:
        self._kept += other._kept
        self._add_counts(other)

    def _add_counts(self, other: Problems) -> None:
        self.error_count += other.error_count
        self.warning_count += other.warning_count
        self.note_count += other.note_count
        self._counts.update(other._counts)

    def __iter__(self) -> Iterator[Diagnostic]:
        """Yield the kept problems in the order of the files' lines."""
        return iter(sorted(self._kept, key=lambda d: (str(d.file), d.line, d.column, d.code)))

    def omitted(self) -> list[tuple[str, Path, int]]:
        """Return code, file and number of the problems that were counted but not kept."""
        sums: Counter[tuple[Path, str]] = Counter()
        for (code, file, _), count in self._counts.items():
            if count > SHOWN_OF_A_KIND:
                sums[file, code] += count - SHOWN_OF_A_KIND
        return [(code, file, count) for (file, code), count in sorted(sums.items())]
