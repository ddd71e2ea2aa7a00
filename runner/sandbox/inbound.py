"""What a participant says: a command, an answer to what they are being asked, or neither.

Every function works inside the caller's write transaction.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from runner.sandbox.clock import format_time
from runner.sandbox.conversation import Answer, continue_conversation
from runner.sandbox.model import Keyword, Kind, Prompt, Receipt, SubStatus
from runner.sandbox.numbering import write_insert
from runner.sandbox.optout import NOTICES, read_keyword
from runner.sandbox.sessions import (
    Session,
    complete_open_sessions,
    find_open_session,
    play_turn,
    write_line,
)
from runner.sandbox.webhooks.queue import add_webhook

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from datetime import datetime

# `updated` of a result is "some microseconds later" than `created` (recorded responses of public clients).
_UPDATED_AFTER = timedelta(microseconds=37)

_INSERT_RESULT = write_insert(
    "result",
    (
        "guid",
        "launch_id",
        "participant_id",
        "session_id",
        "position",
        "project_tag",
        "question_tag",
        "answer",
        "response",
        "created",
        "updated",
    ),
)


def receive_text(
    connection: sqlite3.Connection,
    participant_id: int,
    text: str,
    now: datetime,
    new_guid: Callable[[], str],
) -> Receipt:
    """Take a participant's text as a command, else as the answer to what their active session asks."""
    session = find_open_session(connection, participant_id)
    write_line(connection, participant_id, session, Kind.INBOUND, text, now)
    has_opted_out = _has_opted_out(connection, participant_id)
    question = session.question if session else None
    keyword = read_keyword(text, question, has_opted_out=has_opted_out)
    if keyword is not None:
        return _obey(connection, participant_id, session, keyword, now, has_opted_out=has_opted_out)
    if session is None or session.position is None:
        return Receipt(was_expected=False, result_guid=None, prompt=None, completed=0)
    turn = continue_conversation(session.definition, session.position, text)
    result_guid = None
    if turn.answer is not None:
        result_guid = new_guid()
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
        _write_opt_out(connection, participant_id, format_time(now))
    elif keyword is Keyword.OPT_IN:
        _write_opt_out(connection, participant_id, None)
    # Who has opted out already is told nothing again: the confirmation is the last text that they may get.
    if keyword is not Keyword.OPT_OUT or not has_opted_out:
        write_line(connection, participant_id, session, Kind.NOTICE, NOTICES[keyword], now)
    # A command for help leaves the question open.
    prompt = None
    if keyword is Keyword.HELP and session is not None and session.position is not None:
        prompt = Prompt(session.id, session.definition, session.position)
    return Receipt(was_expected=False, result_guid=None, prompt=prompt, completed=completed, keyword=keyword)


def _has_opted_out(connection: sqlite3.Connection, participant_id: int) -> bool:
    query = "SELECT opted_out IS NOT NULL FROM participant WHERE id = ?"
    return bool(connection.execute(query, (participant_id,)).fetchone()[0])


def _write_opt_out(connection: sqlite3.Connection, participant_id: int, moment: str | None) -> None:
    # A second STOP leaves the moment of the first.
    change = "NULL" if moment is None else "COALESCE(opted_out, ?)"
    values = (participant_id,) if moment is None else (moment, participant_id)
    connection.execute(f"UPDATE participant SET opted_out = {change} WHERE id = ?", values)


def _record_result(
    connection: sqlite3.Connection, session: Session, answer: Answer, guid: str, now: datetime
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
    result_id = connection.execute(_INSERT_RESULT, row).lastrowid or 0
    if question.webhook is not None:
        add_webhook(connection, result_id, question.webhook)
