"""Problems as data: collected while files are read, shown by the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Severity = Literal["error", "warning", "note"]

SHOWN_OF_A_KIND = 20
"""Problems of one kind that are listed one by one; the rest are counted (design: campaign format)."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem of one file.

    Attributes:
        severity: `error` stops a plan, `warning` doesn't; `note` says what was mended and needs nobody.
        code: a stable slug, such as `recipient-phone-invalid`.
        message: what is wrong.
        file: where it is.
        line: from 1; for a CSV the line in that file.
        column: from 1.
        hint: what to do about it.
        kind: what is counted apart from other problems with the same code, such as the reason for
            which a phone is refused.
    """

    severity: Severity
    code: str
    message: str
    file: Path
    line: int
    column: int
    hint: str | None = None
    kind: str = ""


@dataclass(slots=True)
class Problems:
    """Collects problems; keeps the first of each kind in each file and counts the rest.

    A million bad rows cost no more memory than twenty.
    """

    shown_of_a_kind: int = SHOWN_OF_A_KIND
    error_count: int = 0
    warning_count: int = 0
    note_count: int = 0
    _kept: list[Diagnostic] = field(default_factory=list)
    _counts: dict[tuple[str, Path, str], int] = field(default_factory=dict)

    def add(self, diagnostic: Diagnostic) -> None:
        """Record one problem."""
        if diagnostic.severity == "error":
            self.error_count += 1
        elif diagnostic.severity == "warning":
            self.warning_count += 1
        else:
            self.note_count += 1
        kind = (diagnostic.code, diagnostic.file, diagnostic.kind)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= self.shown_of_a_kind:
            self._kept.append(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Record several problems."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def merge(self, later: Problems) -> None:
        """Add the problems of later lines of the same files, as one pass over all of them would have."""
        self.error_count += later.error_count
        self.warning_count += later.warning_count
        self.note_count += later.note_count
        room = {kind: self.shown_of_a_kind - count for kind, count in self._counts.items()}
        for diagnostic in later._kept:
            kind = (diagnostic.code, diagnostic.file, diagnostic.kind)
            room[kind] = room.get(kind, self.shown_of_a_kind) - 1
            if room[kind] >= 0:
                self._kept.append(diagnostic)
        for kind, count in later._counts.items():
            self._counts[kind] = self._counts.get(kind, 0) + count

    def merge_mixed(self, parts: Iterable[Problems]) -> None:
        """Add the problems of parts whose lines stand between each other's, as one pass over all would have.

        Args:
            parts: each of the same files' lines, but no line in two of them.
        """
        mixed = Problems(self.shown_of_a_kind)
        for part in parts:
            mixed._append(part)
        mixed._kept.sort(key=lambda diagnostic: (diagnostic.line, diagnostic.column))
        # Of more than are shown of a kind, this leaves those of the first lines.
        self.merge(mixed)

    def _append(self, other: Problems) -> None:
        self.error_count += other.error_count
        self.warning_count += other.warning_count
        self.note_count += other.note_count
        self._kept += other._kept
        for kind, count in other._counts.items():
            self._counts[kind] = self._counts.get(kind, 0) + count

    def __iter__(self) -> Iterator[Diagnostic]:
        """Yield the kept problems in the order of the files' lines."""
        return iter(sorted(self._kept, key=lambda d: (str(d.file), d.line, d.column, d.code)))

    def omitted(self) -> list[tuple[str, Path, int]]:
        """Return code, file and number of the problems that were counted but not kept."""
        sums: dict[tuple[Path, str], int] = {}
        for (code, file, _), count in self._counts.items():
            if count > self.shown_of_a_kind:
                sums[file, code] = sums.get((file, code), 0) + count - self.shown_of_a_kind
        return [(code, file, count) for (file, code), count in sorted(sums.items())]
