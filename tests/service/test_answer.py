"""Answers are read as HTTP says, in whatever pieces they come; what is no whole answer is none (RFC 9112)."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from runner.service.answer import Answer, AnswerReader, BrokenAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OK = b"HTTP/1.1 200 OK\r\n"
INTERIM = (
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </style>; rel=preload\r\nContent-Encoding: gzip\r\n\r\n",
)
WHOLE = OK + b"Content-Length: 2\r\n\r\nhi"
NAMES = st.from_regex(r"X-[A-Za-z0-9-]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_categories=["Cc"]), max_size=9)


def read(pieces: Iterable[bytes], *, ends: bool = False) -> AnswerReader:
    """Return a reader that has taken an answer's pieces, and the connection's end if it came to that."""
    reader = AnswerReader()
    for piece in pieces:
        reader.feed(piece)
    if ends:
        reader.end()
    return reader


def in_chunks(body: bytes, sizes: list[int], trailer: bytes) -> bytes:
    """Return a body in chunks of these sizes, and one with what is left (RFC 9112, 7.1)."""
    chunks = b""
    for size in [*sizes, len(body)]:
        chunk, body = body[:size], body[size:]
        if chunk:
            chunks += b"%x;ext=1\r\n%b\r\n" % (len(chunk), chunk)
    return chunks + b"0\r\n" + trailer + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, bool, Answer]:
    """Draw an answer's bytes, whether the connection's end is its end, and what it is to be read as."""
    status = draw(st.sampled_from([200, 201, 400, 429, 503]))
    headers = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    body, sent = draw(st.binary(max_size=300)), b""
    compress = draw(st.sampled_from([None, gzip.compress, zlib.compress]))
    if compress is not None:
        headers["Content-Encoding"] = "gzip" if compress is gzip.compress else "deflate"
    packed = body if compress is None else compress(body)
    delimiter = draw(st.sampled_from(["length", "chunks", "end"]))
    if delimiter == "length":
        headers["Content-Length"] = str(len(packed))
        sent = packed
    elif delimiter == "chunks":
        headers["Transfer-Encoding"] = "chunked"
        trailer = draw(st.sampled_from([b"", b"X-Sum: 1\r\n", b"Content-Encoding: br\r\n"]))
        sent = in_chunks(packed, draw(st.lists(st.integers(1, 99), max_size=4)), trailer)
    else:
        sent = packed
    lines = "".join(
        f"{name}:{draw(st.sampled_from(['', ' ']))}{value}\r\n" for name, value in headers.items()
    )
    before = b"".join(draw(st.lists(st.sampled_from(INTERIM), max_size=2)))
    data = before + f"HTTP/1.1 {status} Word\r\n{lines}\r\n".encode("latin-1") + sent
    expected = Answer(status, {name.lower(): value for name, value in headers.items()}, body)
    return data, delimiter == "end", expected


@given(answers(), st.data())
def test_an_answer_is_the_same_however_it_is_cut(
    drawn: tuple[bytes, bool, Answer], data: st.DataObject
) -> None:
    """The pieces in which an answer comes in say nothing: what counts are its bytes."""
    sent, ends, expected = drawn
    places = data.draw(st.lists(st.integers(0, len(sent)), max_size=12).map(sorted))
    cuts = [0, *places, len(sent)]
    pieces = [sent[start:end] for start, end in pairwise(cuts) if start != end]
    reader = read(pieces, ends=ends)
    assert reader.is_whole
    assert reader.leaves_open == (not ends)
    assert reader.read() == expected


@given(answers())
def test_an_answer_is_the_same_byte_by_byte(drawn: tuple[bytes, bool, Answer]) -> None:
    """An answer may come in one byte at a time; it isn't whole before the last one."""
    sent, ends, expected = drawn
    reader = AnswerReader()
    for place in range(len(sent)):
        assert not reader.is_whole
        reader.feed(sent[place : place + 1])
    if ends:
        assert not reader.is_whole
        reader.end()
    assert reader.is_whole
    assert reader.read() == expected


@given(answers(), st.data())
def test_what_is_cut_off_is_no_answer(drawn: tuple[bytes, bool, Answer], data: st.DataObject) -> None:
    """Where an answer says how long it is, the connection's end before that breaks it."""
    sent, ends, _ = drawn
    assume(not ends)
    place = data.draw(st.integers(0, len(sent) - 1))
    with pytest.raises(BrokenAnswerError):
        read([sent[:place]] if place else [], ends=True)


@given(st.binary(max_size=99))
@example(WHOLE[:40])
def test_noise_is_an_answer_or_broken(noise: bytes) -> None:
    """Whatever bytes come, they are an answer or broken, and never another error."""
    reader = AnswerReader()
    try:
        reader.feed(noise)
        reader.end()
        reader.read()
    except BrokenAnswerError:
        return
    assert reader.is_whole


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"hello",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 two OK\r\n\r\n",
        OK,
        OK + b"no colon here\r\n\r\n",
        OK + b"Content-Length : 2\r\n\r\nhi",
        OK + b"Content-Length: 3\r\n\r\nhi",
        OK + b"Content-Length: -2\r\n\r\nhi",
        OK + b"Content-Length: 2, 2\r\n\r\nhi",
        OK + b"Content-Length: 99999999999999999999\r\n\r\nhi",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzwei\r\nhi\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\nhi",
        *INTERIM,
        INTERIM[0] + OK,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + WHOLE,
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + WHOLE,
    ],
)
def test_what_is_no_whole_answer_is_broken(sent: bytes) -> None:
    """Nothing is made of what isn't HTTP, contradicts itself, or ends too early."""
    with pytest.raises(BrokenAnswerError):
        read([sent] if sent else [], ends=True)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)[:-3]),
        ("gzip", b"hello"),
        ("gzip", gzip.compress(b"hello", mtime=0)[:12] + b"\x00" + gzip.compress(b"hello", mtime=0)[13:]),
        ("deflate", zlib.compress(b"hello")[:-1] + b"!"),
        ("br", b"\x0b\x02\x80hello\x03"),
    ],
)
def test_a_damaged_body_is_broken(coding: str, body: bytes) -> None:
    """A compressed body that doesn't pass its own checks, or whose coding nobody asked for, is not guessed at."""
    head = f"Content-Length: {len(body)}\r\nContent-Encoding: {coding}\r\n\r\n".encode()
    reader = read([OK + head + body])
    assert reader.is_whole
    with pytest.raises(BrokenAnswerError):
        reader.read()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", b""),
        (b"HTTP/1.1 401 No\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n", b"hi"),
        (OK + b"Content-Encoding: Identity\r\nContent-Length: 2\r\n\r\n", b"hi"),
        (OK + b"Content-Encoding:\r\nContent-Length: 2\r\n\r\n", b"hi"),
        # As Apache answers a request that could have gone over to HTTP/2.
        (OK + b"Upgrade: h2,h2c\r\nConnection: Upgrade, Keep-Alive\r\nContent-Length: 2\r\n\r\n", b"hi"),
        (OK + b"Upgrade: h2,h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\n", b"hi"),
    ],
)
def test_an_unusual_answer_is_one(head: bytes, body: bytes) -> None:
    """What HTTP allows is an answer, and leaves the connection open."""
    reader = read([head + body])
    assert (reader.is_whole, reader.leaves_open, reader.read().body) == (True, True, body)


@pytest.mark.parametrize(
    "rest",
    [b"h", b"more", WHOLE, b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", INTERIM[0], b"\x00"],
)
@pytest.mark.parametrize("send", [lambda rest: [WHOLE + rest], lambda rest: [WHOLE, rest]])
def test_what_follows_an_answer_is_not_its(rest: bytes, send: Callable[[bytes], list[bytes]]) -> None:
    """An answer stands whatever follows; its connection is not used again: whose the rest is, is unknown."""
    reader = read(send(rest))
    assert (reader.is_whole, reader.leaves_open) == (True, False)
    assert reader.read() == Answer(200, {"content-length": "2"}, b"hi")


@pytest.mark.parametrize(
    ("sent", "leaves_open"),
    [
        (WHOLE, True),
        (OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi", False),
        (OK + b"Connection: Upgrade, CLOSE\r\nUpgrade: h2\r\nContent-Length: 2\r\n\r\nhi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi", True),
        (INTERIM[0] + WHOLE, True),
    ],
)
def test_a_connection_is_kept_as_the_answer_says(sent: bytes, *, leaves_open: bool) -> None:
    """HTTP/1.1 keeps connections unless told otherwise; 1.0 doesn't (RFC 9112, 9.3)."""
    reader = read([sent])
    assert (reader.is_whole, reader.leaves_open, reader.read().body) == (True, leaves_open, b"hi")


def test_what_broke_off_is_told_from_what_never_came() -> None:
    """Whether anything came in is said, also of what is no answer."""
    reader = AnswerReader()
    assert reader.describe_break() == "the connection broke before an answer came"
    with pytest.raises(BrokenAnswerError, match=r"^its answer cannot be read$"):
        reader.feed(b"\x00")
    assert reader.describe_break() == "its answer broke off"
