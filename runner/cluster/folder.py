"""Shared folders that every process of a cluster reaches, local copies of their files, scratch folders."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from runner.errors import RunnerError, StorageError
from runner.source.storage import reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder at a path or at an object store's URL. A value that can be sent to tasks.

    A task goes on when its run has failed or was interrupted, and nobody would look for what it writes then.
    So whoever makes a folder puts a marker there, and removes it before all else. A writer that finds it gone
    takes its file back.

    Attributes:
        url: its place.
        marker: the path or URL of a file that is there as long as the folder is wanted; None if none says so.
    """

    url: str
    marker: str | None = None

    def within(self, name: str) -> SharedFolder:
        """Return a folder below this one, which is wanted as long."""
        return SharedFolder(f"{self.url}/{name}", self.marker)

    def _require_wanted(self) -> None:
        """Refuse to write if the marker is gone.

        Raises:
            RunnerError: it is, or that is unknown.
        """
        if self.marker is None:
            return
        with _reaching(self.marker, "read") as (system, path):
            # Some file systems keep lists of what was there.
            system.invalidate_cache(path)
            is_wanted = system.exists(path)
        if not is_wanted:
            raise RunnerError(f"{self.url} is no longer wanted: its run has ended")

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read.
        """
        with _reaching(f"{self.url}/{name}", "read", may_be_missing=True) as (system, path):
            content: bytes = system.cat_file(path)
        return content

    def open(self, name: str) -> BinaryIO:
        """Open a file to read a part of it.

        Raises:
            StorageError: it cannot be opened.
        """
        with _reaching(f"{self.url}/{name}", "read") as (system, path):
            stream: BinaryIO = system.open(path, "rb")
        return stream

    def write(self, name: str, content: bytes | memoryview) -> None:
        """Write or replace a file, whole or not at all.

        Raises:
            StorageError: it cannot be written.
            RunnerError: the folder is no longer wanted; the file is not there.
        """
        self._require_wanted()
        with _reaching(f"{self.url}/{name}", "written") as (system, path):
            if "file" in system.protocol:
                _write_locally(path.removesuffix(f"/{name}"), name, content)
            else:
                system.pipe_file(path, bytes(content))
        try:
            self._require_wanted()
        except RunnerError:
            _remove(f"{self.url}/{name}")
            raise

    def remove(self) -> None:
        """Remove the folder with its content, if it exists.

        Raises:
            RunnerError: it cannot be removed.
        """
        # What is written from now on is taken back.
        if self.marker is not None:
            _remove(self.marker)
        _remove(self.url)


@contextmanager
def _reaching(url: str, done: str, *, may_be_missing: bool = False) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a path or URL, and the path there; say what could not be `done`.

    Raises:
        FileNotFoundError: it is missing, and `may_be_missing`.
        StorageError: it cannot be reached or used.
    """
    try:
        with reach(url) as found:
            yield found
    except OSError as error:
        if may_be_missing and isinstance(error, FileNotFoundError):
            raise
        raise StorageError(f"{url} cannot be {done}: {error.strerror or error}") from None


def _remove(url: str) -> None:
    with suppress(FileNotFoundError), _reaching(url, "removed", may_be_missing=True) as (system, path):
        system.rm(path, recursive=True)


def _write_locally(root: str, name: str, content: bytes | memoryview) -> None:
    # For its owner alone, since there are phones in it. A task that runs twice at once writes two files.
    file = Path(root, name)
    Path(root).parent.mkdir(parents=True, exist_ok=True)
    for folder in reversed(Path(name).parents):
        Path(root, folder).mkdir(mode=0o700, exist_ok=True)
    waiting = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(waiting, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(content)
        waiting.replace(file)
    except OSError:
        # A full disk leaves half a file with phones in it, which nobody would look for.
        waiting.unlink(missing_ok=True)
        raise


_LOCK = "run.lock"
_MARKER = "run.open"


@contextmanager
def open_scratch(place: str) -> Iterator[SharedFolder]:
    """Yield a new folder below a path or fsspec URL; it is removed at the end.

    At a path, folders of killed runs are removed, too: nobody holds their locks. At a URL they stay.

    Raises:
        RunnerError: it cannot be made.
    """
    machine = re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename)
    name = f"run-{machine}-{secrets.token_hex(8)}"
    if "://" in place:
        folder = _mark(f"{place.rstrip('/')}/{name}")
        try:
            yield folder
        except BaseException:
            # A place that cannot be written cannot be cleaned, either; the first error says more.
            with suppress(RunnerError):
                folder.remove()
            raise
        folder.remove()
        return
    above = Path(place).absolute()
    with _hold_folder(above / name) as own:
        # Of this machine alone: some network file systems keep locks from other machines.
        _remove_leftovers(above.glob(f"run-{machine}-*"), own)
        try:
            yield _mark(str(own))
        finally:
            (own / _MARKER).unlink(missing_ok=True)
            shutil.rmtree(own, ignore_errors=True)


def _mark(url: str) -> SharedFolder:
    """Return a run's folder with its marker.

    Raises:
        StorageError: it cannot be written.
    """
    SharedFolder(url).write(_MARKER, b"")
    return SharedFolder(url, f"{url}/{_MARKER}")


@contextmanager
def _hold_folder(own: Path) -> Iterator[Path]:
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
        yield own
    finally:
        os.close(lock)


def _remove_leftovers(folders: Iterable[Path], own: Path) -> None:
    for folder in folders:
        if folder != own and _is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Return whether nobody holds a run's folder. One without a lock may be about to be held."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)
