"""Results of a campaign, counted on a cluster: copied from the ledger in parts, counted, and added up.

Workers read the ledger themselves, in the client's snapshot; the client holds only groups in memory. Each
task writes to a new folder and returns its files' names, so files of lost workers are never read.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.cluster.folder import LocalCache, open_desk
from runner.cluster.worker_access import open_worker_ledger
from runner.ledger.report_model import FeedRow
from runner.ledger.results.result_feed import FeedSpan, copy_feed, copy_reached, iterate_spans, share_snapshot
from runner.report.columns.dataset import derive_columns, flag_refusals, number_reached, stage_members
from runner.report.columns.engine import LONGEST_TEXT, Engine, select_staged
from runner.report.columns.parts import (
    count_parts,
    show_part,
    show_people,
    split_rows,
    write_candidates,
    write_counts,
    write_found,
)
from runner.report.gathering import iterate_refusals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.cluster.dask_engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.cluster.worker_environment import WorkerEnvironment
    from runner.ledger.target_key import LedgerConnection
    from runner.report.columns.parts import MessagePart
    from runner.report.facts import AnswerReading, CampaignTally, MessageOutline, ScoreOutline


_MEMORY_LIMIT = "1GB"
"""The memory of a task's engine before it spills."""
_CLIENT_LIMIT = "256MB"
"""The same of the client's, which divides the audience and adds up groups."""


@dataclass(frozen=True, slots=True)
class CopyOrder:
    """The order to copy a campaign's results.

    Attributes:
        environment: the worker's variables, with the ledger's URL.
        campaign_id: the campaign's number in the ledger.
        snapshot: the one that all copies see.
        parts: the number of parts to split the results into.
        message_ids: current message ids by former ones; None if reached people are not asked for.
    """

    folder: SharedFolder
    environment: WorkerEnvironment
    campaign_id: int
    snapshot: str
    parts: int
    message_ids: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Copied:
    """The files of one copying task.

    Attributes:
        results: file names by part.
        found: names of files from `write_found`.
        reached: file names by part.
    """

    results: Mapping[int, Sequence[str]]
    found: Sequence[str]
    reached: Mapping[int, Sequence[str]]


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The file names of one part of a campaign's results.

    Attributes:
        results: of the results.
        members: of the audience, if asked for.
        reached: of the reached people, if asked for.
    """

    folder: SharedFolder
    results: Sequence[str]
    members: Sequence[str] = ()
    reached: Sequence[str] = ()


def copy_results(order: CopyOrder, span: FeedSpan) -> Copied:
    """Copy the results of some launches, split by participants.

    Raises:
        LedgerError: the ledger cannot be read.
        RunnerError: the folder cannot be written.
    """
    with _working(order.folder, "copy") as (desk, own, engine):
        staged, reached = own / "staged.csv", own / "reached.csv"
        with open_worker_ledger(order.environment) as ledger, ledger.reading(order.snapshot) as connection:
            with staged.open("wb") as stream:
                copy_feed(connection, order.campaign_id, span, LONGEST_TEXT, stream)
            refusals = list(iterate_refusals(connection, order.campaign_id, span))
            if order.message_ids is not None:
                with reached.open("wb") as stream:
                    copy_reached(connection, order.campaign_id, span, stream)
        # Flagged through a file in a folder of its own, since the results' file is still needed.
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
    """Call `write_candidates` on a part, and return the names of the files."""
    with _working(files.folder, "kept") as (desk, own, engine):
        show_part(engine, desk.bring(files.results))
        write_candidates(engine, _make(own / "found"), messages)
        return desk.hand_over(own / "found")


def count_part(
    files: PartFiles, messages: Sequence[MessagePart], columns: Sequence[str], readings: Sequence[str]
) -> list[str]:
    """Call `write_counts` on a part, and return the names of the files."""
    with _working(files.folder, "count") as (desk, own, engine):
        show_part(engine, desk.bring(files.results))
        show_people(engine, desk.bring(files.members), desk.bring(files.reached), len(columns))
        numbers = desk.bring(readings)
        write_counts(engine, _make(own / "counts"), messages, columns, numbers[0].parent)
        return desk.hand_over(own / "counts")


@contextmanager
def _working(folder: SharedFolder, name: str) -> Iterator[tuple[LocalCache, Path, Engine]]:
    with open_desk(folder) as desk:
        own = _make(desk.root / f"{name}-{secrets.token_hex(8)}")
        # The machine's other cores are for other tasks.
        try:
            with Engine(own, _MEMORY_LIMIT, threads=1) as engine:
                yield desk, own, engine
        finally:
            # At a path this is in the shared folder itself, where nobody would look for people's answers.
            if not folder.is_wanted():
                shutil.rmtree(own, ignore_errors=True)


def _split(desk: LocalCache, engine: Engine, select: str, folder: Path, parts: int) -> dict[int, list[str]]:
    split_rows(engine, select, _make(folder), parts)
    found: dict[int, list[str]] = {}
    for name in desk.hand_over(folder):
        part = name.rsplit("/", 2)[1]
        found.setdefault(int(part.removeprefix("part=")), []).append(name)
    return found


def _make(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True)
    return folder


_SMALL_SPAN, _LARGE_SPAN = 20_000, 1_000_000
"""Results that a task copies, for small and very large campaigns."""
_PART = 2_000_000
"""Results that a task counts: a fifth of what the engine takes without spilling."""
_MOST_PARTS = 256
_TASKS_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class CountingPlace:
    """The cluster and shared folder for counting; `environment` has the ledger's URL on workers."""

    cluster: Cluster
    folder: SharedFolder
    environment: WorkerEnvironment


@dataclass(frozen=True, slots=True)
class CampaignCopy:
    """A copy of a campaign's results.

    Attributes:
        parts: the number of parts; some may be empty.
        copies: the files of each task.
    """

    parts: int
    copies: Sequence[Copied]


def copy_campaign(
    place: CountingPlace,
    connection: LedgerConnection,
    campaign_id: int,
    message_ids: Mapping[str, str] | None,
) -> CampaignCopy:
    """Copy a campaign's results as an open connection (PostgreSQL) sees the ledger.

    `message_ids` are current message ids by former ones, to copy reached people, too; else None.

    Raises:
        RunnerError: the ledger cannot be read, the folder cannot be written, or the cluster is lost.
    """
    spans = list(iterate_spans(connection, campaign_id, _SMALL_SPAN))
    total, slots = sum(count for _, count in spans), place.cluster.slots
    parts = 1 << (min(_MOST_PARTS, max(slots, total // _PART)) - 1).bit_length()
    order = CopyOrder(
        place.folder, place.environment, campaign_id, share_snapshot(connection), parts, message_ids
    )
    joined = _join_spans(spans, min(_LARGE_SPAN, total // (_TASKS_PER_SLOT * slots)))
    calls = ((order, span) for span in joined)
    return CampaignCopy(parts, [copied for _, copied in place.cluster.run(copy_results, calls)])


def count_copy(
    place: CountingPlace,
    copy: CampaignCopy,
    outlines: Sequence[MessageOutline],
    message_ids: Mapping[str, str],
    columns: Sequence[str],
    members: Iterable[tuple[str, ...]],
    score: ScoreOutline | None = None,
) -> CampaignTally:
    """Return the counts of copied results.

    `columns` of the audience break the turnout down; `members` are those for `stage_members` if there are
    columns. The answers to the question `score`, if any, are pooled over messages.

    Raises:
        RunnerError: the files cannot be read or written, or the cluster is lost.
    """
    with open_desk(place.folder) as desk:
        own = desk.root / f"sums-{secrets.token_hex(8)}"
        own.mkdir(mode=0o700)
        with Engine(own, _CLIENT_LIMIT) as engine:
            split: Mapping[int, Sequence[str]] = {}
            if columns:
                with stage_members(own, members, len(columns)) as select:
                    split = _split(desk, engine, select, own / "members", copy.parts)
            files = _list_parts(place.folder, copy.copies, split)
            found = [_find_folder(desk, copied.found) for copied in copy.copies]
            readings = own / "readings"
            readings.mkdir(mode=0o700)
            counters = _Counters(place, desk, files, columns)
            return count_parts(engine, outlines, message_ids, columns, found, readings, counters, score)


@dataclass(frozen=True, slots=True)
class _Counters:
    """A counter of parts, on workers."""

    place: CountingPlace
    desk: LocalCache
    files: Sequence[PartFiles]
    columns: Sequence[str]

    def find_kept(self, messages: Sequence[MessagePart]) -> list[Path]:
        calls = ((files, messages) for files in self.files)
        return [_find_folder(self.desk, names) for _, names in self.place.cluster.run(find_candidates, calls)]

    def count(
        self,
        messages: Sequence[MessagePart],
        folder: Path,
        readings: Sequence[Sequence[AnswerReading]],  # noqa: ARG002  people's words stay in files
    ) -> list[Path]:
        numbers = self.desk.hand_over(folder)
        calls = ((files, messages, self.columns, numbers) for files in self.files)
        return [_find_folder(self.desk, names) for _, names in self.place.cluster.run(count_part, calls)]


def _join_spans(spans: Sequence[tuple[FeedSpan, int]], results: int) -> Iterator[FeedSpan]:
    """Yield spans joined with neighbours until each has about so many results."""
    first, held = None, 0
    for place, (span, count) in enumerate(spans):
        first, held = span.first if first is None else first, held + count
        if held >= results or place == len(spans) - 1:
            yield FeedSpan(first, span.last)
            first, held = None, 0


def _list_parts(
    folder: SharedFolder, copies: Sequence[Copied], members: Mapping[int, Sequence[str]]
) -> list[PartFiles]:
    """Return the parts that are not empty."""
    numbers = {number for copied in copies for number in (*copied.results, *copied.reached)}
    return [
        PartFiles(
            folder,
            [name for copied in copies for name in copied.results.get(number, ())],
            members.get(number, ()),
            [name for copied in copies for name in copied.reached.get(number, ())],
        )
        for number in sorted(numbers)
    ]


def _find_folder(desk: LocalCache, names: Sequence[str]) -> Path:
    """Return the folder with one task's files, all fetched."""
    return desk.bring(names)[0].parent
