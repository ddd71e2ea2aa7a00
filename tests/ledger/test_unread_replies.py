"""Replies that were not read yet, as the ledger tells them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from runner.ledger.people.replies import (
    AccountMark,
    UnreadReplies,
    find_unread_replies,
    read_account_mark,
    write_account_mark,
)
from runner.ledger.report_model import LaunchDifference
from runner.ledger.results.differences import store_differences
from runner.ledger.tables import launches
from tests.ledger.counts import LaunchStats, store_stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord

    Ask = Callable[..., int]

SENT_AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
READ_AT = "2026-11-21T08:30:00.000000Z"
ENDED = (0, 0)


@pytest.fixture
def ask(ledger: Ledger, make_record: Callable[..., LaunchRecord], deliver: Callable[..., list[int]]) -> Ask:
    """Send a survey to one person, and return the launch's number: `ask("a", 101)`."""

    def send(name: str, number: int, *, asks: bool = True) -> int:
        (launch_id,) = deliver(make_record(name, number))
        with ledger.writing() as connection:
            connection.execute(update(launches).where(launches.c.id == launch_id).values(asks=asks))
        return launch_id

    return send


def read(ledger: Ledger, launch_id: int, active: int | None, queued: int | None, at: str = READ_AT) -> None:
    """Store the service's counts of a launch, its active and queued sessions; the account was read, too."""
    stats, moment = (
        LaunchStats(launch_id, active, None, None, None, queued, None, None),
        datetime.fromisoformat(at),
    )
    with ledger.writing() as connection:
        store_stats(connection, [stats], at)
        mark = read_account_mark(connection, "live")
        if mark is None or mark.read_at < moment:
            write_account_mark(connection, "live", AccountMark(moment, moment, None))


def find(ledger: Ledger, target: str = "live") -> datetime | None:
    """Return since when replies are unread."""
    with ledger.reading() as connection:
        found = find_unread_replies(connection, target)
    return None if found is None else found.since


def test_what_was_never_read_is_unread_since_it_was_sent(ledger: Ledger, ask: Ask) -> None:
    """Of that target alone, by the name of the campaign; nothing is where nothing was asked."""
    ask("b", 102, asks=False)
    assert find(ledger) is None
    ask("a", 101)
    with ledger.reading() as connection:
        assert find_unread_replies(connection, "live") == UnreadReplies("pulse", SENT_AT)
        assert find_unread_replies(connection, "sandbox") is None


@pytest.mark.parametrize("sessions", [(1, 0), (0, 1), (None, 0), (0, None)])
def test_what_is_open_is_unread_since_the_last_reading(
    ledger: Ledger, ask: Ask, sessions: tuple[int | None, int | None]
) -> None:
    """So is what may be open: a count that is not known is not zero."""
    read(ledger, ask("a", 101), *sessions)
    assert find(ledger) == datetime.fromisoformat(READ_AT)


def test_what_has_ended_has_no_replies_to_come(ledger: Ledger, ask: Ask) -> None:
    """The oldest of the others counts."""
    read(ledger, ask("a", 101), *ENDED)
    assert find(ledger) is None
    later = "2026-11-21T18:30:00.000000Z"
    read(ledger, ask("b", 102), 1, None, at=later)
    assert find(ledger) == datetime.fromisoformat(later)
    read(ledger, ask("c", 103), 1, None)
    assert find(ledger) == datetime.fromisoformat(READ_AT)


def test_what_the_service_contradicts_itself_about_is_read_again(ledger: Ledger, ask: Ask) -> None:
    """Some of its replies may be missing; a launch that is not listed has none that could be read."""
    ended, gone = ask("a", 101), ask("b", 102)
    read(ledger, ended, *ENDED)
    differences = [
        LaunchDifference("guid-a", "more_counted", 2, 1, READ_AT, None, ended),
        LaunchDifference("guid-b", "unlisted", None, None, READ_AT, None, gone),
    ]
    with ledger.writing() as connection:
        store_differences(connection, [], differences)
    assert find(ledger) == SENT_AT
    with ledger.writing() as connection:
        store_differences(connection, [ended, gone], differences[1:])
    assert find(ledger) is None


def test_an_account_that_was_not_read_has_unread_replies(ledger: Ledger, ask: Ask) -> None:
    """The launch was read to its end later than the account's results."""
    launch = ask("a", 101)
    read(ledger, launch, *ENDED)
    stats = LaunchStats(launch, 0, None, None, None, 0, None, None)
    with ledger.writing() as connection:
        store_stats(connection, [stats], "2026-11-22T08:30:00.000000Z")
    assert find(ledger) == datetime.fromisoformat(READ_AT)
