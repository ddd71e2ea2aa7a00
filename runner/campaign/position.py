"""Places in files, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Position(NamedTuple):
    """A place in a file. `line` and `column` count from 1."""

    file: Path
    line: int
    column: int
