"""Files wherever they are: at a path, or at a URL of what fsspec knows, such as object storage."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def is_url(location: str) -> bool:
    """Return whether a location is a URL, rather than a path."""
    return "://" in location


def open_binary(location: str) -> BinaryIO:
    """Open a file for reading.

    Args:
        location: a path, or a URL.

    Raises:
        OSError: it cannot be opened.
    """
    return Path(location).open("rb")


def measure_file(location: str) -> int:
    """Return how many bytes a file has.

    Raises:
        OSError: it cannot be asked.
    """
    return os.stat(location).st_size  # noqa: PTH116  a location may be a URL


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
