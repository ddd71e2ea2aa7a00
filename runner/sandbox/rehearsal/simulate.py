"""Lets simulated participants answer all open sessions, in virtual time that the service's clock follows."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from runner.sandbox.changes import Changes
from runner.sandbox.clock import Clock, parse_time
from runner.sandbox.definition import load_definition
from runner.sandbox.errors import SandboxError
from runner.sandbox.model import Keyword, Prompt
from runner.sandbox.rehearsal.cast import Cast
from runner.sandbox.rehearsal.magic import MAGIC_NUMBERS
from runner.sandbox.rehearsal.participants import Persona, Reply, draw_persona, plan_replies
from runner.sandbox.rehearsal.personas import Habits, choose_habits
from runner.sandbox.rehearsal.snapshot import read_state
from runner.sandbox.service import Service
from runner.sandbox.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from runner.sandbox.model import Receipt

# One commit for so many texts is cheap; the pause after it lets a service on the same file write in between.
_TEXTS_PER_COMMIT = 250
_PAUSE_SECONDS = 0.01

# Sessions are numbered for each participant, in the order in which they were launched.
_SELECT_OPEN = """
SELECT numbered.id, numbered.number, numbered.position, numbered.updated, participant.phone, launch.definition
FROM (
    SELECT id, launch_id, participant_id, status, position, updated,
           row_number() OVER (PARTITION BY participant_id ORDER BY id) AS number
    FROM session
) AS numbered
JOIN participant ON participant.id = numbered.participant_id
JOIN launch ON launch.id = numbered.launch_id
WHERE numbered.status <> 'COMPLETE'
ORDER BY participant.phone, numbered.id
"""


@dataclass(frozen=True, slots=True)
class SimulationSummary:
    """What a simulation did.

    Attributes:
        participants: those who were being asked something at its start.
        answered: of them, those who gave at least one valid answer now.
        silent: of them, those who wrote nothing now.
        invalid_answers: texts that were no valid answer.
        results: answers that were recorded.
        sessions_completed: sessions that came to their end.
        opted_out: participants who wrote STOP or its kin.
        started: the service's time at the start.
        ended: virtual time of the last text, or the start where nobody wrote.
    """

    participants: int
    answered: int
    silent: int
    invalid_answers: int
    results: int
    sessions_completed: int
    opted_out: int
    started: datetime
    ended: datetime


def simulate(
    db: Path,
    *,
    seed: int,
    now: datetime | None = None,
    response_rate: float = 0.6,
    quit_rate: float = 0.12,
    invalid_rate: float = 0.08,
    typo_rate: float = 0.0,
    personas: Mapping[str, float] | None = None,
) -> SimulationSummary:
    """Let participants answer whatever they are being asked, until nobody has anything left to say.

    The same seed and the same state of the service give the same texts at the same times; only the guids of
    the results differ. Run again, it goes on: whoever fell silent stays silent. The owners of magic numbers
    do what they always do, at their time. The service's clock is moved to each text, so that nothing that
    happens later is recorded as earlier.

    Args:
        db: the service's database; a service may be running on it.
        seed: what the participants' choices grow from.
        now: start of the virtual time, with its time zone, which records carry. Default: the service's.
        response_rate: share of the participants who reply at all, from 0 to 1.
        quit_rate: share of those who stop half-way, from 0 to 1.
        invalid_rate: share of the replies to multiple choice that are invalid at first, from 0 to 1.
        typo_rate: share of the replies with a slip of the finger, from 0 to 1.
        personas: shares of kinds of people, as `parse_shares` gives them; the rates are for everybody else.

    Raises:
        SandboxError: the database cannot be used, or was reset meanwhile.
    """
    store = open_store(db)
    try:
        crowd = Habits(response_rate, quit_rate, invalid_rate, typo_rate)
        people = _People(seed, crowd, personas or {})
        simulation = _Simulation(store, people, now)
        with store.write():
            simulation.load()
        while simulation.is_going_on:
            with store.write():
                simulation.play(_TEXTS_PER_COMMIT)
            time.sleep(_PAUSE_SECONDS)
        return simulation.summarise()
    finally:
        store.close()


class _DueText(NamedTuple):
    """A text that is due; a participant has one at a time, so that `due` and `phone` order them all.

    Attributes:
        due: when, in virtual time.
        phone: who writes.
        text: what.
        rest: what they write next if this is no valid answer.
    """

    due: datetime
    phone: str
    text: str
    rest: tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class _People:
    """Who the participants are: a seed, the crowd's habits, and the shares of kinds of people."""

    seed: int
    crowd: Habits
    shares: Mapping[str, float]

    def draw(self, phone: str) -> Persona:
        """Draw who answers a phone."""
        return draw_persona(self.seed, phone, choose_habits(self.seed, phone, self.crowd, self.shares))


class _Simulation:
    """The participants' side of all conversations: a queue of texts in the order of virtual time."""

    def __init__(self, store: Store, people: _People, now: datetime | None) -> None:
        self._store = store
        self._service = Service(store)
        self._clock = Clock(store)
        self._cast = Cast(self._service, clock=self._clock, changes=Changes(store))
        self._people = people
        self._started = self._time = now or self._clock.now()
        self._state: str | None = None
        self._queue: list[_DueText] = []
        self._personas: dict[str, Persona] = {}
        self._session_numbers: dict[int, int] = {}
        self._wrote: set[str] = set()
        self._answered: set[str] = set()
        self._left: set[str] = set()
        self._invalid = self._results = self._completed = 0

    @property
    def is_going_on(self) -> bool:
        """Whether a text is still due."""
        return bool(self._queue)

    def load(self) -> None:
        """Find who is being asked what, and let each decide what to reply."""
        self._state = read_state(self._store)
        self._cast.act_through(self._time)
        self._service.expire_sessions(self._time)
        found = self._store.connection.execute(_SELECT_OPEN)
        for session_id, number, position, updated, phone, document in found:
            if phone in MAGIC_NUMBERS:
                continue
            self._session_numbers[session_id] = number
            if position is not None:
                self._personas[phone] = self._people.draw(phone)
                prompt = Prompt(session_id, load_definition(document), position)
                self._ask(phone, prompt, max(self._time, parse_time(updated)))

    def play(self, texts: int) -> None:
        """Send the texts that are due next, at most so many.

        Raises:
            SandboxError: the sessions that they answer are gone.
        """
        if read_state(self._store) != self._state:
            raise SandboxError("the sandbox was reset while the participants were answering; simulate again")
        for _ in range(min(texts, len(self._queue))):
            sent = heapq.heappop(self._queue)
            self._cast.act_through(sent.due)
            self._time = sent.due
            self._note(sent, self._service.receive(sent.phone, sent.text, sent.due))
        self._clock.reach(self._time)

    def _note(self, sent: _DueText, receipt: Receipt) -> None:
        """Count what a text has led to, and queue what its author writes next."""
        self._wrote.add(sent.phone)
        self._completed += receipt.completed
        if receipt.result_guid is not None:
            self._results += 1
            self._answered.add(sent.phone)
            self._ask(sent.phone, receipt.prompt, sent.due)
        elif receipt.keyword is Keyword.OPT_OUT:
            self._left.add(sent.phone)
        else:
            self._invalid += 1
            self._queue_replies(sent.phone, sent.rest, sent.due)

    def summarise(self) -> SimulationSummary:
        """Count what happened."""
        return SimulationSummary(
            participants=len(self._personas),
            answered=len(self._answered),
            silent=len(self._personas) - len(self._wrote),
            invalid_answers=self._invalid,
            results=self._results,
            sessions_completed=self._completed,
            opted_out=len(self._left),
            started=self._started,
            ended=self._time,
        )

    def _ask(self, phone: str, prompt: Prompt | None, at: datetime) -> None:
        # A session launched since the start has no number yet; it waits for the next simulation.
        if prompt is not None and prompt.session_id in self._session_numbers:
            number = self._session_numbers[prompt.session_id]
            self._queue_replies(phone, plan_replies(self._personas[phone], prompt, number), at)

    def _queue_replies(self, phone: str, replies: tuple[Reply, ...], at: datetime) -> None:
        if replies:
            heapq.heappush(self._queue, _DueText(at + replies[0].delay, phone, replies[0].text, replies[1:]))
