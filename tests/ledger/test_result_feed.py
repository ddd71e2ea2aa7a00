"""What a copy of the results is told: what is new since it was made, or that it is worth nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.ledger.model import StoredResult
from runner.ledger.people.forgotten import forget_person
from runner.ledger.record.campaign_record import rename_messages
from runner.ledger.report_model import FeedRow
from runner.ledger.results.reconciled import store_results, store_starts
from runner.ledger.results.result_feed import (
    find_mark,
    iterate_feed,
    read_version,
)
from tests.ledger.conftest import AT, KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.report_model import ResultVersion

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]


def make_result(launch_id: int, guid: str, response: str = "Yes", participant: str = "p") -> StoredResult:
    return StoredResult(
        launch_id, guid, participant, "q", "why", "Why?", 1, response, response, "2026", "2026"
    )


def store(ledger: Ledger, *rows: StoredResult) -> None:
    with ledger.writing() as connection:
        store_results(connection, rows)


def store_start(ledger: Ledger, starts: Mapping[int, str]) -> None:
    with ledger.writing() as connection:
        store_starts(connection, starts)


def version_of(ledger: Ledger) -> ResultVersion:
    with ledger.reading() as connection:
        return read_version(connection)


def feed_of(ledger: Ledger, since: int = -1, campaign_id: int = 1) -> list[FeedRow]:
    with ledger.reading() as connection:
        return sorted(iterate_feed(connection, campaign_id, since))


def guids_since(ledger: Ledger, since: int) -> list[str]:
    return [row.result_guid for row in feed_of(ledger, since)]


@pytest.fixture
def launch_id(deliver: Deliver, make_record: MakeRecord) -> int:
    """A launch that two people got."""
    (number,) = deliver(make_record("a", 101, 102))
    return number


def test_a_revision_has_a_mark_of_its_own(ledger: Ledger, launch_id: int) -> None:
    """A ledger that was restored and goes on has others for the same numbers."""
    for guid in ("a", "b"):
        store(ledger, make_result(launch_id, guid))
    with ledger.reading() as connection:
        marks = [find_mark(connection, revision) for revision in (1, 2, 3, 1)]
    assert marks[2] == ""
    assert len(set(marks)) == 3
    assert marks[0] == marks[3]


def test_every_transaction_has_its_revision(ledger: Ledger, launch_id: int) -> None:
    """What a transaction enters is asked for by the revision before it, in one edition."""
    editions = set()
    for number, guid in enumerate(("a", "b", "c")):
        store(ledger, make_result(launch_id, guid))
        assert version_of(ledger).revision == number + 1
        assert guids_since(ledger, number) == [guid]
        editions.add(version_of(ledger).edition)
    assert len(editions) == 1
    assert guids_since(ledger, -1) == guids_since(ledger, 0) == ["a", "b", "c"]
    assert guids_since(ledger, 3) == []


def test_only_what_has_changed_is_new(ledger: Ledger, launch_id: int) -> None:
    """A result that comes in again as it was keeps its revision; one that has changed has the latest."""
    store(ledger, make_result(launch_id, "a"), make_result(launch_id, "b"))
    store(ledger, make_result(launch_id, "a"), make_result(launch_id, "b", "No"))
    assert [(row.result_guid, row.response) for row in feed_of(ledger, 1)] == [("b", "No")]
    store(ledger, make_result(launch_id, "a"))
    assert (guids_since(ledger, 2), version_of(ledger).revision) == ([], 3)


START = "2026-11-20T09:00:00.000000Z"
"""The start of a launch as it is kept: in UTC, to sort."""


def test_a_result_comes_with_its_launch(ledger: Ledger, deliver: Deliver, make_record: MakeRecord) -> None:
    """Message, arm and start are those of the launch; of another campaign's launches nothing is fed."""
    (number,) = deliver(make_record("a", 101))
    store_start(ledger, {number: "2026-11-20T09:00:00"})
    store(ledger, make_result(number, "a"))
    row = FeedRow("ask", "", START, number, "a", "p", "why", "Why?", 1, "Yes", "Yes", "2026")
    assert feed_of(ledger) == [row]
    assert feed_of(ledger, campaign_id=2) == []


def test_a_renamed_message_renews_the_edition(ledger: Ledger, launch_id: int) -> None:
    """Copied rows have the old id; a rename that moves nothing leaves them as they are."""
    store(ledger, make_result(launch_id, "a"))
    before = version_of(ledger)
    for names, is_renewed in (({"other": "opener"}, False), ({"ask": "opener"}, True)):
        with ledger.writing() as connection:
            rename_messages(connection, 1, names)
        assert (version_of(ledger).edition != before.edition) == is_renewed
    assert [row.message for row in feed_of(ledger)] == ["opener"]


def test_who_is_forgotten_renews_the_edition(ledger: Ledger, launch_id: int) -> None:
    """A copy that has answers of a forgotten person is worthless; one that has none of them stays."""
    store(ledger, make_result(launch_id, "a", participant=KEY.fingerprint("+14155550101")))
    before = version_of(ledger)
    for phone, is_renewed in (("+14155550102", False), ("+14155550101", True)):
        forget_person(ledger, phone, KEY, lambda _: ("RUNNER_STATE_KEY", None), AT)
        assert (version_of(ledger).edition != before.edition) == is_renewed
    assert feed_of(ledger) == []
