"""Sends and texts of participants, each one transaction.

Carriers require command words to work in any conversation: those of the CTIA Messaging Principles and Best
Practices (2023, section 5.1.3) and of Twilio's advanced opt-out; `opt out` and any punctuation count too (47
CFR 64.1200(a)(10)).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_time, make_guid
from runner.sandbox.conversation import (
    ParticipantAnswer,
    ServiceTurn,
    continue_conversation,
    open_conversation,
)
from runner.sandbox.model import (
    DEFAULT_PLAN,
    Definition,
    Keyword,
    Kind,
    Plan,
    Prompt,
    Receipt,
    Status,
    SubStatus,
    Tally,
)
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.sessions import (
    INSERT_LINE,
    Session,
    add_to_totals,
    complete_open_sessions,
    expire_sessions,
    find_open_session,
    find_status,
    has_due_sessions,
    play_turn,
    write_line,
)
from runner.sandbox.store import insert_row
from runner.sandbox.webhooks.queue import add_webhook

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from runner.sandbox.model import ServiceQuestion
    from runner.sandbox.store import Store


# These are always commands; the other words are answers if the open question offers them.
_ALWAYS_OPT_OUT = frozenset({"STOP", "STOPALL", "UNSUBSCRIBE", "OPTOUT"})
_OPT_OUT = _ALWAYS_OPT_OUT | {"CANCEL", "END", "QUIT", "REVOKE"}
_OPT_IN = frozenset({"START", "YES", "UNSTOP"})
_HELP = frozenset({"HELP", "INFO"})
_BETWEEN = re.compile(r"[\s\-–—.,;:!?'\"“”‘’()]+")
_LONGEST = 64  # characters, with blanks and punctuation

NOTICES = {
    Keyword.OPT_OUT: (
        "You have been unsubscribed and will receive no more messages from this number. "
        "Reply START to subscribe again."
    ),
    Keyword.OPT_IN: "You are subscribed again. Reply HELP for help, STOP to unsubscribe.",
    Keyword.HELP: "Reply STOP to unsubscribe. Message and data rates may apply.",
}
# `updated` of a result is "some microseconds later" than `created` (recorded responses of public clients).
_UPDATED_AFTER = timedelta(microseconds=37)
_SELECT_ADDRESSEES = """
SELECT wanted.value, participant.id, opted_out IS NOT NULL,
       EXISTS (SELECT 1 FROM session WHERE participant_id = participant.id AND status = 'ACTIVE')
FROM json_each(?) AS wanted LEFT JOIN participant ON phone = wanted.value ORDER BY wanted.key
"""


def read_keyword(text: str, question: ServiceQuestion | None, *, has_opted_out: bool) -> Keyword | None:
    """Return the command that a text is, if it is a single word and nothing else.

    Case, blanks and punctuation do not matter. STOP, STOPALL, UNSUBSCRIBE and OPTOUT always opt out. Other
    words are an answer if the waiting question has them as a response or in `conclude_on`.

    Args:
        text: the participant's.
        question: the one that waits, if any.
        has_opted_out: True if they may not be texted; only then START and its kin are commands.
    """
    word = _reduce(text) if len(text) <= _LONGEST else ""
    if word in _ALWAYS_OPT_OUT:
        return Keyword.OPT_OUT
    if question is not None and word in map(_reduce, (*question.responses, question.conclude_on or "")):
        return None
    if word in _OPT_OUT:
        return Keyword.OPT_OUT
    if word in _HELP:
        return Keyword.HELP
    return Keyword.OPT_IN if has_opted_out and word in _OPT_IN else None


def _reduce(text: str) -> str:
    return _BETWEEN.sub("", text).upper()


def receive_text(connection: sqlite3.Connection, participant_id: int, text: str, now: datetime) -> Receipt:
    """Apply a participant's text as a command, or as an answer to their active session."""
    session = find_open_session(connection, participant_id)
    write_line(connection, participant_id, session, Kind.INBOUND, text, now)
    query = "SELECT opted_out IS NOT NULL FROM participant WHERE id = ?"
    has_opted_out = bool(connection.execute(query, (participant_id,)).fetchone()[0])
    question = session.question if session else None
    keyword = read_keyword(text, question, has_opted_out=has_opted_out)
    if keyword is not None:
        return _obey(connection, participant_id, session, keyword, now, has_opted_out=has_opted_out)
    if session is None or session.position is None:
        return Receipt(was_expected=False)
    turn = continue_conversation(session.definition, session.position, text)
    result_guid = None
    if turn.answer is not None:
        result_guid = make_guid()
        _record_result(connection, session, turn.answer, result_guid, now)
    prompt, completed = play_turn(connection, session, turn, now)
    return Receipt(was_expected=True, result_guid=result_guid, prompt=prompt, completed=completed)


def _obey(
    connection: sqlite3.Connection,
    participant_id: int,
    session: Session | None,
    keyword: Keyword,
    now: datetime,
    *,
    has_opted_out: bool,
) -> Receipt:
    completed = 0
    if keyword is Keyword.OPT_OUT:
        completed = complete_open_sessions(connection, [participant_id], SubStatus.OPTED_OUT, now)
        # A second STOP keeps the moment of the first.
        change = "UPDATE participant SET opted_out = COALESCE(opted_out, ?) WHERE id = ?"
        connection.execute(change, (format_time(now), participant_id))
    elif keyword is Keyword.OPT_IN:
        connection.execute("UPDATE participant SET opted_out = NULL WHERE id = ?", (participant_id,))
    # The confirmation of an opt-out is the last text allowed.
    if keyword is not Keyword.OPT_OUT or not has_opted_out:
        write_line(connection, participant_id, session, Kind.NOTICE, NOTICES[keyword], now)
    # A command for help leaves the question open.
    prompt = None
    if keyword is Keyword.HELP and session is not None and session.position is not None:
        prompt = Prompt(session.id, session.definition, session.position)
    return Receipt(was_expected=False, prompt=prompt, completed=completed, keyword=keyword)


def _record_result(
    connection: sqlite3.Connection, session: Session, answer: ParticipantAnswer, guid: str, now: datetime
) -> None:
    question = session.definition.questions[session.position or 0]
    row = {
        "guid": guid,
        "launch_id": session.launch_id,
        "participant_id": session.participant_id,
        "session_id": session.id,
        "position": session.position,
        "project_tag": session.definition.tag,
        "question_tag": question.tag,
        "answer": answer.answer,
        "response": answer.response,
        "created": format_time(now),
        "updated": format_time(now + _UPDATED_AFTER),
    }
    result_id = insert_row(connection, "result", row)
    if question.webhook is not None:
        add_webhook(connection, result_id, question.webhook)


@dataclass(frozen=True, slots=True)
class _Addressee:
    """A recipient of a launch; `id` is None for phones that were never texted."""

    phone: str = field(repr=False)
    id: int | None
    has_opted_out: bool
    is_busy: bool

    @property
    def starts(self) -> bool:
        """True if the conversation opens at once."""
        return not (self.has_opted_out or self.is_busy)


class Service:
    """The service's operations on a store; sends are refused once the plan's renders are used."""

    def __init__(self, store: Store, *, plan: Plan = DEFAULT_PLAN) -> None:
        self.store = store
        self.plan = plan

    def send(self, definition: Definition, phones: Sequence[str], now: datetime) -> str:
        """Launch a project, one session a phone, queued behind an active one; return its project_launch_guid.

        Args:
            definition: the project.
            phones: in E.164, each once.
            now: start of the launch, with its time zone.

        Raises:
            RefusalError: 403, the plan is used up; public clients report this status.
        """
        with self.store.write() as connection:
            expire_sessions(connection, now)
            addressees = _find_addressees(connection, phones)
            if definition.completes_existing:
                addressees = [replace(each, is_busy=False) for each in addressees]
            opening = open_conversation(definition)
            tally = _count_start(opening, addressees)
            self._check_plan(connection, tally.renders)
            addressees = _enrol(connection, addressees)
            if definition.completes_existing:
                ids = [each.id for each in addressees if each.id is not None]
                complete_open_sessions(connection, ids, SubStatus.REPLACED, now)
            guid = make_guid()
            launch_id = _insert_launch(connection, guid, definition, tally, now)
            _insert_sessions(connection, launch_id, opening, addressees, now)
            add_to_totals(connection, tally)
        return guid

    def receive(self, phone: str, text: str, now: datetime) -> Receipt:
        """Receive a text from a phone (E.164); unexpected ones are only kept in the transcript."""
        with self.store.write() as connection:
            expire_sessions(connection, now)
            (author,) = _enrol(connection, _find_addressees(connection, [phone]))
            return receive_text(connection, author.id or 0, text, now)

    def has_due_sessions(self, now: datetime) -> bool:
        """Return whether a session is due to expire; reads only."""
        return has_due_sessions(self.store.connection, now)

    def expire_sessions(self, now: datetime) -> int:
        """Expire the sessions that are due, and return their number."""
        with self.store.write() as connection:
            return expire_sessions(connection, now)

    def _check_plan(self, connection: sqlite3.Connection, cost: int) -> None:
        (used,) = connection.execute("SELECT renders FROM totals").fetchone()
        allowed = self.plan.renders_max
        if used >= allowed or used + cost > allowed:
            message = (
                f"The plan is used up: {used} of {allowed} renders are used, "
                f"and this send takes {cost}; nobody was texted."
            )
            raise RefusalError(403, "plan_used_up", message)


def _enrol(connection: sqlite3.Connection, addressees: Sequence[_Addressee]) -> list[_Addressee]:
    """Create participants for new phones."""
    new = [each for each in addressees if each.id is None]
    if not new:
        return list(addressees)
    (last_id,) = connection.execute("SELECT COALESCE(max(id), 0) FROM participant").fetchone()
    ids = {each.phone: participant_id for participant_id, each in enumerate(new, last_id + 1)}
    connection.executemany(
        "INSERT INTO participant (id, guid, phone) VALUES (?, ?, ?)",
        [(participant_id, make_guid(), phone) for phone, participant_id in ids.items()],
    )
    return [replace(each, id=ids.get(each.phone, each.id)) for each in addressees]


def _insert_launch(
    connection: sqlite3.Connection, guid: str, definition: Definition, tally: Tally, now: datetime
) -> int:
    row = {
        "guid": guid,
        "started": format_time(now),
        "project_tag": definition.tag,
        "definition": definition.document,
        **tally._asdict(),
    }
    launch_id = insert_row(connection, "launch", row)
    if definition.questions:
        connection.executemany(
            "INSERT INTO question (launch_id, position, guid, tag, text) VALUES (?, ?, ?, ?, ?)",
            [
                (launch_id, position, make_guid(), question.tag, question.text)
                for position, question in enumerate(definition.questions)
            ],
        )
    return launch_id


def _insert_sessions(
    connection: sqlite3.Connection,
    launch_id: int,
    opening: ServiceTurn,
    addressees: Sequence[_Addressee],
    now: datetime,
) -> None:
    """Insert all sessions of a launch, and the first renders: the same for all that start at once."""
    (last_id,) = connection.execute("SELECT COALESCE(max(id), 0) FROM session").fetchone()
    stamp = format_time(now)
    sessions, renders = [], []
    for session_id, each in enumerate(addressees, last_id + 1):
        state = _choose_state(opening, each)
        sessions.append((session_id, make_guid(), launch_id, each.id, stamp, stamp, *state))
        if each.starts:
            renders += [
                (each.id, session_id, stamp, render.kind.value, render.text) for render in opening.renders
            ]
    connection.executemany("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", sessions)
    connection.executemany(INSERT_LINE, renders)


def _find_addressees(connection: sqlite3.Connection, phones: Sequence[str]) -> list[_Addressee]:
    rows = connection.execute(_SELECT_ADDRESSEES, (json.dumps(phones),))
    return [
        _Addressee(phone, participant_id, bool(has_opted_out), bool(is_busy))
        for phone, participant_id, has_opted_out, is_busy in rows
    ]


def _choose_state(opening: ServiceTurn, addressee: _Addressee) -> tuple[str, int | None, str | None]:
    """Return the initial status, position and sub_status of a session."""
    if addressee.has_opted_out:
        return Status.COMPLETE.value, None, SubStatus.BLOCKED.value
    if addressee.is_busy:
        return Status.QUEUED.value, None, None
    return find_status(opening).value, opening.position, None


def _count_start(opening: ServiceTurn, addressees: Sequence[_Addressee]) -> Tally:
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
