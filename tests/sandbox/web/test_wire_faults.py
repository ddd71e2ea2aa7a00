"""Asked-for faults on a real socket: what a client meets, and what the service has accepted all the same."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest
import requests

from runner.sandbox.clock import Clock, read_clock
from runner.sandbox.rehearsal.faults import FAULTS, FaultPlace, Faults
from runner.sandbox.web.server import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runner.sandbox.model import ServiceAddress

SEND = b'{"phone": ["+14155550101"], "text": "Hello"}'
ACCEPTING = sorted(name for name, fault in FAULTS.items() if fault.accepts)
REFUSING = sorted(
    name for name, fault in FAULTS.items() if fault.place is FaultPlace.SEND and not fault.accepts
)
STATUSES = {"500": 500, "500-before": 500, "500-list": 500, "429": 429, "503": 503}


@contextmanager
def faulty(
    db: Path, name: str, *, rate: float = 1.0, slow_for_s: float = 0.2
) -> Iterator[tuple[ServiceAddress, Faults]]:
    """Run a service in which one fault always happens."""
    faults = Faults({name: rate}, seed=1, slow_for=timedelta(seconds=slow_for_s))
    with running_service(db, faults=faults) as address:
        yield address, faults


def exchange(address: ServiceAddress, method: str, path: str, body: bytes = b"") -> bytes:
    """Return all bytes of the answer, up to the end of the connection.

    Raises:
        ConnectionResetError: the connection was reset.
    """
    url = urlsplit(address.url)
    query = urlencode({"username": address.username, "api_key": address.api_key})
    head = f"{method} {path}?{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    received = b""
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
        while data := connection.recv(65536):
            received += data
    return received


def list_stats(address: ServiceAddress, **query: int) -> dict[str, Any]:
    parameters: dict[str, str | int] = {"username": address.username, "api_key": address.api_key, **query}
    answer = requests.get(f"{address.url}/api/stats/", params=parameters, timeout=60)
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


def meet(address: ServiceAddress, name: str, method: str, path: str, body: bytes = b"") -> None:
    """Make a request, and find what this fault is said to do."""
    if name == "reset":
        with pytest.raises(ConnectionResetError):
            exchange(address, method, path, body)
        return
    answer = exchange(address, method, path, body)
    if name in {"drop", "drop-list"}:
        assert answer == b""
    elif name == "noise":
        assert answer
        assert b"HTTP/" not in answer
    elif name == "half":
        head, _, part = answer.partition(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        assert head.startswith(b"HTTP/1.1 200 ")
        assert 0 < len(part) < int(length.split(b":")[1])
    else:
        assert answer.startswith(b"HTTP/1.1 %d " % STATUSES.get(name, 200))
        assert (b"retry-after: 1" in answer.lower()) == (name in {"429", "503"})


@pytest.mark.parametrize("name", ACCEPTING)
def test_send_that_goes_wrong_was_accepted(db: Path, name: str) -> None:
    """What a client can't know after these faults: the send was accepted, once for each time."""
    with faulty(db, name) as (address, faults):
        for _ in range(2):
            meet(address, name, "POST", "/api/send", SEND)
        assert list_stats(address)["meta"]["total_count"] == 2
        assert faults.injected == {name: 2}


@pytest.mark.parametrize("name", REFUSING)
def test_send_that_is_refused_was_not_accepted(db: Path, name: str) -> None:
    """After these faults nobody was texted."""
    with faulty(db, name) as (address, _):
        for _ in range(2):
            meet(address, name, "POST", "/api/send", SEND)
        assert list_stats(address)["meta"]["total_count"] == 0


@pytest.mark.parametrize("name", ["drop-list", "500-list"])
@pytest.mark.parametrize("path", ["/api/stats/", "/api/results"])
def test_list_goes_wrong(db: Path, name: str, path: str) -> None:
    """Lists that are not answered, or with 500."""
    with faulty(db, name) as (address, _):
        meet(address, name, "GET", path)


def test_late_list_lacks_what_is_new(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late list has neither the newest launches nor counts them; later it has."""
    # The clock goes on by the move alone: on a busy machine five seconds pass by themselves.
    began = read_clock()
    monkeypatch.setattr(Clock, "now", lambda clock: began + clock.offset())
    with running_service(db) as address:
        for _ in range(3):
            exchange(address, "POST", "/api/send", SEND)
        old = list_stats(address)["objects"]
    with faulty(db, "late-list") as (address, faults):
        assert list_stats(address)["meta"]["total_count"] == 0
        query = {"username": address.username, "api_key": address.api_key}
        clock = f"{address.url}/_sandbox/clock"
        requests.post(clock, params=query, json={"advance": "6s"}, timeout=60).raise_for_status()
        assert list_stats(address)["objects"] == old
        exchange(address, "POST", "/api/send", SEND)
        page = list_stats(address, limit=2, offset=2)
        assert page["objects"] == old[2:]
        assert (page["meta"]["total_count"], page["meta"]["next"]) == (3, "")
        faults.replace({})
        assert list_stats(address)["meta"]["total_count"] == 4


def test_shuffled_list_has_everything_once(db: Path) -> None:
    """A list in another order still has every record on one of its pages."""
    with faulty(db, "shuffle-list") as (address, faults):
        for _ in range(5):
            exchange(address, "POST", "/api/send", SEND)
        pages = [list_stats(address, limit=2, offset=offset)["objects"] for offset in (0, 2, 4, 6)]
        faults.replace({})
        as_created = list_stats(address)["objects"]
    shuffled = [stat for page in pages for stat in page]
    assert shuffled != as_created
    assert sorted(shuffled, key=as_created.index) == as_created
    assert [len(page) for page in pages] == [2, 2, 1, 0]


@pytest.mark.slow
def test_service_stops_while_an_answer_is_late(db: Path) -> None:
    """A service with a slow answer under way stops all the same."""
    with faulty(db, "slow", slow_for_s=60) as (address, _):
        url = urlsplit(address.url)
        connection = socket.create_connection((url.hostname, url.port), timeout=60)
        query = urlencode({"username": address.username, "api_key": address.api_key})
        head = f"POST /api/send?{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(SEND)}\r\n\r\n"
        connection.sendall(head.encode() + SEND)
        while list_stats(address)["meta"]["total_count"] == 0:
            pass
    connection.close()
