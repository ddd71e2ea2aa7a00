"""Who may no longer be texted, asked right before a send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.errors import LedgerError
from runner.ledger.people.opt_outs import (
    OptOut,
    add_opt_outs,
    add_replies,
    decide_reply,
    find_suppressed,
    remove_opt_out,
)
from runner.ledger.target_key import KeySource

if TYPE_CHECKING:
    from runner.ledger.database import Ledger
    from runner.ledger.people.opt_outs import State

PEOPLE = KeySource("live", None, "0123456789abcdef" * 2)
ADA, BOB, CY, DEE = "+14155550101", "+14155550102", "+14155550103", "+14155550104"
EVERYBODY = [ADA, BOB, CY, DEE]
AT, LATER = "2026-11-20T12:00:00.000000Z", "2026-11-21T12:00:00.000000Z"


def enter_replies(ledger: Ledger, **states: tuple[str, State]) -> None:
    """Enter replies by the names that they are to have, each with its author's phone and its state."""
    with ledger.writing() as connection:
        key = PEOPLE.enter(connection)
        replies = [
            OptOut(key.fingerprint(phone), guid, "reply", state, AT)
            for guid, (phone, state) in states.items()
        ]
        add_replies(connection, "live", replies)


def find(
    ledger: Ledger, phones: list[str], *, target: str = "live", state_key: str | None = None
) -> set[str]:
    with ledger.writing() as connection:
        return find_suppressed(connection, target, state_key, phones)


def test_nobody_is_on_record(ledger: Ledger) -> None:
    """In a fresh ledger everybody may be texted, and no key is asked for."""
    assert find(ledger, EVERYBODY) == set()
    assert find(ledger, []) == set()


def test_confirmed_and_doubtful_are_found_and_dismissed_are_not(ledger: Ledger) -> None:
    """Whoever may have opted out is not texted as long as nobody has decided."""
    enter_replies(ledger, g1=(ADA, "confirmed"), g2=(BOB, "doubtful"), g3=(CY, "dismissed"))
    assert find(ledger, EVERYBODY) == {ADA, BOB}
    assert find(ledger, [CY, DEE]) == set()


def test_one_piece_of_evidence_is_enough(ledger: Ledger) -> None:
    """A dismissed reply takes nothing from another one that stands; two that stand are one person."""
    enter_replies(
        ledger,
        g1=(ADA, "dismissed"),
        g2=(ADA, "doubtful"),
        g3=(BOB, "confirmed"),
        g4=(BOB, "confirmed"),
    )
    assert find(ledger, EVERYBODY) == {ADA, BOB}


def test_a_decision_holds_at_once(ledger: Ledger) -> None:
    """What was decided of a reply, and who was let in again, is known to the next transaction."""
    enter_replies(ledger, g1=(ADA, "doubtful"))
    with ledger.writing() as connection:
        add_opt_outs(connection, PEOPLE.enter(connection), [BOB], "person", AT)
    assert find(ledger, EVERYBODY) == {ADA, BOB}
    with ledger.writing() as connection:
        decide_reply(connection, "live", "g1", "dismissed", LATER)
        remove_opt_out(connection, PEOPLE.enter(connection), BOB, LATER)
    assert find(ledger, EVERYBODY) == set()


def test_an_opt_out_holds_for_its_target_alone(ledger: Ledger) -> None:
    """Another target's people are others, whatever their phones."""
    enter_replies(ledger, g1=(ADA, "confirmed"))
    assert find(ledger, [ADA], target="test") == set()


def test_what_the_same_transaction_has_entered_is_found(ledger: Ledger) -> None:
    """It looks at the ledger as the transaction sees it, not as it was committed."""
    with ledger.writing() as connection:
        add_opt_outs(connection, PEOPLE.enter(connection), [ADA], "import", AT)
        assert find_suppressed(connection, "live", None, EVERYBODY) == {ADA}


def test_more_people_than_one_statement_asks_about(ledger: Ledger) -> None:
    """They are asked about in groups, and none falls between two; a phone that comes twice does not matter."""
    phones = [f"+1415{number:07}" for number in range(5_550_000, 5_551_203)]
    gone = {*phones[::7], phones[499], phones[500], phones[-1]}
    with ledger.writing() as connection:
        add_opt_outs(connection, PEOPLE.enter(connection), gone, "import", AT)
    assert find(ledger, phones) == gone
    assert find(ledger, [*phones, *phones]) == gone


def test_without_the_key_nobody_passes(ledger: Ledger) -> None:
    """Where people opted out under a secret that is not at hand, nobody is taken for one who did not."""
    with ledger.writing() as connection:
        key = KeySource("live", "a secret", "").enter(connection)
        add_opt_outs(connection, key, [ADA], "person", AT)
    assert find(ledger, EVERYBODY, state_key="a secret") == {ADA}
    with pytest.raises(LedgerError) as unset:
        find(ledger, EVERYBODY)
    assert unset.value.message == (
        "the opt-outs of the target live were written with a RUNNER_STATE_KEY, and none is set"
    )
    with pytest.raises(LedgerError) as other:
        find(ledger, EVERYBODY, state_key="another secret")
    assert other.value.message == (
        "the opt-outs of the target live cannot be read: they were written with another RUNNER_STATE_KEY"
    )
