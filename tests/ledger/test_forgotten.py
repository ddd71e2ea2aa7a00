"""Who was forgotten, campaign by campaign: lockfiles carry it to ledgers that have no opt-outs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from runner.ledger.lockfile.format import read_lockfile
from runner.ledger.lockfile.writer import LockfileContents, refresh_lockfile, write_lockfile

from runner.errors import LockfileError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.model import Outcome
from runner.ledger.people.forgotten import find_as_forgotten, forget_person, let_in
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.target_key import KeySource, TargetSecret

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

SALT = "0123456789abcdef" * 2
OTHER_SALT = "fedcba9876543210" * 2
KEY = FingerprintKey.from_salt(SALT)
ADA, BOB = "+14155550101", "+14155550102"
AT = "2026-11-20T12:00:00.000000Z"
PEOPLE = KeySource("live", None, SALT)


def name(phone: str) -> str:
    return KEY.fingerprint(phone)


def forget(ledger: Ledger, phone: str) -> None:
    secret = TargetSecret("RUNNER_STATE_KEY", None, is_certain=True)
    forget_person(ledger, phone, targets=["live"], find_secret=lambda _: secret, new_salt=SALT, at=AT)


def refresh(ledger: Ledger, identity: Identity) -> bytes:
    """Write the lockfile as a run does, and return what it says."""
    record = enter_record(ledger, identity, OTHER_SALT)
    with ledger.reading() as connection:
        refresh_lockfile(connection, identity, record)
    return identity.lockfile.read_bytes()


def list_recipients(identity: Identity) -> set[str]:
    lockfile = read_lockfile(identity.lockfile, identity.names)
    assert lockfile is not None
    return {one for launch in lockfile.launches for one in launch.recipients}


def test_the_lockfile_carries_it_to_another_ledger(
    ledger: Ledger,
    identity: Identity,
    make_record: MakeRecord,
    deliver: Deliver,
    new_url: Callable[[], str],
) -> None:
    """Keys stay sorted, the line is there only if it is needed, and a new ledger writes the same bytes."""
    deliver(make_record("a", 101, 102))
    assert b"forgotten" not in refresh(ledger, identity)
    forget(ledger, ADA)
    written = refresh(ledger, identity)
    assert list(json.loads(written)) == sorted(json.loads(written))
    assert f'\n  "forgotten": ["{name(ADA)}"],\n'.encode() in written
    with Ledger(new_url()) as other:
        other.prepare()
        for record in (read_record(other, identity), read_record(None, identity)):
            assert (record.known.forgotten, record.known.sent) == ({name(ADA)}, {"ask": {name(BOB)}})
        assert enter_record(other, identity, OTHER_SALT).known.forgotten == {name(ADA)}
        assert refresh(other, identity) == written


def test_somebody_forgotten_makes_a_record(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Where everybody was forgotten the planner must have the key all the same."""
    deliver(make_record("a", 101))
    forget(ledger, ADA)
    for record in (read_record(ledger, identity), enter_record(ledger, identity, OTHER_SALT)):
        assert not record.known.is_empty()
        assert record.known.messages == set()


def test_an_old_lockfile_brings_nobody_back(
    ledger: Ledger,
    identity: Identity,
    make_record: MakeRecord,
    deliver: Deliver,
    new_url: Callable[[], str],
) -> None:
    """Neither into the ledger that forgot them, nor into another that read the old lockfile before the new."""
    deliver(make_record("a", 101, 102), make_record("b", 101, message="nudge"))
    before = refresh(ledger, identity)
    forget(ledger, ADA)
    after = refresh(ledger, identity)
    with Ledger(new_url()) as other:
        other.prepare()
        identity.lockfile.write_bytes(before)
        assert refresh(other, identity) == before
        identity.lockfile.write_bytes(after)
        assert refresh(other, identity) == after
        for opened in (ledger, other):
            identity.lockfile.write_bytes(before)
            assert refresh(opened, identity) == after


def test_launches_that_the_lockfile_alone_knows_come_without_them(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A branch that was not merged yet may have texted them: nothing of that is entered."""
    deliver(make_record("a", 101))
    forget(ledger, ADA)
    write_lockfile(
        identity.lockfile,
        LockfileContents("pulse", "live", KEY, [make_record("b", 101, 102, message="nudge")]),
    )
    refresh(ledger, identity)
    assert list_recipients(identity) == {name(BOB)}


def test_a_launch_that_was_open_is_left_out_once_it_is_settled(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """At first its delivery stays, or nobody could find out about the others."""
    (launch_id,) = deliver(make_record("a", 101, 102), state="unknown")
    forget(ledger, ADA)
    record = enter_record(ledger, identity, OTHER_SALT)
    assert record.known.unresolved["ask"] == {name(ADA), name(BOB)}
    with ledger.writing() as connection:
        record_outcomes(connection, [Outcome(launch_id, "sent", AT, "guid-a")])
    with ledger.reading() as connection:
        refresh_lockfile(connection, identity, record)
    assert list_recipients(identity) == {name(BOB)}
    assert enter_record(ledger, identity, OTHER_SALT).known.sent == {"ask": {name(BOB)}}


def test_whoever_is_let_in_again_stays_in(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Whatever an old lockfile says; until they are forgotten once more."""
    deliver(make_record("a", 101, 102))
    forget(ledger, ADA)
    refresh(ledger, identity)
    with ledger.writing() as connection:
        assert find_as_forgotten(connection, "live", ADA, None) == [(1, name(ADA))]
        assert find_as_forgotten(connection, "live", BOB, None) == []
        assert find_as_forgotten(connection, "test", ADA, None) == []
        assert let_in(connection, PEOPLE, ADA, AT) == 2
        assert let_in(connection, PEOPLE, ADA, AT) == 0
    for record in (read_record(ledger, identity), enter_record(ledger, identity, OTHER_SALT)):
        assert record.known.forgotten == set()
    assert b"forgotten" not in refresh(ledger, identity)
    deliver(make_record("b", 101, message="nudge"))
    forget(ledger, ADA)
    assert read_record(ledger, identity).known.forgotten == {name(ADA)}


def test_a_renamed_campaign_still_knows_them(
    ledger: Ledger,
    identity: Identity,
    make_record: MakeRecord,
    deliver: Deliver,
    new_url: Callable[[], str],
) -> None:
    """Forgotten under the first name or under the new one, they have one fingerprint."""
    deliver(make_record("a", 101, 102, 103))
    forget(ledger, ADA)
    refresh(ledger, identity)
    renamed = replace(identity, name="heartbeat", renamed_from=("pulse",))
    enter_record(ledger, renamed, OTHER_SALT)
    forget(ledger, BOB)
    refresh(ledger, renamed)
    with Ledger(new_url()) as other:
        other.prepare()
        for record in (read_record(None, renamed), enter_record(other, renamed, OTHER_SALT)):
            assert record.known.forgotten == {name(ADA), name(BOB)}
            assert record.key is not None
            assert record.key.fingerprint(ADA) == name(ADA)


@pytest.mark.parametrize(
    ("nonsense", "words"),
    [
        ('"+14155550101"', "forgotten: '+14155550101' is not of type 'array'"),
        ('["+14155550101"]', "forgotten/0: '+14155550101' does not match '^[0-9a-f]{20}$'"),
        ("[]", "forgotten: [] should be non-empty"),
    ],
)
def test_nonsense_is_refused(identity: Identity, make_record: MakeRecord, nonsense: str, words: str) -> None:
    """What was edited by hand is not guessed at."""
    write_lockfile(
        identity.lockfile, LockfileContents("pulse", "live", KEY, [make_record("a", 101)], [name(BOB)])
    )
    text = identity.lockfile.read_text(encoding="utf-8")
    identity.lockfile.write_text(text.replace(f'["{name(BOB)}"]', nonsense), encoding="utf-8")
    with pytest.raises(LockfileError) as caught:
        read_record(None, identity)
    assert caught.value.message == f"the lockfile {identity.lockfile} is damaged at {words}"


def test_a_conflict_is_a_union(ledger: Ledger, identity: Identity, make_record: MakeRecord) -> None:
    """Whoever asked one branch for it is not texted by the other, and the file is written clean."""
    phones = (ADA, BOB)
    sides = []
    for phone in phones:
        write_lockfile(
            identity.lockfile, LockfileContents("pulse", "live", KEY, [make_record("a", 103)], [name(phone)])
        )
        sides.append(identity.lockfile.read_text(encoding="utf-8"))
    lines = [f'  "forgotten": ["{name(phone)}"],\n' for phone in phones]
    conflict = f"<<<<<<< ours\n{lines[0]}=======\n{lines[1]}>>>>>>> theirs\n"
    identity.lockfile.write_text(sides[0].replace(lines[0], conflict), encoding="utf-8")
    record = read_record(None, identity)
    assert (record.known.forgotten, record.merged) == (set(map(name, phones)), (identity.lockfile,))
    assert json.loads(refresh(ledger, identity))["forgotten"] == sorted(map(name, phones))
    identity.lockfile.write_text(sides[0].replace(lines[0], conflict.replace("[", "{}, [")), encoding="utf-8")
    with pytest.raises(LockfileError):
        read_record(None, identity)
