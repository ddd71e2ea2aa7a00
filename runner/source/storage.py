"""Files wherever they are: at a path, or at a URL of what fsspec knows, such as object storage.

A location is one of the two. fsspec, which is not always installed, is loaded for URLs alone.
"""

from __future__ import annotations

import io
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

_STAMPS = ("ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "updated", "created")
"""What file systems tell of a file that changes when it does; the first that one of them tells is taken."""


class MissingLibraryError(OSError):
    """A library that a location needs is not installed."""


def is_url(location: str) -> bool:
    """Return whether a location is a URL, rather than a path."""
    return "://" in location


def is_below(url: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a URL stands below one of some others, whatever its file system makes of its parts."""
    # Some servers and libraries take `%2e%2e` for `..`, and `?` or `#` for no more than a character.
    plain = unquote(url)
    if "::" in plain or "\\" in plain or ".." in re.split(r"[/?#]", plain):
        return False
    return any(url.startswith(f"{prefix.rstrip('/')}/") for prefix in prefixes)


def open_binary(location: str) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OSError: it cannot be opened.
    """
    if not is_url(location):
        return Path(location).open("rb")
    with reach(location) as (system, path):
        return cast("BinaryIO", system.open(path, "rb"))


def measure_file(location: str) -> int:
    """Return how many bytes a file has.

    Raises:
        OSError: it cannot be asked.
    """
    if not is_url(location):
        return Path(location).stat().st_size
    with reach(location) as (system, path):
        return int(system.size(path))


def stamp_file(location: str) -> tuple[object, ...] | None:
    """Return what is another value when the file has changed; None if there is none."""
    try:
        if not is_url(location):
            status = Path(location).stat()
            return status.st_size, status.st_mtime_ns
        with reach(location) as (system, path):
            told = system.info(path)
    except OSError:
        return None
    return told.get("size"), str(next((told[name] for name in _STAMPS if name in told), None))


def is_file(url: str) -> bool:
    """Return whether there is a file at a URL.

    Raises:
        OSError: it cannot be asked.
    """
    with reach(url) as (system, path):
        return bool(system.isfile(path))


def list_matching(pattern: str) -> list[str]:
    """Return the URLs of the files that a URL with `*`, `?` or `[…]` in its path stands for, sorted.

    Raises:
        OSError: they cannot be listed.
    """
    with reach(pattern) as (system, path):
        return sorted(system.unstrip_protocol(name) for name in system.glob(path) if system.isfile(name))


@contextmanager
def reach(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL, and the path there.

    Raises:
        OSError: whatever goes wrong while the block lasts, whoever says it.
    """
    try:
        # Imported here: an extra, and most audiences are files of this machine.
        from fsspec.core import url_to_fs  # noqa: PLC0415

        yield url_to_fs(url)
    except ImportError as error:
        words = str(error) if error.name != "fsspec" else "Install fsspec"
        raise MissingLibraryError(0, words) from None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  each file system has errors of its own
        is_unknown = str(error).startswith("Protocol not known")
        raise OSError(0, "fsspec knows no such protocol" if is_unknown else type(error).__name__) from None


class FileRange(io.RawIOBase):
    """Some bytes of a file, read as if they were all of it. Closes the file with itself.

    Args:
        stream: the file.
        start: the first byte.
        stop: the byte after the last one.
    """

    def __init__(self, stream: BinaryIO, start: int, stop: int) -> None:
        self._stream = stream
        self._start = start
        self._stop = stop
        stream.seek(start)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read some bytes, and return how many; 0 at the end of the range."""
        view = memoryview(buffer).cast("B")
        content = self._stream.read(min(len(view), self._stop - self._stream.tell()))
        view[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte, counted from the start of the range, and return it."""
        bases = {os.SEEK_SET: self._start, os.SEEK_CUR: self._stream.tell(), os.SEEK_END: self._stop}
        return self._stream.seek(bases[whence] + offset) - self._start

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()
