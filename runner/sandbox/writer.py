"""Writes to a service from its event loop, which goes on while another process holds the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from runner.sandbox.commits import CommitGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from runner.sandbox.changes import Changes
    from runner.sandbox.model import Definition, Receipt
    from runner.sandbox.service import Service

Written = TypeVar("Written")

_EXPIRED_AT_ONCE = 5000
"""Sessions that expire in one transaction: a tenth of a second, in which nobody else is served."""


class Writer:
    """What the routes of a running service write; whoever waits for changes is told of each commit.

    The clock is asked when something is written, so that what comes later in a list is never older.

    Args:
        service: does what is asked.
        clock: gives the service's present moment, with its time zone.
        changes: is told of each committed write.
    """

    def __init__(self, service: Service, clock: Callable[[], datetime], changes: Changes) -> None:
        self._service = service
        self._clock = clock
        self._changes = changes
        self._commits = CommitGroup(service.store)

    async def send(self, definition: Definition, phones: Sequence[str]) -> str:
        """Launch a project: see `Service.send`."""
        return await self.write(lambda: self._service.send(definition, phones, self._clock()))

    async def receive(self, phone: str, text: str) -> Receipt:
        """Take a text from a participant: see `Service.receive`."""
        return await self.write(lambda: self._service.receive(phone, text, self._clock()))

    async def expire_sessions(self) -> None:
        """Let the sessions expire that are due, before somebody looks."""
        while self._service.has_due_sessions(self._clock()):
            await self.write(lambda: self._service.expire_sessions(self._clock(), most=_EXPIRED_AT_ONCE))

    async def write(self, work: Callable[[], Written], *, patience_s: float | None = None) -> Written:
        """Run `work` in a transaction: see `CommitGroup.write`."""
        try:
            return await self._commits.write(work, patience_s=patience_s)
        finally:
            # A refusal, too, may come after something was written.
            self._changes.note()
