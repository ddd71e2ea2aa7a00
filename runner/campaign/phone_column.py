"""One source's phones, read one after the other: the wrong ones reported, the mended ones noted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.campaign.allocation import expand_national, is_allocated
from runner.campaign.phone import (
    PREMIUM_PROBLEM,
    PhoneProblem,
    find_service,
    mask_written,
    parse_mended,
)
from runner.campaign.spreadsheet import DAMAGE_WORDS, Damage, mend
from runner.source.diagnostic import SHOWN_OF_A_KIND, Diagnostic, Problems

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REPAIR_HINT = "format the column as text in the spreadsheet to be rid of this"


@dataclass(slots=True)
class _Repairs:
    """How often a damage was repaired, and in which lines first."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if self.count <= SHOWN_OF_A_KIND:
            self.lines.append(line)

    def merge(self, later: _Repairs) -> None:
        self.count += later.count
        self.lines.extend(later.lines[: SHOWN_OF_A_KIND - len(self.lines)])

    def describe(self, damage: Damage, unit: str) -> str:
        if self.count == 1:
            return f"a phone has {DAMAGE_WORDS[damage].format('it')}: it is repaired"
        words = DAMAGE_WORDS[damage].format("them")
        return f"{self.count:,} phones have {words}: repaired in {unit}s {_list_lines(self)}"


@dataclass(slots=True)
class Repairs:
    """What phones of one source were mended of."""

    _found: dict[Damage, _Repairs] = field(default_factory=dict)

    def add(self, damage: Damage, line: int) -> None:
        """Count a phone in a line that had a damage."""
        self._found.setdefault(damage, _Repairs()).add(line)

    def merge(self, later: Repairs) -> None:
        """Add the repairs of later lines of the same source."""
        for damage, repairs in later._found.items():
            self._found.setdefault(damage, _Repairs()).merge(repairs)

    def iterate_notes(self, file: Path, column: int, unit: str = "line") -> Iterator[Diagnostic]:
        """Yield a note of each kind of damage, at its first line.

        Args:
            file: where the phones stand.
            column: at which column, from 1.
            unit: what the lines are called.
        """
        for damage, repairs in self._found.items():
            code, message, line = f"phone-{damage}", repairs.describe(damage, unit), repairs.lines[0]
            yield Diagnostic("note", code, message, file, line, column, _REPAIR_HINT)


@dataclass(frozen=True, slots=True)
class PhoneColumn:
    """Reads the phones of one source.

    Attributes:
        file: where they stand.
        column: at which column, from 1; 1 in a CSV file.
        region: ISO 3166-1 alpha-2 code of the country of numbers in national form.
        code: of the problems that are found.
        problems: receives them.
        repairs: counts what was mended.
        unit: what the file's lines are called.
        is_texted: whether its phones are to be texted: then premium numbers are refused, and toll-free ones
            are warned of.
    """

    file: Path
    column: int
    region: str | None
    code: str
    problems: Problems
    repairs: Repairs = field(default_factory=Repairs)
    unit: str = "line"
    is_texted: bool = False

    def read(self, written: str, line: int) -> str | None:
        """Return a phone in E.164 form; None if it is refused, which is reported."""
        if is_allocated(written):
            return written
        if self.region is not None and (national := expand_national(written, self.region)):
            return national
        mended = mend(written)
        phone = parse_mended(mended.text, self.region)
        if isinstance(phone, PhoneProblem):
            self.problems.add(self._refuse(written, line, phone))
            return None
        if self.is_texted and (service := find_service(phone)) is not None:
            if service == "premium":
                self.problems.add(self._refuse(written, line, PREMIUM_PROBLEM))
                return None
            self.problems.add(self._warn_toll_free(written, line))
        for damage in mended.damage:
            self.repairs.add(damage, line)
        return phone

    def _refuse(self, written: str, line: int, problem: PhoneProblem) -> Diagnostic:
        is_blank = not mend(written).text
        words = f"the phone {mask_written(written.strip())!r} is refused: {problem.reason}"
        message = "the phone is blank" if is_blank else words
        reason, hint = problem.reason, problem.hint
        return Diagnostic("error", self.code, message, self.file, line, self.column, hint, reason)

    def _warn_toll_free(self, written: str, line: int) -> Diagnostic:
        words = (
            f"the phone {mask_written(written.strip())!r} is toll-free: a business, which seldom gets texts"
        )
        hint = "write the number of a person, or remove the row"
        return Diagnostic("warning", "recipient-phone-toll-free", words, self.file, line, self.column, hint)

    def note_repairs(self) -> None:
        """Note what was repaired, each kind of damage once, at its first line; for the source's end."""
        self.problems.extend(self.repairs.iterate_notes(self.file, self.column, self.unit))


def _list_lines(repairs: _Repairs) -> str:
    lines = [f"{line:,}" for line in repairs.lines]
    more = repairs.count - len(lines)
    if more:
        lines.append(f"{more:,} more")
    return f"{', '.join(lines[:-1])} and {lines[-1]}"
