"""The record of renamed messages: nobody looks new under the new id (docs/delivery.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.format import read_lockfile
from runner.ledger.lockfile.integrity import rename_message, renew_key
from runner.ledger.lockfile.writer import LockfileContents, refresh_lockfile, write_lockfile
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.unsettled import list_unsettled
from runner.ledger.results.reconciled import read_totals
from runner.ledger.results.sendings import count_answered

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord, LaunchState
    from runner.ledger.record.recorded import Identity

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

SALT = "0123456789abcdef" * 2
KEY = FingerprintKey.from_salt(SALT)
RENAMED = {"opener": "opener", "ask": "opener"}


@pytest.fixture
def renamed(identity: Identity) -> Identity:
    """The campaign `pulse`, its message `ask` under the id `opener`."""
    return replace(identity, message_ids=RENAMED)


def refresh(ledger: Ledger, identity: Identity) -> tuple[LaunchRecord, ...]:
    """Enter a record, write its lockfile, and return what that says to somebody who knows of no rename."""
    record = enter_record(ledger, identity, SALT)
    with ledger.reading() as connection:
        refresh_lockfile(connection, identity, record)
    lockfile = read_lockfile(identity.lockfile)
    assert lockfile is not None
    return lockfile.launches


@pytest.mark.parametrize("held_by", ["lockfile", "ledger", "both"])
def test_who_got_a_message_under_its_old_id_is_known(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver, held_by: str
) -> None:
    """Ledger and lockfile of the old id are honoured, and written anew under the new one, with keys that fit."""
    launch = make_record("a", 101, 102)
    if held_by != "ledger":
        write_lockfile(renamed.lockfile, LockfileContents("pulse", "live", KEY, [launch]))
    if held_by != "lockfile":
        deliver(launch)
    for known in (read_record(ledger, renamed).known, enter_record(ledger, renamed, SALT).known):
        assert known.sent == {"opener": set(launch.recipients)}
    assert refresh(ledger, renamed) == (rename_message(launch, "opener", "pulse"),)


def test_the_new_id_alone_remembers(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Once the record is written under the new id, `renamed_from` is no longer needed."""
    deliver(make_record("a", 101))
    launches = refresh(ledger, renamed)
    forgetful = replace(renamed, message_ids={"opener": "opener"})
    assert read_record(ledger, forgetful).known.messages == {"opener"}
    assert read_record(None, forgetful).known.messages == {"opener"}
    assert refresh(ledger, forgetful) == launches


def test_unknown_outcomes_come_along(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """What is unresolved under the old id is unresolved, and can be settled, under the new one."""
    launch = make_record("a", 101, 102)
    deliver(launch, state="unknown")
    for record in (read_record(ledger, renamed), enter_record(ledger, renamed, SALT)):
        assert record.known.unresolved == {"opener": set(launch.recipients)}
    campaign_id, _ = record.require_entered()
    with ledger.reading() as connection:
        (unsettled,) = list_unsettled(connection, campaign_id)
    assert (unsettled.message, unsettled.recipients) == ("opener", frozenset(launch.recipients))
    assert unsettled.key == rename_message(launch, "opener", "pulse").key


@pytest.mark.parametrize(
    ("before", "after", "winner"),
    [
        ("sent", "unknown", "sent"),
        ("unknown", "sent", "sent"),
        ("sent", "sent", "sent"),
        ("unknown", "unknown", "unknown"),
        ("rejected", "unknown", "unknown"),
        ("unknown", "rejected", "unknown"),
        ("sent", "rejected", "sent"),
        ("rejected", "rejected", "rejected"),
    ],
)
def test_a_delivery_under_both_ids_stays_once(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver,
    before: LaunchState, after: LaunchState, winner: LaunchState,
) -> None:  # fmt: skip
    """Somebody whom both ids have on record is known by what is more certain of the two; others are untouched."""
    deliver(make_record("a", 101, 102), state=before)
    deliver(make_record("b", 101, 103, message="opener"), state=after)
    known = enter_record(ledger, renamed, SALT).known
    (ada,) = make_record("c", 101).recipients
    assert (ada in known.sent.get("opener", ())) == (winner == "sent")
    assert (ada in known.unresolved.get("opener", ())) == (winner == "unknown")
    for number, state in ((102, before), (103, after)):
        (other,) = make_record("c", number).recipients
        assert (other in known.sent.get("opener", ())) == (state == "sent")
    if "sent" in (before, after):
        # Each key fits what its launch has left: reading the lockfile makes sure of it.
        assert {one.message for one in refresh(ledger, renamed)} == {"opener"}


def test_other_messages_stay_as_they_are(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A rename touches the message that it is about, and no other."""
    other = make_record("b", 101, message="nudge")
    deliver(make_record("a", 101), other)
    assert other in refresh(ledger, renamed)


def test_counts_are_read_under_the_new_id(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Before anything has been entered anew, counts of both ids are those of the one message."""
    deliver(make_record("a", 101, 102), make_record("b", 103, message="opener"))
    deliver(make_record("c", 104), state="rejected")
    with ledger.reading() as connection:
        totals = read_totals(connection, 1, renamed.message_ids)
        assert not count_answered(connection, 1, renamed.message_ids)
    assert totals.keys() == {"opener"}
    counts = totals["opener"]
    assert (counts.launches, counts.sent, counts.rejected, counts.unresolved) == (2, 3, 1, 0)


def test_a_message_may_be_renamed_again_and_back(
    ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """However often it is renamed, it keeps its record, and no old id of it can start over."""
    deliver(make_record("a", 101))
    again = replace(identity, message_ids={"hello": "hello", "opener": "hello", "ask": "hello"})
    back = replace(identity, message_ids={"ask": "ask", "hello": "ask"})
    for current, message in ((renamed, "opener"), (again, "hello"), (back, "ask")):
        assert {one.message for one in refresh(ledger, current)} == {message}
        assert read_record(ledger, current).known.messages == {message}
    for message in ("opener", "hello"):
        with pytest.raises(LockfileError, match=f"knows the message '{message}' as 'ask' now"):
            read_record(ledger, replace(identity, message_ids={message: message}))


def test_an_old_checkout_does_not_start_over(
    ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A job that runs a commit from before the rename is stopped: to it, everyone would look new."""
    deliver(make_record("a", 101))
    refresh(ledger, renamed)
    old = replace(identity, message_ids={"ask": "ask"})
    for act in (partial(read_record, ledger), partial(enter_record, ledger, new_salt=SALT)):
        with pytest.raises(LockfileError) as caught:
            act(old)
        assert caught.value.message == "the ledger knows the message 'ask' as 'opener' now"
        assert caught.value.hint == (
            "update this checkout, it is older than the rename; or rename back: `renamed_from: [opener]`; "
            "a message of its own needs an id of its own"
        )


def test_a_rename_on_one_branch(renamed: Identity, make_record: MakeRecord) -> None:
    """A lockfile that has one launch under the old id and the new one, of two branches, has it once."""
    launch = make_record("a", 101)
    both = [launch, rename_message(launch, "opener", "pulse")]
    write_lockfile(renamed.lockfile, LockfileContents("pulse", "live", KEY, both))
    assert read_record(None, renamed).known.sent == {"opener": set(launch.recipients)}
    with pytest.raises(LockfileError, match="has the launch guid-a under two messages"):
        read_record(None, replace(renamed, message_ids={}))


def test_campaign_and_message_may_be_renamed_at_once(
    ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Both renames together keep the record, and keys go on being made with the campaign's first name."""
    launch = make_record("a", 101)
    deliver(launch)
    both = replace(renamed, name="heartbeat", renamed_from=("pulse",))
    expected = renew_key(replace(launch, message="opener"), "pulse")
    assert refresh(ledger, both) == (expected,)
