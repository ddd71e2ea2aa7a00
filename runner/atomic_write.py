"""Files that are written whole or not at all, by renaming drafts."""

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
    """Yield a new file beside `file`; it is removed when the block ends, unless it was renamed."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", suffix=_DRAFT, delete=False
    ) as stream:
        draft = Path(stream.name)
        try:
            # A locked draft is no leftover. Where files cannot be locked, leftovers stay.
            with suppress(OSError):
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield stream, draft
        finally:
            draft.unlink(missing_ok=True)


def write_private(file: Path, pieces: Iterable[str]) -> None:
    """Write a text file for this user alone, even over one that others could read.

    Raises:
        OSError: it cannot be written, or is another user's.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as stream:  # noqa: PTH123  a descriptor
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
        stream.writelines(pieces)


def write_whole(file: Path, write: Callable[[IO[str]], object]) -> bool:
    """Write a text file, whole or not at all, readable as the umask allows; return True if it has changed.

    Removes the drafts that killed processes have left beside it.

    Raises:
        OSError: it cannot be written; the old file is untouched.
    """
    remove_leftovers(file)
    with drafting(file) as (stream, draft):
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())
        changed = not same_content(file, draft)
        if changed:
            umask = os.umask(0o077)
            os.umask(umask)
            draft.chmod(0o644 & ~umask)
            draft.replace(file)
            sync(file.parent)
    return changed


def save_text(file: Path, text: str) -> bool:
    """Write a text with `write_whole`."""
    return write_whole(file, lambda stream: stream.write(text))


def remove_leftovers(file: Path) -> None:
    """Remove the drafts of killed runs, whose locks ended with them."""
    for draft in file.parent.glob(f".{glob.escape(file.name)}.*{_DRAFT}"):
        with suppress(OSError), draft.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()


def same_content(first: Path, second: Path) -> bool:
    """Return whether two files exist with the same content."""
    try:
        return first.stat().st_size == second.stat().st_size and first.read_bytes() == second.read_bytes()
    except FileNotFoundError:
        return False


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk, so that they survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
