"""Server-sent events: tells an open page that something has changed, so that it fetches itself again."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from runner.sandbox.inbox.answers import HEADERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runner.sandbox.changes import Changes

_HEARTBEAT_S = 15.0
_BETWEEN_EVENTS_S = 0.25
"""A thousand sends a second are four events a second."""
_RETRY_MS = 1000


class Events:
    """Streams the changes of one service (HTML, section 9.2).

    The id of an event names the run of the service and its revision, so that a page that comes back after a
    restart is told to look again.

    Args:
        changes: what is watched.
    """

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._run = secrets.token_hex(4)

    def mark(self) -> str:
        """Give the id of the state that a page which is made now will show."""
        return f"{self._run}-{self._changes.revision}"

    def stream(self, seen: str) -> StreamingResponse:
        """Answer with the changes after what a page has seen, as they happen.

        Args:
            seen: the id of the last event, or the mark of the page; anything else counts as outdated.
        """
        return StreamingResponse(
            self._follow(seen),
            media_type="text/event-stream",
            headers={**HEADERS, "Cache-Control": "no-store"},
        )

    async def _follow(self, seen: str) -> AsyncIterator[str]:
        yield f"retry: {_RETRY_MS}\n\n"
        current = self._changes.revision if seen == self.mark() else -1
        while True:
            latest = await self._changes.wait(current, _HEARTBEAT_S)
            if latest == current:
                # Nobody listens to a comment, but a connection that is gone is noticed.
                yield ": still here\n\n"
                continue
            current = latest
            yield f"event: change\nid: {self.mark()}\ndata: {current}\n\n"
            await asyncio.sleep(_BETWEEN_EVENTS_S)
