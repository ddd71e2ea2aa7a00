"""Forgetting a person: nothing of theirs is left in the ledger but what keeps them from being texted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from runner.errors import LedgerError
from runner.ledger.database import Ledger
from runner.ledger.files.suppressions import OptOut
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import Outcome, StoredResult, StoredSession
from runner.ledger.people.forgotten import forget_person
from runner.ledger.people.opt_outs import (
    add_opt_outs,
    add_replies,
    dismiss_opt_outs,
    find_suppressed,
    iterate_opt_outs,
    read_suppressions,
)
from runner.ledger.people.suppressions import compose_suppressions
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import iterate_accepted, read_known, record_outcomes
from runner.ledger.results.reconciled import store_results, store_sessions
from runner.ledger.results.result_feed import iterate_feed
from runner.ledger.tables import launch_stats, launches, sessions
from runner.ledger.target_key import enter_key
from tests.ledger.conftest import AT, KEY, dump, fill, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.model import LaunchRecord
    from runner.ledger.people.forgotten import Forgotten
    from runner.ledger.record.campaign_record import Identity

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

ADA, BOB = "+14155550101", "+14155550102"
LATER = "2026-11-21T12:00:00.000000Z"


def forget(ledger: Ledger, phone: str = ADA, own: TargetKey = KEY, secret: str | None = None) -> Forgotten:
    return forget_person(ledger, phone, own, lambda _: (KEY_ENV, secret), AT)


def answer(launch_id: int, guid: str, phone: str, said: str = "Fine") -> StoredResult:
    participant = KEY.fingerprint(phone)
    return StoredResult(launch_id, guid, participant, "q", "why", "Why, Ada?", 1, said, said, AT, AT)


def test_a_person_is_removed_and_the_others_stay(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """Deliveries, answers and texts of theirs alone go; one suppression entry a target is left."""
    alone, shared = deliver(make_record("a", 101), make_record("b", 101, 102, message="nudge"))
    with ledger.writing() as connection:
        store_results(
            connection, [answer(alone, "g1", ADA), answer(shared, "g2", ADA), answer(shared, "g3", BOB)]
        )
        people = [KEY.fingerprint(phone) for phone in (ADA, BOB)]
        store_sessions(
            connection, [StoredSession(shared, person, "ACTIVE", stopped=False) for person in people]
        )
        add_opt_outs(connection, KEY, [ADA], "import", AT)
    done = forget(ledger)
    assert (done.keys, done.opt_outs, done.unreached) == ((KEY,), 1, ())
    (found,) = done.campaigns
    assert (found.target, found.campaign, found.deliveries, found.results) == ("live", "pulse", 2, 2)
    assert found.unresolved == 0
    with ledger.reading() as connection:
        assert read_suppressions(connection, KEY).find(ADA) == "confirmed"
        assert [item.source for item in iterate_opt_outs(connection, "live")] == ["forgotten"]
        assert [row.result_guid for row in iterate_feed(connection, 1, -1)] == ["g3"]
        assert connection.execute(select(sessions.c.participant)).scalars().all() == people[1:]
        assert read_known(connection, 1).sent == {"nudge": {KEY.fingerprint(BOB)}}
        texts = connection.execute(select(launches.c.definition).order_by(launches.c.id)).scalars().all()
        assert [text is None for text in texts] == [True, False]
        counts = connection.execute(select(launch_stats).order_by(launch_stats.c.launch_id)).all()
        assert [(row.launch_id, row.forgotten_results) for row in counts] == [(alone, 1), (shared, 1)]


def name(phone: str) -> str:
    return KEY.fingerprint(phone)


def test_files_carry_it_to_another_ledger_and_old_ones_bring_nobody_back(
    ledger: Ledger, new_url: Callable[[], str], identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """In whatever order they come; launches keep their guids, and what a branch has sent is entered without them."""
    deliver(make_record("a", 101, 102), make_record("b", 101, message="nudge"))
    before = rewrite(ledger, identity)
    forget(ledger)
    after = rewrite(ledger, identity)
    assert name(ADA) in before
    assert name(ADA) not in after
    with ledger.reading() as connection:
        book = compose_suppressions(connection, KEY) or ""
        assert [one.project_launch_guid for one in iterate_accepted(connection, 1)] == ["guid-a", "guid-b"]
    branch = dump(make_record("c", 101, 102, message="bye"))
    with Ledger(new_url()) as one, Ledger(new_url()) as two:
        for opened, files in (
            (ledger, [before, branch]),
            (one, [before, book, branch]),
            (two, [book, after, branch]),
        ):
            if opened is not ledger:
                opened.prepare()
            fill(opened, *files)
            enter_record(opened, identity)
            assert read_record(opened, identity).known.sent == {"ask": {name(BOB)}, "bye": {name(BOB)}}
            assert name(ADA) not in rewrite(opened, identity)
            with opened.reading() as connection:
                assert find_suppressed(connection, KEY, [ADA, BOB], "forgotten") == {ADA}


def test_who_is_let_in_again_stays_in_until_they_are_forgotten_once_more(ledger: Ledger) -> None:
    """Also where they were forgotten by another machine's file; who only opted out is not taken for forgotten."""
    forget(ledger)
    with ledger.writing() as connection:
        add_opt_outs(connection, KEY, [BOB], "person", AT)
        book = compose_suppressions(connection, KEY) or ""
        for removed in (1, 0):
            assert dismiss_opt_outs(connection, KEY.target, KEY.fingerprint(ADA), LATER) == removed
    fill(ledger, book)
    with ledger.reading() as connection:
        assert find_suppressed(connection, KEY, [ADA, BOB]) == {BOB}
        assert find_suppressed(connection, KEY, [ADA, BOB], "forgotten") == set()
    forget(ledger)
    with ledger.reading() as connection:
        assert find_suppressed(connection, KEY, [ADA], "forgotten") == {ADA}


def test_a_text_that_was_refused_and_sent_again_is_found(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """No row names the recipient of a refused launch any more; so the texts of all such launches go."""
    deliver(make_record("a", 101), make_record("c", 102, message="nudge"), state="rejected")
    deliver(make_record("b", 101), make_record("d", 102, message="nudge"))
    forget(ledger)
    with ledger.reading() as connection:
        rows = connection.execute(select(launches.c.definition).order_by(launches.c.id)).scalars().all()
    assert [text is None for text in rows] == [True, True, True, False]


def test_a_launch_of_unknown_outcome_stays_until_it_is_settled(
    ledger: Ledger, identity: Identity, deliver: Deliver, make_record: MakeRecord
) -> None:
    """Without the person's row the launch would match nothing that the service lists."""
    (launch_id,) = deliver(make_record("a", 101, 102), state="unknown")
    done = forget(ledger)
    assert (done.campaigns[0].unresolved, done.campaigns[0].deliveries) == (1, 0)
    assert any("of unknown outcome (1)" in sentence for sentence in done.list_unreached())
    assert enter_record(ledger, identity).known.unresolved["ask"] == {name(ADA), name(BOB)}
    with ledger.writing() as connection:
        record_outcomes(connection, [Outcome(launch_id, "sent", AT, "guid-a")])
    assert name(ADA) not in rewrite(ledger, identity)
    assert read_record(ledger, identity).known.sent == {"ask": {name(BOB)}}


KEY_ENV = "KEY_B"


def enter_reply(connection: Connection, key: TargetKey) -> None:
    """Have something on record for a target."""
    enter_key(connection, key)
    add_replies(connection, key.target, [OptOut(key.fingerprint(BOB), "g1", "reply", "confirmed", AT)])


@pytest.mark.parametrize(
    ("secret", "recorded", "is_reached"),
    [("B", "B", True), ("A", None, True), (None, "B", False), ("A", "B", False)],
)
def test_each_target_has_its_own_key(
    ledger: Ledger, secret: str | None, recorded: str | None, *, is_reached: bool
) -> None:
    """A target whose key is not at hand is named, and stays as it is; `recorded` is the secret of its records."""
    own, key = TargetKey.of("one", "A"), TargetKey.of("two", recorded)
    with ledger.writing() as connection:
        enter_reply(connection, key)
    done = forget(ledger, own=own, secret=secret)
    told = [sentence for sentence in done.list_unreached() if sentence.startswith("the target ")]
    with ledger.reading() as connection:
        assert find_suppressed(connection, own, [ADA]) == {ADA}
        assert find_suppressed(connection, key, [ADA]) == ({ADA} if is_reached else set())
    assert done.keys == ((own, key) if is_reached else (own,))
    words = "the target two, where nothing was changed: set KEY_B to the key of its records, and forget them "
    assert told == ([] if is_reached else [f"{words}again with --target two"])


def test_a_key_on_record_must_fit(ledger: Ledger) -> None:
    """Of the run's own target nothing is done without it."""
    with ledger.writing() as connection:
        enter_reply(connection, TargetKey.of("two", "B"))
    with pytest.raises(LedgerError, match="another RUNNER_STATE_KEY"):
        forget(ledger, own=TargetKey.of("two", "A"))
    with ledger.reading() as connection:
        assert [one.evidence for one in iterate_opt_outs(connection, "two")] == ["g1"]


def test_nothing_of_them_is_left_in_the_file(
    sqlite_file: Path, sqlite_ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """SQLite overwrites what it frees, and its log is emptied: but for the entry that stays, the bytes are gone."""
    (launch_id,) = deliver(make_record("a", 101), into=sqlite_ledger)
    with sqlite_ledger.writing() as connection:
        store_results(connection, [answer(launch_id, "g1", ADA, "Secret sorrow")])
    done = forget(sqlite_ledger)
    assert not done.log_keeps
    for file in sqlite_file.parent.iterdir():
        assert b"Secret sorrow" not in file.read_bytes()
        # In the table of those who were forgotten, and in its index.
        assert file.read_bytes().count(KEY.fingerprint(ADA).encode()) in (0, 2)
