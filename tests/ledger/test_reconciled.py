"""Results in the ledger: what a participant answers is kept, whatever it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from runner.ledger.entry import enter_adopted
from runner.ledger.model import LaunchStats, StoredResult
from runner.ledger.reconciled import read_totals, store_results, store_starts, store_stats
from runner.ledger.report_model import PartialCount
from runner.ledger.result_feed import iterate_feed, read_version
from runner.ledger.tables import launches

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("Ça va 😀, O'Neil; \\\\ %s :b", "Ça va 😀, O'Neil; \\\\ %s :b"),
        ("nul\0 here", "nul\N{REPLACEMENT CHARACTER} here"),
        ("half \ud83d pair", "half \N{REPLACEMENT CHARACTER} pair"),
    ],
)
def test_any_answer_can_be_kept(
    ledger: Ledger,
    deliver: Callable[..., list[int]],
    make_record: Callable[..., LaunchRecord],
    answer: str,
    kept: str,
) -> None:
    """An answer of any characters is kept; those that no database takes are replaced, and nothing fails."""
    (launch_id,) = deliver(make_record("a", 101))
    result = StoredResult(launch_id, "guid", "p", "q", "why", "Why?", 1, answer, answer, "2026", "2026")
    with ledger.writing() as connection:
        assert store_results(connection, [result]) == 1
    with ledger.reading() as connection:
        (row,) = iterate_feed(connection, 1, -1)
    assert (row.answer, row.response) == (kept, kept)


@pytest.mark.parametrize("start", ["2026-11-20T12:00:00", "a\0b", "half \ud83d pair"])
def test_any_counts_can_be_kept(
    ledger: Ledger,
    deliver: Callable[..., list[int]],
    make_record: Callable[..., LaunchRecord],
    start: str,
) -> None:
    """A launch's counts are kept whatever the service writes for its start."""
    (launch_id,) = deliver(make_record("a", 101))
    with ledger.writing() as connection:
        store_stats(connection, [LaunchStats(launch_id, 1, 2, 3, 4, 5, 6, 7, start)], "2026")
    with ledger.reading() as connection:
        assert read_totals(connection, 1)["ask"].results == 7


def test_a_sum_that_leaves_launches_out_is_no_total(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """What is known of some launches is told apart, also of a message that was renamed meanwhile."""
    first, second, other, _unread = deliver(
        make_record("a", 101),
        make_record("b", 102),
        make_record("c", 103, message="old"),
        make_record("d", 104, message="old"),
    )
    with ledger.writing() as connection:
        store_stats(connection, [LaunchStats(first, 1, 2, 3, 4, 5, 6, 7, "2026")], "2026-11-21")
        store_stats(connection, [LaunchStats(second, None, 2, 3, 4, 5, None, 8, "2026")], "2026-11-20")
        store_stats(connection, [LaunchStats(other, 1, 2, 3, 4, 5, 6, None, "2026")], "2026-11-22")
    with ledger.reading() as connection:
        alone, both = (read_totals(connection, 1, ids)["ask"] for ids in ({}, {"old": "ask"}))
    assert (alone.complete, alone.renders, alone.results, alone.unread) == (4, None, 15, 0)
    assert alone.partly_known == {"active": PartialCount(1, 1), "renders": PartialCount(6, 1)}
    assert (both.launches, both.unread, both.reconciled) == (4, 1, 3)
    assert (both.complete, both.results, both.reconciled_at) == (None, None, "2026-11-20")
    assert both.partly_known == {
        "queued": PartialCount(15, 3),
        "active": PartialCount(2, 2),
        "complete": PartialCount(6, 3),
        "renders": PartialCount(12, 2),
        "questions": PartialCount(12, 3),
        "results": PartialCount(15, 2),
    }


def test_any_definition_can_be_kept(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """A launch that is adopted is entered with its definition, whatever characters that has."""
    deliver(make_record("a", 101))
    definition = {"text": "Ça va 😀", "tag": "nul\0, half \ud83d pair"}
    with ledger.writing() as connection:
        enter_adopted(connection, 1, make_record("b", 102), definition)
    with ledger.reading() as connection:
        rows = connection.execute(select(launches.c.definition).order_by(launches.c.id)).scalars().all()
    assert json.loads(rows[-1]) == definition


def test_more_results_than_one_portion_are_fed(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """However many results there are, each is fed once."""
    (launch_id,) = deliver(make_record("a", 101))
    guids = [f"{letter}{number:04}" for number in range(1800) for letter in "aBé"]
    rows = [
        StoredResult(launch_id, guid, "p", "q", "why", "Why?", 1, "1", "1", "2026", "2026") for guid in guids
    ]
    with ledger.writing() as connection:
        store_results(connection, rows)
    with ledger.reading() as connection:
        assert sorted(row.result_guid for row in iterate_feed(connection, 1, -1)) == sorted(guids)


@pytest.mark.parametrize("start", ["2026-11-20T12:00:00", "a\0b", "half \ud83d pair", ""])
def test_any_start_can_be_kept(
    ledger: Ledger,
    deliver: Callable[..., list[int]],
    make_record: Callable[..., LaunchRecord],
    start: str,
) -> None:
    """When a launch began is kept whatever the service writes, and changes nothing when it comes again."""
    (launch_id,) = deliver(make_record("a", 101))
    with ledger.writing() as connection:
        store_results(
            connection, [StoredResult(launch_id, "g", "p", "q", "why", "Why?", 1, "1", "1", "2026", "2026")]
        )
        store_starts(connection, {launch_id: start})
    with ledger.reading() as connection:
        first = read_version(connection)
    with ledger.writing() as connection:
        store_starts(connection, {launch_id: start})
    with ledger.reading() as connection:
        assert read_version(connection) == first
