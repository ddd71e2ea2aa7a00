"""Folders of runs for intermediate files, which all processes of a cluster reach by the same path.

A task goes on when its run has ended, and nobody would look for what it writes then. So a run's folder is
renamed before it is removed: whatever writes by its path fails.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import RunnerError, StorageError, UsageError
from runner.source.storage import is_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

_LOCK = "run.lock"
_ENDED = ".ended"


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A run's folder, by its path. A value that can be sent to tasks."""

    path: str

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read.
        """
        with _reporting(f"{self.path}/{name} cannot be read"):
            return Path(self.path, name).read_bytes()

    def open(self, name: str) -> BinaryIO:
        """Open a file to read a part of it; raises as `read`."""
        with _reporting(f"{self.path}/{name} cannot be read"):
            return Path(self.path, name).open("rb")

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file, whole or not at all, for this user alone, since there are phones in it.

        Raises:
            StorageError: it cannot be written.
            FileNotFoundError: the folder's run has ended.
        """
        # A task that runs twice at once writes two files.
        waiting = Path(self.path, f"{name}.{secrets.token_hex(4)}")
        with _reporting(f"{self.path}/{name} cannot be written"):
            try:
                with os.fdopen(os.open(waiting, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
                    stream.write(content)
                waiting.replace(Path(self.path, name))
            except OSError:
                # A full disk leaves half a file.
                waiting.unlink(missing_ok=True)
                raise


@contextmanager
def _reporting(failure: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{failure}: {error.strerror or error}") from None


@contextmanager
def open_scratch(place: Path | str) -> Iterator[SharedFolder]:
    """Yield a new folder below a path; it is removed at the end, like those of killed runs."""
    if is_url(str(place)):
        raise UsageError(
            f"{place} is no folder: workers and this process share intermediate files by a path",
            hint="name a folder that all of them reach, with --scratch or RUNNER_SCRATCH",
        )
    above = Path(place).absolute()
    # Of this machine alone: some network file systems keep locks from other machines.
    prefix = f"run-{re.sub(r'[^A-Za-z0-9.-]', '-', os.uname().nodename)}"
    own = above / f"{prefix}-{secrets.token_hex(8)}"
    with _hold_folder(own):
        _remove_leftovers(above.glob(f"{prefix}-*"), own)
        try:
            yield SharedFolder(str(own))
        finally:
            ended = own.with_name(f"{own.name}{_ENDED}")
            with suppress(OSError):
                own.rename(ended)
            shutil.rmtree(ended, ignore_errors=True)


@contextmanager
def _hold_folder(own: Path) -> Iterator[None]:
    """Make a folder for this user alone, and hold its lock, which the kernel frees when the process ends."""
    try:
        own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        own.mkdir(mode=0o700)
        lock = os.open(own / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RunnerError(
            f"the folder {own.parent} for intermediate files cannot be used: {error.strerror}",
            hint="name another one with --scratch or RUNNER_SCRATCH",
        ) from None
    try:
        # A network's file system may have no locks: then the folder counts as in use.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def _remove_leftovers(folders: Iterable[Path], own: Path) -> None:
    for folder in folders:
        if folder != own and (folder.suffix == _ENDED or _is_left(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return whether nobody holds a run's folder. One without a lock may be about to be held."""
    with suppress(OSError), (folder / _LOCK).open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
