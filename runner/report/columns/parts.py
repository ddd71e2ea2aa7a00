"""Counts the results of a campaign in parts, which know nothing of each other, and adds them up.

A participant's results are all in one part. So paths, readings, times and words of participants add up, and
the figures are those of one count over everything. Three things look at all parts before they can be counted
in each: which questions there are, which answers are kept, and so which reading is whose. What is found is in
files; what is added up, and chosen from, never is in memory at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from runner.ledger.report_model import FeedRow
from runner.report.columns.counting import count_message, gather_people, list_ending
from runner.report.columns.derivation import derive_columns
from runner.report.columns.engine import quote
from runner.report.columns.found import (
    FOUND,
    PARTICIPANTS,
    count_participants,
    find_results,
    name_message,
)
from runner.report.columns.groups import PartGroups, SummedGroups
from runner.report.columns.pooling import begin_pool, count_pool, find_place, pool_answers
from runner.report.columns.questions import place_answers, read_kept
from runner.report.tally import CampaignTally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runner.report.answers import Reading
    from runner.report.columns.engine import Engine
    from runner.report.columns.questions import Asked
    from runner.report.facts import MessageOutline, ScoreOutline

_OPTIONS = "FORMAT parquet, COMPRESSION zstd"
_HEX_DIGITS = 4
_NO_ROWS = f"SELECT {', '.join(f'NULL::VARCHAR AS {name}' for name in FeedRow._fields)} WHERE false"


@dataclass(frozen=True, slots=True)
class MessagePart:
    """What has to be known of a message to count a part of its results.

    Attributes:
        outline: the message.
        names: the ids under which it is entered.
        asked: its questions.
        ending: numbers of the readings that end the survey, once these are known.
        pooled: the place of the question whose answers are pooled over messages; None for none.
    """

    outline: MessageOutline
    names: tuple[str, ...]
    asked: Asked
    ending: tuple[int, ...] = ()
    pooled: int | None = None


class PartCounts(Protocol):
    """Has all parts counted, wherever that is, and says in which folders the counts are."""

    def find_kept(self, messages: Sequence[MessagePart]) -> list[Path]:
        """Have `write_candidates` called for each part."""

    def count(self, messages: Sequence[MessagePart], readings: Path) -> list[Path]:
        """Have `write_counts` called for each part; the readings are in files of that folder."""


def split_rows(engine: Engine, select: str, folder: Path, parts: int) -> None:
    """Write rows to files of a folder, a folder a part, by the participant's number.

    Args:
        engine: can read them.
        select: reads the rows; one column is `person`.
        folder: for the files; nothing else is in it.
        parts: how many; a power of two, 65,536 at most.
    """
    number = f"(('0x' || left(person::VARCHAR, {_HEX_DIGITS}))::INTEGER % {parts})"
    engine.save(f"SELECT *, {number} AS part FROM ({select})", folder, f"{_OPTIONS}, PARTITION_BY (part)")


def show_people(engine: Engine, members: Sequence[Path], reached: Sequence[Path], columns: int) -> None:
    """Let the engine see the tables of `runner.report.columns.members`, without phones.

    Args:
        engine: reads them.
        members: what `split_rows` has made of the table of that name; perhaps none.
        reached: likewise.
        columns: how many values a member has.
    """
    values = "".join(f", '' AS value_{number}" for number in range(columns))
    for name, files, nobody in (
        ("members", members, f"SELECT '' AS participant{values}, NULL::UUID AS person WHERE false"),
        ("reached", reached, "SELECT '' AS message, '' AS participant, NULL::UUID AS person WHERE false"),
    ):
        engine.run(f"CREATE OR REPLACE TEMP VIEW {name} AS {_read(files) if files else nobody}")


def list_part(folder: Path, number: int) -> list[Path]:
    """Return the files of one part in a folder that `split_rows` has filled."""
    return sorted(folder.glob(f"part={number}/*.parquet"))


def show_part(engine: Engine, files: Sequence[Path]) -> None:
    """Let the engine see results as the table `results`.

    Args:
        engine: reads them.
        files: what `split_rows` has made of rows with the columns of `derive_columns`; perhaps none.
    """
    read = _read(files) if files else derive_columns(_NO_ROWS)
    engine.run(f"CREATE OR REPLACE TEMP VIEW results AS {read}")


def write_found(engine: Engine, folder: Path) -> None:
    """Write which results there are in a part, or in any other set that shares none with the others."""
    PartGroups(engine, folder, "found").rows(FOUND)


def write_candidates(engine: Engine, folder: Path, messages: Sequence[MessagePart]) -> None:
    """Write which answers of a part may be kept.

    Args:
        engine: sees the part.
        folder: for the files.
        messages: the campaign's.
    """
    for number, part in enumerate(messages):
        name_message(engine, part.names)
        place_answers(engine, part.outline, part.asked)
        read_kept(PartGroups(engine, folder, f"kept-{number}"), part.outline, part.asked)


def write_counts(
    engine: Engine, folder: Path, messages: Sequence[MessagePart], columns: Sequence[str], readings: Path
) -> None:
    """Write what there is in a part.

    Args:
        engine: sees the part.
        folder: for the files.
        messages: the campaign's.
        columns: of the audience, as for `count_campaign`.
        readings: the folder with the readings' numbers.
    """
    begin_pool(engine)
    for number, part in enumerate(messages):
        name_message(engine, part.names)
        place_answers(engine, part.outline, part.asked)
        engine.run(f"INSERT INTO readings FROM read_parquet({quote(str(_name_readings(readings, number)))})")
        gather_people(engine, part.asked, part.ending)
        pool_answers(engine, number, part.pooled)
        groups = PartGroups(engine, folder, f"count-{number}")
        count_message(groups, part.outline.id, part.asked, (), columns)
    count_pool(PartGroups(engine, folder, "pooled"), (), {})
    _count_everybody(PartGroups(engine, folder, "everybody"), messages)


def count_parts(
    engine: Engine,
    outlines: Sequence[MessageOutline],
    message_ids: Mapping[str, str],
    columns: Sequence[str],
    found: Sequence[Path],
    folder: Path,
    parts: PartCounts,
    score: ScoreOutline | None = None,
) -> CampaignTally:
    """Return what there is in all parts: the same as `count_campaign` does of all results.

    Args:
        engine: adds.
        outlines: the campaign's messages.
        message_ids: the ids that messages have now, by those that they had before.
        columns: of the audience, as for `count_campaign`.
        found: folders in which `write_found` has counted each result once.
        folder: for the readings: whoever counts parts reads it.
        parts: has the parts counted.
        score: as for `count_campaign`.
    """
    there = find_results(
        SummedGroups(engine, found, "found"), {outline.id for outline in outlines}, message_ids
    )
    messages = []
    for one in outlines:
        asked = there.list_asked(one)
        pooled = find_place(score, one.id, asked)
        messages.append(MessagePart(one, tuple(there.list_names(one.id)), asked, pooled=pooled))
    readings = _add_candidates(engine, messages, parts.find_kept(messages), folder)
    ended = [replace(part, ending=tuple(list_ending(readings[n]))) for n, part in enumerate(messages)]
    counted = parts.count(ended, folder)
    tallies = {
        part.outline.id: count_message(
            SummedGroups(engine, counted, f"count-{number}"),
            part.outline.id,
            part.asked,
            readings[number],
            columns,
        )
        for number, part in enumerate(ended)
    }
    everybody = count_participants(SummedGroups(engine, counted, "everybody"), there, tallies)
    ids = [part.outline.id for part in ended]
    kept = dict(zip(ids, readings, strict=True))
    pool = count_pool(SummedGroups(engine, counted, "pooled"), ids, kept)
    return CampaignTally(tallies, everybody, there.strays, pool)


def _add_candidates(
    engine: Engine, messages: Sequence[MessagePart], found: Sequence[Path], folder: Path
) -> list[list[Reading]]:
    """Choose what is kept, write the readings' numbers for all parts, and return the readings."""
    chosen = []
    for number, part in enumerate(messages):
        chosen.append(read_kept(SummedGroups(engine, found, f"kept-{number}"), part.outline, part.asked))
        engine.save("FROM readings", _name_readings(folder, number), _OPTIONS)
    return chosen


def _count_everybody(groups: PartGroups, messages: Sequence[MessagePart]) -> None:
    name_message(groups.engine, [name for part in messages for name in part.names])
    groups.rows(PARTICIPANTS)


def _name_readings(folder: Path, number: int) -> Path:
    return folder / f"readings-{number}.parquet"


def _read(files: Sequence[Path]) -> str:
    listed = ", ".join(quote(str(file)) for file in files)
    return f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"
