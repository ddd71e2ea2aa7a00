"""The record of a renamed campaign: nobody looks new under a new file or name (docs/delivery.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.format import lockfile_path, read_lockfile
from runner.ledger.lockfile.writer import LockfileContents, refresh_lockfile, write_lockfile
from runner.ledger.model import Intent
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import enter_campaign
from runner.ledger.record.entry import add_intents

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

SALT = "0123456789abcdef" * 2
OTHER_SALT = "fedcba9876543210" * 2
KEY = FingerprintKey.from_salt(SALT)
ADA = "+14155550101"


@pytest.fixture
def renamed(identity: Identity) -> Identity:
    """The campaign `pulse` under the name `heartbeat`, its file as it was."""
    return replace(identity, name="heartbeat", renamed_from=("pulse",))


def require_knows_ada(ledger: Ledger | None, identity: Identity) -> None:
    record = read_record(ledger, identity)
    assert record.key is not None
    assert record.key.fingerprint(identity.name, ADA) in record.known.sent["ask"]


@pytest.mark.parametrize("stem", ["pulse", "heartbeat"])
@pytest.mark.parametrize("held_by", ["lockfile", "ledger", "both"])
def test_who_was_texted_under_an_old_name_is_known(
    ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord, deliver: Deliver,
    held_by: str, stem: str,
) -> None:  # fmt: skip
    """Name and file may change: ledger and lockfile of the old ones are honoured, and written anew under the new."""
    new = replace(renamed, file=renamed.file.with_name(f"{stem}.yaml"))
    launch = make_record("a", 101)
    if held_by != "ledger":
        write_lockfile(identity.lockfile, LockfileContents("pulse", "live", KEY, [launch]))
    if held_by != "lockfile":
        deliver(launch)
    require_knows_ada(ledger, new)
    record = enter_record(ledger, new, OTHER_SALT)
    require_knows_ada(ledger, new)
    with ledger.reading() as connection:
        assert refresh_lockfile(connection, new, record)
    lockfile = read_lockfile(new.lockfile)
    assert lockfile is not None
    assert (lockfile.campaign, lockfile.first_name, lockfile.launches) == ("heartbeat", "pulse", (launch,))


def test_the_new_lockfile_alone_remembers(
    ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord
) -> None:
    """Once the lockfile is written under the new name, neither the ledger nor `renamed_from` is needed."""
    write_lockfile(identity.lockfile, LockfileContents("pulse", "live", KEY, [make_record("a", 101)]))
    record = enter_record(ledger, renamed, OTHER_SALT)
    with ledger.reading() as connection:
        refresh_lockfile(connection, renamed, record)
    forgetful = replace(renamed, renamed_from=())
    require_knows_ada(None, forgetful)
    renamed.lockfile.unlink()
    require_knows_ada(ledger, forgetful)


def test_a_campaign_may_be_renamed_again_and_back(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Its first name stays the one of its fingerprints, however often it is renamed."""
    deliver(make_record("a", 101))
    again = replace(renamed, name="beat", renamed_from=("heartbeat", "pulse"))
    back = replace(renamed, name="pulse", renamed_from=("beat",))
    for current in (renamed, again, back):
        require_knows_ada(ledger, current)
        enter_record(ledger, current, OTHER_SALT)
        require_knows_ada(ledger, current)


def test_what_is_unresolved_stays_held(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """An unknown outcome under the old name is one under the new name."""
    deliver(make_record("a", 101), state="unknown")
    record = enter_record(ledger, renamed, OTHER_SALT)
    assert record.known.unresolved == {"ask": set(make_record("a", 101).recipients)}
    with ledger.reading() as connection:
        assert not refresh_lockfile(connection, renamed, record)


def test_a_new_name_without_a_record_starts_afresh(ledger: Ledger, renamed: Identity) -> None:
    """Naming old names that nothing was sent under changes nothing."""
    assert read_record(ledger, renamed).key is None
    _, key = enter_record(ledger, renamed, SALT).require_entered()
    assert key == KEY


def test_an_old_checkout_does_not_start_over(
    ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A job that runs a commit from before the rename is stopped: to it, everyone would look new."""
    deliver(make_record("a", 101))
    enter_record(ledger, renamed, OTHER_SALT)
    for act in (partial(read_record, ledger), partial(enter_record, ledger, new_salt=OTHER_SALT)):
        with pytest.raises(LockfileError) as caught:
            act(identity)
        assert caught.value.message == "the ledger knows the campaign 'pulse' as 'heartbeat' now"


def test_records_that_grew_apart_stop(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A campaign that was sent under both names has two records: it stops rather than forget one."""
    deliver(make_record("a", 101))
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", "heartbeat", KEY)
        add_intents(
            connection, campaign_id, [Intent("ask", "k", "t", "d", ("f",), "{}")], "2026-11-20T12:00:00Z"
        )
    for act in (partial(read_record, ledger), partial(enter_record, ledger, new_salt=OTHER_SALT)):
        with pytest.raises(LockfileError, match="has several records, made under the names heartbeat, pulse"):
            act(renamed)


def test_another_files_lockfile_is_left_alone(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord
) -> None:
    """A file called as an old name is, whose campaign never had that name, is somebody else's."""
    new = replace(renamed, file=renamed.file.with_name("heartbeat.yaml"))
    stranger = lockfile_path(new.file.with_name("pulse.yaml"), "live")
    write_lockfile(stranger, LockfileContents("other", "live", KEY, [make_record("a", 101)]))
    assert read_record(ledger, new).known.is_empty()
