"""Simulation of answers to all open sessions, in virtual time that the service's clock follows."""

from __future__ import annotations

import heapq
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.sandbox.clock import Clock, parse_time
from runner.sandbox.definition import load_definition
from runner.sandbox.model import Keyword, Prompt
from runner.sandbox.rehearsal.participants import AVERAGE, Habits, Person, Reply, draw_person, plan_replies
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import Store, open_store, read_state

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from runner.sandbox.model import Receipt

# One commit for so many texts is cheap. The pause after it goes by the time of its transaction, so that a
# service on the same file can write a third of the time.
_TEXTS_PER_COMMIT = 50
_PAUSE = 0.5  # of a transaction's time
_SHORTEST_PAUSE_S = 0.005

# Sessions are numbered for each participant in the order of their launches.
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
    """The result of a simulation.

    Attributes:
        participants: people with a waiting question at the start.
        answered: of them, those with at least one valid answer now.
        silent: of them, those without a text now.
        invalid_answers: texts that were no valid answer.
        results: recorded answers.
        sessions_completed: completed sessions.
        opted_out: participants who wrote STOP or its kin.
        started: the service's time at the start.
        ended: virtual time of the last text, or the start without one.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON has them."""
        return {**asdict(self), "started": self.started.isoformat(), "ended": self.ended.isoformat()}


def simulate(
    db: Path, *, seed: int, now: datetime | None = None, habits: Habits = AVERAGE
) -> SimulationSummary:
    """Let participants answer all waiting questions, until nobody has anything left to say.

    The same seed and state of the service give the same texts at the same times; only the results' guids
    differ. A repeated simulation continues, and silent people stay silent. The service's clock moves to each
    text, so that records stay in order.

    Args:
        db: the service's database; a service may be running on it.
        seed: of the participants' choices.
        now: start of the virtual time, with its time zone. Default: the service's.
        habits: the participants' habits.

    Raises:
        SandboxError: the database cannot be used, or was reset meanwhile.
    """
    with closing(open_store(db)) as store:
        simulation = _Simulation(store, seed, habits, now)
        Service(store).expire_sessions(simulation.started)
        # Only read: of many people, that takes a while.
        with store.read():
            simulation.load()
        while simulation.queue:
            with store.write():
                began = time.monotonic()
                simulation.play(_TEXTS_PER_COMMIT)
            time.sleep(max(_SHORTEST_PAUSE_S, (time.monotonic() - began) * _PAUSE))
        store.checkpoint()
        return simulation.summarise()


class _DueText(NamedTuple):
    """A text due in virtual time, one for each participant; `rest` follows if it is no valid answer."""

    due: datetime
    phone: str
    text: str
    rest: tuple[Reply, ...]


class _Simulation:
    """The participants' side of all conversations: a queue of texts in virtual time."""

    def __init__(self, store: Store, seed: int, habits: Habits, now: datetime | None) -> None:
        self._store = store
        self._service = Service(store)
        self._clock = Clock(store)
        self._seed = seed
        self._habits = habits
        self.started = self._time = now or self._clock.now()
        self._state: str | None = None
        self.queue: list[_DueText] = []
        self._people: dict[str, Person] = {}
        self._session_numbers: dict[int, int] = {}
        self._wrote: set[str] = set()
        self._answered: set[str] = set()
        self._left: set[str] = set()
        self._invalid = self._results = self._completed = 0

    def load(self) -> None:
        """Find the waiting questions and plan the replies."""
        self._state = read_state(self._store)
        found = self._store.connection.execute(_SELECT_OPEN)
        for session_id, number, position, updated, phone, document in found:
            self._session_numbers[session_id] = number
            if position is not None:
                self._people[phone] = draw_person(self._seed, phone, self._habits)
                prompt = Prompt(session_id, load_definition(document), position)
                self._ask(phone, prompt, max(self._time, parse_time(updated)))

    def play(self, texts: int) -> None:
        """Send at most `texts` texts that are due next.

        Raises:
            SandboxError: the sessions that they answer are gone.
        """
        if read_state(self._store) != self._state:
            raise SandboxError("the sandbox was reset while the participants were answering; simulate again")
        for _ in range(min(texts, len(self.queue))):
            sent = heapq.heappop(self.queue)
            self._time = sent.due
            self._note(sent, self._service.receive(sent.phone, sent.text, sent.due))
        self._clock.reach(self._time)

    def _note(self, sent: _DueText, receipt: Receipt) -> None:
        """Count a text's outcome, and queue its author's next text."""
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
        """Return the counts."""
        return SimulationSummary(
            participants=len(self._people),
            answered=len(self._answered),
            silent=len(self._people) - len(self._wrote),
            invalid_answers=self._invalid,
            results=self._results,
            sessions_completed=self._completed,
            opted_out=len(self._left),
            started=self.started,
            ended=self._time,
        )

    def _ask(self, phone: str, prompt: Prompt | None, at: datetime) -> None:
        # A session launched since the start has no number yet, and waits for the next simulation.
        if prompt is not None and prompt.session_id in self._session_numbers:
            number = self._session_numbers[prompt.session_id]
            self._queue_replies(phone, plan_replies(self._people[phone], prompt, number), at)

    def _queue_replies(self, phone: str, replies: tuple[Reply, ...], at: datetime) -> None:
        if replies:
            heapq.heappush(self.queue, _DueText(at + replies[0].delay, phone, replies[0].text, replies[1:]))
