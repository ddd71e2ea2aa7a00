"""A ledger's fingerprints under a new key, on each of the databases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import select

from runner.ledger.files.lockfile import parse_lockfile
from runner.ledger.files.suppressions import HoldLine, PauseLine
from runner.ledger.fingerprint import TargetKey
from runner.ledger.maintenance import Translation, list_tags_on_record
from runner.ledger.model import StoredResult, StoredSession
from runner.ledger.people.opt_outs import NOBODY, add_opt_outs, find_suppressed
from runner.ledger.people.suppressions import compose_suppressions, iterate_entries
from runner.ledger.record.campaign_record import read_record
from runner.ledger.results.reconciled import store_results, store_sessions
from runner.ledger.tables import results, sessions
from runner.text.outgoing import digest_filled
from tests.keys import STATE_KEY
from tests.ledger.conftest import AT, FILE, KEY, fill, rewrite
from tests.ledger.test_record_files import write_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.campaign_record import Identity

PHONES = [f"+1415555{number:04}" for number in range(101, 108)]
NEW = TargetKey.of("live", STATE_KEY)


def test_everybody_is_who_they_were(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """Sent, unresolved, held, answered, opted out, forgotten: all of it is the same under the new key."""
    sent, _ = deliver(make_record("a", 101, 102), make_record("b", 103))
    deliver(make_record("c", 104), state="unknown")
    ada = KEY.fingerprint(PHONES[0])
    held = [
        HoldLine("pulse", f"foreign-{one}", "ask", "other", (one,), True, AT)  # noqa: FBT003
        for one in (KEY.fingerprint(PHONES[4]), NOBODY)
    ]
    fill(ledger, write_entries([*held, PauseLine("pulse", "", "paused", AT)], KEY))
    with ledger.writing() as connection:
        add_opt_outs(connection, KEY, [PHONES[5]], "person", AT)
        add_opt_outs(connection, KEY, [PHONES[6]], "forgotten", AT)
        store_results(connection, [StoredResult(sent, "r1", ada, "q", "why", "Why?", 1, "1", "1", AT, AT)])
        store_sessions(connection, [StoredSession(sent, ada, "ACTIVE", stopped=False)])
        translation = Translation(KEY, NEW, digest_filled)
        translation.gather(connection)
        assert list_tags_on_record(connection, "live") == {"pulse-2026", "other"}
        assert translation.missing == len(PHONES)
        translation.offer([*PHONES[1:], "+14155550999"])
        assert translation.missing == 1
        translation.offer(PHONES)
        assert (translation.missing, len(translation.found)) == (0, len(PHONES))
        translation.write(connection)
    keyed = replace(identity, key=NEW)
    people = [NEW.fingerprint(phone) for phone in PHONES]
    known = read_record(ledger, keyed).known
    assert known.sent == {"ask": set(people[:3])}
    assert known.unresolved == {"ask": {*people[3:5], NOBODY}}
    with ledger.reading() as connection:
        assert find_suppressed(connection, NEW, PHONES) == {*PHONES[5:]}
        assert find_suppressed(connection, NEW, PHONES, "forgotten") == {PHONES[6]}
        for column in (results.c.participant, sessions.c.participant):
            assert connection.execute(select(column)).scalars().all() == people[:1]
        before, text = list(iterate_entries(connection, "live")), compose_suppressions(connection, NEW) or ""
    # Its files can be read with the new key, and say nothing that it does not know.
    lockfile = rewrite(ledger, keyed)
    assert len(parse_lockfile(FILE, lockfile, NEW).lockfile.launches) == 2
    fill(ledger, lockfile, text, key=NEW)
    assert read_record(ledger, keyed).known == known
    with ledger.reading() as connection:
        assert list(iterate_entries(connection, "live")) == before
