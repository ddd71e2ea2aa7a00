"""Where a process works on files that other processes of the cluster make and read.

In a folder that has a path it works there. What is at a URL it fetches, and what it makes it puts there.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.cluster.folder import SharedFolder


@dataclass(frozen=True, slots=True)
class Desk:
    """A folder of this process with files of the shared one.

    Attributes:
        root: where it is.
        remote: the shared folder if that is somewhere else.
    """

    root: Path
    remote: SharedFolder | None

    def bring(self, names: Iterable[str]) -> list[Path]:
        """Return files of the shared folder, to be read here."""
        return [self._bring(name) for name in names]

    def hand_over(self, folder: Path) -> list[str]:
        """Return the names of the files below a folder of this desk, for others to bring to theirs."""
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        names = [file.relative_to(self.root).as_posix() for file in files]
        if self.remote is not None:
            for name, file in zip(names, files, strict=True):
                self.remote.write(name, file.read_bytes())
        return names

    def _bring(self, name: str) -> Path:
        file = self.root / name
        if self.remote is not None and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.remote.read(name))
        return file


@contextmanager
def open_desk(folder: SharedFolder) -> Iterator[Desk]:
    """Yield a desk for a shared folder; what was fetched is gone afterwards."""
    if "://" not in folder.url:
        yield Desk(Path(folder.url), None)
        return
    with tempfile.TemporaryDirectory() as name:
        yield Desk(Path(name), folder)
