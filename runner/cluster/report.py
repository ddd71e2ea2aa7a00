"""Counts a campaign's results on a cluster: copies them in parts, has each counted, and adds up.

Workers read the ledger themselves, and see it as it was when the client began, whatever comes meanwhile. The
client never has more in memory than groups.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.cluster.desk import open_desk
from runner.cluster.results import (
    CopyOrder,
    PartFiles,
    copy_results,
    count_part,
    find_candidates,
    split_people,
)
from runner.ledger.feed_copy import Span, iterate_spans, share_snapshot
from runner.report.columns.engine import Engine
from runner.report.columns.members import load_members
from runner.report.columns.parts import count_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.cluster.desk import Desk
    from runner.cluster.engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.cluster.results import Copied
    from runner.ledger.target_key import LedgerConnection
    from runner.report.columns.parts import MessagePart
    from runner.report.facts import MessageOutline, ScoreOutline
    from runner.report.tally import CampaignTally

_SMALL_SPAN, _LARGE_SPAN = 20_000, 1_000_000
"""Results that a task copies, of few and of very many."""
_PART = 2_000_000
"""Results that a task counts: a fifth of what the engine takes without spilling."""
_MOST_PARTS = 256
_TASKS_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class CountingPlace:
    """Where results are counted.

    Attributes:
        cluster: connected.
        folder: for intermediate files.
        ledger: the environment variable in which workers find the ledger's URL.
    """

    cluster: Cluster
    folder: SharedFolder
    ledger: str


@dataclass(frozen=True, slots=True)
class CampaignCopy:
    """A campaign's results, copied.

    Attributes:
        parts: into how many they are split; some may have nothing in them.
        copies: what each task has copied.
    """

    parts: int
    copies: Sequence[Copied]


def copy_campaign(
    place: CountingPlace,
    connection: LedgerConnection,
    campaign_id: int,
    message_ids: Mapping[str, str] | None,
) -> CampaignCopy:
    """Have a campaign's results copied, as the ledger is for a connection, while that lasts.

    Args:
        place: where to.
        connection: reads the ledger, on PostgreSQL.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before, to have those who were
            reached copied, too; else None.

    Raises:
        RunnerError: the ledger cannot be read, the folder cannot be written, or the cluster is lost.
    """
    spans = list(iterate_spans(connection, campaign_id, _SMALL_SPAN))
    total, slots = sum(count for _, count in spans), place.cluster.slots
    parts = 1 << (min(_MOST_PARTS, max(slots, total // _PART)) - 1).bit_length()
    order = CopyOrder(place.folder, place.ledger, campaign_id, share_snapshot(connection), parts, message_ids)
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
    """Return what there is in copied results: the same that one process counts.

    Args:
        place: where they are.
        copy: by `copy_campaign`.
        outlines: the campaign's messages.
        message_ids: the ids that messages have now, by those that they had before.
        columns: of the audience, to break the turnout down by.
        members: if there are columns, as for `load_members`.
        score: the question whose answers are pooled over messages; None for none.

    Raises:
        RunnerError: the files cannot be read or written, or the cluster is lost.
    """
    with open_desk(place.folder) as desk:
        own = desk.root / f"sums-{secrets.token_hex(8)}"
        own.mkdir(mode=0o700)
        with Engine(own) as engine:
            split: Mapping[int, Sequence[str]] = {}
            if columns:
                load_members(engine, own, members, len(columns))
                split = split_people(desk, engine, "members", copy.parts)
            files = _list_parts(place.folder, copy.copies, split)
            found = [_find_folder(desk, copied.found) for copied in copy.copies]
            readings = own / "readings"
            readings.mkdir(mode=0o700)
            counters = _Counters(place, desk, files, columns)
            return count_parts(engine, outlines, message_ids, columns, found, readings, counters, score)


@dataclass(frozen=True, slots=True)
class _Counters:
    """Has parts counted by workers."""

    place: CountingPlace
    desk: Desk
    files: Sequence[PartFiles]
    columns: Sequence[str]

    def find_kept(self, messages: Sequence[MessagePart]) -> list[Path]:
        calls = ((files, messages) for files in self.files)
        return [_find_folder(self.desk, names) for _, names in self.place.cluster.run(find_candidates, calls)]

    def count(self, messages: Sequence[MessagePart], readings: Path) -> list[Path]:
        numbers = self.desk.hand_over(readings)
        calls = ((files, messages, self.columns, numbers) for files in self.files)
        return [_find_folder(self.desk, names) for _, names in self.place.cluster.run(count_part, calls)]


def _join_spans(spans: Sequence[tuple[Span, int]], results: int) -> Iterator[Span]:
    """Yield spans of about as many results, of neighbours put together."""
    first, held = None, 0
    for place, (span, count) in enumerate(spans):
        first, held = span.first if first is None else first, held + count
        if held >= results or place == len(spans) - 1:
            yield Span(first, span.last)
            first, held = None, 0


def _list_parts(
    folder: SharedFolder, copies: Sequence[Copied], members: Mapping[int, Sequence[str]]
) -> list[PartFiles]:
    """Return the parts that have anything in them."""
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


def _find_folder(desk: Desk, names: Sequence[str]) -> Path:
    """Return the folder of files that one task has made, all of them at hand."""
    return desk.bring(names)[0].parent
