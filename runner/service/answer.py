"""Answers as they come over the wire: read by `http.client`, held to HTTP more strictly, and bounded."""

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
"""Bytes of a body, decompressed; also of a whole answer on the wire."""
MOST_HEAD = 64 << 10
MOST_HEADERS = 90
"""`http.client` itself reads fewer than 100."""
LATE = "it did not answer in time"
UNREADABLE = "its answer cannot be read"
NO_ANSWER = "the connection broke before an answer came"
BROKE_OFF = "its answer broke off"
TOO_LARGE = f"its answer is larger than {MOST_BODY >> 20} MiB"
TOO_LARGE_HEAD = f"its answer's headers are larger than {MOST_HEAD >> 10} KiB"
TOO_MANY_HEADERS = f"its answer has more than {MOST_HEADERS} headers"
_ANY_ZLIB = 32 + zlib.MAX_WBITS
"""zlib's own word for either of its two containers, gzip's and deflate's."""
_AS_IT_IS = ("", "identity")
"""The content codings that change nothing."""
_PIECE = 1 << 16
_FINAL = 200
"""The first status of an answer that is not merely interim."""
_SWITCHING = 101


class BrokenAnswerError(Exception):
    """What came in is no whole HTTP answer, or one too large; says in words what became of it."""


class Location(NamedTuple):
    """The place that a redirect leads to, without its query, which may carry credentials."""

    origin: str
    path: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, read to its end.

    Attributes:
        status: the HTTP status.
        headers: by their names in lower case.
        body: decompressed, if it was compressed.
        location: of a redirect that was not followed, if it says where it leads.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    location: Location | None = None


class WireAnswer(HTTPResponse):
    """`http.client`'s response, which passes over interim answers and refuses contradictions.

    Args:
        sock: where it comes from; its timeout is the first piece's.
        method: of the request.
        deadline: when the whole answer must have come, in monotonic seconds.
    """

    def __init__(self, sock: socket.socket, method: str | None, deadline: float) -> None:
        super().__init__(sock, method=method)
        self._wire = _Wire(sock, self.fp.detach(), deadline)
        self._lines = _Lines(self._wire)
        self.fp = self._lines

    @property
    def is_cut_off(self) -> bool:
        """Whether the connection has ended."""
        return self._wire.has_ended

    @property
    def has_more_behind(self) -> bool:
        """Whether more has come than the answer, which nobody asked for."""
        return self._lines.has_more

    def begin(self) -> None:
        """Read the head of the final answer."""
        super().begin()
        while self.status < _FINAL:
            if self.status == _SWITCHING:
                raise BrokenAnswerError(UNREADABLE)
            # This is what has it begin again.
            self.headers = self.msg = cast("Any", None)
            super().begin()
        self._lines.end_head()
        try:
            assert_header_parsing(self.headers)
        except HeaderParsingError:
            raise BrokenAnswerError(UNREADABLE) from None
        self._require_clear_length()

    def _require_clear_length(self) -> None:
        """Refuse a length that is none, or is told twice: another reader could find another end."""
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
    """The bytes of one answer, until its deadline and up to its cap."""

    def __init__(self, sock: socket.socket, source: io.RawIOBase, deadline: float) -> None:
        self._sock = sock
        self._source = source
        self._deadline = deadline
        self._count = 0
        self.has_ended = False
        self.is_over = False

    def readable(self) -> bool:
        """Return that it can be read from."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read what is there, or wait for it."""
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
        if self._count > MOST_BODY + MOST_HEAD:
            raise BrokenAnswerError(TOO_LARGE)
        return size

    def describe_break(self) -> str:
        """Return in words what has become of the answer if nothing more comes."""
        return BROKE_OFF if self._count else NO_ANSWER

    def close(self) -> None:
        """Let go of the socket."""
        self._source.close()
        super().close()


class _Lines(io.BufferedReader):
    """An answer's lines and bytes; a line always has an end, and those of a head are few and short."""

    def __init__(self, wire: _Wire) -> None:
        super().__init__(wire)
        self._wire = wire
        self._is_head = True
        self._head = self._headers = 0
        self.has_more = False

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line with its end."""
        line = super().readline(size)
        if self._is_head:
            self._count(line)
        # The size that http.client asks for is how long a line may be.
        if not line.endswith(b"\n") and len(line) != size:
            raise BrokenAnswerError(self._wire.describe_break())
        return line

    def _count(self, line: bytes) -> None:
        self._head += len(line)
        # With the line of the status; an interim answer's own are behind it.
        self._headers = self._headers + 1 if line.strip() else 0
        if self._head > MOST_HEAD:
            raise BrokenAnswerError(TOO_LARGE_HEAD)
        if self._headers > MOST_HEADERS + 1:
            raise BrokenAnswerError(TOO_MANY_HEADERS)

    def end_head(self) -> None:
        """Take what follows for the body."""
        self._is_head = False

    def close(self) -> None:
        """Note if something was left over, and let go of the socket."""
        if not self.closed:
            self._wire.is_over = True
            self.has_more = bool(self.peek())
        super().close()


def read_body(raw: BaseHTTPResponse) -> bytes:
    """Return the whole body of an answer, decompressed.

    Args:
        raw: the answer, of which nothing but the head has been read.

    Raises:
        BrokenAnswerError: it is larger than is read, or damaged.
    """
    body = _join(raw.stream(_PIECE, decode_content=False))
    coding = raw.headers.get("content-encoding", "").strip().lower()
    if not body or coding in _AS_IT_IS:
        return body
    # Not by the library, which takes a stream that was cut off for a whole one.
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
    """Yield what one compressed stream, or several one behind the other, hold (RFC 1952, 2.2)."""
    while packed:
        stream = zlib.decompressobj(_ANY_ZLIB)
        while not stream.eof:
            piece = stream.decompress(packed, _PIECE)
            packed = stream.unconsumed_tail
            if not piece and not packed and not stream.eof:
                raise BrokenAnswerError(UNREADABLE)
            yield piece
        packed = stream.unused_data
