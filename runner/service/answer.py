"""HTTP answers as they come in, piece by piece (RFC 9112); the parser is llhttp's."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_ANY_ZLIB = 32 + zlib.MAX_WBITS
"""zlib's own word for either of its two containers, gzip's and deflate's."""
_AS_IT_IS = ("", "identity")
"""The content codings that change nothing."""
_UNREADABLE = "its answer cannot be read"
_FINAL = 200
"""The first status of an answer that is not merely interim."""


class BrokenAnswerError(Exception):
    """What came in is no whole HTTP answer; says in words what became of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, read to its end.

    Attributes:
        status: the HTTP status.
        headers: by their names in lower case.
        body: decompressed, if it was compressed.
    """

    status: int
    headers: dict[str, str]
    body: bytes


class AnswerReader:
    """Puts one answer together from the pieces in which it arrives.

    Attributes:
        is_whole: whether nothing is missing any more.
        leaves_open: whether the connection may be used again; known once the answer is whole.
    """

    def __init__(self) -> None:
        self.is_whole = False
        self._has_begun = False
        self.leaves_open = False
        self._parser = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._status = 0

    def feed(self, data: bytes) -> None:
        """Take the next piece.

        Raises:
            BrokenAnswerError: it is not HTTP.
        """
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            if not self.is_whole:
                raise BrokenAnswerError(_UNREADABLE) from None
            # The answer stands, but whose the rest is, nobody can tell.
            self.leaves_open = False

    def end(self) -> None:
        """Take note of the connection's end, which is the end of an answer that doesn't say how long it is.

        Raises:
            BrokenAnswerError: there should have been more.
        """
        is_delimited = self._headers.keys() & {"content-length", "transfer-encoding"}
        if not self._status or is_delimited:
            raise BrokenAnswerError(self.describe_break())
        self.is_whole = True

    def describe_break(self) -> str:
        """Return in words what has become of the answer if nothing more comes."""
        return "its answer broke off" if self._has_begun else "the connection broke before an answer came"

    def read(self) -> Answer:
        """Return the answer, once it is whole.

        Raises:
            BrokenAnswerError: its compressed body is damaged.
        """
        body = b"".join(self._body)
        if body and self._headers.get("content-encoding", "").lower() not in _AS_IT_IS:
            try:
                body = zlib.decompress(body, _ANY_ZLIB)
            except zlib.error:
                raise BrokenAnswerError(_UNREADABLE) from None
        return Answer(self._status, self._headers, body)

    def on_message_begin(self) -> None:
        """Begin with an answer: the parser's callback."""
        if self.is_whole:
            raise BrokenAnswerError(_UNREADABLE)
        self._headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header: the parser's callback."""
        if self._status:
            # A trailer, after the body, which it may not redefine (RFC 9110, 6.5.1).
            return
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take note of the status: the parser's callback."""
        status = self._parser.get_status_code()
        self._status = status if status >= _FINAL else 0

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body: the parser's callback."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Take note of an answer's end: the parser's callback."""
        if self._status:
            self.is_whole = True
            self.leaves_open = self._parser.should_keep_alive()
