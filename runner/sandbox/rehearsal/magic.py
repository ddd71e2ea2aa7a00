"""Magic numbers: phones whose owners follow a table and write at their own moments, for rehearsals.

They are +1 302 555 01xx: the North American plan reserves 555-0100 to 555-0199 of every area code for
fiction, and phone number libraries take them for valid.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.sandbox.clock import parse_time
from runner.sandbox.conversation import match_response, write_choice
from runner.sandbox.definition import load_definition
from runner.sandbox.sandbox_errors import RefusalError
from runner.sandbox.sessions import LIFETIME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.sandbox.clock import Clock
    from runner.sandbox.commits import Changes
    from runner.sandbox.model import Definition, ServiceQuestion
    from runner.sandbox.service import Service


AT_ONCE = timedelta()
A_DAY = timedelta(days=1)
PREFIX = "+130255501"
FREE_TEXT = "All good, thank you!"
LONG_TEXT = "Tout va bien 🎉 – " + "it works “every day”, even at 5 % battery; " * 8 + "شكرا"
NONSENSE = "blue bananas"
_TRIES = 3
_TEXTS_AT_ONCE = 200
# Sends in quick succession are looked through together.
_PAUSE_S = 0.05
_LOOK_S = 1.0  # texts that are due later come by that much late

_SELECT_OWNERS = "SELECT phone FROM participant WHERE phone BETWEEN ? AND ? ORDER BY phone"
# Of one owner; transcripts, some of thousands of lines, are not scanned.
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
_SELECT_OLDEST = "SELECT min(updated) FROM session WHERE status = 'ACTIVE'"
_SELECT_LATEST = "SELECT created FROM result ORDER BY id DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class Situation:
    """The situation of a magic number's owner.

    Attributes:
        definition: the project that asks them something, if any.
        position: index of the waiting question, from 0.
        said: number of their texts since it was first asked.
        has_news: True if something was sent to them since they last wrote.
        has_opted_out: True if they may not be texted.
    """

    definition: Definition | None
    position: int
    said: int
    has_news: bool
    has_opted_out: bool

    @property
    def question(self) -> ServiceQuestion | None:
        """The waiting question."""
        return self.definition.questions[self.position] if self.definition else None

    @property
    def is_choice(self) -> bool:
        """True if the waiting question has responses."""
        return self.question is not None and bool(self.question.responses)


def say_nothing(_situation: Situation) -> str | None:
    """Never write."""
    return None


def answer(situation: Situation, *, after: tuple[str, ...] = ()) -> str | None:
    """Answer each question correctly, once, after `after` other texts."""
    question = situation.question
    if question is None or situation.said > len(after):
        return None
    return after[situation.said] if situation.said < len(after) else choose_right_answer(question)


def answer_after_nonsense(situation: Situation) -> str | None:
    """Answer each choice with nonsense first; a freeform question would accept that."""
    return answer(situation, after=(NONSENSE,) if situation.is_choice else ())


def never_understand(situation: Situation) -> str | None:
    """Answer choices with nonsense, three times each, and then stop."""
    return NONSENSE if situation.is_choice and situation.said < _TRIES else None


def ask_for_help(situation: Situation) -> str | None:
    """Write HELP to the first question, then answer."""
    return answer(situation, after=("HELP",) if situation.position == 0 else ())


def opt_out(situation: Situation) -> str | None:
    """Write STOP to every text, also without a question."""
    return "STOP" if situation.has_news and not situation.has_opted_out else None


def opt_out_half_way(situation: Situation) -> str | None:
    """Answer the first question and write STOP to the second."""
    return opt_out(situation) if situation.definition and situation.position else answer(situation)


def come_and_go(situation: Situation) -> str | None:
    """Write STOP to every text, and START later."""
    return "START" if situation.has_opted_out else opt_out(situation)


def answer_first(situation: Situation) -> str | None:
    """Answer only the first question."""
    return None if situation.position else answer(situation)


def conclude(situation: Situation) -> str | None:
    """Answer with the conclusion of questions that have one, else correctly."""
    question = situation.question
    if question is None or question.conclude_on is None or situation.said:
        return answer(situation)
    index = match_response(question.responses, question.conclude_on)
    return question.conclude_on if index is None else write_choice(question, index)


def write_at_length(situation: Situation) -> str | None:
    """Answer freeform questions with several segments of text in several."""
    if situation.question is None or situation.is_choice or situation.said:
        return answer(situation)
    return LONG_TEXT


def choose_right_answer(question: ServiceQuestion) -> str:
    """Return a valid answer: the first response that doesn't end the survey."""
    if not question.responses:
        return FREE_TEXT
    ending = None
    if question.conclude_on is not None:
        ending = match_response(question.responses, question.conclude_on)
    going_on = [index for index in range(len(question.responses)) if index != ending]
    return write_choice(question, going_on[0] if going_on else 0)


@dataclass(frozen=True, slots=True)
class MagicNumber:
    """A phone (E.164) with the actions of its owner or of the service.

    Attributes:
        name: in a word or two.
        does: in a sentence.
        script: returns the owner's next text, if any.
        delay: time before they write, by the service's clock.
        refusal: status, code and message of the answer to every send to them.
        fault: name of the fault of every send to them.
    """

    phone: str
    name: str
    does: str
    script: Callable[[Situation], str | None] = say_nothing
    delay: timedelta = AT_ONCE
    refusal: tuple[int, str, str] | None = None
    fault: str | None = None


_TABLE = (
    MagicNumber("00", "silent", "Never answers."),
    MagicNumber("01", "prompt", "Answers every question at once and rightly.", answer),
    MagicNumber(
        "02", "muddled", "Answers each choice with nonsense first, then rightly.", answer_after_nonsense
    ),
    MagicNumber("03", "stop", "Opts out: writes STOP to whatever comes.", opt_out),
    MagicNumber("04", "first only", "Answers the first question and no other.", answer_first),
    MagicNumber("05", "help", "Writes HELP to the first question, then answers.", ask_for_help),
    MagicNumber("06", "slow", "Answers each question a day after it, by the clock.", answer, A_DAY),
    MagicNumber(
        "07", "stop later", "Answers the first question, writes STOP to the second.", opt_out_half_way
    ),
    MagicNumber(
        "08",
        "come and go",
        "Writes STOP a day after whatever comes, and START a day after that.",
        come_and_go,
        A_DAY,
    ),
    MagicNumber("09", "lost", "Answers each choice with nonsense, three times.", never_understand),
    MagicNumber("10", "brief", "Answers so that the survey concludes, if it can be.", conclude),
    MagicNumber("11", "talkative", "Writes at length, in several scripts, where they may.", write_at_length),
    MagicNumber(
        "40",
        "refused",
        "A send to it is refused with 400.",
        refusal=(400, "phone_refused", "One of the numbers cannot be texted (a magic number)."),
    ),
    MagicNumber(
        "43",
        "forbidden",
        "A send to it is refused with 403.",
        refusal=(403, "send_refused", "The account may not send this (a magic number)."),
    ),
    MagicNumber("50", "fails", "A send to it is accepted and answered with 500.", fault="500"),
    MagicNumber("51", "drops", "A send to it is accepted; the connection closes unanswered.", fault="drop"),
)


MAGIC_NUMBERS: Mapping[str, MagicNumber] = {
    f"{PREFIX}{number.phone}": replace(number, phone=f"{PREFIX}{number.phone}") for number in _TABLE
}
"""Every magic number, by its phone; any other number is an ordinary one."""
_PHONES = frozenset(MAGIC_NUMBERS)


def find_fault_name(phones: Collection[str]) -> str | None:
    """Return the name of the fault that one of the phones of a send stands for, if any.

    Raises:
        RefusalError: one of them stands for a refusal.
    """
    # The quickest way for almost every send.
    if _PHONES.isdisjoint(phones):
        return None
    numbers = [MAGIC_NUMBERS[phone] for phone in phones if phone in MAGIC_NUMBERS]
    for number in numbers:
        if number.refusal:
            raise RefusalError(*number.refusal)
    return next((number.fault for number in numbers if number.fault), None)


class _Event(NamedTuple):
    """The next event of an owner: a text, or, with None, their session's expiry."""

    at: datetime
    phone: str
    text: str | None


class AutoResponders:
    """The owners of the magic numbers.

    Their actions depend on the store alone, which is read again inside the transaction that acts: several
    processes may act on one store, and a killed one loses nothing. Actions that the clock jumped over happen
    in order, at their due moments. The service is used on one thread alone.
    """

    def __init__(self, service: Service, *, clock: Clock, changes: Changes) -> None:
        self._service = service
        self._clock = clock
        self._changes = changes

    def act(self) -> int:
        """Write at most 200 texts that are due, and return their number."""
        event = self._find_next()
        if event is None or event.at > self._clock.now():
            return 0
        # Read again, now that nobody else can write.
        with self._service.store.write():
            written = self.act_through(self._clock.now(), most=_TEXTS_AT_ONCE)
        self._changes.note()
        return written

    def act_through(self, until: datetime, *, most: int = sys.maxsize) -> int:
        """Write at most `most` texts due up to a moment, in the caller's transaction; return their number."""
        written = 0
        while written < most and (event := self._find_next()) is not None and event.at <= until:
            # Results are listed in the order of their creation: none may be older than the one before it.
            moment = max(event.at, min(self._find_latest_result() or event.at, until))
            # An expiry, perhaps of their own session, changes their next text.
            if not self._service.expire_sessions(moment) and event.text is not None:
                self._service.receive(event.phone, event.text, moment)
                written += 1
        return written

    def advance(self, length: timedelta) -> datetime:
        """Move the clock forward, write the texts due meanwhile, and return the new time.

        Nobody sees the new time before.

        Raises:
            SandboxError: as `Clock.advance`; nothing has happened.
        """
        with self._service.store.write():
            now = self._clock.advance(length)
            self.act_through(now)
        return now

    def find_due(self) -> datetime | None:
        """Return the next moment at which an owner writes or anybody's session expires, if there is one."""
        connection = self._service.store.connection
        (updated,) = connection.execute(_SELECT_OLDEST).fetchone()
        event = self._find_next()
        moments = [event.at] if event else []
        if updated is not None:
            moments.append(parse_time(updated) + LIFETIME)
        return min(moments, default=None)

    async def run(self, stop: asyncio.Event) -> None:
        """Act at each change and every second, and once more when `stop` is set, for short-lived services."""
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                revision = self._changes.revision
                # Another process may hold the file for too long; texts stay due.
                with suppress(sqlite3.OperationalError):
                    self.act()
                await self._wait(revision, stopped)
            with suppress(sqlite3.OperationalError):
                self.act()
        finally:
            stopped.cancel()

    async def _wait(self, revision: int, stopped: asyncio.Task[bool]) -> None:
        changed = asyncio.create_task(self._changes.wait(revision, _LOOK_S))
        await asyncio.wait((changed, stopped), return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
        if not stopped.done():
            await asyncio.wait((stopped,), timeout=_PAUSE_S)

    def _find_next(self) -> _Event | None:
        """Return the owners' next event."""
        connection = self._service.store.connection
        # Most stores have no magic numbers: this look is all that it costs.
        owners = connection.execute(_SELECT_OWNERS, (f"{PREFIX}00", f"{PREFIX}99")).fetchall()
        if not owners:
            return None
        events: list[_Event] = []
        for (phone,) in owners:
            if (number := MAGIC_NUMBERS.get(phone)) is not None:
                row = connection.execute(_SELECT_SITUATION, (phone,)).fetchone()
                events += _foresee(number, row)
        # A session that expires at the moment of an answer has expired.
        return min(events, key=lambda event: (event.at, event.text is not None), default=None)

    def _find_latest_result(self) -> datetime | None:
        row = self._service.store.connection.execute(_SELECT_LATEST).fetchone()
        return None if row is None else parse_time(row[0])


def _foresee(number: MagicNumber, row: Sequence[Any]) -> Iterator[_Event]:
    """Yield an owner's events if nobody sends them anything; `row` is of `_SELECT_SITUATION`."""
    has_opted_out, position, last_turn, document, last_line, has_news, said = row
    if last_turn is not None:
        yield _Event(parse_time(last_turn) + LIFETIME, number.phone, None)
    definition = None if document is None else load_definition(document)
    text = number.script(Situation(definition, position or 0, said or 0, bool(has_news), bool(has_opted_out)))
    # Without a line, nothing was exchanged with the service: a send was blocked.
    if text is not None and last_line is not None:
        yield _Event(parse_time(last_line) + number.delay, number.phone, text)
