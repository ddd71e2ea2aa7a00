"""The service's memory: launches, participants, sessions and results, in the reference's words."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Accepted:
    """One accepted send, exactly as it came.

    Attributes:
        guid: of the launch that it became.
        phones: each as often as it was named, as `+` and digits.
        definition: the body less its phones.
        at: when it was accepted, UTC.
        monotonic: the same moment on the clock that nobody can set.
    """

    guid: str
    phones: tuple[str, ...]
    definition: dict[str, Any]
    at: datetime
    monotonic: float


@dataclass(slots=True)
class Session:
    """One conversation with a participant.

    Attributes:
        place: of the question that it waits at, from 0.
        sub_status: more about how it ended.
    """

    guid: str
    launch: Launch
    participant: Participant
    created: datetime
    status: str = "QUEUED"
    place: int = 0
    sub_status: str | None = None


@dataclass(slots=True)
class Participant:
    """A person, and the sessions that have not ended: the first is the active one."""

    guid: str
    phone: str
    sessions: list[Session] = field(default_factory=list)


@dataclass(slots=True)
class Launch:
    """One execution of a project.

    Attributes:
        messages: renders of texts, introductions and conclusions.
        questions: questions asked; one that is asked again counts once.
        renders: of both, and of each question that was asked again.
    """

    sent: Accepted
    question_guids: tuple[str, ...]
    sessions: list[Session] = field(default_factory=list)
    messages: int = 0
    questions: int = 0
    renders: int = 0
    results: int = 0

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The questions of the definition."""
        return self.sent.definition.get("questions") or []

    def count_sessions(self) -> Counter[str]:
        """Return the sessions by status."""
        return Counter(session.status for session in self.sessions)


@dataclass(frozen=True, slots=True)
class Result:
    """One validated answer."""

    guid: str
    session: Session
    place: int
    answer: str
    response: str
    at: datetime

    @property
    def launch(self) -> Launch:
        """The launch that it belongs to."""
        return self.session.launch

    @property
    def question(self) -> dict[str, Any]:
        """The question as it was sent."""
        return self.launch.asked[self.place]


class NoSessionError(LookupError):
    """A participant has no active session."""


class Store:
    """Everything that was accepted and answered; safe to use from several threads.

    Attributes:
        accepted: every accepted send.
        launches: what became of them, in the same order.
        results: in the order in which they came.
        rewrite: changes a result record before it is listed; None counts it and does not list it.
        lock: held by those who read several of these together.
    """

    def __init__(self) -> None:
        self.rewrite: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda record: record
        self.accepted: list[Accepted] = []
        self.launches: list[Launch] = []
        self.results: list[Result] = []
        self.lock = threading.RLock()
        self._participants: dict[str, Participant] = {}

    def accept(self, phones: list[str], definition: dict[str, Any]) -> Launch:
        """Launch a project."""
        with self.lock:
            sent = Accepted(make_guid(), tuple(phones), definition, datetime.now(UTC), time.monotonic())
            launch = Launch(sent, tuple(make_guid() for _ in definition.get("questions") or []))
            self.accepted.append(sent)
            self.launches.append(launch)
            people = [self._find_participant(phone) for phone in phones]
            if definition.get("complete_existing_sessions") is True:
                for person in people:
                    for session in person.sessions:
                        session.status = "COMPLETE"
                    person.sessions.clear()
            for person in people:
                session = Session(make_guid(), launch, person, sent.at)
                launch.sessions.append(session)
                person.sessions.append(session)
                if person.sessions[0] is session:
                    _begin(session)
            return launch

    def answer(self, phone: str, text: str) -> Result | None:
        """Have a participant write; return the result, or None if the answer was not valid.

        Raises:
            NoSessionError: nobody asked them anything.
        """
        with self.lock:
            person = self._participants.get(phone)
            if person is None or not person.sessions:
                raise NoSessionError(phone)
            session = person.sessions[0]
            launch = session.launch
            question = launch.asked[session.place]
            read = _read_answer(question, text)
            if read is None:
                launch.renders += 1
                return None
            result = Result(make_guid(), session, session.place, *read, datetime.now(UTC))
            self.results.append(result)
            launch.results += 1
            _move_on(session, ends=_concludes(question, text, result))
            return result

    def count_texts(self) -> Counter[tuple[str, str]]:
        """Return how often each phone was texted under each tag."""
        with self.lock:
            return Counter(
                (str(sent.definition.get("tag")), phone) for sent in self.accepted for phone in sent.phones
            )

    def count_renders(self) -> int:
        """Return the renders of all launches."""
        with self.lock:
            return sum(launch.renders for launch in self.launches)

    def _find_participant(self, phone: str) -> Participant:
        return self._participants.setdefault(phone, Participant(make_guid(), phone))


def make_guid() -> str:
    """Return a new identifier, in lower case."""
    return str(uuid.uuid4())


def _begin(session: Session) -> None:
    definition, launch = session.launch.sent.definition, session.launch
    session.status = "ACTIVE"
    for name in ("text", "introduction"):
        _render_message(launch, definition.get(name))
    if launch.asked:
        _ask(launch)
    else:
        _end(session)


def _move_on(session: Session, *, ends: bool) -> None:
    session.place += 1
    if ends or session.place == len(session.launch.asked):
        _render_message(session.launch, session.launch.sent.definition.get("conclusion"))
        _end(session)
    else:
        _ask(session.launch)


def _end(session: Session) -> None:
    session.status = "COMPLETE"
    waiting = session.participant.sessions
    waiting.remove(session)
    if waiting:
        _begin(waiting[0])


def _render_message(launch: Launch, text: object) -> None:
    if text:
        launch.messages += 1
        launch.renders += 1


def _ask(launch: Launch) -> None:
    launch.questions += 1
    launch.renders += 1


def _read_answer(question: dict[str, Any], text: str) -> tuple[str, str] | None:
    """Return an answer as code and as text; None if it is not valid.

    A response that reads like another one's index is taken for itself: "9" of 0 to 10 is the nine.
    """
    responses = question.get("responses")
    if not responses:
        return text, text
    plain = [_fold(response) for response in responses]
    indexes = [str(number) for number in range(1, len(responses) + 1)]
    for known in (plain, indexes):
        if _fold(text) in known:
            place = known.index(_fold(text))
            return indexes[place], responses[place]
    return None


def _concludes(question: dict[str, Any], text: str, result: Result) -> bool:
    match = question.get("conclude_on")
    return match is not None and _fold(match) in {_fold(text), _fold(result.response)}


def _fold(text: object) -> str:
    return str(text).strip().casefold()
