r"""A filter that keeps output in a CI job from being read as a command to the platform.

Platforms take these for commands, on both streams and from any author:

- GitHub Actions (`actions/runner`: `ActionCommand.cs`, `OutputManager.cs`): a line that begins, behind
  blanks, with `::name`, and the older `##[name]` anywhere in a line. A line ends at a line feed or a
  carriage return.
- Azure Pipelines, the source of that older form: `##[name]` and `##vso[name]`, anywhere.
- GitLab (`lib/gitlab/regex.rb`): `section_start:` and `section_end:`, anywhere.

The last character of such a beginning is written as its escape: `::error` becomes `:\u003aerror`, and `##[`
becomes `##\u005b`. Text stays readable, and JSON keeps its meaning: there it can only stand in a string.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from _typeshed import ReadableBuffer

CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD")
"""Environment variables that CI platforms set for their jobs."""
_OFF = {"", "0", "false"}

# Any character but visible ASCII may be a blank: .NET trims 25 of them, most of several bytes.
_COMMAND = re.compile(
    rb"""
    ( (?: \A | (?<=[\r\n]) ) [^\x21-\x7e\r\n]* : ) :
    | ( \#\#(?:vso)? ) \[
    | ( section_(?:start|end) ) :
    """,
    re.VERBOSE,
)
_LINE_END = re.compile(rb"[\r\n]")
_BLANKS = re.compile(rb"[^\x21-\x7e]*(:?)")
_REMEMBERED = 16
"""Bytes of a line that are enough to hold all but the last of any beginning of a command."""


class CommandFilter:
    """A filter that escapes the beginnings of commands in a stream of bytes, in pieces of any size.

    Attributes:
        is_at_line_start: whether the next byte begins a line.
    """

    def __init__(self) -> None:
        self.is_at_line_start = True
        self._line = b""

    def feed(self, piece: bytes) -> bytes:
        """Return the next piece with escaped beginnings of commands, considering all pieces before it."""
        if not piece:
            return b""
        escaped = _COMMAND.sub(_escape_last, self._line + piece)
        written = escaped[len(self._line) :]
        line = _LINE_END.split(escaped)[-1]
        self.is_at_line_start = not line
        blank = _BLANKS.fullmatch(line)
        # A letter stands for the begin of the line, if that is more than blanks.
        self._line = blank[1] if blank else b"x" + line[-_REMEMBERED:]
        return written


def _escape_last(found: re.Match[bytes]) -> bytes:
    return b"".join(filter(None, found.groups())) + b"\\u%04x" % found[0][-1]


class GuardedOutput(io.RawIOBase):
    """An open file with a filter; its descriptor stays open when this is closed."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._filter = CommandFilter()

    def write(self, piece: ReadableBuffer, /) -> int:
        """Write a piece, filtered; return its own length."""
        data = bytes(piece)
        self._write_all(self._filter.feed(data))
        return len(data)

    def write_command(self, line: str) -> None:
        """Write a line that is meant as a command. Earlier output must have been flushed."""
        begin = "" if self._filter.is_at_line_start else "\n"
        self._filter = CommandFilter()
        self._write_all(f"{begin}{line}\n".encode())

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]

    def fileno(self) -> int:
        """Return the file's descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether the file is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return True."""
        return True


@contextmanager
def guard_output(environment: Mapping[str, str]) -> Iterator[None]:
    """Filter standard output and error while a block lasts, if a CI platform reads them.

    A stream that leads into a file, as in `runner report --format csv >report.csv`, is left alone: nothing
    reads commands there.
    """
    if all(environment.get(name, "").lower() in _OFF for name in CI_VARIABLES):
        yield
        return
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_guard, before)
    try:
        yield
    finally:
        for stream, own in zip((sys.stdout, sys.stderr), before, strict=True):
            if stream is not own:
                # A failed flush was reported already, as far as possible.
                with suppress(OSError, ValueError):
                    stream.flush()
        sys.stdout, sys.stderr = before


def write_command(line: str) -> None:
    """Write one command for the platform to standard output; its values must be escaped."""
    # Names of files may contain bytes that are no text: these are shown as escapes.
    line = line.encode("utf-8", "backslashreplace").decode()
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, GuardedOutput):
        raw.write_command(line)
    else:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def leads_to_file(stream: TextIO) -> bool:
    """Return whether a stream is redirected into a file, where nothing reads commands."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        # It is closed, or no stream of the operating system's.
        return False


def _guard(stream: TextIO) -> TextIO:
    if leads_to_file(stream):
        return stream
    try:
        descriptor = stream.fileno()
        os.fstat(descriptor)
    except (OSError, ValueError, AttributeError):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(GuardedOutput(descriptor)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.isatty() or stream is sys.stderr,
    )
