"""The folder of one run for its intermediate files: it goes with the run."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cluster.folder import SharedFolder
from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LOCK = "run.lock"


@contextmanager
def open_scratch(place: str) -> Iterator[SharedFolder]:
    """Yield a new folder below a place; it is removed at the end.

    At a path, the folders of runs that were killed are removed, too: the lock that each run of this machine
    holds on its own tells them. At a URL nothing tells, and they stay.

    Args:
        place: a path, or an fsspec URL.

    Raises:
        RunnerError: it cannot be made.
    """
    machine = re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename)
    name = f"run-{machine}-{secrets.token_hex(8)}"
    if "://" in place:
        folder = SharedFolder(f"{place.rstrip('/')}/{name}")
        try:
            yield folder
        except BaseException:
            # A place that cannot be written cannot be cleaned, either: the first says more.
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
            yield SharedFolder(str(own))
        finally:
            shutil.rmtree(own, ignore_errors=True)


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
        # A network's file system may have no locks: then nobody takes the folder for a leftover, either.
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
