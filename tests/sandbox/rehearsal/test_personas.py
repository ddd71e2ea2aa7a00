"""Kinds of people, by name and share."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox.definition import read_send
from runner.sandbox.records import RecordList
from runner.sandbox.rehearsal.participants import (
    PERSONAS,
    PersonaHabits,
    choose_habits,
    mistype,
    parse_shares,
)
from runner.sandbox.rehearsal.simulate import simulate
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
PHONES = [f"+1415555{number:04d}" for number in range(200)]
SURVEY: dict[str, Any] = {
    "phone": PHONES,
    "questions": [
        {"text": "Score?", "tag": "nps", "responses": [str(score) for score in range(11)]},
        {"text": "Colour?", "tag": "colour", "responses": ["Red", "Blue", "Green"]},
        {"text": "Why?", "tag": "why"},
    ],
}


def play(db: Path, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Send the survey and simulate; give the summary and the results."""
    request = read_send(json.dumps(SURVEY).encode())
    with closing(open_store(db)) as store:
        Service(store).send(request.definition, request.phones, NOON)
        summary = simulate(db, seed=3, now=NOON, **options)
        records = RecordList(store).list_results({}, 100_000, 0).records
    return summary, [dict(record) for record in records]


@pytest.mark.parametrize(
    ("name", "lowest", "highest"), [("promoter", 9, 10), ("passive", 7, 8), ("detractor", 0, 6)]
)
def test_moods_show_in_the_scores(db: Path, name: str, lowest: int, highest: int) -> None:
    """Promoters, passives and detractors all answer everything, each with scores of their own."""
    summary, results = play(db, personas={name: 1.0})
    scores = [int(result["result_response"]) for result in results if result["question_tag"] == "nps"]
    assert len(results) == 3 * len(PHONES) == 3 * summary.answered
    assert lowest <= min(scores) <= max(scores) <= highest


def test_silent_and_leaving_people(tmp_path: Path) -> None:
    """The silent say nothing; leavers opt out, which is no invalid answer."""
    silent, _ = play(tmp_path / "silent", personas={"silent": 1.0})
    leavers, _ = play(tmp_path / "leavers", personas={"leaver": 1.0})
    assert (silent.silent, silent.results) == (len(PHONES), 0)
    assert (leavers.opted_out, leavers.silent, leavers.invalid_answers) == (len(PHONES), 0, 0)


def test_shares_are_kept_and_the_crowd_stays(tmp_path: Path) -> None:
    """About the named share is of the kind, and everybody else answers as without personas."""
    _, plain = play(tmp_path / "plain")
    mixed, results = play(tmp_path / "mixed", personas={"leaver": 0.25})
    assert 0.15 < mixed.opted_out / len(PHONES) < 0.35
    crowd = PersonaHabits()
    kept = {phone for phone in PHONES if choose_habits(3, phone, crowd, {"leaver": 0.25}) is crowd}

    def answers_of(records: list[dict[str, Any]]) -> list[tuple[str, ...]]:
        names = ("participant_phone_number", "question_tag", "result_response", "created")
        chosen = [record for record in records if record["participant_phone_number"] in kept]
        return [tuple(str(record[name]) for name in names) for record in chosen]

    assert answers_of(results) == answers_of(plain) != []


def test_typos_are_asked_again(db: Path) -> None:
    """Mistyped choices are no answers; the right one follows, so that nothing is missing in the end."""
    summary, results = play(db, response_rate=1.0, quit_rate=0.0, invalid_rate=0.0, typo_rate=0.5)
    assert len(results) == 3 * len(PHONES)
    assert summary.invalid_answers > 0


@given(st.integers(0, 2**32), st.text(max_size=40))
def test_slip_is_one_letter_long(seed: int, text: str) -> None:
    """A slip changes the length by one letter at most, and a text without letters not at all."""
    slip = mistype(Random(seed), text)  # noqa: S311  a slip is drawn from a seed on purpose
    assert abs(len(slip) - len(text)) <= 1
    if not any(letter.isascii() and letter.isalpha() for letter in text):
        assert slip == text


def test_shares_are_read_as_written() -> None:
    """Shares are read by name; three thirds in decimals are everybody."""
    thirds = ["promoter=0.3333333333334", "passive=0.3333333333333", "detractor=0.3333333333333"]
    assert list(parse_shares(thirds)) == ["promoter", "passive", "detractor"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["promotr=0.1"], "there is no persona 'promotr': did you mean promoter?"),
        (["promoter"], "'promoter' is no persona with its share: write it as in promoter=0.3"),
        (["promoter=2"], "'promoter=2' is no persona with its share: write it as in promoter=0.3"),
        (["silent=nan"], "'silent=nan' is no persona with its share: write it as in promoter=0.3"),
        (["silent=0.1", "silent=0.1"], "the persona silent is named twice"),
        (["silent=0.7", "leaver=0.7"], "the personas add up to 1.4; together they are 1 at most"),
    ],
)
def test_other_words_are_refused(written: list[str], message: str) -> None:
    """What is no persona with its share is refused, and a misspelt name is guessed."""
    with pytest.raises(SandboxError) as error:
        parse_shares(written)
    assert str(error.value) == message


def test_unknown_name_is_told_all_names() -> None:
    """A name like no other is answered with all that there are."""
    with pytest.raises(SandboxError) as error:
        parse_shares(["zzz=1"])
    assert all(name in str(error.value) for name in PERSONAS)
