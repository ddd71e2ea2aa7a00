"""Records as counts and digests."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from runner.errors import LockfileError
from runner.ledger.forgotten import absorb_forgotten
from runner.ledger.record import enter_record, read_record
from runner.ledger.rewriting import refresh_lockfile
from runner.ledger.shared import SharedRecord
from runner.ledger.summed_record import enter_summed_record, read_summed_record
from runner.ledger.tally import PeopleTally, digest_tallies, tally_texted
from tests.ledger.conftest import KEY, SALT

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.identity import Identity
    from runner.ledger.model import LaunchRecord


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
    entered = enter_summed_record(ledger, identity, SALT)
    read = read_summed_record(ledger, identity)
    assert entered.summary == read.summary
    assert (read.summary.sent, read.summary.unresolved, read.is_unclear()) == (3, 1, True)
    assert read.summary.messages["ask"].sent == PeopleTally(known.sent["ask"])
    assert read.summary.messages["ask"].unresolved == PeopleTally(known.unresolved["ask"])
    assert read.summary.digest == digest_tallies(tally_texted(known))
    assert read.key == entered.key == KEY


def test_nothing(ledger: Ledger, identity: Identity) -> None:
    """Where nothing is on record, nobody counts; there may be no ledger at all."""
    for opened in (ledger, None):
        found = read_summed_record(opened, identity)
        assert (found.campaign_id, found.key, found.summary.is_empty()) == (None, None, True)


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
            read_summed_record(other, identity)
        assert caught.value.message == (
            f"the lockfile {identity.lockfile} knows of a launch that the ledger lacks"
        )
        assert caught.value.hint == "`runner reconcile` enters them; then run the same command again"
        assert enter_summed_record(other, identity, SALT).summary.sent == 2
        assert read_summed_record(other, identity).summary.sent == 2


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
    found = enter_summed_record(ledger, identity, SALT)
    assert found.forgotten == {record.recipients[0]}
    assert found.summary.unresolved == 1
    assert found.summary.digest == digest_tallies(tally_texted(read_record(ledger, identity).known))


def test_state_remote(ledger: Ledger, identity: Identity) -> None:
    """A record that is kept on a git remote is refused: it is read whole or not at all."""
    shared = replace(identity, shared=SharedRecord())
    hint = "leave out --state-remote: machines that share a ledger need none"
    for look in (read_summed_record, partial(enter_summed_record, new_salt=SALT)):
        with pytest.raises(LockfileError) as caught:
            look(ledger, shared)
        assert caught.value.message == "the record of pulse is kept on a git remote, and is too large for it"
        assert caught.value.hint == hint
