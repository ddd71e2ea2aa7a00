"""Files that are written whole or not at all: as drafts beside them, which take their names in the end."""

from __future__ import annotations

import fcntl
import glob
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_DRAFT = ".tmp"


@contextmanager
def drafting(file: Path) -> Iterator[tuple[IO[str], Path]]:
    """Yield a new file beside `file`. It is gone when the block ends, unless it has got another name."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", suffix=_DRAFT, delete=False
    ) as stream:
        draft = Path(stream.name)
        try:
            # Tells others that it is no leftover. Where files cannot be locked, leftovers stay.
            with suppress(OSError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield stream, draft
        finally:
            draft.unlink(missing_ok=True)


def write_private(file: Path, pieces: Iterable[str]) -> None:
    """Write a text file that this user alone can read, also where one that others could is there already.

    Raises:
        OSError: it cannot be written, or is another user's.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123  a descriptor
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
        stream.writelines(pieces)


def write_whole(file: Path, write: Callable[[IO[str]], object]) -> bool:
    """Write a text file that all may read, whole or not at all, unless that is what it says already.

    What killed processes have left beside it is removed.

    Args:
        file: where it stands.
        write: writes the text.

    Returns:
        Whether it differs from what was there.

    Raises:
        OSError: it cannot be written. What was there is untouched.
    """
    remove_leftovers(file)
    with drafting(file) as (stream, draft):
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())
        changed = not same_content(file, draft)
        if changed:
            draft.chmod(0o644)
            draft.replace(file)
            sync_folder(file.parent)
    return changed


def remove_leftovers(file: Path) -> None:
    """Remove the drafts of runs that were killed: their death has freed the locks on them.

    Args:
        file: whose drafts they are.
    """
    for draft in file.parent.glob(f".{glob.escape(file.name)}.*{_DRAFT}"):
        with suppress(OSError), draft.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()


def same_content(first: Path, second: Path) -> bool:
    """Return whether two files hold the same; a file that is missing holds nothing that another does."""
    try:
        return first.stat().st_size == second.stat().st_size and first.read_bytes() == second.read_bytes()
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """See that the names in a folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
