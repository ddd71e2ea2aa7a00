"""What is counted in parts and added up is what is counted at once."""

from __future__ import annotations

import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from runner.ledger.report_model import FeedRow
from runner.report.columns.dataset import derive_columns, load_members, load_reached
from runner.report.columns.engine import Engine, stage_rows
from runner.report.columns.parts import (
    count_campaign,
    count_parts,
    list_part,
    show_part,
    show_people,
    split_rows,
    write_candidates,
    write_counts,
    write_found,
)
from runner.report.facts import ScoreOutline
from tests.report.columns.test_counting import AGE, OTHER, OUTLINE, rows_of_two_messages
from tests.report.counted import make_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.report.columns.parts import MessagePart
    from runner.report.facts import CampaignTally

PARTS = 2
REFUSED = "SELECT * REPLACE (result_guid SIMILAR TO '.*[0-7]-0000-4000' AS refuses) FROM ({})"
"""Has some results opt out."""
SCORE = ScoreOutline(AGE, ("ask", "again"))
MESSAGE_IDS = {"asked": "ask"}
SIZES = ("small", "large", "")


class Counters:
    """Parts of a set of results, each counted by an engine of its own that sees no more than that."""

    def __init__(self, folder: Path, rows: Sequence[FeedRow]) -> None:
        self.folder = folder
        self.people = sorted({row.participant for row in rows} | {"nobody"})
        self.found: list[Path] = []
        with Engine(folder) as engine:
            for name, some in (("first", rows[::2]), ("second", rows[1::2])):
                with stage_rows(folder, FeedRow._fields, some) as staged:
                    split_rows(engine, REFUSED.format(derive_columns(staged.select)), self._make(name), PARTS)
                show_part(engine, sorted((folder / name).rglob("*.parquet")))
                self.found.append(self._make(f"found-{name}"))
                write_found(engine, self.found[-1])
            self.load(engine)
            split_rows(engine, "FROM members", self._make("members"), PARTS)
            split_rows(engine, "FROM reached", self._make("reached"), PARTS)

    def load(self, engine: Engine) -> None:
        """Tell an engine who is in the audience, and who was sent what."""
        members = [(one, "", SIZES[place % 3]) for place, one in enumerate(self.people[1:])]
        load_members(engine, self.folder, members, 1)
        load_reached(engine, self.folder, [("ask", one) for one in self.people])

    def find_kept(self, messages: Sequence[MessagePart]) -> list[Path]:
        return [self._run(number, "kept", messages, None) for number in range(PARTS)]

    def count(self, messages: Sequence[MessagePart], folder: Path, _readings: object) -> list[Path]:
        return [self._run(number, "count", messages, folder) for number in range(PARTS)]

    def _run(self, number: int, stage: str, messages: Sequence[MessagePart], readings: Path | None) -> Path:
        made = self._make(f"{stage}-{number}")
        with Engine(made) as engine:
            parts = [list_part(self.folder / name, number) for name in ("first", "second")]
            show_part(engine, [file for files in parts for file in files])
            if readings is None:
                write_candidates(engine, made, messages)
            else:
                people = [list_part(self.folder / name, number) for name in ("members", "reached")]
                show_people(engine, people[0], people[1], 1)
                write_counts(engine, made, messages, ["size"], readings)
        return made

    def _make(self, name: str) -> Path:
        made = self.folder / name
        made.mkdir()
        return made


def write_out(value: object) -> object:
    """Return a tally in plain values: readings are equal to themselves alone."""
    if is_dataclass(value):
        return tuple(write_out(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, dict):
        return {write_out(key): write_out(one) for key, one in value.items()}
    return tuple(map(write_out, value)) if isinstance(value, tuple) else value


def count_both(rows: Sequence[FeedRow]) -> tuple[CampaignTally, CampaignTally]:
    """Return what is counted at once, and in parts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = Counters(folder, rows)
        with Engine(folder) as engine:
            outlines = [OUTLINE, OTHER]
            summed = count_parts(engine, outlines, MESSAGE_IDS, ["size"], parts.found, folder, parts, SCORE)
        with Engine(folder) as engine:
            parts.load(engine)
            with stage_rows(folder, FeedRow._fields, rows) as staged:
                flagged = REFUSED.format(derive_columns(staged.select))
                engine.run(f"CREATE TEMP TABLE results AS {flagged}")
            return count_campaign(engine, outlines, MESSAGE_IDS, ["size"], score=SCORE), summed


@pytest.mark.slow
@settings(max_examples=4)
@given(rows=rows_of_two_messages)
def test_parts_add_up(rows: list[FeedRow]) -> None:
    """Whatever was answered: paths, readings, words, times and groups are those of one count over all."""
    whole, summed = count_both(rows)
    assert write_out(summed) == write_out(whole)


def test_what_is_rare_is_chosen_over_all_parts() -> None:
    """A word that five use, and a stranger among a question's answers, count by what all parts have of them."""
    people = [f"{number * 2654435761 % 2**80:020x}" for number in range(1300)]
    rows = [
        make_row(one, "why", f"wonderful no{place % 400}", guid=f"{place:08x}")
        for place, one in enumerate(people)
    ]
    rows += [
        make_row(one, "unknown", f"strange {place % 1200}", "1", guid=f"{place:08x}-u")
        for place, one in enumerate(people)
    ]
    whole, summed = count_both(rows)
    assert write_out(summed) == write_out(whole)
    assert whole.messages["ask"].questions["why"].words == {"wonderful": 1300}


def test_no_part_has_anything() -> None:
    """A campaign without results has figures, too: none."""
    whole, summed = count_both([])
    assert write_out(summed) == write_out(whole)
