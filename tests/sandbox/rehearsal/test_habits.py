"""Simulated people who write STOP."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runner.sandbox.definition import read_send
from runner.sandbox.rehearsal.participants import Habits
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from runner.sandbox.rehearsal.simulate import SimulationSummary

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
PHONES = [f"+1415555{number:04d}" for number in range(100)]


def play(db: Path, habits: Habits) -> SimulationSummary:
    """Send a survey and simulate."""
    questions = [{"text": "Colour?", "responses": ["Red", "Blue"]}, {"text": "Why?"}]
    request = read_send(json.dumps({"phone": PHONES, "questions": questions}).encode())
    with closing(open_store(db)) as store:
        Service(store).send(request.definition, request.phones, NOON)
    return simulate(db, seed=3, now=NOON, habits=habits)


def test_leaving_people_opt_out(db: Path) -> None:
    """People who write STOP opt out, which is no invalid answer."""
    summary = play(db, Habits(1.0, quit_rate=0.0, invalid_rate=0.0, stop_rate=1.0))
    assert (summary.opted_out, summary.silent, summary.invalid_answers) == (len(PHONES), 0, 0)
