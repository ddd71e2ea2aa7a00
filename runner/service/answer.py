"""Bounded HTTP answers, read by `http.client` under stricter rules."""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from http.client import HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from urllib3.exceptions import HeaderParsingError
from urllib3.util.response import assert_header_parsing

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer
    from urllib3 import BaseHTTPResponse

MOST_BODY = 64 << 20
"""Bytes of a body, decompressed; also of a whole answer on the wire. `http.client` bounds the head."""
LATE = "it did not answer in time"
UNREADABLE = "its answer cannot be read"
NO_ANSWER = "the connection broke before an answer came"
BROKE_OFF = "its answer broke off"
TOO_LARGE = f"its answer is larger than {MOST_BODY >> 20} MiB"
_ANY_ZLIB = 32 + zlib.MAX_WBITS
"""zlib's own word for either of its two containers, gzip's and deflate's."""
_AS_IT_IS = ("", "identity")
"""The content codings that change nothing."""
_PIECE = _HEAD = 1 << 16
_FINAL = 200
"""The first status of an answer that is not merely interim."""
_SWITCHING = 101


class BrokenAnswerError(Exception):
    """An HTTP answer that is incomplete, malformed or too large; the message says which."""


class Location(NamedTuple):
    """A redirect's target, without its query, which may carry credentials."""

    origin: str
    path: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete, decompressed HTTP answer; `location` is the target of a redirect that was not followed."""

    status: int
    headers: dict[str, str]
    body: bytes
    location: Location | None = None


class WireAnswer(HTTPResponse):
    """`http.client`'s response with strict lengths, without interim answers, until a monotonic deadline."""

    def __init__(self, sock: socket.socket, method: str | None, deadline: float) -> None:
        super().__init__(sock, method=method)
        self._wire = _Wire(sock, self.fp.detach(), deadline)
        self._lines = _Lines(self._wire)
        self.fp = self._lines

    @property
    def is_cut_off(self) -> bool:
        """True if the connection has ended."""
        return self._wire.has_ended

    @property
    def has_more_behind(self) -> bool:
        """True if more bytes have arrived than belong to the answer."""
        return self._lines.has_more

    def begin(self) -> None:
        """Read the head of the final answer."""
        super().begin()
        while self.status < _FINAL:
            if self.status == _SWITCHING:
                raise BrokenAnswerError(UNREADABLE)
            # Makes the loop of `begin` read another head.
            self.headers = self.msg = cast("Any", None)
            super().begin()
        try:
            assert_header_parsing(self.headers)
        except HeaderParsingError:
            raise BrokenAnswerError(UNREADABLE) from None
        self._require_clear_length()

    def _require_clear_length(self) -> None:
        """Refuse an invalid or repeated length: another reader could find another end."""
        lengths = self.headers.get_all("content-length", [])
        codings = self.headers.get_all("transfer-encoding", [])
        if len(lengths) + len(codings) > 1 or any(coding.lower() != "chunked" for coding in codings):
            raise BrokenAnswerError(UNREADABLE)
        for length in lengths:
            if not (length.isascii() and length.isdecimal()):
                raise BrokenAnswerError(UNREADABLE)
        if (self.length or 0) > MOST_BODY:
            raise BrokenAnswerError(TOO_LARGE)


class _Wire(io.RawIOBase):
    """The bytes of one answer, up to a deadline and a maximum size."""

    def __init__(self, sock: socket.socket, source: io.RawIOBase, deadline: float) -> None:
        self._sock = sock
        self._source = source
        self._deadline = deadline
        self._count = 0
        self.has_ended = False
        self.is_over = False

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read the bytes that have arrived, or wait for some."""
        if self.is_over:
            return 0
        if self._count:
            # Setting it is a system call, which an answer in one piece doesn't need.
            left_s = self._deadline - monotonic()
            if left_s <= 0:
                raise BrokenAnswerError(LATE)
            self._sock.settimeout(left_s)
        try:
            size = self._source.readinto(buffer) or 0
        except TimeoutError:
            raise BrokenAnswerError(LATE) from None
        except OSError:
            raise BrokenAnswerError(self.describe_break()) from None
        self._count += size
        self.has_ended = not size
        if self._count > MOST_BODY + _HEAD:
            raise BrokenAnswerError(TOO_LARGE)
        return size

    def describe_break(self) -> str:
        """Describe the state of the answer if nothing more arrives."""
        return BROKE_OFF if self._count else NO_ANSWER

    def close(self) -> None:
        """Release the socket."""
        self._source.close()
        super().close()


class _Lines(io.BufferedReader):
    """Lines and bytes of an answer; lines are complete."""

    def __init__(self, wire: _Wire) -> None:
        super().__init__(wire)
        self._wire = wire
        self.has_more = False

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line including its end."""
        line = super().readline(size)
        # http.client asks for the maximum length of a line.
        if not line.endswith(b"\n") and len(line) != size:
            raise BrokenAnswerError(self._wire.describe_break())
        return line

    def close(self) -> None:
        """Note whether bytes were left over, and release the socket."""
        if not self.closed:
            self._wire.is_over = True
            self.has_more = bool(self.peek())
        super().close()


def read_body(raw: BaseHTTPResponse) -> bytes:
    """Return the decompressed body of an answer whose head has been read.

    Raises:
        BrokenAnswerError: it is too large or damaged.
    """
    body = _join(raw.stream(_PIECE, decode_content=False))
    coding = raw.headers.get("content-encoding", "").strip().lower()
    if not body or coding in _AS_IT_IS:
        return body
    # The library would take a truncated stream for a complete one.
    try:
        return _join(_decompress(body))
    except zlib.error:
        raise BrokenAnswerError(UNREADABLE) from None


def _join(pieces: Iterator[bytes]) -> bytes:
    kept, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > MOST_BODY:
            raise BrokenAnswerError(TOO_LARGE)
        kept.append(piece)
    return b"".join(kept)


def _decompress(packed: bytes) -> Iterator[bytes]:
    """Yield the content of one or more concatenated compressed streams (RFC 1952, 2.2)."""
    while packed:
        stream = zlib.decompressobj(_ANY_ZLIB)
        while not stream.eof:
            piece = stream.decompress(packed, _PIECE)
            packed = stream.unconsumed_tail
            if not piece and not packed and not stream.eof:
                raise BrokenAnswerError(UNREADABLE)
            yield piece
        packed = stream.unused_data
