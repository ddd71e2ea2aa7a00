"""Magic numbers: their owners act by themselves on a running service."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.clock import Clock, parse_time
from runner.sandbox.commits import Changes
from runner.sandbox.definition import read_send
from runner.sandbox.records import RecordList
from runner.sandbox.rehearsal.magic import FREE_TEXT, LONG_TEXT, MAGIC_NUMBERS, NONSENSE, AutoResponders
from runner.sandbox.rehearsal.participants import Habits
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import requests

    Call = Callable[..., requests.Response]

DAY = timedelta(days=1)
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SURVEY: dict[str, Any] = {
    "introduction": "Hello",
    "questions": [
        {"text": "Score?", "responses": [str(score) for score in range(11)], "conclude_on": "0"},
        {"text": "Colour?", "responses": ["Red", "Blue"], "conclude_on": "red"},
        {"text": "Why?"},
    ],
    "conclusion": "Thanks",
}


class Stage:
    """A service without a server, whose owners of magic numbers act when told to."""

    def __init__(self, db: Path) -> None:
        self.store = open_store(db)
        self.service = Service(self.store)
        self.clock = Clock(self.store, lambda: NOON)
        self.owners = AutoResponders(self.service, clock=self.clock, changes=Changes(self.store))

    def send(self, *names: str, **body: Any) -> None:
        phones = [number.phone for number in MAGIC_NUMBERS.values() if number.name in names]
        request = read_send(json.dumps({**(body or SURVEY), "phone": phones}).encode())
        self.service.send(request.definition, request.phones, self.clock.now())

    def said(self) -> list[str]:
        """Give what the participants have written, in order."""
        query = "SELECT text FROM transcript WHERE kind = 'inbound' ORDER BY id"
        return [text for (text,) in self.store.connection.execute(query)]

    def lines(self) -> list[tuple[timedelta, str]]:
        """Give what the participants have written, each with the time since noon, in order."""
        query = "SELECT at, text FROM transcript WHERE kind = 'inbound' ORDER BY id"
        return [(parse_time(at) - NOON, text) for at, text in self.store.connection.execute(query)]

    def sub_statuses(self) -> list[str | None]:
        page = RecordList(self.store).list_stats({}, 10, 0)
        return [session["sub_status"] for stat in page.records for session in stat["sessions"]]


@pytest.fixture
def stage(db: Path) -> Iterator[Stage]:
    made = Stage(db)
    with closing(made.store):
        yield made


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("silent", []),
        ("prompt", ["1", "2", FREE_TEXT]),
        ("muddled", [NONSENSE, "1", NONSENSE, "2", FREE_TEXT]),
        ("stop", ["STOP"]),
        ("first only", ["1"]),
        ("help", ["HELP", "1", "2", FREE_TEXT]),
        ("slow", []),
        ("stop later", ["1", "STOP"]),
        ("come and go", []),
        ("lost", [NONSENSE] * 3),
        ("brief", ["0"]),
        ("talkative", ["1", "2", LONG_TEXT]),
    ],
)
def test_owner_does_what_the_table_says(stage: Stage, name: str, said: list[str]) -> None:
    """Each owner of a magic number writes what the table says, and then no more."""
    stage.send(name)
    assert (stage.owners.act(), stage.said()) == (len(said), said)
    assert (stage.owners.act(), stage.said()) == (0, said)


def test_owner_comes_and_goes(stage: Stage) -> None:
    """One writes STOP after a day and START after another, as often as something is sent."""
    for round_ in range(1, 3):
        stage.send("come and go")
        for _ in range(3):
            stage.clock.advance(timedelta(days=1))
            stage.owners.act()
        assert stage.said() == ["STOP", "START"] * round_


@pytest.mark.parametrize("jump", [3 * DAY, 8 * DAY])
def test_jump_of_the_clock_leaves_nothing_out(stage: Stage, jump: timedelta) -> None:
    """Whatever the clock jumps over happens in its order, at the moment when it was due."""
    stage.send("slow", "come and go")
    assert stage.owners.advance(jump) == stage.clock.now() == NOON + jump
    assert stage.lines() == [
        (DAY, "1"),
        (DAY, "STOP"),
        (2 * DAY, "2"),
        (2 * DAY, "START"),
        (3 * DAY, FREE_TEXT),
    ]
    assert stage.sub_statuses() == [None, "OPTED_OUT"]


def test_queue_goes_on_within_a_jump(stage: Stage) -> None:
    """A session that starts when the one before it expires is answered at that moment, not after the jump."""
    for _ in range(2):
        stage.send("first only")
    stage.owners.act()
    stage.owners.advance(8 * DAY)
    assert stage.lines() == [(timedelta(), "1"), (7 * DAY, "1")]


def test_results_stay_in_the_order_of_their_creation(stage: Stage) -> None:
    """What an owner says late, after somebody else's result, is not recorded as older than that."""
    stage.send("slow")
    stage.send("silent")
    stage.service.receive("+13025550100", "1", NOON + 2 * DAY)
    stage.clock.advance(3 * DAY)
    stage.owners.act()
    assert [at for at, _ in stage.lines()] == [2 * DAY, 2 * DAY, 3 * DAY]


def test_stop_answers_a_plain_text_too(stage: Stage) -> None:
    """The one who opts out does so where nothing is asked, once, and later sends are blocked."""
    for _ in range(2):
        stage.send("stop", text="Hello")
        stage.owners.act()
    assert (stage.said(), stage.sub_statuses()) == (["STOP"], [None, "BLOCKED"])


def test_processes_share_the_work(db: Path, stage: Stage) -> None:
    """Of two services on one file, only one writes what is due."""
    other = Stage(db)
    with closing(other.store):
        stage.send("prompt", "muddled")
        assert stage.owners.act() + other.owners.act() == len(stage.said()) == 8


def test_simulation_leaves_them_alone(db: Path, stage: Stage) -> None:
    """Simulated participants do not speak for the owners of magic numbers."""
    stage.send("silent", "slow")
    assert simulate(db, seed=1, now=NOON, habits=Habits(1.0)).participants == 0


def test_running_service_lets_them_act(call: Call) -> None:
    """On a running service the answers come by themselves, after the send was answered."""
    call("POST", "/api/send", {**SURVEY, "phone": ["+13025550101"]})
    state = call("GET", "/_sandbox/wait", results=3, sessions_complete=1, timeout=60)
    assert state.status_code == 200


def test_moved_clock_wakes_the_slow_one(db: Path, call: Call) -> None:
    """A clock that another process moves makes a running service do what is due."""
    call("POST", "/api/send", {**SURVEY, "phone": ["+13025550106"]})
    with closing(open_store(db)) as other:
        Clock(other).advance(timedelta(days=1))
    assert call("GET", "/_sandbox/wait", results=1, timeout=60).status_code == 200


def test_jump_is_done_with_once_it_is_answered(call: Call) -> None:
    """Who moves the clock of a running service finds what has happened meanwhile, and nothing expired."""
    call("POST", "/api/send", {**SURVEY, "phone": ["+13025550106"]})
    state = call("POST", "/_sandbox/clock", {"advance": "8d"}).json()
    assert (state["results"], state["sessions_complete"]) == (3, 1)
