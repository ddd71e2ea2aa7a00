"""What faults do on the wire: answers that go wrong as asked for, and lists that lack what is stored."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.responses import Response

from runner.sandbox.clock import format_time
from runner.sandbox.listing import Page
from runner.sandbox.web.answers import answer_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from starlette.types import Receive, Scope, Send

    from runner.sandbox.paging import ListQuery
    from runner.sandbox.records import Record
    from runner.sandbox.rehearsal.faults import Fault

    ReadPage = Callable[[int, int], Page]

_NOISE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is no HTTP\r\n"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # socket(7), SO_LINGER: on, for zero seconds
_PAGE = 1000
_REFUSALS = {"429": (429, "too_many_requests"), "503": (503, "unavailable")}


class FaultyAnswer(Response):
    """An answer that goes wrong.

    Args:
        fault: how; one that ends in an answer of its own is that answer.
        answer: what would have been answered, where the request has taken effect.
        slow_for: how long an answer takes that is slow.
    """

    def __init__(
        self, fault: Fault, answer: Response | None = None, *, slow_for: timedelta = timedelta()
    ) -> None:
        self._act = _ACTS.get(fault.name, _answer)
        self._slow_for = slow_for
        self._answer = answer if self._act is not _answer and answer is not None else _refuse(fault)
        super().__init__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or do what there is instead of an answer."""
        await self._act(_Exchange(scope, receive, send, self._answer, self._slow_for))


@dataclass(frozen=True, slots=True)
class _Exchange:
    scope: Scope
    receive: Receive
    send: Send
    answer: Response
    slow_for: timedelta

    @property
    def transport(self) -> asyncio.Transport:
        transport: asyncio.Transport = self.scope["state"]["transport"]
        return transport

    async def close(self) -> None:
        """Close the connection after what was written, and wait until it is gone.

        To an application that returns earlier without an answer, the server would add one of its own.
        """
        self.transport.close()
        while (await self.receive())["type"] != "http.disconnect":
            pass


async def _answer(exchange: _Exchange) -> None:
    await exchange.answer(exchange.scope, exchange.receive, exchange.send)


async def _drop(exchange: _Exchange) -> None:
    await exchange.close()


async def _reset(exchange: _Exchange) -> None:
    own: socket.socket = exchange.transport.get_extra_info("socket")
    # A second handle on the same socket: that of the event loop lets nobody set options.
    with socket.fromfd(own.fileno(), own.family, own.type) as handle:
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    exchange.transport.abort()
    await exchange.close()


async def _answer_half(exchange: _Exchange) -> None:
    answer, body = exchange.answer, bytes(exchange.answer.body)
    start = {"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers}
    await exchange.send(start)
    await exchange.send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
    await exchange.close()


async def _make_noise(exchange: _Exchange) -> None:
    exchange.transport.write(_NOISE)
    await exchange.close()


async def _answer_late(exchange: _Exchange) -> None:
    await asyncio.sleep(exchange.slow_for.total_seconds())
    await _answer(exchange)


_ACTS: Mapping[str, Callable[[_Exchange], Awaitable[None]]] = {
    "drop": _drop,
    "half": _answer_half,
    "noise": _make_noise,
    "slow": _answer_late,
    "reset": _reset,
    "drop-list": _drop,
}
"""What there is instead of a whole and timely answer; every other fault is an error document."""


def _refuse(fault: Fault) -> Response:
    status, code = _REFUSALS.get(fault.name, (500, "asked_for_fault"))
    answer = answer_error(status, code, f"A fault that was asked for: {fault.says}.")
    if fault.name in _REFUSALS:
        answer.headers["Retry-After"] = "1"
    return answer


def disturb_page(
    fault: Fault, page: Page, query: ListQuery, read_page: ReadPage, since: datetime
) -> Page | None:
    """Make a page what a list with this fault has in its place.

    Args:
        fault: one of lists.
        page: the page as it should be.
        query: what was asked for.
        read_page: reads the records of the same list from a limit and an offset.
        since: a list that is late lacks what was created after this moment.

    Returns:
        The page, or None if the fault has no page but another answer.
    """
    if fault.name == "late-list":
        visible = page.total_count - _count_recent(page.total_count, read_page, format_time(since))
        return Page(visible, page.records[: max(0, visible - query.offset)])
    if fault.name == "shuffle-list":
        # Newest first: all pages together still hold every record once, unless the fault comes and goes.
        size = len(page.records)
        mirrored = read_page(size, page.total_count - query.offset - size) if size else page
        return Page(page.total_count, mirrored.records[::-1])
    return None


def _count_recent(total: int, read_page: ReadPage, since: str) -> int:
    """Count the records at a list's end that were created after a moment."""
    recent = 0
    while recent < total:
        size = min(_PAGE, total - recent)
        records = read_page(size, total - recent - size).records
        found = sum(_find_creation(record) > since for record in records)
        recent += found
        if found < size:
            break
    return recent


def _find_creation(record: Record) -> str:
    return str(record.get("created") or record["project_launch_start"])
