"""A read that fails, or that the service asks to repeat (RFC 9110, 10.2.3), is made again within bounds."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import pytest

from runner.errors import ServiceError
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.target import Credentials, Target
from tests.service.wire import WireServer, read_message, write_answer

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

LIST = write_answer(200, json.dumps({"meta": {"total_count": 3}, "objects": []}).encode())


class Waiting:
    """Takes note of how long was to be waited, and doesn't wait.

    Attributes:
        waits: seconds.
        is_stopped: whether whoever waits is told to stop.
    """

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.is_stopped = False

    def __call__(self, seconds: float) -> bool:
        """Wait."""
        self.waits.append(seconds)
        return self.is_stopped


BROKEN = (b"", LIST[:-1])
"""Answers after which the connection ends: none, and half of one."""


@contextmanager
def serving(answers: list[bytes], wait: Waiting) -> Iterator[ServiceClient]:
    """Give a client of a service that answers the requests one after the other, the rest with the last."""
    left = iter(answers)

    def serve(stream: socket.socket, reader: BinaryIO) -> None:
        while read_message(reader):
            answer = next(left, answers[-1])
            stream.sendall(answer)
            if answer in BROKEN:
                return

    with WireServer(serve) as server:
        target = Target("live", f"http://127.0.0.1:{server.port}", Credentials("ada", "key"))
        connection = Connection(target)
        try:
            yield ServiceClient(target, connection, now=lambda: 0.0, wait=wait, random=lambda: 0.5)
        finally:
            connection.close()


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ([], [0.5, 1.0]),
        (["Retry-After: 7"], [7.0, 7.0]),
        (["Retry-After: 60"], [60.0, 60.0]),
        (["Retry-After: soon"], [0.5, 1.0]),
        (["Retry-After: Thu, 01 Jan 1970 00:00:09 GMT"], [9.0, 9.0]),
    ],
)
def test_a_busy_service_is_asked_again(status: int, headers: list[str], waits: list[float]) -> None:
    """After as long as the service asks for, or else some moments, a read is made again."""
    wait = Waiting()
    busy = write_answer(status, b"", *headers)
    with serving([busy, busy, LIST], wait) as client:
        assert client.count_launches("pulse") == 3
    assert wait.waits == waits


@pytest.mark.parametrize(
    "answer",
    [*(write_answer(status) for status in (408, 500, 502, 504, 520)), *BROKEN],
    ids=["408", "500", "502", "504", "520", "reset", "half"],
)
def test_a_read_that_fails_is_made_again(answer: bytes) -> None:
    """Gateways fail for a moment: one bad answer ends no run of thirty campaigns."""
    wait = Waiting()
    with serving([answer, answer, LIST], wait) as client:
        assert client.count_launches("pulse") == 3
    assert wait.waits == [0.5, 1.0]


def test_an_address_that_was_never_reached_is_not_asked_again() -> None:
    """It is wrong, more likely than away; once it has answered, it is asked four times."""
    wait = Waiting()
    with serving([LIST], wait) as client:
        client.count_launches("pulse")
    for has_answered in (True, False):
        wait.waits.clear()
        if not has_answered:
            # Nothing listens on the port any more.
            target = Target("live", "http://127.0.0.1:9", Credentials("ada", "key"))
            client = ServiceClient(target, Connection(target), wait=wait)
        with pytest.raises(ServiceError, match="it cannot be reached"):
            client.count_launches("pulse")
        assert len(wait.waits) == (3 if has_answered else 0)


@pytest.mark.parametrize("status", [429, 503])
def test_a_service_that_stays_busy_is_given_up(status: int) -> None:
    """A read is made four times at most; what the service has answered last is told."""
    wait = Waiting()
    answers = [write_answer(status, b"come back later")]
    with serving(answers, wait) as client, pytest.raises(ServiceError) as caught:
        client.count_launches("pulse")
    assert caught.value.message == f"the service refuses GET /api/stats/: HTTP {status}: come back later"
    assert wait.waits == [0.5, 1.0, 2.0]


def test_a_service_that_asks_for_long_is_not_waited_for() -> None:
    """Nobody sits before a command that waits for hours: it says so instead."""
    wait = Waiting()
    answers = [write_answer(503, b"", "Retry-After: 61")]
    with serving(answers, wait) as client, pytest.raises(ServiceError) as caught:
        client.count_launches("pulse")
    assert caught.value.message == (
        "the service refuses GET /api/stats/: HTTP 503; it asks to be left alone for 61 s"
    )
    assert wait.waits == []


def test_a_stop_ends_the_waiting() -> None:
    """A run that is told to stop while it waits asks no more."""
    wait = Waiting()
    wait.is_stopped = True
    with serving([write_answer(503), LIST], wait) as client, pytest.raises(ServiceError) as caught:
        client.count_launches("pulse")
    assert caught.value.message == "the service refuses GET /api/stats/: HTTP 503"
    assert len(wait.waits) == 1
