"""Opt-outs in the ledger: who opted out is known to every campaign on the target, and to no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.ledger.database import Ledger
from runner.ledger.files.suppressions import OptOut
from runner.ledger.people.opt_outs import (
    add_opt_outs,
    add_replies,
    count_opt_outs,
    decide,
    decide_reply,
    dismiss_opt_outs,
    find_suppressed,
    iterate_opt_outs,
    read_suppressions,
)
from runner.ledger.target_key import enter_key
from tests.ledger.conftest import AT, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.files.suppressions import Source, State

ADA, BOB, EVE, CY = (f"+1415555010{number}" for number in range(1, 5))
LATER, LATEST = "2026-11-21T12:00:00.000000Z", "2026-11-22T12:00:00.000000Z"


def enter(ledger: Ledger) -> None:
    with ledger.writing() as connection:
        enter_key(connection, KEY)


def reply(phone: str, guid: str, state: State = "confirmed") -> OptOut:
    return OptOut(KEY.fingerprint(phone), guid, "reply", state, AT)


def find(ledger: Ledger, *phones: str) -> list[str | None]:
    """Return the states of people: all are read, or they are asked for right before a send."""
    with ledger.reading() as connection:
        found: list[str | None] = [read_suppressions(connection, KEY).find(phone) for phone in phones]
        barred = {phone for phone, state in zip(phones, found, strict=True) if state}
        assert find_suppressed(connection, KEY, phones) == barred
    return found


def export(ledger: Ledger) -> list[OptOut]:
    """Return the opt-outs as they are exported."""
    with ledger.reading() as connection:
        return list(iterate_opt_outs(connection, "live"))


def test_what_says_so_suppresses(ledger: Ledger) -> None:
    """A reply, a list and a person suppress; a doubtful reply waits for a decision."""
    enter(ledger)
    with ledger.writing() as connection:
        assert add_replies(connection, "live", [reply(ADA, "g1"), reply(EVE, "g2", "doubtful")]) == 2
        assert add_opt_outs(connection, KEY, [BOB, BOB], "import", AT) == 1
    assert find(ledger, ADA, BOB, EVE, "+14155550104") == ["confirmed", "confirmed", "doubtful", None]
    with ledger.reading() as connection:
        assert count_opt_outs(connection, "live") == {"confirmed": 2, "doubtful": 1}
        assert [item.evidence for item in iterate_opt_outs(connection, "live", "doubtful")] == ["g2"]


def test_a_decision_outlasts_the_next_reconcile(ledger: Ledger) -> None:
    """A dismissed reply stays dismissed when it is read again; another reply counts again."""
    enter(ledger)
    doubtful = reply(ADA, "g1", "doubtful")
    with ledger.writing() as connection:
        add_replies(connection, "live", [doubtful])
        assert decide_reply(connection, "live", "g1", "dismissed", LATER)
        assert not decide_reply(connection, "live", "g9", "dismissed", LATER)
        assert add_replies(connection, "live", [doubtful, reply(ADA, "g1")]) == 0
    assert find(ledger, ADA) == [None]
    with ledger.writing() as connection:
        assert add_replies(connection, "live", [reply(ADA, "g2")]) == 1
    assert find(ledger, ADA) == ["confirmed"]


def test_a_doubtful_reply_can_become_certain_and_not_the_reverse(ledger: Ledger) -> None:
    """Better rules confirm what was doubtful; they never undo what was certain."""
    enter(ledger)
    with ledger.writing() as connection:
        add_replies(connection, "live", [reply(ADA, "g1", "doubtful"), reply(BOB, "g2")])
        assert add_replies(connection, "live", [reply(ADA, "g1"), reply(BOB, "g2", "doubtful")]) == 1
    assert find(ledger, ADA, BOB) == ["confirmed", "confirmed"]


def test_a_person_who_is_let_in_again_stays_so_until_they_opt_out_again(ledger: Ledger) -> None:
    """Removing dismisses all that says so; adding by hand suppresses again."""
    enter(ledger)
    with ledger.writing() as connection:
        add_replies(connection, "live", [reply(ADA, "g1")])
        add_opt_outs(connection, KEY, [ADA], "person", AT)
        assert dismiss_opt_outs(connection, "live", KEY.fingerprint(ADA), LATER) == 2
        assert dismiss_opt_outs(connection, "live", KEY.fingerprint(ADA), LATER) == 0
        add_replies(connection, "live", [reply(ADA, "g1")])
    assert find(ledger, ADA) == [None]
    with ledger.writing() as connection:
        assert add_opt_outs(connection, KEY, [ADA], "person", LATER) == 1
    assert find(ledger, ADA) == ["confirmed"]


@pytest.mark.parametrize("source", ["person", "import", "forgotten"])
@pytest.mark.parametrize(("let_in", "found"), [(AT, "confirmed"), (LATER, "confirmed"), (LATEST, None)])
def test_whoever_opts_out_elsewhere_after_they_were_let_in_here_has_opted_out(
    ledger: Ledger,
    new_url: Callable[[], str],
    source: Source,
    let_in: str,
    found: str | None,
) -> None:
    """The later of the two counts, and of two at once the opt-out."""
    enter(ledger)
    with ledger.writing() as connection:
        add_opt_outs(connection, KEY, [ADA], source, LATER)
    with Ledger(new_url()) as here:
        here.prepare()
        enter(here)
        with here.writing() as connection:
            add_opt_outs(connection, KEY, [ADA], source, AT)
            dismiss_opt_outs(connection, "live", KEY.fingerprint(ADA), let_in)
            decide(connection, "live", export(ledger))
        assert find(here, ADA) == [found]


def test_an_opt_out_that_is_said_again_is_newer(ledger: Ledger, new_url: Callable[[], str]) -> None:
    """Whoever was on record all the time, and opted out once more, is in another ledger not let in since."""
    enter(ledger)
    with Ledger(new_url()) as here, Ledger(new_url()) as between:
        for one in (here, between):
            one.prepare()
            enter(one)
        for one in (ledger, between, here):
            with one.writing() as connection:
                add_opt_outs(connection, KEY, [ADA], "person", AT)
        with here.writing() as connection:
            dismiss_opt_outs(connection, "live", KEY.fingerprint(ADA), LATER)
            decide(connection, "live", export(ledger))
        with ledger.writing() as connection:
            assert add_opt_outs(connection, KEY, [ADA], "person", LATEST) == 0
        with between.writing() as connection:
            decide(connection, "live", export(ledger))
        with here.writing() as connection:
            decide(connection, "live", export(between))
        assert find(here, ADA) == ["confirmed"]
