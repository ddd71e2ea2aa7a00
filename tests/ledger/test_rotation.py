"""A ledger's fingerprints under a new key, on each of the databases."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from runner.ledger.lockfile.writer import rewrite_lockfile
from sqlalchemy import func, select

from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.maintenance.rotation import (
    Translation,
    list_tags_on_record,
    needs_rotation,
    rotate_ledger,
    want_ledger,
)
from runner.ledger.model import StoredSession
from runner.ledger.people.forgotten import mark_forgotten
from runner.ledger.people.opt_outs import add_opt_outs, read_suppressions
from runner.ledger.record.campaign_record import enter_record
from runner.ledger.results.reconciled import store_sessions
from runner.ledger.tables import launches, results, sessions
from runner.ledger.target_key import enter_target_key, read_target_key
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity

PHONES = [f"+1415555{number:04}" for number in (101, 102, 103, 104, 105)]
SALT = "0123456789abcdef" * 2
KEY = FingerprintKey.from_secret(STATE_KEY)


def test_everybody_is_who_they_were(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """Sent, unresolved, answered, forgotten, opted out: all of it is the same under the new key."""
    sent, _ = deliver(make_record("a", 101, 102), make_record("b", 103))
    deliver(make_record("c", 104), state="unknown")
    campaign_id, old = enter_record(ledger, identity, SALT).require_entered()
    with ledger.writing() as connection:
        mark_forgotten(connection, campaign_id, old.fingerprint(PHONES[4]))
        people = enter_target_key(connection, "live", None, SALT)
        add_opt_outs(connection, people, PHONES[:1], "person", "2026-11-20T12:00:00.000000Z")
        row = {column.name: "" for column in results.c} | {"launch_id": sent, "result_guid": "r1"}
        row |= {
            "participant": old.fingerprint(PHONES[0]),
            "question_display_order": 0,
            "revision": 1,
        }
        connection.execute(results.insert(), [row])
        store_sessions(connection, [StoredSession(sent, old.fingerprint(PHONES[0]), "ACTIVE", stopped=False)])
    translation = Translation("live", STATE_KEY, None)
    with ledger.writing() as connection:
        want_ledger(connection, translation)
        assert needs_rotation(connection, translation)
        assert list_tags_on_record(connection, "live") == {"pulse-2026"}
        assert translation.count_missing() == {"": 1, "pulse": 5}
        translation.offer(PHONES)
        assert (translation.count_missing(), translation.count_people()) == ({}, 6)
        assert rotate_ledger(connection, translation) == 1
        assert not needs_rotation(connection, translation)
    keyed = replace(identity, state_key=STATE_KEY)
    record = enter_record(ledger, keyed, SALT)
    named = [KEY.fingerprint(phone) for phone in PHONES]
    assert (record.key, record.known.sent) == (KEY, {"ask": set(named[:3])})
    assert record.known.unresolved["ask"] == {named[3]}
    assert record.known.forgotten == {named[4]}
    with ledger.reading() as connection:
        found = read_suppressions(connection, read_target_key(connection, "live", STATE_KEY))
        assert [found.find(phone) for phone in PHONES[:2]] == ["confirmed", None]
        for column in (results.c.participant, sessions.c.participant):
            assert connection.execute(select(column)).scalars().all() == named[:1]
        assert connection.execute(select(func.count()).select_from(launches)).scalar_one() == 3
    assert rewrite_lockfile(ledger, keyed, record)
    text = keyed.lockfile.read_text(encoding="utf-8")
    # The keys of launches are those of what they hold, or it could not be read.
    assert enter_record(ledger, keyed, SALT).known == record.known
    assert "salt" not in json.loads(text)
