"""Connections that can be cut, or that go dead for a while, for each process that has some."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from pathlib import Path

    _Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PIECE = 1 << 16


class Exchange:
    """Where wires run: a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[object, object, None]) -> None:
        """Do something in the thread, and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def listen(self, starting: Coroutine[object, object, asyncio.Server]) -> asyncio.Server:
        """Let a server listen as long as this runs."""

        async def start() -> None:
            self._servers.append(await starting)

        self.do(start())
        return self._servers[-1]

    async def _cancel_all(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True, eq=False)
class _Circuit:
    """The connections of one process.

    Attributes:
        flows: is set unless they are dead.
        is_cut: whether new ones are refused.
        writers: the open ends.
    """

    flows: asyncio.Event = field(default_factory=asyncio.Event)
    is_cut: bool = False
    writers: set[asyncio.StreamWriter] = field(default_factory=set)


class Wire:
    """Lets connections through from one address to another.

    Args:
        exchange: where it runs.
        reach: connects to the other address.
        circuit_of: tells by its socket whose a connection is.
    """

    def __init__(
        self,
        exchange: Exchange,
        reach: Callable[[], Awaitable[_Ends]],
        circuit_of: Callable[[socket.socket], int],
    ) -> None:
        self._exchange = exchange
        self._reach = reach
        self._circuit_of = circuit_of
        self._circuits: dict[int, _Circuit] = {}

    def cut(self, circuit: int) -> None:
        """End the connections of a process, and refuse new ones until it is mended."""
        self._exchange.do(self._set(circuit, is_cut=True, flows=True))

    def deaden(self, circuit: int) -> None:
        """Let nothing through; what is sent arrives once it is mended."""
        self._exchange.do(self._set(circuit, is_cut=False, flows=False))

    def mend(self, circuit: int) -> None:
        """Let everything through again."""
        self._exchange.do(self._set(circuit, is_cut=False, flows=True))

    async def _set(self, number: int, *, is_cut: bool, flows: bool) -> None:
        circuit = self._find(number)
        circuit.is_cut = is_cut
        (circuit.flows.set if flows else circuit.flows.clear)()
        if is_cut:
            for writer in circuit.writers:
                writer.transport.abort()

    def _find(self, number: int) -> _Circuit:
        if number not in self._circuits:
            self._circuits[number] = _Circuit()
            self._circuits[number].flows.set()
        return self._circuits[number]

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a new connection."""
        circuit = self._find(self._circuit_of(writer.get_extra_info("socket")))
        if circuit.is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await self._reach()
        except OSError:
            writer.transport.abort()
            return
        circuit.writers |= {writer, far_writer}
        pumps = [
            asyncio.create_task(_pump(reader, far_writer, circuit.flows)),
            asyncio.create_task(_pump(far_reader, writer, circuit.flows)),
        ]
        try:
            # Who ends a connection ends both directions of it. What is cancelled is so at the end of all.
            with suppress(asyncio.CancelledError):
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            circuit.writers -= {writer, far_writer}
            for pump, end in zip(pumps, (far_writer, writer), strict=True):
                pump.cancel()
                end.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            await flows.wait()
            writer.write(piece)
            await writer.drain()
        # The end comes through like everything else, and no sooner.
        await flows.wait()


def open_socket_wire(exchange: Exchange, near: Path, far: Path) -> Wire:
    """Return a wire between Unix sockets; the circuit of a connection is the process id of its peer."""
    wire = Wire(exchange, lambda: asyncio.open_unix_connection(far), _read_peer)
    exchange.listen(asyncio.start_unix_server(wire.take, near))
    return wire


def open_port_wire(exchange: Exchange, far_port: int) -> tuple[Wire, int]:
    """Return a wire from a port of this machine to another one, which is one circuit, 0, and its port."""
    wire = Wire(exchange, lambda: asyncio.open_connection("127.0.0.1", far_port), lambda _: 0)
    server = exchange.listen(asyncio.start_server(wire.take, "127.0.0.1", 0))
    port: int = server.sockets[0].getsockname()[1]
    return wire, port


def _read_peer(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    return pid
