"""Which campaign on which target a record is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.lockfile import lockfile_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runner.ledger.shared import SharedRecord
    from runner.ledger.suppression_file import Entry


@dataclass(frozen=True, slots=True)
class Identity:
    """Which campaign on which target a record is about.

    Attributes:
        name: the campaign's name.
        file: the campaign file.
        target: the target's name.
        state_key: the user's secret for fingerprints; None to use the record's salt.
        renamed_from: names that the campaign had before.
        message_ids: the ids of its messages, by those that they have and those that they had before.
        surveys: the ids of its messages that ask something, in any arm.
        shared: what machines with other ledgers have recorded where all of them look; None if nothing is
            kept there.
        held: entries of files of suppressions about people of the campaign who are held; only for those who
            write nothing.
        keeps_summary: whether the lockfile is to sum up (`lockfile: summary`).
        left_behind: lockfiles of the campaign in other folders, as after it was moved without them.
        waiting: texts of lockfiles that are not merged yet, by where they would stand.
    """

    name: str
    file: Path
    target: str
    state_key: str | None = field(default=None, repr=False)
    renamed_from: tuple[str, ...] = ()
    message_ids: Mapping[str, str] = field(default_factory=dict)
    surveys: frozenset[str] = frozenset()
    shared: SharedRecord | None = field(default=None, repr=False)
    keeps_summary: bool = False
    held: tuple[Entry, ...] = field(default=(), repr=False)
    left_behind: tuple[Path, ...] = ()
    waiting: Mapping[Path, str] = field(default_factory=dict, repr=False)

    @property
    def lockfile(self) -> Path:
        """Where the lockfile stands."""
        return lockfile_path(self.file, self.target)

    @property
    def names(self) -> tuple[str, ...]:
        """The campaign's names: its own, then those that it had before."""
        return (self.name, *(name for name in self.renamed_from if name != self.name))
