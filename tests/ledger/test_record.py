"""Ledger and lockfile taken together: neither alone can make anybody look new (docs/delivery.md)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from runner.errors import LockfileError, MissingKeyError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.format import read_lockfile
from runner.ledger.lockfile.integrity import LineMacs
from runner.ledger.lockfile.writer import LockfileContents, refresh_lockfile, write_lockfile
from runner.ledger.model import Intent, Outcome
from runner.ledger.people.forgotten import mark_forgotten
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.results.reconciled import read_totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

SALT = "0123456789abcdef" * 2
OTHER_SALT = "fedcba9876543210" * 2
KEY = FingerprintKey.from_salt(SALT)
SET_KEY = "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new"


@pytest.fixture
def ledgers(new_url: Callable[[], str]) -> list[str]:
    """URLs of ledgers on two machines."""
    return [new_url(), new_url()]


def write_own(identity: Identity, key: FingerprintKey, *records: LaunchRecord) -> None:
    state_key = identity.state_key
    macs = None if state_key is None else LineMacs(state_key, identity.target, identity.name)
    write_lockfile(
        identity.lockfile, LockfileContents(identity.name, identity.target, key, records, macs=macs)
    )


def refresh(ledger: Ledger, identity: Identity) -> bool:
    record = enter_record(ledger, identity, OTHER_SALT)
    with ledger.reading() as connection:
        return refresh_lockfile(connection, identity, record)


def test_nothing_on_record(ledger: Ledger, identity: Identity) -> None:
    """Before the first send there is no key and nobody is known; reading writes nothing."""
    for opened in (ledger, None):
        record = read_record(opened, identity)
        assert (record.campaign_id, record.key) == (None, None)
        assert record.known.is_empty()
    assert not identity.lockfile.exists()
    with pytest.raises(ValueError, match="only read"):
        read_record(ledger, identity).require_entered()


def test_a_deleted_ledger_is_filled_from_the_lockfile(
    ledger: Ledger, identity: Identity, make_record: MakeRecord
) -> None:
    """What the lockfile says was sent is sent for an empty ledger too, and the lockfile stays as it is."""
    records = [make_record("a", 101, 102), make_record("b", 103)]
    write_own(identity, KEY, *records)
    before = identity.lockfile.read_bytes()
    for known in (read_record(ledger, identity).known, enter_record(ledger, identity, OTHER_SALT).known):
        assert known.sent == {"ask": {*records[0].recipients, *records[1].recipients}}
        assert not any(known.unresolved.values())
    assert not refresh(ledger, identity)
    assert identity.lockfile.read_bytes() == before


def test_a_deleted_lockfile_is_written_from_the_ledger(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """The lockfile is a function of the ledger: gone, it comes back byte for byte."""
    deliver(make_record("a", 101, 102), make_record("b", 103))
    assert refresh(ledger, identity)
    before = identity.lockfile.read_bytes()
    identity.lockfile.unlink()
    assert refresh(ledger, identity)
    assert identity.lockfile.read_bytes() == before


def test_an_older_lockfile_is_brought_up_to_date(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A lockfile that was put back to an older one takes nothing from the ledger."""
    old, new = make_record("a", 101), make_record("b", 102)
    deliver(old, new)
    write_own(identity, KEY, old)
    assert refresh(ledger, identity)
    lockfile = read_lockfile(identity.lockfile)
    assert lockfile is not None
    assert set(lockfile.launches) == {old, new}


def test_merged_lockfiles_fill_both_ledgers(
    ledgers: list[str], identity: Identity, make_record: MakeRecord
) -> None:
    """Two machines that sent to different people know of each other's after git has merged the lockfiles."""
    both = [make_record("a", 101), make_record("b", 102)]
    for url, own in zip(ledgers, both, strict=True):
        write_own(identity, KEY, own)
        with Ledger(url) as ledger:
            ledger.prepare()
            enter_record(ledger, identity, OTHER_SALT)
    # Git may keep a line that both sides have added twice.
    write_own(identity, KEY, *both, both[0])
    for url in ledgers:
        with Ledger(url) as ledger:
            assert enter_record(ledger, identity, OTHER_SALT).known.sent == {
                "ask": {*both[0].recipients, *both[1].recipients}
            }
            refresh(ledger, identity)
            lockfile = read_lockfile(identity.lockfile)
            assert lockfile is not None
            assert set(lockfile.launches) == set(both)


def test_a_launch_stays_listed_when_another_has_its_recipients(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Two machines that texted the same people leave both launches in the lockfile: both were accepted."""
    deliver(make_record("a", 101))
    write_own(identity, KEY, make_record("b", 101))
    refresh(ledger, identity)
    lockfile = read_lockfile(identity.lockfile)
    assert lockfile is not None
    assert {launch.project_launch_guid for launch in lockfile.launches} == {"guid-a", "guid-b"}
    assert not refresh(ledger, identity)


def test_a_lockfile_settles_an_open_intent(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """An intent without an outcome whose recipients stand in the lockfile was sent; the rest stays open."""
    launch = make_record("a", 101, 102)
    deliver(launch, state="intent")
    write_own(identity, KEY, make_record("b", 101))
    sent = set(make_record("b", 101).recipients)
    for record in (read_record(ledger, identity), enter_record(ledger, identity, OTHER_SALT)):
        assert record.known.sent == {"ask": sent}
        assert record.known.unresolved == {"ask": set(launch.recipients) - sent}


def test_rejected_launches_are_not_in_the_lockfile(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Only what the service accepted stands in the lockfile; without any there is no lockfile."""
    for number, state in enumerate(("rejected", "not_sent", "unknown", "intent"), 101):
        deliver(make_record(state, number), state=state)
    assert not refresh(ledger, identity)
    assert not identity.lockfile.exists()


def test_targets_and_campaigns_are_apart(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Who got a campaign on one target is new on another, and to another campaign."""
    deliver(make_record("a", 101))
    assert not read_record(ledger, identity).known.is_empty()
    assert read_record(ledger, replace(identity, target="staging")).known.is_empty()
    assert read_record(ledger, replace(identity, name="other")).known.is_empty()


def test_two_runs_that_start_together_make_the_same_fingerprints(ledger: Ledger, identity: Identity) -> None:
    """The second run to enter a campaign takes the first one's salt: else each would text everyone."""
    first = enter_record(ledger, identity, SALT)
    second = enter_record(ledger, identity, OTHER_SALT)
    assert first.require_entered() == second.require_entered()


def test_runs_that_enter_at_the_same_moment_make_the_same_fingerprints(
    ledger: Ledger, identity: Identity
) -> None:
    """Of several runs that find no campaign one makes its key, and the others wait for that one."""
    salts = [str(number) * 32 for number in range(8)]
    with ThreadPoolExecutor(len(salts)) as pool:
        records = list(pool.map(lambda salt: enter_record(ledger, identity, salt), salts))
    assert len({record.require_entered() for record in records}) == 1


def test_a_state_key_keys_the_fingerprints(ledger: Ledger, identity: Identity) -> None:
    """With a RUNNER_STATE_KEY no salt is kept anywhere."""
    _, key = enter_record(ledger, replace(identity, state_key="a s3cret"), SALT).require_entered()
    assert key == FingerprintKey.from_secret("a s3cret")
    assert key.salt is None
    assert "s3cret" not in repr(key) + repr(replace(identity, state_key="a s3cret"))


def test_a_state_key_can_be_set_until_something_was_sent(ledger: Ledger, identity: Identity) -> None:
    """A campaign that was entered and never sent takes the key that is set now."""
    enter_record(ledger, identity, SALT)
    _, key = enter_record(ledger, replace(identity, state_key="one"), SALT).require_entered()
    assert key == FingerprintKey.from_secret("one")


@pytest.mark.parametrize("where", ["lockfile", "ledger"])
@pytest.mark.parametrize(
    ("state_key", "words"),
    [
        (None, "{where} was written with a RUNNER_STATE_KEY, and none is set"),
        ("two", "{where} cannot be read: it was written with another RUNNER_STATE_KEY"),
    ],
)
def test_a_wrong_state_key_stops(
    ledgers: list[str],
    identity: Identity,
    make_record: MakeRecord,
    where: str,
    state_key: str | None,
    words: str,
) -> None:
    """With another key everyone would look new: reading and entering both refuse, whoever kept the record."""
    write_own(replace(identity, state_key="one"), FingerprintKey.from_secret("one"), make_record("a", 101))
    with Ledger(ledgers[0]) as ledger:
        ledger.prepare()
        if where == "ledger":
            enter_record(ledger, replace(identity, state_key="one"), SALT)
            identity.lockfile.unlink()
        named = f"the lockfile {identity.lockfile}" if where == "lockfile" else "the ledger"
        wrong = replace(identity, state_key=state_key)
        with pytest.raises(LockfileError) as reading:
            read_record(ledger, wrong)
        with pytest.raises(LockfileError) as entering:
            enter_record(ledger, wrong, SALT)
    for caught in (reading, entering):
        assert caught.value.message == words.format(where=named)
        assert caught.value.hint == SET_KEY


@pytest.mark.parametrize("where", ["lockfile", "ledger"])
def test_a_salt_beside_a_state_key_stops(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver, where: str
) -> None:
    """Who can change a record could choose its salt: with a state key it is not believed, launches or none."""
    keyed = replace(identity, state_key="late")
    if where == "ledger":
        deliver(make_record("a", 101))
        words = "the ledger has a salt for pulse, and now there is a RUNNER_STATE_KEY"
        hint = "`runner key rotate` moves the records to the key; until then nothing is sent"
    else:
        write_own(identity, KEY)
        words = (
            f"the lockfile {identity.lockfile} was written with a salt, and now there is a RUNNER_STATE_KEY"
        )
        hint = (
            "`runner key rotate` moves the records to the key. Until then nothing is sent: anybody who can "
            "change the file could choose the salt, and so who seems to have been texted"
        )
    for read in (read_record, partial(enter_record, new_salt=OTHER_SALT)):
        with pytest.raises(LockfileError) as caught:
            read(ledger, keyed)
        assert (caught.value.message, caught.value.hint) == (words, hint)
    assert read_record(ledger, identity).key == KEY


def test_a_signed_salt_is_believed(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A salt that the state key has signed goes on being the key, of the ledger's record, too."""
    deliver(make_record("a", 101))
    keyed = replace(identity, state_key="late")
    write_own(keyed, KEY, make_record("a", 101))
    for record in (read_record(ledger, keyed), enter_record(ledger, keyed, OTHER_SALT)):
        assert record.key == KEY
        assert record.known.sent == {"ask": set(make_record("a", 101).recipients)}
    with pytest.raises(MissingKeyError) as caught:
        read_record(ledger, identity)
    assert caught.value.message == (
        f"the lockfile {identity.lockfile} was signed with a RUNNER_STATE_KEY, and none is set"
    )
    assert caught.value.hint == ("set RUNNER_STATE_KEY to that key: without it changes cannot be found")


def test_people_forgotten_under_a_salt_stay_forgotten(ledger: Ledger, identity: Identity) -> None:
    """A campaign without launches takes the key, unless somebody asked it to leave them alone."""
    campaign_id, _ = enter_record(ledger, identity, SALT).require_entered()
    with ledger.writing() as connection:
        mark_forgotten(connection, campaign_id, KEY.fingerprint("+14155550101"))
    with pytest.raises(LockfileError) as caught:
        enter_record(ledger, replace(identity, state_key="late"), OTHER_SALT)
    assert caught.value.message == "the ledger has a salt for pulse, and now there is a RUNNER_STATE_KEY"


def test_a_damaged_salt_stops(ledger: Ledger, identity: Identity, make_record: MakeRecord) -> None:
    """A salt that doesn't fit the key's name would make everyone look new."""
    write_own(identity, KEY, make_record("a", 101))
    text = identity.lockfile.read_text(encoding="utf-8").replace(SALT, OTHER_SALT)
    identity.lockfile.write_text(text, encoding="utf-8")
    with pytest.raises(LockfileError) as caught:
        read_record(ledger, identity)
    assert caught.value.message == f"the lockfile {identity.lockfile} cannot be read: its salt is damaged"
    assert caught.value.hint == "restore it with git"


def test_two_keys_stop(ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver) -> None:
    """A lockfile whose salt is not the ledger's is another record: nothing can be said of who was texted."""
    deliver(make_record("a", 101))
    write_own(identity, FingerprintKey.from_salt(OTHER_SALT), make_record("a", 101))
    before = identity.lockfile.read_bytes()
    with pytest.raises(LockfileError) as caught:
        enter_record(ledger, identity, SALT)
    assert caught.value.message == (
        f"the lockfile {identity.lockfile} and the ledger were written with different keys"
    )
    assert caught.value.hint == (
        "nothing is sent as long as it is unclear who was texted. If the lockfile came from another machine, "
        "move the ledger away: it is filled from the lockfiles again, and `runner apply` asks the service for "
        "what they lack. Else restore the lockfile with git"
    )
    assert identity.lockfile.read_bytes() == before


@pytest.mark.parametrize(
    ("key", "words", "hint"),
    [
        (
            "campaign",
            "is of the campaign 'other', not 'pulse'",
            "with a new name everyone would be texted again: put the old one back, or, if the campaign was renamed, add `renamed_from: [other]` to it",
        ),
        (
            "target",
            "is of the target 'other', not 'live'",
            "targets' names are for good, with a new one everyone would be texted again: put it back",
        ),
    ],
)
def test_anothers_lockfile_stops(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, key: str, words: str, hint: str
) -> None:
    """A lockfile that was copied, or a campaign that was renamed, is not taken for an empty record."""
    write_own(identity, KEY, make_record("a", 101))
    data = json.loads(identity.lockfile.read_text(encoding="utf-8"))
    identity.lockfile.write_text(json.dumps({**data, key: "other"}), encoding="utf-8")
    for opened in (ledger, None):
        with pytest.raises(LockfileError) as caught:
            read_record(opened, identity)
        assert caught.value.message == f"the lockfile {identity.lockfile} {words}"
        assert caught.value.hint == hint


def test_a_clock_that_jumps_back_loses_nothing(
    ledger: Ledger, identity: Identity, make_record: MakeRecord
) -> None:
    """Later sends may have earlier times: the lockfile's order is by key, and nothing else asks for the time."""
    times = ["2026-11-20T12:00:00.000000Z", "2026-11-20T09:00:00.000000Z", "1970-01-01T00:00:01.000000Z"]
    for number, at in enumerate(times):
        launch = make_record(f"{number}", 101 + number)
        campaign_id, _ = enter_record(ledger, identity, SALT).require_entered()
        intent = Intent("ask", launch.key, "t", launch.payload_digest, launch.recipients, "{}")
        with ledger.writing() as connection:
            (launch_id,) = add_intents(connection, campaign_id, [intent], times[0])
            record_outcomes(connection, [Outcome(launch_id, "sent", at, launch.project_launch_guid)])
        assert refresh(ledger, identity)
        assert not refresh(ledger, identity)
    lockfile = read_lockfile(identity.lockfile)
    assert lockfile is not None
    sent_at = {launch.project_launch_guid: launch.sent_at for launch in lockfile.launches}
    assert sent_at == {f"guid-{number}": at for number, at in enumerate(times)}
    with ledger.reading() as connection:
        totals = read_totals(connection, campaign_id)["ask"]
    assert (totals.sent, totals.first_sent_at, totals.last_sent_at) == (3, times[2], times[0])


def test_a_launch_that_lost_recipients_has_a_key_that_fits(
    ledgers: list[str], identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Where another launch took recipients over, the key is that of the rest, and any ledger writes the same bytes."""
    with Ledger(ledgers[0]) as ledger, Ledger(ledgers[1]) as other:
        ledger.prepare()
        other.prepare()
        deliver(
            *(make_record(name, number, number + 50) for number, name in enumerate("abcdef", 101)),
            into=ledger,
        )
        write_own(identity, KEY, make_record("x", 101), make_record("y", 103, 153))
        assert refresh(ledger, identity)
        before = identity.lockfile.read_bytes()
        for opened in (ledger, other):
            assert not refresh(opened, identity)
            assert identity.lockfile.read_bytes() == before
    lockfile = read_lockfile(identity.lockfile)
    assert lockfile is not None
    held = {launch.project_launch_guid: len(launch.recipients) for launch in lockfile.launches}
    assert (held["guid-a"], held["guid-b"], held["guid-c"], held["guid-y"]) == (1, 2, 0, 2)
    places = [(launch.message, launch.key) for launch in lockfile.launches]
    assert places == sorted(places)
