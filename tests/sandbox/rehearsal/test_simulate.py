"""Simulated participants: the same seed gives the same people."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.clock import Clock
from runner.sandbox.definition import read_send
from runner.sandbox.records import RecordList
from runner.sandbox.rehearsal.participants import Habits
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import empty_store, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.rehearsal.simulate import SimulationSummary

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
SURVEY: dict[str, Any] = {
    "questions": [
        {"text": "Score?", "tag": "nps", "responses": [str(score) for score in range(11)]},
        {"text": "Colour?", "tag": "colour", "responses": ["Red", "Blue", "Green"]},
        {"text": "Why?", "tag": "why"},
    ],
    "conclusion": "Thanks",
}
PHONES = tuple(f"+1415555{number:04d}" for number in range(300))


def launch(db: Path, *phones: str, body: dict[str, Any] | None = None) -> None:
    request = read_send(json.dumps({**(body or SURVEY), "phone": list(phones)}).encode())
    with closing(open_store(db)) as store:
        Service(store).send(request.definition, request.phones, NOON)


def list_answers(db: Path) -> list[tuple[str, ...]]:
    """Give who answered what and when, in order: everything but the guids."""
    with closing(open_store(db)) as store:
        records = RecordList(store).list_results({}, 100_000, 0).records
    names = ("participant_phone_number", "question_tag", "result_answer", "result_response", "created")
    return [tuple(str(record[name]) for name in names) for record in records]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SimulationSummary]:
    """A survey that was simulated once: its database, and the summary."""
    db = tmp_path_factory.mktemp("played") / "service.sqlite"
    launch(db, *PHONES)
    return db, simulate(db, seed=1, now=NOON, habits=Habits(invalid_rate=0.2))


@pytest.mark.slow
def test_same_seed_gives_the_same_answers(tmp_path: Path, played: tuple[Path, SimulationSummary]) -> None:
    """Services in the same state give the same answers at the same times with a seed, and others with another one."""
    for seed in (1, 2):
        db = tmp_path / str(seed)
        launch(db, *PHONES)
        summary = simulate(db, seed=seed, now=NOON, habits=Habits(invalid_rate=0.2))
        assert (list_answers(db) == list_answers(played[0])) is (seed == 1)
        assert (summary == played[1]) is (seed == 1)


def test_summary_counts_what_is_in_the_store(played: tuple[Path, SimulationSummary]) -> None:
    """The summary's counts are those of the store; everybody either answered or fell silent."""
    db, summary = played
    answers = list_answers(db)
    with closing(open_store(db)) as store:
        totals = RecordList(store).list_stats({}, 1, 0).additions["totals"]
        assert summary.started < summary.ended <= Clock(store).now()
    assert summary.participants == len(PHONES)
    assert summary.answered == len({answer[0] for answer in answers})
    assert summary.silent == summary.participants - summary.answered
    assert summary.results == len(answers) == totals["results"]
    assert summary.sessions_completed == totals["complete_sessions"]
    assert summary.invalid_answers == totals["renders"] - totals["messages"] - totals["questions"] > 0


def test_people_write_as_people_do(played: tuple[Path, SimulationSummary]) -> None:
    """Choices come as words, in odd case and as numbers; scores lean to the top; some stop half-way."""
    with closing(open_store(played[0])) as store:
        texts = {
            text for (text,) in store.connection.execute("SELECT text FROM transcript WHERE kind = 'inbound'")
        }
    asked = Counter(tag for _, tag, *_ in list_answers(played[0]))
    scores = [int(response) for _, tag, _, response, _ in list_answers(played[0]) if tag == "nps"]
    assert {"1", "Red", "RED", "red"} <= texts
    assert asked["nps"] > asked["colour"] > asked["why"] > 0
    assert 0.4 < sum(score >= 9 for score in scores) / len(scores) < 0.6
    assert 0.1 < sum(score <= 6 for score in scores) / len(scores) < 0.3


def test_running_again_goes_on(db: Path) -> None:
    """A second simulation with the same seed adds nothing, and answers later sessions for those who are not silent."""
    launch(db, *PHONES[:100])
    simulate(db, seed=1, now=NOON)
    before = list_answers(db)
    again = simulate(db, seed=1, now=NOON + timedelta(days=3))
    assert (again.results, again.invalid_answers, again.answered) == (0, 0, 0)
    assert again.silent == again.participants > 0
    assert list_answers(db) == before
    launch(db, *PHONES[:100], body={**SURVEY, "complete_existing_sessions": True})
    simulate(db, seed=1, now=NOON + timedelta(days=4))
    assert {phone for phone, *_, created in list_answers(db) if created > "2026-12-05"} == {
        phone for phone, *_ in before
    }


def test_queued_sessions_are_answered_in_turn(db: Path) -> None:
    """Sessions that wait in the queue are answered when they start, in the same simulation."""
    for _ in range(3):
        launch(db, *PHONES[:20])
    summary = simulate(db, seed=1, now=NOON, habits=Habits(response_rate=1.0, quit_rate=0.0))
    assert (summary.results, summary.sessions_completed) == (180, 60)


def test_reset_ends_the_simulation(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Participants of a state that was reset say so and stop; what is new stays as it is."""
    is_reset, pauses = Event(), count()

    def pause(seconds: float) -> None:
        time.sleep(seconds)
        # They have much to say; if the reset has not come by then, they wait for it.
        if next(pauses) > 20:
            is_reset.wait(60)

    monkeypatch.setattr(
        "runner.sandbox.rehearsal.simulate.time", SimpleNamespace(sleep=pause, monotonic=time.monotonic)
    )
    launch(db, *(f"+1415555{number:04d}" for number in range(1500)))
    with ThreadPoolExecutor() as pool, closing(open_store(db)) as store:
        simulation = pool.submit(simulate, db, seed=1, now=NOON)
        while not store.connection.execute("SELECT results FROM totals").fetchone()[0]:
            time.sleep(0.01)
        empty_store(store)
        is_reset.set()
        with pytest.raises(SandboxError, match="was reset while"):
            simulation.result()
    assert list_answers(db) == []
