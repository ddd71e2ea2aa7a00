"""Results in the ledger: what a participant answers is kept, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert

from runner.ledger.files.suppressions import OptOut
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import CampaignLaunches, StoredResult, StoredSession
from runner.ledger.people.opt_outs import add_replies
from runner.ledger.record.entry import enter_adopted
from runner.ledger.report_model import NamedCount
from runner.ledger.results.contacts import iterate_contacts, read_contact_mark
from runner.ledger.results.reconciled import (
    read_totals,
    store_results,
    store_sessions,
    store_starts,
)
from runner.ledger.results.result_feed import read_version
from runner.ledger.results.sendings import (
    count_answered,
    iterate_opt_out_replies,
)
from runner.ledger.tables import launch_stats
from runner.ledger.target_key import enter_key
from tests.ledger.counts import LaunchStats, store_stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord


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
        store_stats(connection, [LaunchStats(first, 1, 2, 3, 4, 5, 6, 7)], "2026-11-21")
        store_stats(connection, [LaunchStats(second, None, 2, 3, 4, 5, None, 8)], "2026-11-20")
        store_stats(connection, [LaunchStats(other, 1, 2, 3, 4, 5, 6, None)], "2026-11-22")
    with ledger.reading() as connection:
        alone, both = (
            read_totals(connection, CampaignLaunches(1, ids))["ask"] for ids in ({}, {"old": "ask"})
        )
    assert (alone.complete, alone.renders, alone.results, alone.unread) == (4, None, 15, 0)
    assert set(alone.partly_known) == {NamedCount("active", 1, 1), NamedCount("renders", 6, 1)}
    assert (both.launches, both.unread, both.reconciled) == (4, 1, 3)
    assert (both.complete, both.results, both.reconciled_at) == (None, None, "2026-11-20")
    assert set(both.partly_known) == {
        NamedCount("queued", 15, 3),
        NamedCount("active", 2, 2),
        NamedCount("complete", 6, 3),
        NamedCount("renders", 12, 2),
        NamedCount("results", 15, 2),
    }


@pytest.mark.parametrize("start", ["2026-11-20T12:00:00", "soon", ""])
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


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("2026-11-20T12:00:00", "2026-11-20T12:00:00.000000Z"),
        ("2026-11-20T14:00:00.5+02:00", "2026-11-20T12:00:00.500000Z"),
        ("soon", None),
    ],
)
def test_a_message_was_sent_when_the_service_says(
    ledger: Ledger,
    deliver: Callable[..., list[int]],
    make_record: Callable[..., LaunchRecord],
    said: str,
    kept: str | None,
) -> None:
    """Every ledger tells the same time, in UTC; where the service tells none it is that of our own answer."""
    (launch_id,) = deliver(make_record("a", 101))
    with ledger.writing() as connection:
        ours = read_totals(connection, CampaignLaunches(1))["ask"].first_sent_at
        store_starts(connection, {launch_id: said})
    with ledger.reading() as connection:
        totals = read_totals(connection, CampaignLaunches(1))["ask"]
    assert (totals.first_sent_at, totals.last_sent_at) == (kept or ours, kept or ours)


def test_recipients_come_with_their_sessions_as_they_stand(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """What was read last counts; who has no session is not listed, and whose send is unclear was not sent."""
    first, second = deliver(make_record("a", 101, 102, 103), make_record("b", 104, message="nudge"))
    deliver(make_record("c", 105), state="unknown")
    with ledger.reading() as connection:
        before = read_contact_mark(connection, 1)
        rows_before = list(iterate_contacts(connection, 1))
    people = {(row.message, row.participant) for row in rows_before if row.is_sent == "1"}
    p, q, r = sorted(participant for message, participant in people if message == "ask")
    (s,) = (participant for message, participant in people if message == "nudge")
    rows = [StoredSession(first, one, "ACTIVE", stopped=False) for one in (p, q)]
    with ledger.writing() as connection:
        store_sessions(connection, [*rows, StoredSession(second, s, "COMPLETE", stopped=True, blocked=True)])
        store_sessions(connection, [rows[1]._replace(status="COMPLETE", replaced=True)])
    with ledger.reading() as connection:
        found = {row.participant: row for row in iterate_contacts(connection, 1)}
        assert read_contact_mark(connection, 1) == before
    assert (found[p].status, found[p].is_listed, found[p].is_sent) == ("ACTIVE", "1", "1")
    assert (found[q].status, found[q].replaced, found[q].stopped) == ("COMPLETE", "1", "0")
    assert (found[s].message, found[s].stopped, found[s].blocked, found[s].is_read) == (
        "nudge",
        "1",
        "1",
        "0",
    )
    (unsent,) = (row for row in found.values() if row.is_sent == "0")
    assert (found[r].is_listed, unsent.is_listed) == ("0", "0")


def test_how_the_session_before_ended_tells_whether_one_had_begun(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """One that ended like the one before it had no text if it was seen queued; else that is not known."""
    first, second = deliver(
        make_record("a", *range(101, 106)), make_record("b", *range(101, 106), message="nudge")
    )
    with ledger.writing() as connection:
        for launch_id in (first, second):
            connection.execute(insert(launch_stats).values(launch_id=launch_id, reconciled_at="2026"))
    with ledger.reading() as connection:
        people = sorted({row.participant for row in iterate_contacts(connection, 1)})
    ends = [
        ("stopped", "stopped"),
        ("stopped", "stopped"),
        ("", "stopped"),
        ("replaced", "stopped"),
        ("", ""),
    ]
    queued = [StoredSession(second, people[0], "QUEUED", stopped=False)]
    ended = [
        StoredSession(
            launch_id, person, "COMPLETE", stopped=one[place] == "stopped", replaced=one[place] == "replaced"
        )
        for person, one in zip(people, ends, strict=True)
        for place, launch_id in enumerate((first, second))
    ]
    with ledger.writing() as connection:
        store_sessions(connection, queued)
        store_sessions(connection, ended)
    with ledger.reading() as connection:
        rows = list(iterate_contacts(connection, 1))
    told = {row.participant: row.was_texted for row in rows if row.message == "nudge"}
    assert [told[person] for person in people] == ["0", "", "1", "1", "1"]
    assert {row.was_texted for row in rows if row.message == "ask"} == {"1"}


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"text": "Bye", "complete_existing_sessions": True}, "1"),
        ({"text": 'It says {"complete_existing_sessions": true}'}, ""),
        ({"text": "Bye", "complete_existing_sessions": False}, ""),
    ],
)
def test_a_launch_that_ends_open_sessions_queues_behind_none(
    ledger: Ledger,
    deliver: Callable[..., list[int]],
    make_record: Callable[..., LaunchRecord],
    definition: dict[str, Any],
    expected: str,
) -> None:
    """Its own session had begun, however it and the one before it ended."""
    (first,) = deliver(make_record("a", 101))
    with ledger.writing() as connection:
        enter_adopted(connection, 1, make_record("b", 101, message="nudge"), definition)
        (person,) = make_record("b", 101).recipients
        for launch_id in (first, first + 1):
            connection.execute(insert(launch_stats).values(launch_id=launch_id, reconciled_at="2026"))
            store_sessions(connection, [StoredSession(launch_id, person, "COMPLETE", stopped=True)])
        told = {row.message: row.was_texted for row in iterate_contacts(connection, 1)}
    assert told == {"ask": "1", "nudge": expected}


def test_the_mark_of_recipients_changes_with_them(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """A launch more, or one that was read, is another mark."""
    (launch_id,) = deliver(make_record("a", 101))
    marks = []
    for change in (None, lambda: deliver(make_record("b", 102))):
        if change is not None:
            change()
        with ledger.reading() as connection:
            marks.append(read_contact_mark(connection, 1))
    with ledger.writing() as connection:
        connection.execute(insert(launch_stats).values(launch_id=launch_id, reconciled_at="2026"))
    with ledger.reading() as connection:
        marks.append(read_contact_mark(connection, 1))
    assert len(set(marks)) == 3


def test_replies_that_opt_out_are_found_by_their_authors(
    ledger: Ledger, deliver: Callable[..., list[int]], make_record: Callable[..., LaunchRecord]
) -> None:
    """Each is found in the launch that its author got, of the campaign's own target; what else was said is not."""
    records = make_record("a", 101, 102), make_record("b", 103)
    first, second = deliver(*records)
    (p, q), (r,) = (one.recipients for one in records)
    said = [(first, "g1", p), (first, "g2", p), (first, "g3", q), (second, "g4", r)]
    found = [
        StoredResult(launch, guid, one, "q", "why", "Why?", 1, "x", "x", "2026", "2026")
        for launch, guid, one in said
    ]
    with ledger.writing() as connection:
        store_results(connection, found)
        for target, who, guid in (("live", p, "g2"), ("live", r, "g4"), ("other", q, "g3")):
            key = TargetKey.of(target, None)
            enter_key(connection, key)
            add_replies(connection, key.target, [OptOut(who, guid, "reply", "confirmed", "2026")])
    with ledger.reading() as connection:
        replies = list(iterate_opt_out_replies(connection, 1))
        assert count_answered(connection, CampaignLaunches(1)) == {"ask": 2}
        assert count_answered(connection, CampaignLaunches(1), {"g1"}) == {"ask": 1}
    assert sorted((one.result_guid, one.state) for one in replies) == [
        ("g2", "confirmed"),
        ("g4", "confirmed"),
    ]
    last = max(replies, key=lambda one: one.result_guid)
    assert (last.launch_id, last.response) == (second, "x")
