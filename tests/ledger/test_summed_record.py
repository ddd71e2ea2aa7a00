"""Records as counts and digests."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from runner.errors import LockfileError
from runner.ledger.fingerprint import PeopleTally, digest_tallies, tally_texted
from runner.ledger.lockfile.writer import refresh_lockfile
from runner.ledger.people.forgotten import absorb_forgotten
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.recorded import RecordSummary, SharedRecord
from tests.ledger.conftest import KEY, SALT

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity, Record


def counts_of(record: Record) -> RecordSummary:
    assert isinstance(record.deliveries, RecordSummary)
    return record.deliveries


def test_same_as_whole(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """Counts and digest are those of the record as it is read whole; both when entered and when read."""
    deliver(make_record("a", 1, 2), make_record("b", 3, message="other"))
    deliver(make_record("c", 4), state="unknown")
    deliver(make_record("d", 5), state="rejected")
    known = read_record(ledger, identity).known
    entered = enter_record(ledger, identity, SALT, counts_only=True)
    read = read_record(ledger, identity, counts_only=True)
    counts = counts_of(read)
    assert counts_of(entered) == counts
    assert (read.count_texted(), read.is_unclear()) == ({"ask": (2, 1), "other": (1, 0)}, True)
    assert counts.messages["ask"].sent == PeopleTally(known.sent["ask"])
    assert counts.messages["ask"].unresolved == PeopleTally(known.unresolved["ask"])
    assert read.digest == digest_tallies(tally_texted(known))
    with pytest.raises(ValueError, match="only the counts were read"):
        _ = read.known
    assert read.key == entered.key == KEY


def test_nothing(ledger: Ledger, identity: Identity) -> None:
    """Where nothing is on record, nobody counts; there may be no ledger at all."""
    for opened in (ledger, None):
        found = read_record(opened, identity, counts_only=True)
        assert (found.campaign_id, found.key, found.is_empty()) == (None, None, True)


def test_filled_from_lockfile(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
    new_url: Callable[[], str],
) -> None:
    """A ledger that lacks what the lockfile knows is filled when entered, and refused when only read."""
    deliver(make_record("a", 1, 2))
    with ledger.reading() as connection:
        refresh_lockfile(connection, identity, enter_record(ledger, identity, SALT))
    with type(ledger)(new_url()) as other:
        other.prepare()
        with pytest.raises(LockfileError) as caught:
            read_record(other, identity, counts_only=True)
        assert caught.value.message == (
            f"the lockfile {identity.lockfile} knows of a launch that the ledger lacks"
        )
        assert caught.value.hint == "`runner reconcile` enters them; then run the same command again"
        assert enter_record(other, identity, SALT, counts_only=True).count_texted() == {"ask": (2, 0)}
        assert read_record(other, identity, counts_only=True).count_texted() == {"ask": (2, 0)}


def test_forgotten(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """Who was forgotten doesn't count, also where a launch to them is not settled yet."""
    record = make_record("a", 1, 2)
    deliver(record, state="unknown")
    with ledger.writing() as connection:
        absorb_forgotten(connection, 1, "pulse", [record.recipients[0]])
    found = enter_record(ledger, identity, SALT, counts_only=True)
    assert found.forgotten == {record.recipients[0]}
    assert found.count_texted() == {"ask": (0, 1)}
    assert found.digest == digest_tallies(tally_texted(read_record(ledger, identity).known))


def test_state_remote(ledger: Ledger, identity: Identity) -> None:
    """A record that is kept on a git remote is refused: it is read whole or not at all."""
    shared = replace(identity, shared=SharedRecord())
    hint = "leave out --state-remote: machines that share a ledger need none"
    for look in (
        partial(read_record, counts_only=True),
        partial(enter_record, new_salt=SALT, counts_only=True),
    ):
        with pytest.raises(LockfileError) as caught:
            look(ledger, shared)
        assert caught.value.message == "the record of pulse is kept on a git remote, and is too large for it"
        assert caught.value.hint == hint
