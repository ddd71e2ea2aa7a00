"""Simulated people: their typos and their STOP."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.definition import read_send
from runner.sandbox.rehearsal.participants import Habits, mistype
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


def test_typos_are_asked_again(db: Path) -> None:
    """Mistyped choices are no answers; the right one follows, so that nothing is missing in the end."""
    summary = play(db, Habits(1.0, quit_rate=0.0, invalid_rate=0.0, typo_rate=0.5))
    assert summary.results == 2 * len(PHONES)
    assert summary.invalid_answers > 0


@given(st.integers(0, 2**32), st.text(max_size=40))
def test_typo_is_one_letter_long(seed: int, text: str) -> None:
    """A typo changes the length by one letter at most, and a text without letters not at all."""
    typo = mistype(Random(seed), text)  # noqa: S311  a typo is drawn from a seed on purpose
    assert abs(len(typo) - len(text)) <= 1
    if not any(letter.isascii() and letter.isalpha() for letter in text):
        assert typo == text
