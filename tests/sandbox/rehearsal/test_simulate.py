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
from runner.sandbox.rehearsal import snapshot
from runner.sandbox.rehearsal.participants import Habits
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.rehearsal.snapshot import restore_snapshot
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

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


def test_same_seed_gives_the_same_answers(tmp_path: Path) -> None:
    """Services in the same state, simulated with the same seed, hold the same answers at the same times."""
    answers, summaries = [], []
    for name in ("a", "b"):
        launch(tmp_path / name, *PHONES)
        summaries.append(simulate(tmp_path / name, seed=7, now=NOON))
        answers.append(list_answers(tmp_path / name))
    assert answers[0] == answers[1] != []
    assert summaries[0] == summaries[1]


def test_other_seed_gives_other_answers(tmp_path: Path) -> None:
    """Another seed gives other answers."""
    for seed in (1, 2):
        launch(tmp_path / str(seed), *PHONES)
        simulate(tmp_path / str(seed), seed=seed, now=NOON)
    assert list_answers(tmp_path / "1") != list_answers(tmp_path / "2")


def test_more_participants_change_nobody(tmp_path: Path) -> None:
    """Participants who are added answer for themselves and change nobody else's answers."""
    few, many = tmp_path / "few", tmp_path / "many"
    launch(few, *PHONES[::2])
    launch(many, *PHONES)
    for db in (few, many):
        simulate(db, seed=1, now=NOON)
    known = set(PHONES[::2])
    assert [answer for answer in list_answers(many) if answer[0] in known] == list_answers(few)


def test_summary_counts_what_is_in_the_store(db: Path) -> None:
    """The summary's counts are those of the store; everybody either answered or fell silent."""
    launch(db, *PHONES)
    summary = simulate(db, seed=1, now=NOON, habits=Habits(invalid_rate=0.3))
    answers = list_answers(db)
    with closing(open_store(db)) as store:
        usage = RecordList(store).list_stats({}, 1, 0).additions
    assert summary.participants == len(PHONES)
    assert summary.answered == len({answer[0] for answer in answers})
    assert summary.silent == summary.participants - summary.answered
    assert summary.results == len(answers) == usage["totals"]["results"]
    assert summary.sessions_completed == usage["totals"]["complete_sessions"]
    rendered = usage["totals"]["messages"] + usage["totals"]["questions"]
    assert summary.invalid_answers == usage["totals"]["renders"] - rendered > 0


def test_running_again_leaves_the_silent_silent(db: Path) -> None:
    """A second simulation with the same seed adds nothing where nothing was sent since."""
    launch(db, *PHONES)
    simulate(db, seed=1, now=NOON)
    before = list_answers(db)
    again = simulate(db, seed=1, now=NOON + timedelta(days=3))
    assert (again.results, again.invalid_answers, again.answered) == (0, 0, 0)
    assert again.silent == again.participants > 0
    assert list_answers(db) == before


def test_running_again_answers_what_is_new(db: Path) -> None:
    """A second simulation answers sessions that were launched since, for those who are not silent."""
    launch(db, *PHONES)
    simulate(db, seed=1, now=NOON)
    done = {phone for phone, *_ in list_answers(db)}
    launch(db, *PHONES, body={**SURVEY, "complete_existing_sessions": True})
    again = simulate(db, seed=1, now=NOON + timedelta(days=3))
    answered = {phone for phone, *_, created in list_answers(db) if created > "2026-12-04"}
    assert again.answered == len(answered)
    assert answered == done


def test_queued_sessions_are_answered_in_turn(db: Path) -> None:
    """Sessions that wait in the queue are answered when they start, in the same simulation."""
    for _ in range(3):
        launch(db, *PHONES[:50])
    summary = simulate(db, seed=1, now=NOON, habits=Habits(response_rate=1.0, quit_rate=0.0))
    assert (summary.results, summary.sessions_completed) == (450, 150)


def test_answers_carry_virtual_time(db: Path) -> None:
    """Results are in order of virtual time, seconds to hours after the start, whatever the clock says."""
    launch(db, *PHONES)
    summary = simulate(db, seed=1, now=NOON)
    times = [datetime.fromisoformat(answer[-1]).replace(tzinfo=UTC) for answer in list_answers(db)]
    assert times == sorted(times)
    assert NOON < times[0] < NOON + timedelta(minutes=5)
    assert NOON + timedelta(hours=1) < times[-1] <= summary.ended


@pytest.mark.parametrize(("rate", "answered"), [(0.0, 0), (1.0, 300)])
def test_response_rate_is_kept_at_its_ends(db: Path, rate: float, answered: int) -> None:
    """A response rate of nothing gives silence, one of all gives an answer from everybody."""
    launch(db, *PHONES)
    assert simulate(db, seed=1, now=NOON, habits=Habits(response_rate=rate)).answered == answered


def test_people_write_as_people_do(db: Path) -> None:
    """Choices come as words, in odd case and as numbers; scores lean to the top; some stop half-way."""
    launch(db, *PHONES)
    simulate(db, seed=1, now=NOON)
    with closing(open_store(db)) as store:
        texts = {
            text for (text,) in store.connection.execute("SELECT text FROM transcript WHERE kind = 'inbound'")
        }
    asked = Counter(tag for _, tag, *_ in list_answers(db))
    scores = [int(response) for _, tag, _, response, _ in list_answers(db) if tag == "nps"]
    assert {"1", "Red", "RED", "red", " Red ", "Red\n"} <= texts
    assert asked["nps"] > asked["colour"] > asked["why"] > 0
    assert 0.4 < sum(score >= 9 for score in scores) / len(scores) < 0.6
    assert 0.1 < sum(score <= 6 for score in scores) / len(scores) < 0.3


def test_clock_follows_the_participants(db: Path) -> None:
    """The service's clock is at the last text afterwards, so that what follows is recorded as later."""
    launch(db, *PHONES)
    summary = simulate(db, seed=1, now=NOON)
    with closing(open_store(db)) as store:
        assert summary.started < summary.ended <= Clock(store).now()


def test_clock_stays_where_nobody_writes(db: Path) -> None:
    """Where all are silent, no time passes."""
    launch(db, *PHONES)
    simulate(db, seed=1, now=NOON, habits=Habits(response_rate=0.0))
    with closing(open_store(db)) as store:
        assert Clock(store).offset() == timedelta()


def test_magic_numbers_act_in_between(db: Path) -> None:
    """The owners of magic numbers do what is due at its time, between the texts of the others."""
    slow = "+13025550106"
    launch(db, slow, *PHONES)
    simulate(db, seed=1, now=NOON + timedelta(hours=23, minutes=55))
    answers = list_answers(db)
    times = [created for *_, created in answers]
    assert times == sorted(times)
    assert [created for phone, *_, created in answers if phone == slow][:1] == ["2026-12-02T12:00:00.000000"]


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
    monkeypatch.setattr(snapshot, "_TRIES", 5000)
    launch(db, *(f"+1415555{number:04d}" for number in range(4000)))
    with ThreadPoolExecutor() as pool, closing(open_store(db)) as store:
        simulation = pool.submit(simulate, db, seed=1, now=NOON)
        while not store.connection.execute("SELECT results FROM totals").fetchone()[0]:
            time.sleep(0.01)
        restore_snapshot(db)
        is_reset.set()
        with pytest.raises(SandboxError, match="was reset while"):
            simulation.result()
    assert list_answers(db) == []


def test_nobody_asked_is_no_error(db: Path) -> None:
    """A service that asks nobody anything simulates to nothing."""
    summary = simulate(db, seed=1, now=NOON)
    assert (summary.participants, summary.results, summary.ended) == (0, 0, NOON)


def test_simulation_leaves_no_log_behind(db: Path) -> None:
    """What a simulation wrote is in the database's file, and its log is empty, though a service is open on it."""
    launch(db, *PHONES)
    with closing(open_store(db)) as store:
        simulate(db, seed=1, now=NOON)
        assert db.with_name(f"{db.name}-wal").stat().st_size == 0
        assert Clock(store).now() > NOON
