"""What the service does with a send and with a participant's text; each is one transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_time, make_guid
from runner.sandbox.conversation import Turn, open_conversation
from runner.sandbox.errors import RefusalError
from runner.sandbox.model import COUNTS, Definition, Plan, Receipt, Status, Tally
from runner.sandbox.sessions import add_to_totals, complete_open_sessions, find_status, receive_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from runner.sandbox.store import Store


_INSERT_LAUNCH = (
    f"INSERT INTO launch (guid, started, project_tag, definition, {', '.join(COUNTS)}) "
    f"VALUES (?, ?, ?, ?{', ?' * len(COUNTS)})"
)


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
            self._check_plan(connection)
            participants = self._enrol(connection, phones)
            if definition.completes_existing:
                complete_open_sessions(connection, [identity for identity, _ in participants], now)
                participants = [(identity, False) for identity, _ in participants]
            opening = open_conversation(definition)
            tally = _count_start(opening, participants)
            guid = self._new_guid()
            launch_id = self._insert_launch(connection, guid, definition, tally, now)
            self._insert_sessions(connection, launch_id, opening, participants, now)
            add_to_totals(connection, tally)
        return guid

    def receive(self, phone: str, text: str, now: datetime) -> Receipt:
        """Take a text from a participant; one that no session waits for is kept in the transcript alone.

        Args:
            phone: who wrote, in E.164.
            text: what they wrote, kept as it is.
            now: when, with its time zone.
        """
        with self.store.write() as connection:
            known = connection.execute("SELECT id FROM participant WHERE phone = ?", (phone,)).fetchone()
            participant_id = known[0] if known else self._enrol(connection, [phone])[0][0]
            return receive_text(connection, participant_id, text, now, self._new_guid)

    def _check_plan(self, connection: sqlite3.Connection) -> None:
        (used,) = connection.execute("SELECT renders FROM totals").fetchone()
        if used >= self.plan.renders_max:
            message = f"The plan is used up: {used} renders of {self.plan.renders_max}; nobody was texted."
            raise RefusalError(403, "plan_used_up", message)

    def _insert_launch(
        self,
        connection: sqlite3.Connection,
        guid: str,
        definition: Definition,
        tally: Tally,
        now: datetime,
    ) -> int:
        launch_id = connection.execute(
            _INSERT_LAUNCH, (guid, format_time(now), definition.tag, definition.document, *tally.counts())
        ).lastrowid
        if definition.questions:
            connection.executemany(
                "INSERT INTO question (launch_id, position, guid, tag, text) VALUES (?, ?, ?, ?, ?)",
                [
                    (launch_id, position, self._new_guid(), question.tag, question.text)
                    for position, question in enumerate(definition.questions)
                ],
            )
        return int(launch_id or 0)

    def _enrol(self, connection: sqlite3.Connection, phones: Sequence[str]) -> list[tuple[int, bool]]:
        """Give each phone's participant, made up where it is new, and whether they have an active session."""
        connection.executemany(
            "INSERT OR IGNORE INTO participant (guid, phone) VALUES (?, ?)",
            [(self._new_guid(), phone) for phone in phones],
        )
        rows = connection.execute(
            "SELECT participant.id, "
            "EXISTS (SELECT 1 FROM session WHERE participant_id = participant.id AND status = 'ACTIVE') "
            "FROM json_each(?) AS wanted CROSS JOIN participant ON phone = wanted.value ORDER BY wanted.key",
            (json.dumps(phones),),
        )
        return [(identity, bool(is_busy)) for identity, is_busy in rows]

    def _insert_sessions(
        self,
        connection: sqlite3.Connection,
        launch_id: int,
        opening: Turn,
        participants: Sequence[tuple[int, bool]],
        now: datetime,
    ) -> None:
        """Insert all sessions of a launch, and what those that start at once render: the same for all."""
        (last_id,) = connection.execute("SELECT COALESCE(max(id), 0) FROM session").fetchone()
        stamp = format_time(now)
        sessions, renders = [], []
        for session_id, (participant_id, is_busy) in enumerate(participants, last_id + 1):
            state = (Status.QUEUED.value, None) if is_busy else (find_status(opening).value, opening.position)
            sessions.append((session_id, self._new_guid(), launch_id, participant_id, stamp, stamp, *state))
            if not is_busy:
                renders += [
                    (participant_id, session_id, stamp, each.kind.value, each.text)
                    for each in opening.renders
                ]
        connection.executemany("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", sessions)
        connection.executemany(
            "INSERT INTO transcript (participant_id, session_id, at, kind, text) VALUES (?, ?, ?, ?, ?)",
            renders,
        )


def _count_start(opening: Turn, participants: Sequence[tuple[int, bool]]) -> Tally:
    """Count a launch at its start: some sessions open the conversation, the others queue."""
    queued = sum(is_busy for _, is_busy in participants)
    started = len(participants) - queued
    rendered = opening.count()
    return Tally(
        messages=rendered.messages * started,
        questions=rendered.questions * started,
        renders=rendered.renders * started,
        queued=queued,
        active=0 if opening.position is None else started,
        complete=started if opening.position is None else 0,
    )
