"""Copies a campaign's results from the ledger into columns, and counts them: what workers do for a report.

Each task writes to a folder that no other task, nor the same one run again, ever writes to, and returns the
names of its files: what a lost worker has left is read by nobody.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.cluster.desk import Desk, open_desk
from runner.ledger.database import Ledger
from runner.ledger.feed_copy import copy_feed, copy_reached
from runner.ledger.report_model import FeedRow
from runner.reconcile.refusals import iterate_refusals
from runner.report.columns.derivation import derive_columns, flag_refusals
from runner.report.columns.engine import Engine
from runner.report.columns.members import number_reached
from runner.report.columns.parts import (
    show_part,
    show_people,
    split_rows,
    write_candidates,
    write_counts,
    write_found,
)
from runner.report.columns.staging import LONGEST_TEXT, select_staged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.cluster.folder import SharedFolder
    from runner.ledger.feed_copy import Span
    from runner.report.columns.parts import MessagePart

_MEMORY_LIMIT = "1GB"
"""What the engine of a task may hold before it spills."""


@dataclass(frozen=True, slots=True)
class CopyOrder:
    """What to copy of which ledger.

    Attributes:
        folder: for intermediate files.
        ledger: the environment variable with the ledger's URL.
        campaign_id: the ledger's number of the campaign.
        snapshot: what all copies see.
        parts: into how many to split the results.
        message_ids: the ids that messages have now, by those that they had before; None if nobody asks who
            was reached.
    """

    folder: SharedFolder
    ledger: str
    campaign_id: int
    snapshot: str
    parts: int
    message_ids: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Copied:
    """What a task has copied.

    Attributes:
        results: names of files, by the number of the part.
        found: names of files with what `write_found` has counted.
        reached: names of files, by the number of the part.
    """

    results: Mapping[int, Sequence[str]]
    found: Sequence[str]
    reached: Mapping[int, Sequence[str]]


@dataclass(frozen=True, slots=True)
class PartFiles:
    """One part of a campaign's results, by the names of its files.

    Attributes:
        folder: for intermediate files.
        results: of the results.
        members: of the audience, if that is asked about.
        reached: of those who were reached, likewise.
    """

    folder: SharedFolder
    results: Sequence[str]
    members: Sequence[str] = ()
    reached: Sequence[str] = ()


def copy_results(order: CopyOrder, span: Span) -> Copied:
    """Copy the results of some launches, split by participants.

    Raises:
        LedgerError: the ledger cannot be read.
        RunnerError: the folder cannot be written.
    """
    with _working(order.folder, "copy") as (desk, own, engine):
        staged, reached = own / "staged.csv", own / "reached.csv"
        with Ledger(os.environ[order.ledger]) as ledger, ledger.reading(order.snapshot) as connection:
            with staged.open("wb") as stream:
                copy_feed(connection, order.campaign_id, span, LONGEST_TEXT, stream)
            refusals = list(iterate_refusals(connection, order.campaign_id, span))
            if order.message_ids is not None:
                with reached.open("wb") as stream:
                    copy_reached(connection, order.campaign_id, span, stream)
        # Flagged by way of a file in the folder of its own: the results' file is still needed.
        select = flag_refusals(
            engine,
            _make(own / "refusals"),
            derive_columns(select_staged(staged, FeedRow._fields)),
            refusals,
        )
        results = _split(desk, engine, select, own / "results", order.parts)
        staged.unlink()
        show_part(engine, desk.bring(name for names in results.values() for name in names))
        write_found(engine, _make(own / "found"))
        if order.message_ids is None:
            return Copied(results, desk.hand_over(own / "found"), {})
        people = number_reached(select_staged(reached, ("message", "participant")), order.message_ids)
        return Copied(
            results,
            desk.hand_over(own / "found"),
            _split(desk, engine, people, own / "reached", order.parts),
        )


def find_candidates(files: PartFiles, messages: Sequence[MessagePart]) -> list[str]:
    """Have `write_candidates` do its work on a part, and return the names of the files."""
    with _working(files.folder, "kept") as (desk, own, engine):
        show_part(engine, desk.bring(files.results))
        write_candidates(engine, _make(own / "found"), messages)
        return desk.hand_over(own / "found")


def count_part(
    files: PartFiles, messages: Sequence[MessagePart], columns: Sequence[str], readings: Sequence[str]
) -> list[str]:
    """Have `write_counts` do its work on a part, and return the names of the files.

    Args:
        files: the part's.
        messages: the campaign's.
        columns: of the audience.
        readings: names of the files with the readings' numbers.
    """
    with _working(files.folder, "count") as (desk, own, engine):
        show_part(engine, desk.bring(files.results))
        show_people(engine, desk.bring(files.members), desk.bring(files.reached), len(columns))
        numbers = desk.bring(readings)
        write_counts(engine, _make(own / "counts"), messages, columns, numbers[0].parent)
        return desk.hand_over(own / "counts")


def split_people(desk: Desk, engine: Engine, table: str, parts: int) -> dict[int, list[str]]:
    """Split a table of `runner.report.columns.members` as results are; return the names of files, by part.

    Args:
        desk: where to.
        engine: has the table.
        table: its name.
        parts: how many.
    """
    return _split(desk, engine, f"FROM {table}", desk.root / f"{table}-{secrets.token_hex(8)}", parts)


@contextmanager
def _working(folder: SharedFolder, name: str) -> Iterator[tuple[Desk, Path, Engine]]:
    with open_desk(folder) as desk:
        own = _make(desk.root / f"{name}-{secrets.token_hex(8)}")
        # The machine's other cores are for other tasks.
        with Engine(own, _MEMORY_LIMIT, threads=1) as engine:
            yield desk, own, engine


def _split(desk: Desk, engine: Engine, select: str, folder: Path, parts: int) -> dict[int, list[str]]:
    split_rows(engine, select, _make(folder), parts)
    found: dict[int, list[str]] = {}
    for name in desk.hand_over(folder):
        part = name.rsplit("/", 2)[1]
        found.setdefault(int(part.removeprefix("part=")), []).append(name)
    return found


def _make(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True)
    return folder
