"""Forgetting a person: nothing of theirs is left in the ledger but what keeps them from being texted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from runner.ledger.lockfile.integrity import require_unedited
from sqlalchemy import select, update

from runner.errors import LedgerError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.model import StoredResult, StoredSession
from runner.ledger.people.forgotten import forget_person
from runner.ledger.people.opt_outs import add_opt_outs, iterate_opt_outs, read_suppressions
from runner.ledger.people.recent import read_recent
from runner.ledger.record.deliveries import enter_campaign, iterate_accepted, read_known
from runner.ledger.results.reconciled import store_results, store_sessions
from runner.ledger.results.result_feed import iterate_feed
from runner.ledger.tables import campaigns, forgotten_results, launches, sessions
from runner.ledger.target_key import TargetSecret, enter_target_key, read_target_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.people.forgotten import Forgotten

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

SALT = "0123456789abcdef" * 2
KEY = FingerprintKey.from_salt(SALT)
ADA, BOB = "+14155550101", "+14155550102"
AT = "2026-11-20T12:00:00.000000Z"


NO_SECRET = TargetSecret("RUNNER_STATE_KEY", None, is_certain=True)


def forget(
    ledger: Ledger,
    phone: str = ADA,
    targets: tuple[str, ...] = ("live",),
    secrets: Mapping[str, TargetSecret] | None = None,
) -> Forgotten:
    return forget_person(
        ledger,
        phone,
        targets=targets,
        find_secret=lambda target: (secrets or {}).get(target, NO_SECRET),
        new_salt=SALT,
        at=AT,
    )


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
        key = enter_target_key(connection, "live", None, SALT)
        add_opt_outs(connection, key, [ADA], "import", AT)
    done = forget(ledger)
    assert (done.targets, done.opt_outs, done.unreadable) == (("live",), 1, ())
    (found,) = done.campaigns
    assert (found.target, found.campaign, found.deliveries, found.results) == ("live", "pulse", 2, 2)
    assert (found.texts, found.shared_texts, found.unresolved) == (1, 1, 0)
    with ledger.reading() as connection:
        assert read_suppressions(connection, key).find(ADA) == "confirmed"
        assert [item.source for item in iterate_opt_outs(connection, "live")] == ["forgotten"]
        assert [row.result_guid for row in iterate_feed(connection, 1, -1)] == ["g3"]
        assert connection.execute(select(sessions.c.participant)).scalars().all() == people[1:]
        assert read_known(connection, 1).sent == {"nudge": {KEY.fingerprint(BOB)}}
        texts = connection.execute(select(launches.c.definition).order_by(launches.c.id)).scalars().all()
        assert [text is None for text in texts] == [True, False]
        counts = connection.execute(select(forgotten_results).order_by(forgotten_results.c.launch_id)).all()
        assert [(row.launch_id, row.results) for row in counts] == [(alone, 1), (shared, 1)]


def test_the_lockfile_that_is_written_next_is_whole(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord, tmp_path: Path
) -> None:
    """Launches keep their guids, fit their keys, and no longer name the person."""
    deliver(make_record("a", 101), make_record("b", 101, 102, message="nudge"))
    forget(ledger)
    with ledger.reading() as connection:
        records = list(iterate_accepted(connection, 1, "pulse"))
    assert sorted(record.project_launch_guid for record in records) == ["guid-a", "guid-b"]
    assert not any(KEY.fingerprint(ADA) in record.recipients for record in records)
    require_unedited(tmp_path / "pulse.live.lock.json", records, ["pulse"])


def test_forgetting_twice_finds_nothing_more(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """The second time there is nothing but the entry, and it stays; so for someone never texted."""
    deliver(make_record("a", 101))
    forget(ledger)
    for phone, replaced in ((ADA, 1), (BOB, 0)):
        done = forget(ledger, phone)
        assert (done.campaigns, done.opt_outs) == ((), replaced)
        assert "5550101" not in repr(done)


def test_a_text_that_was_refused_and_sent_again_is_found(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """No row names the recipient of the refused launch any more; its key does."""
    deliver(make_record("a", 101), make_record("c", 102, message="nudge"), state="rejected")
    deliver(make_record("b", 101), make_record("d", 102, message="nudge"))
    (found,) = forget(ledger).campaigns
    assert found.texts == 2
    with ledger.reading() as connection:
        rows = connection.execute(select(launches.c.definition).order_by(launches.c.id)).scalars().all()
    assert [text is None for text in rows] == [True, False, True, False]


def test_a_launch_of_unknown_outcome_stays_until_it_is_settled(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """Without the person's row the launch would match nothing that the service lists."""
    deliver(make_record("a", 101, 102), state="unknown")
    done = forget(ledger)
    assert (done.campaigns[0].unresolved, done.campaigns[0].deliveries) == (1, 0)
    assert any("of unknown outcome (1)" in sentence for sentence in done.list_unreached())


def test_a_record_whose_key_is_not_at_hand_is_named(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """What cannot be tied to the phone is said, and all targets suppress them all the same."""
    deliver(make_record("a", 101))
    with ledger.writing() as connection:
        connection.execute(update(campaigns).values(salt=None))
    done = forget(ledger)
    assert (done.targets, done.unreadable) == (("live",), (("live", "pulse"),))
    assert any("pulse on live was written with a RUNNER_STATE_KEY" in s for s in done.list_unreached())
    with ledger.reading() as connection, pytest.raises(LedgerError) as caught:
        read_recent(connection, "live", None, "2026")
    assert caught.value.message.startswith("the frequency cap cannot be counted: the campaign 'pulse' was")


KEY_ENV = "KEY_B"


@pytest.mark.parametrize(
    ("secret", "salt", "words"),
    [
        (TargetSecret(KEY_ENV, "B", is_certain=True, is_required=True), None, None),
        (TargetSecret("RUNNER_STATE_KEY", "B", is_certain=False), None, None),
        (TargetSecret("RUNNER_STATE_KEY", "A", is_certain=False), SALT, None),
        (
            TargetSecret(KEY_ENV, None, is_certain=True, is_required=True),
            None,
            "its key is in KEY_B, which is not set: set it",
        ),
        (
            TargetSecret(KEY_ENV, None, is_certain=True, is_required=True),
            SALT,
            "its key is in KEY_B, which is not set: set it",
        ),
        (
            TargetSecret("RUNNER_STATE_KEY", "A", is_certain=False),
            None,
            "RUNNER_STATE_KEY holds another key than its records were written with: set it to that one",
        ),
    ],
)
def test_each_target_has_its_own_key(
    ledger: Ledger, secret: TargetSecret, salt: str | None, words: str | None
) -> None:
    """A target gets no key row of another's secret, and one whose key is not at hand keeps nobody else back."""
    own = FingerprintKey.from_salt(salt) if salt else FingerprintKey.from_secret("B")
    with ledger.writing() as connection:
        enter_campaign(connection, "two", "pulse", own)
    one = TargetSecret("KEY_A", "A", is_certain=True)
    done = forget(ledger, targets=("one",), secrets={"one": one, "two": secret})
    told = [sentence for sentence in done.list_unreached() if sentence.startswith("the target ")]
    with ledger.reading() as connection:
        key = read_target_key(connection, "one", "A")
        assert key is not None
        assert read_suppressions(connection, key).find(ADA) == "confirmed"
        key = read_target_key(connection, "two", "B")
    if words is None:
        assert (done.targets, told) == (("one", "two"), [])
        assert key is not None
        assert key.salt == salt
        return
    assert (done.targets, key) == (("one",), None)
    assert told == [
        f"the target two, where nothing was changed: {words}, and forget them again with --target two"
    ]


def test_a_key_on_record_must_fit(ledger: Ledger) -> None:
    """Of the run's own target nothing is done without it; another one is named, and left as it is."""
    with ledger.writing() as connection:
        enter_target_key(connection, "two", "B", SALT)
    wrong = TargetSecret("RUNNER_STATE_KEY", "A", is_certain=True)
    done = forget(ledger, targets=("one",), secrets={"two": wrong})
    assert [target for target, _ in done.unreached] == ["two"]
    with pytest.raises(LedgerError, match="another RUNNER_STATE_KEY"):
        forget(ledger, targets=("two",), secrets={"two": wrong})
    with ledger.reading() as connection:
        assert list(iterate_opt_outs(connection, "two")) == []


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


def test_a_cap_counts_every_campaign_and_what_may_have_been_sent(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """Each message counts once; refused and older ones don't, launches of unknown outcome do."""
    deliver(make_record("a", 101, 102))
    deliver(make_record("b", 101, message="nudge"), state="unknown")
    deliver(make_record("c", 101, 102, message="bye"), state="rejected")
    with ledger.reading() as connection:
        found = read_recent(connection, "live", None, "2026-11-20T12:00:00Z")
        assert [found.count(phone) for phone in (ADA, BOB, "+14155550103")] == [2, 1, 0]
        assert read_recent(connection, "live", None, "2026-11-20T12:00:01Z").count(ADA) == 0
        assert read_recent(connection, "test", None, "2026").count(ADA) == 0
