"""One POST to a webhook, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.webhooks import sender
from runner.sandbox.webhooks.receiver import parse_receiver
from runner.sandbox.webhooks.sender import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path


def post(url: str, *allowed: str, names: list[list[str]] | None = None) -> None:
    """POST a small document; what names stand for, look-up by look-up, is `names` if that is given."""
    receiver = parse_receiver(url)
    assert receiver is not None
    found = iter(names or [])

    async def resolve(_host: str, port: int, **_hints: object) -> list[tuple[Any, ...]]:
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (address, port),
            )
            for address in next(found)
        ]

    async def run() -> None:
        if names is not None:
            asyncio.get_running_loop().getaddrinfo = resolve  # type: ignore[method-assign, assignment]
        await sender.post(receiver, b'{"a": "\xc3\xa4"}', allowed)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tries have a minute: this machine may be busy."""
    monkeypatch.setattr(sender, "TIMEOUT_S", 60)


def test_body_is_posted_as_json(hook: Any) -> None:
    """A receiver gets the document as JSON, under its path and query, with its own name as the host."""
    post(f"{hook.url}/a b?c=d")
    ((path, headers, body),) = hook.requests
    assert (path, body) == ("/hook/a%20b?c=d", {"a": "ä"})
    assert headers["Content-Type"] == "application/json"
    assert headers["Host"] == f"127.0.0.1:{hook.port}"


def test_name_is_not_asked_what_it_stands_for(hook: Any) -> None:
    """A name that may stand for loopback now, and for another address later, is called only if it is allowed."""
    url = f"http://rebound.example:{hook.port}/"
    with pytest.raises(DeliveryError, match="neither on loopback nor allowed"):
        post(url, names=[])
    post(url, "rebound.example", names=[["127.0.0.1"]])
    assert len(hook.requests) == 1


@pytest.mark.parametrize("addresses", [["::1", "127.0.0.1"], ["127.0.0.2", "127.0.0.3", "127.0.0.1"]])
def test_every_address_of_a_name_is_tried(hook: Any, addresses: list[str]) -> None:
    """A receiver that listens on one of its name's addresses is found, wherever that one stands."""
    post(f"http://localhost:{hook.port}/", names=[addresses])
    assert len(hook.requests) == 1


@pytest.mark.parametrize("size", [0, 50_000_000])
def test_endless_answer_is_hung_up_on(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that took the body and goes on talking, or says nothing more, is hung up on soon."""
    monkeypatch.setattr(sender, "_LAST_WAIT_S", 0.5)
    left = [size]
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def speak() -> None:
            with closing(listener.accept()[0]) as connection, suppress(ConnectionError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while left[0]:
                    connection.sendall(b"x" * 100_000)
                    left[0] -= 100_000
                # Until the other side hangs up.
                connection.recv(65536)

        thread = threading.Thread(target=speak)
        thread.start()
        post(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert bool(left[0]) == bool(size)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (200, ""),
        (204, ""),
        (302, "answered 302"),
        (308, "answered 308"),
        (410, "answered 410"),
        (503, "answered 503"),
    ],
)
def test_only_2xx_counts_as_taken(hook: Any, status: int, problem: str) -> None:
    """Only 2xx counts as taken, and another try may help; nobody goes where a redirect leads."""
    hook.answers = [status]
    if problem:
        with pytest.raises(DeliveryError, match=f"^{problem}$"):
            post(hook.url)
    else:
        post(hook.url)
    assert len(hook.requests) == 1


def test_inner_network_is_not_called(
    receive: Callable[..., AbstractContextManager[Any]], own_address: str
) -> None:
    """An address beyond loopback is not even connected to, unless its host is allowed."""
    with receive(own_address) as hook:
        url = f"http://{own_address}:{hook.port}/"
        with pytest.raises(DeliveryError, match="neither on loopback nor allowed"):
            post(url)
        assert hook.requests == []
        post(url, own_address)
        assert len(hook.requests) == 1


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (None, "no answer within 0.5 s"),
        (b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 999 Odd\r\n", "the answer is not HTTP"),
        (b"\r\n", "the answer is not HTTP"),
        (b"x" * 200_000, r"the connection failed \(ValueError\)"),
    ],
)
def test_odd_answer_is_a_failure(said: bytes | None, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers late, endlessly or in another language fails in good time."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def speak() -> None:
            with closing(listener.accept()[0]) as connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(said or b"")
                # Until the other side hangs up.
                connection.recv(65536)

        thread = threading.Thread(target=speak)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        # Without a look-up the client has connected, whatever happens, before its time is over.
        monkeypatch.setattr(sender, "TIMEOUT_S", 0.5 if problem.startswith("no answer") else 60)
        with pytest.raises(DeliveryError, match=f"^{problem}$"):
            post(url, names=[["127.0.0.1"]])
        thread.join()


def test_https_is_verified(
    receive: Callable[..., AbstractContextManager[Any]],
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An https receiver is called by its name, and only if somebody trusted vouches for that name."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    with receive(tls=serving) as hook:
        with pytest.raises(DeliveryError, match="the connection failed"):
            post(f"https://localhost:{hook.port}/")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        post(f"https://localhost:{hook.port}/")
        with pytest.raises(DeliveryError, match="the connection failed"):
            post(f"https://127.0.0.1:{hook.port}/")
        assert len(hook.requests) == 1
