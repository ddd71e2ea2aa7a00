"""Answers are read as HTTP says, in whatever pieces they come; what is no whole answer is none (RFC 9112)."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from runner.service.answer import Answer
from runner.service.connection import Connection, NetworkError
from runner.service.target import Credentials, Target
from tests.service.wire import WireServer, read_message

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator

OK = b"HTTP/1.1 200 OK\r\n"
INTERIM = (
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </style>; rel=preload\r\nContent-Encoding: gzip\r\n\r\n",
)
WHOLE = OK + b"Content-Length: 2\r\n\r\nhi"
NAMES = st.from_regex(r"X-[A-Za-z0-9-]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_categories=["Cc"]), max_size=9)
UNREADABLE = "its answer cannot be read"
TOO_LARGE = "its answer is larger than 64 MiB"
MIB = 1 << 20
PATIENCE_S = 100.0
"""How long a test waits for something that must happen; it is never waited for in full."""


class Script:
    """Answers every request with the pieces that a test says, on as few connections as its client allows.

    Attributes:
        pieces: are sent one after the other.
        ends: whether the connection ends behind them.
        connections: how many were taken.
    """

    def __init__(self) -> None:
        self.pieces: Iterable[bytes] = ()
        self.ends = False
        self.connections = 0

    def serve(self, stream: socket.socket, reader: BinaryIO) -> None:
        """Serve one connection."""
        self.connections += 1
        while read_message(reader):
            # Before the answer is whole: its client may be about to ask for another one behind it.
            pieces, ends = self.pieces, self.ends
            for piece in pieces:
                stream.sendall(piece)
            if ends:
                return


class Asking:
    """Asks a script for answers.

    Args:
        script: what is answered.
        port: where.
    """

    def __init__(self, script: Script, port: int) -> None:
        self.script = script
        target = Target(
            "live",
            f"http://127.0.0.1:{port}",
            Credentials("ada", "key"),
            connect_timeout=PATIENCE_S,
            read_timeout=PATIENCE_S,
        )
        self.connection = Connection(target)

    def read(self, pieces: Iterable[bytes], *, ends: bool = False) -> Answer:
        """Return what is read of an answer's pieces, and of the connection's end if it comes to that."""
        self.script.pieces, self.script.ends = pieces, ends
        return self.connection.get("/", {})

    def fail(self, pieces: Iterable[bytes], *, ends: bool = False) -> str:
        """Return in words what is wrong with an answer, whose pieces may have no end."""
        with pytest.raises(NetworkError) as caught:
            self.read(pieces, ends=ends)
        assert caught.value.bytes_left
        return caught.value.reason

    def leaves_open(self) -> bool:
        """Return whether the last answer's connection is used again."""
        before = self.script.connections
        self.read([WHOLE])
        return self.script.connections == before


@pytest.fixture
def asking() -> Iterator[Asking]:
    """A client of a script."""
    script = Script()
    with WireServer(script.serve) as server:
        asking = Asking(script, server.port)
        try:
            yield asking
        finally:
            asking.connection.close()


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
    asking: Asking, drawn: tuple[bytes, bool, Answer], data: st.DataObject
) -> None:
    """The pieces in which an answer comes in say nothing: what counts are its bytes."""
    sent, ends, expected = drawn
    places = data.draw(st.lists(st.integers(0, len(sent)), max_size=12).map(sorted))
    cuts = [0, *places, len(sent)]
    pieces = [sent[start:end] for start, end in pairwise(cuts) if start != end]
    assert asking.read(pieces, ends=ends) == expected
    assert asking.leaves_open() == (not ends)


def test_an_answer_may_come_byte_by_byte(asking: Asking) -> None:
    """An answer may come in one byte at a time; it isn't whole before the last one."""
    body = gzip.compress(b"hello")
    chunked = b"Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    sent = INTERIM[1] + OK + chunked + in_chunks(body, [3, 9], b"X-Sum: 1\r\n")
    answer = asking.read([sent[place : place + 1] for place in range(len(sent))])
    assert answer.body == b"hello"
    assert asking.leaves_open()


@given(answers(), st.data())
def test_what_is_cut_off_is_no_answer(
    asking: Asking, drawn: tuple[bytes, bool, Answer], data: st.DataObject
) -> None:
    """Where an answer says how long it is, the connection's end before that breaks it."""
    sent, ends, _ = drawn
    assume(not ends)
    place = data.draw(st.integers(0, len(sent) - 1))
    asking.fail([sent[:place]], ends=True)


@given(st.binary(max_size=99))
@example(WHOLE[:40])
@example(OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nhi\r\n0\r\n\r\n")
def test_noise_is_an_answer_or_broken(asking: Asking, noise: bytes) -> None:
    """Whatever bytes come, they are an answer or broken, and never another error."""
    try:
        asking.read([noise], ends=True)
    except NetworkError:
        return


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "the connection broke before an answer came"),
        (b"hello", "its answer broke off"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", UNREADABLE),
        (b"\x15\x03\x01\x00\x02\x02\x46\r\n", UNREADABLE),
        (b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", UNREADABLE),
        (b"HTTP/9.9 200 OK\r\n\r\n", UNREADABLE),
        (b"HTTP/1.1 two OK\r\n\r\n", UNREADABLE),
        (OK, "its answer broke off"),
        (OK + b"no colon here\r\n\r\n", UNREADABLE),
        (OK + b"Content-Length : 2\r\n\r\nhi", UNREADABLE),
        (OK + b"Content-Length: 3\r\n\r\nhi", "its answer broke off"),
        (OK + b"Content-Length: -2\r\n\r\nhi", UNREADABLE),
        (OK + b"Content-Length: 2, 2\r\n\r\nhi", UNREADABLE),
        (OK + b"Content-Length: \xb2\r\n\r\nhi", UNREADABLE),
        (OK + b"Content-Length: 99999999999999999999\r\n\r\nhi", TOO_LARGE),
        (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", UNREADABLE),
        (OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", UNREADABLE),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "its answer broke off"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n", UNREADABLE),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzwei\r\nhi\r\n0\r\n\r\n", UNREADABLE),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", UNREADABLE),
        (OK + b"Transfer-Encoding: gzip\r\n\r\nhi", UNREADABLE),
        (INTERIM[0], "its answer broke off"),
        (INTERIM[1], "its answer broke off"),
        (INTERIM[0] + OK, "its answer broke off"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", UNREADABLE),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + WHOLE, UNREADABLE),
    ],
)  # fmt: skip
def test_what_is_no_whole_answer_is_broken(asking: Asking, sent: bytes, reason: str) -> None:
    """Nothing is made of what isn't HTTP, contradicts itself, or ends too early."""
    assert asking.fail([sent], ends=True) == reason


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)[:-3]),
        ("gzip", b"hello"),
        ("gzip", gzip.compress(b"hello", mtime=0)[:12] + b"\x00" + gzip.compress(b"hello", mtime=0)[13:]),
        ("gzip", gzip.compress(b"hello", mtime=0) + b"more"),
        ("deflate", zlib.compress(b"hello")[:-1] + b"!"),
        ("br", b"\x0b\x02\x80hello\x03"),
    ],
)
def test_a_damaged_body_is_broken(asking: Asking, coding: str, body: bytes) -> None:
    """A compressed body that doesn't pass its own checks, or whose coding nobody asked for, is not guessed at."""
    head = f"Content-Length: {len(body)}\r\nContent-Encoding: {coding}\r\n\r\n".encode()
    assert asking.fail([OK + head + body]) == UNREADABLE


def test_a_body_may_be_compressed_in_parts(asking: Asking) -> None:
    """Several streams one behind the other are one body (RFC 1952, 2.2)."""
    body = gzip.compress(b"hello, ") + gzip.compress(b"you")
    head = f"Content-Length: {len(body)}\r\nContent-Encoding: GZIP\r\n\r\n".encode()
    assert asking.read([OK + head + body]).body == b"hello, you"


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
def test_an_unusual_answer_is_one(asking: Asking, head: bytes, body: bytes) -> None:
    """What HTTP allows is an answer, and leaves the connection open."""
    assert asking.read([head + body]).body == body
    assert asking.leaves_open()


@pytest.mark.parametrize(
    "rest",
    [b"h", b"more", WHOLE, b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", INTERIM[0], b"\x00"],
)
@pytest.mark.parametrize("send", [lambda rest: [WHOLE + rest], lambda rest: [WHOLE, rest]])
def test_what_follows_an_answer_is_not_its(
    asking: Asking, rest: bytes, send: Callable[[bytes], list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer stands whatever follows; its connection is not used again: whose the rest is, is unknown."""
    # On a busy machine the rest comes later than in a moment.
    monkeypatch.setattr("runner.service.connection._DOUBT_S", PATIENCE_S)
    assert asking.read(send(rest)) == Answer(200, {"content-length": "2"}, b"hi")
    assert not asking.leaves_open()


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
def test_a_connection_is_kept_as_the_answer_says(asking: Asking, sent: bytes, *, leaves_open: bool) -> None:
    """HTTP/1.1 keeps connections unless told otherwise; 1.0 doesn't (RFC 9112, 9.3)."""
    assert asking.read([sent]).body == b"hi"
    assert asking.leaves_open() == leaves_open


def endless(piece: bytes) -> Iterator[bytes]:
    """Yield a piece again and again, until nobody takes it any more."""
    while True:
        yield piece


def packed_zeros(mib: int) -> bytes:
    """Return many zeros, compressed: a thousandth of their size."""
    stream = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    return b"".join([*(stream.compress(bytes(MIB)) for _ in range(mib)), stream.flush()])


def answer_pieces(head: bytes, body: Iterable[bytes]) -> Iterator[bytes]:
    """Yield an answer's head, and then its body."""
    yield OK + head + b"\r\n"
    yield from body


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (lambda: answer_pieces(b"", endless(bytes(MIB))), TOO_LARGE),
        (lambda: answer_pieces(b"Content-Length: 67108865\r\n", [b"x"]), TOO_LARGE),
        (
            lambda: answer_pieces(b"Transfer-Encoding: chunked\r\n", endless(b"100000\r\n" + bytes(MIB) + b"\r\n")),
            TOO_LARGE,
        ),
        (
            lambda: answer_pieces(b"Transfer-Encoding: chunked\r\n", [b"0\r\n", *[b"X: %b\r\n" % (b"x" * 60_000)] * 1_200]),
            TOO_LARGE,
        ),
        (lambda: endless(INTERIM[0] * 10_000), TOO_LARGE),
        (lambda: answer_pieces(b"X: ", endless(b"x" * MIB)), UNREADABLE),
        (lambda: [OK, *[b"X: 1\r\n"] * 5000], UNREADABLE),
    ],
    ids=["endless", "claimed", "chunks", "trailer", "interim", "long header", "many headers"],
)  # fmt: skip
def test_an_answer_has_bounds(asking: Asking, pieces: Callable[[], Iterable[bytes]], reason: str) -> None:
    """What a service sends without end is read no further than to its cap, which the error names."""
    assert asking.fail(pieces(), ends=True) == reason


@pytest.mark.slow
@pytest.mark.parametrize(("mib", "is_read"), [(64, True), (65, False), (500, False)])
def test_a_body_is_decompressed_within_bounds(asking: Asking, mib: int, *, is_read: bool) -> None:
    """Some kilobytes that would fill the memory are an error that names the cap, and fill nothing."""
    body = packed_zeros(mib)
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n".encode()
    tracemalloc.start()
    try:
        if is_read:
            assert len(asking.read(answer_pieces(head, [body])).body) == mib * MIB
        else:
            assert asking.fail(answer_pieces(head, [body])) == TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 150 * MIB
