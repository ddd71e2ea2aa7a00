"""A connection pooler for a PostgreSQL server: it lends its one session for a transaction at a time.

So does pgbouncer with `pool_mode=transaction`. It speaks version 3.0 of the protocol as far as a driver needs
it that sends one query after another: https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.postgres import PostgresServer

PORT = 6432
_SETTINGS = ("client_encoding", "server_version", "standard_conforming_strings", "integer_datetimes")
_ANSWERED = (b"Q", b"S")
"""Messages whose answers contain the transaction's state: a query, and a sync."""


class _Pooler:
    def __init__(self, server: PostgresServer, database: str) -> None:
        self._session = server.connect(database)
        self._wire = socket.socket(fileno=self._session.fileno())
        # The driver disables it so that reading never waits.
        self._wire.settimeout(None)
        self._turn = threading.Lock()

    def serve(self, client: socket.socket) -> None:
        """Answer one client until it ends."""
        is_lent = False
        try:
            self._welcome(client)
            while (message := _read(client))[:1] != b"X":
                if not is_lent:
                    is_lent = self._turn.acquire()
                self._wire.sendall(message)
                if message[:1] in _ANSWERED and self._relay(client) == b"I":
                    is_lent = False
                    self._turn.release()
        finally:
            client.close()
            if is_lent:
                self._turn.release()

    def close(self) -> None:
        self._wire.detach()
        self._session.close()

    def _welcome(self, client: socket.socket) -> None:
        (length,) = struct.unpack("!i", _receive(client, 4))
        _receive(client, length - 4)
        info = self._session.info
        told = [(name, info.parameter_status(name) or "") for name in _SETTINGS]
        settings = [_write(b"S", f"{name}\0{value}\0".encode()) for name, value in told]
        key = _write(b"K", struct.pack("!ii", 1, 1))
        client.sendall(b"".join([_write(b"R", bytes(4)), *settings, key, _write(b"Z", b"I")]))

    def _relay(self, client: socket.socket) -> bytes:
        """Pass on the server's answers until it is ready, and return its state."""
        while True:
            message = _read(self._wire)
            client.sendall(message)
            if message[:1] == b"Z":
                return message[-1:]


@contextmanager
def run_pooler(server: PostgresServer, database: str, folder: Path) -> Iterator[str]:
    """Yield the ledger's URL of a database behind a pooler, which runs while the block lasts.

    The pooler's socket is in `folder`.
    """
    pooler = _Pooler(server, database)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / f".s.PGSQL.{PORT}"))
        listener.listen()
        accepting = threading.Thread(target=_accept, args=(listener, pooler))
        accepting.start()
        try:
            yield f"postgresql://ada@/{database}?host={folder}&port={PORT}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            pooler.close()


def _accept(listener: socket.socket, pooler: _Pooler) -> None:
    threads = []
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threads.append(threading.Thread(target=_serve, args=(pooler, client)))
            threads[-1].start()
    for thread in threads:
        thread.join()


def _serve(pooler: _Pooler, client: socket.socket) -> None:
    with suppress(ConnectionError):
        pooler.serve(client)


def _read(wire: socket.socket) -> bytes:
    kind = _receive(wire, 1)
    size = _receive(wire, 4)
    return kind + size + _receive(wire, struct.unpack("!i", size)[0] - 4)


def _write(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def _receive(wire: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = wire.recv(size - len(content))
        if not part:
            raise ConnectionResetError
        content += part
    return content
