"""Lets the owners of magic numbers act, by themselves, at the moments when they would have."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from runner.sandbox.clock import parse_time
from runner.sandbox.definition import load_definition
from runner.sandbox.expiry import read_lifetime
from runner.sandbox.rehearsal.magic import MAGIC_NUMBERS, PREFIX, MagicNumber
from runner.sandbox.rehearsal.scripts import Situation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from runner.sandbox.changes import Changes
    from runner.sandbox.clock import Clock
    from runner.sandbox.service import Service

_TEXTS_AT_ONCE = 200
# Sends that come one after the other are looked through together.
_PAUSE_S = 0.05
_RETRY_S = 1.0

_SELECT_OWNERS = "SELECT phone FROM participant WHERE phone BETWEEN ? AND ? ORDER BY phone"
# The columns are those of `_Row`. Nothing here walks through a transcript: some have thousands of lines.
_SELECT_SITUATION = """
SELECT participant.opted_out IS NOT NULL, session.position, session.updated, launch.definition,
       (SELECT at FROM transcript WHERE participant_id = participant.id ORDER BY id DESC LIMIT 1),
       COALESCE((SELECT kind <> 'inbound' FROM transcript
                 WHERE participant_id = participant.id AND kind <> 'notice' ORDER BY id DESC LIMIT 1), 0),
       CASE WHEN session.id IS NULL THEN 0 ELSE (
           SELECT count(*) FROM transcript
           WHERE participant_id = participant.id AND kind = 'inbound' AND id > (
               SELECT id FROM transcript WHERE participant_id = participant.id AND session_id = session.id
               AND kind = 'question' ORDER BY id DESC LIMIT 1)
       ) END
FROM participant
LEFT JOIN session ON session.participant_id = participant.id AND session.status = 'ACTIVE'
LEFT JOIN launch ON launch.id = session.launch_id
WHERE participant.phone = ?
"""
_SELECT_LATEST = "SELECT created FROM result ORDER BY id DESC LIMIT 1"


class _Row(NamedTuple):
    """What the store says of an owner: see `Situation`.

    Attributes:
        turned: when their active session had its last turn; None without one.
        document: the definition of what that session asks.
        last: when the last line between them and the service was written.
    """

    has_opted_out: int
    position: int | None
    turned: str | None
    document: str | None
    last: str | None
    has_news: int
    said: int


class _Event(NamedTuple):
    """What happens next to an owner: they write, or, where there is no text, their session expires."""

    at: datetime
    phone: str
    text: str | None


class Cast:
    """The owners of the magic numbers.

    What they do follows from what the store says alone, and is looked up again inside the transaction that
    does it: several processes may let them act on one store, and one that was killed goes on where it was.
    Whatever the clock has jumped over happens in its order, at the moment when it was due.

    Args:
        service: takes their texts; used on one thread alone.
        clock: the service's time.
        changes: tells when to look, and is told of what they wrote.
    """

    def __init__(self, service: Service, *, clock: Clock, changes: Changes) -> None:
        self._service = service
        self._clock = clock
        self._changes = changes

    def act(self) -> int:
        """Let them write what is due, at most 200 texts.

        Returns:
            How many texts they wrote; 0 when nothing is due.
        """
        event = self._find_next()
        if event is None or event.at > self._clock.now():
            return 0
        # The same look again, now that nobody else can write.
        with self._service.store.write():
            written = self.act_through(self._clock.now(), most=_TEXTS_AT_ONCE)
        self._changes.note()
        return written

    def act_through(self, until: datetime, *, most: int = sys.maxsize) -> int:
        """Let them write what is due up to a moment, inside the caller's transaction.

        Args:
            until: the moment, with its time zone; their texts carry the moments when they were due.
            most: how many texts at most.

        Returns:
            How many texts they wrote.
        """
        written = 0
        while written < most and (event := self._find_next()) is not None and event.at <= until:
            # Results are listed in the order of their creation: none may be older than the one before it.
            moment = max(event.at, min(self._find_latest_result() or event.at, until))
            # What has expired by then changes what they do next; it may have been their own session.
            if not self._service.expire_sessions(moment) and event.text is not None:
                self._service.receive(event.phone, event.text, moment)
                written += 1
        return written

    def advance(self, length: timedelta) -> datetime:
        """Move the clock forward, and let them do meanwhile what falls due, before anybody sees the new time.

        Returns:
            The service's new present moment.

        Raises:
            SandboxError: as `Clock.advance`; nothing has happened.
        """
        with self._service.store.write():
            now = self._clock.advance(length)
            self.act_through(now)
        return now

    def find_wait(self) -> float:
        """Tell how many seconds are left until something is due: infinite when nothing is planned."""
        event = self._find_next()
        return math.inf if event is None else max(0.0, (event.at - self._clock.now()).total_seconds())

    async def run(self, stop: asyncio.Event) -> None:
        """Let them act whenever something has changed or its time has come, and once more when `stop` is set.

        So what a service of a few moments was sent is answered before it is gone.
        """
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                revision = self._changes.revision
                # Another process may hold the file for too long: what is due stays so.
                with suppress(sqlite3.OperationalError):
                    self.act()
                await self._wait(revision, stopped)
            with suppress(sqlite3.OperationalError):
                self.act()
        finally:
            stopped.cancel()

    async def _wait(self, revision: int, stopped: asyncio.Task[bool]) -> None:
        left_s = _RETRY_S
        with suppress(sqlite3.OperationalError):
            left_s = self.find_wait()
        changed = asyncio.create_task(self._changes.wait(revision, left_s))
        await asyncio.wait((changed, stopped), return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
        if not stopped.done():
            await asyncio.wait((stopped,), timeout=_PAUSE_S)

    def _find_next(self) -> _Event | None:
        """Find what happens next to any of them."""
        connection = self._service.store.connection
        # Most stores have none of them: this look is all that it costs.
        owners = connection.execute(_SELECT_OWNERS, (f"{PREFIX}00", f"{PREFIX}99")).fetchall()
        if not owners:
            return None
        lifetime = read_lifetime(connection)
        events: list[_Event] = []
        for (phone,) in owners:
            number = MAGIC_NUMBERS.get(phone)
            if number is not None:
                row = _Row(*connection.execute(_SELECT_SITUATION, (phone,)).fetchone())
                events += _foresee(number, row, lifetime)
        # A session that expires at the moment of an answer has expired.
        return min(events, key=lambda event: (event.at, event.text is not None), default=None)

    def _find_latest_result(self) -> datetime | None:
        row = self._service.store.connection.execute(_SELECT_LATEST).fetchone()
        return None if row is None else parse_time(row[0])


def _foresee(number: MagicNumber, row: _Row, lifetime: timedelta) -> Iterator[_Event]:
    """Tell what happens to an owner if nobody sends them anything."""
    if row.turned is not None:
        yield _Event(parse_time(row.turned) + lifetime, number.phone, None)
    text = number.script(
        Situation(
            definition=None if row.document is None else load_definition(row.document),
            position=row.position or 0,
            said=row.said or 0,
            has_news=bool(row.has_news),
            has_opted_out=bool(row.has_opted_out),
        )
    )
    # Without a line, nothing has ever happened between them and the service: a send was blocked.
    if text is not None and row.last is not None:
        yield _Event(parse_time(row.last) + number.delay, number.phone, text)
