"""What the service does with a send and with a participant's text; each is one transaction."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_time, make_guid
from runner.sandbox.conversation import Turn, open_conversation
from runner.sandbox.errors import RefusalError
from runner.sandbox.expiry import expire_sessions, has_due_sessions, write_lifetime
from runner.sandbox.inbound import receive_text
from runner.sandbox.model import COUNTS, Definition, Plan, Receipt, Status, SubStatus, Tally
from runner.sandbox.numbering import write_insert
from runner.sandbox.sessions import add_to_totals, complete_open_sessions, find_status

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from runner.sandbox.store import Store


_INSERT_LAUNCH = write_insert("launch", ("guid", "started", "project_tag", "definition", *COUNTS))
_SELECT_ADDRESSEES = """
SELECT wanted.value, participant.id, opted_out IS NOT NULL,
       EXISTS (SELECT 1 FROM session WHERE participant_id = participant.id AND status = 'ACTIVE')
FROM json_each(?) AS wanted LEFT JOIN participant ON phone = wanted.value ORDER BY wanted.key
"""


@dataclass(frozen=True, slots=True)
class _Addressee:
    """Whom a launch is sent to; `id` is None while nobody has texted the phone yet."""

    phone: str = field(repr=False)
    id: int | None
    has_opted_out: bool
    is_busy: bool

    @property
    def starts(self) -> bool:
        """Whether the conversation opens at once."""
        return not (self.has_opted_out or self.is_busy)


class Service:
    """The service's domain on top of a store.

    Args:
        store: where everything is kept.
        plan: how many renders may be used before sends are refused.
        new_guid: makes up identifiers.
    """

    def __init__(
        self, store: Store, *, plan: Plan | None = None, new_guid: Callable[[], str] = make_guid
    ) -> None:
        self.store = store
        self.plan = plan or Plan()
        self._new_guid = new_guid

    def send(self, definition: Definition, phones: Sequence[str], now: datetime) -> str:
        """Launch a project: one session a phone, which starts at once or queues behind an active one.

        Args:
            definition: what is sent.
            phones: in E.164, each once.
            now: start of the launch, with its time zone.

        Returns:
            The project_launch_guid.

        Raises:
            RefusalError: 403, the plan is used up (clients report a 403 on sends: section 7).
        """
        with self.store.write() as connection:
            expire_sessions(connection, now)
            addressees = _find_addressees(connection, phones)
            if definition.completes_existing:
                addressees = [replace(each, is_busy=False) for each in addressees]
            opening = open_conversation(definition)
            tally = _count_start(opening, addressees)
            self._check_plan(connection, tally.renders)
            addressees = self._enrol(connection, addressees)
            if definition.completes_existing:
                ids = [each.id for each in addressees if each.id is not None]
                complete_open_sessions(connection, ids, SubStatus.REPLACED, now)
            guid = self._new_guid()
            launch_id = self._insert_launch(connection, guid, definition, tally, now)
            self._insert_sessions(connection, launch_id, opening, addressees, now)
            add_to_totals(connection, tally)
        return guid

    def receive(self, phone: str, text: str, now: datetime) -> Receipt:
        """Take a text from a participant; one that no session waits for is kept in the transcript alone.

        This is the one door for what participants say, STOP and its kin included.

        Args:
            phone: who wrote, in E.164.
            text: what they wrote, kept as it is.
            now: when, with its time zone.
        """
        with self.store.write() as connection:
            expire_sessions(connection, now)
            (author,) = self._enrol(connection, _find_addressees(connection, [phone]))
            return receive_text(connection, author.id or 0, text, now, self._new_guid)

    def has_due_sessions(self, now: datetime) -> bool:
        """Tell whether a session is due to expire; reads only."""
        return has_due_sessions(self.store.connection, now)

    def expire_sessions(self, now: datetime, most: int = sys.maxsize) -> int:
        """Let the sessions expire that are due, before somebody looks; give how many did.

        Args:
            now: the service's present moment.
            most: how many at most.
        """
        if not self.has_due_sessions(now):
            return 0
        with self.store.write() as connection:
            return expire_sessions(connection, now, most)

    def set_session_lifetime(self, lifetime: timedelta) -> None:
        """Set how long sessions wait for an answer, for all processes on this store.

        Raises:
            ValueError: the lifetime is not above zero, or is longer than `expiry.MAX_LIFETIME`.
        """
        with self.store.write() as connection:
            write_lifetime(connection, lifetime)

    def _check_plan(self, connection: sqlite3.Connection, cost: int) -> None:
        (used,) = connection.execute("SELECT renders FROM totals").fetchone()
        allowed = self.plan.renders_max
        if used >= allowed or used + cost > allowed:
            message = (
                f"The plan is used up: {used} of {allowed} renders are used, "
                f"and this send takes {cost}; nobody was texted."
            )
            raise RefusalError(403, "plan_used_up", message)

    def _enrol(self, connection: sqlite3.Connection, addressees: Sequence[_Addressee]) -> list[_Addressee]:
        """Make participants of the phones that are new."""
        new = [each for each in addressees if each.id is None]
        if not new:
            return list(addressees)
        (last_id,) = connection.execute("SELECT COALESCE(max(id), 0) FROM participant").fetchone()
        ids = {each.phone: participant_id for participant_id, each in enumerate(new, last_id + 1)}
        connection.executemany(
            "INSERT INTO participant (id, guid, phone) VALUES (?, ?, ?)",
            [(participant_id, self._new_guid(), phone) for phone, participant_id in ids.items()],
        )
        return [replace(each, id=ids.get(each.phone, each.id)) for each in addressees]

    def _insert_launch(
        self,
        connection: sqlite3.Connection,
        guid: str,
        definition: Definition,
        tally: Tally,
        now: datetime,
    ) -> int:
        row = {
            "guid": guid,
            "started": format_time(now),
            "project_tag": definition.tag,
            "definition": definition.document,
            **dict(zip(COUNTS, tally.counts(), strict=True)),
        }
        launch_id = connection.execute(_INSERT_LAUNCH, row).lastrowid
        if definition.questions:
            connection.executemany(
                "INSERT INTO question (launch_id, position, guid, tag, text) VALUES (?, ?, ?, ?, ?)",
                [
                    (launch_id, position, self._new_guid(), question.tag, question.text)
                    for position, question in enumerate(definition.questions)
                ],
            )
        return int(launch_id or 0)

    def _insert_sessions(
        self,
        connection: sqlite3.Connection,
        launch_id: int,
        opening: Turn,
        addressees: Sequence[_Addressee],
        now: datetime,
    ) -> None:
        """Insert all sessions of a launch, and what those that start at once render: the same for all."""
        (last_id,) = connection.execute("SELECT COALESCE(max(id), 0) FROM session").fetchone()
        stamp = format_time(now)
        sessions, renders = [], []
        for session_id, each in enumerate(addressees, last_id + 1):
            state = _choose_state(opening, each)
            sessions.append((session_id, self._new_guid(), launch_id, each.id, stamp, stamp, *state))
            if each.starts:
                renders += [
                    (each.id, session_id, stamp, render.kind.value, render.text) for render in opening.renders
                ]
        connection.executemany("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", sessions)
        connection.executemany(
            "INSERT INTO transcript (participant_id, session_id, at, kind, text) VALUES (?, ?, ?, ?, ?)",
            renders,
        )


def _find_addressees(connection: sqlite3.Connection, phones: Sequence[str]) -> list[_Addressee]:
    rows = connection.execute(_SELECT_ADDRESSEES, (json.dumps(phones),))
    return [
        _Addressee(phone, participant_id, bool(has_opted_out), bool(is_busy))
        for phone, participant_id, has_opted_out, is_busy in rows
    ]


def _choose_state(opening: Turn, addressee: _Addressee) -> tuple[str, int | None, str | None]:
    """Give status, position and sub_status with which a session begins."""
    if addressee.has_opted_out:
        return Status.COMPLETE.value, None, SubStatus.BLOCKED.value
    if addressee.is_busy:
        return Status.QUEUED.value, None, None
    return find_status(opening).value, opening.position, None


def _count_start(opening: Turn, addressees: Sequence[_Addressee]) -> Tally:
    """Count a launch at its start: some sessions open the conversation, some queue, some are blocked."""
    blocked = sum(each.has_opted_out for each in addressees)
    started = sum(each.starts for each in addressees)
    rendered = opening.count()
    waits = opening.position is not None
    return Tally(
        messages=rendered.messages * started,
        questions=rendered.questions * started,
        renders=rendered.renders * started,
        queued=len(addressees) - blocked - started,
        active=started if waits else 0,
        complete=blocked + (0 if waits else started),
    )
