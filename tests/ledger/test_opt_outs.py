"""Opt-outs in the ledger: who opted out is known to every campaign on the target, and to no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner.ledger.people.opt_out_file import Imported, export_opt_outs, import_opt_outs

from runner.errors import LedgerError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import FingerprintSet
from runner.ledger.people.opt_outs import (
    OptOut,
    Source,
    State,
    add_opt_outs,
    add_replies,
    count_opt_outs,
    decide_reply,
    iterate_opt_outs,
    read_suppressions,
    remove_opt_out,
)
from runner.ledger.target_key import TargetKey, enter_target_key, read_target_key

if TYPE_CHECKING:
    from collections.abc import Callable

ADA, BOB, EVE = "+14155550101", "+14155550102", "+14155550103"
SALT = "0123456789abcdef" * 2
OTHER_SALT = "f" * 32
AT, LATER = "2026-11-20T12:00:00.000000Z", "2026-11-21T12:00:00.000000Z"
LATEST = "2026-11-22T12:00:00.000000Z"


def enter(ledger: Ledger, state_key: str | None = None) -> TargetKey:
    with ledger.writing() as connection:
        return enter_target_key(connection, "live", state_key, SALT)


def reply(key: TargetKey, phone: str, guid: str, state: State = "confirmed") -> OptOut:
    return OptOut(key.fingerprint(phone), guid, "reply", state, AT)


def find(ledger: Ledger, key: TargetKey, *phones: str) -> list[str | None]:
    with ledger.reading() as connection:
        found = read_suppressions(connection, key)
    return [found.find(phone) for phone in phones]


def test_what_says_so_suppresses(ledger: Ledger) -> None:
    """A reply, a list and a person suppress; a doubtful reply waits for a decision."""
    key = enter(ledger)
    with ledger.writing() as connection:
        assert (
            add_replies(connection, "live", [reply(key, ADA, "g1"), reply(key, EVE, "g2", "doubtful")]) == 2
        )
        assert add_opt_outs(connection, key, [BOB, BOB], "import", AT) == 1
    assert find(ledger, key, ADA, BOB, EVE, "+14155550104") == ["confirmed", "confirmed", "doubtful", None]
    with ledger.reading() as connection:
        assert count_opt_outs(connection, "live") == {"confirmed": 2, "doubtful": 1}
        assert [item.evidence for item in iterate_opt_outs(connection, "live", "doubtful")] == ["g2"]
        assert read_suppressions(connection, None).find(ADA) is None


def test_a_decision_outlasts_the_next_reconcile(ledger: Ledger) -> None:
    """A dismissed reply stays dismissed when it is read again; another reply counts again."""
    key = enter(ledger)
    doubtful = reply(key, ADA, "g1", "doubtful")
    with ledger.writing() as connection:
        add_replies(connection, "live", [doubtful])
        assert decide_reply(connection, "live", "g1", "dismissed", LATER)
        assert not decide_reply(connection, "live", "g9", "dismissed", LATER)
        assert add_replies(connection, "live", [doubtful, reply(key, ADA, "g1")]) == 0
    assert find(ledger, key, ADA) == [None]
    with ledger.writing() as connection:
        assert add_replies(connection, "live", [reply(key, ADA, "g2")]) == 1
    assert find(ledger, key, ADA) == ["confirmed"]


def test_a_doubtful_reply_can_become_certain_and_not_the_reverse(ledger: Ledger) -> None:
    """Better rules confirm what was doubtful; they never undo what was certain."""
    key = enter(ledger)
    with ledger.writing() as connection:
        add_replies(connection, "live", [reply(key, ADA, "g1", "doubtful"), reply(key, BOB, "g2")])
        assert (
            add_replies(connection, "live", [reply(key, ADA, "g1"), reply(key, BOB, "g2", "doubtful")]) == 1
        )
    assert find(ledger, key, ADA, BOB) == ["confirmed", "confirmed"]


def test_a_person_who_is_let_in_again_stays_so_until_they_opt_out_again(ledger: Ledger) -> None:
    """Removing dismisses all that says so; adding by hand suppresses again."""
    key = enter(ledger)
    with ledger.writing() as connection:
        add_replies(connection, "live", [reply(key, ADA, "g1")])
        add_opt_outs(connection, key, [ADA], "person", AT)
        assert remove_opt_out(connection, key, ADA, LATER) == 2
        assert remove_opt_out(connection, key, ADA, LATER) == 0
        add_replies(connection, "live", [reply(key, ADA, "g1")])
    assert find(ledger, key, ADA) == [None]
    with ledger.writing() as connection:
        assert add_opt_outs(connection, key, [ADA], "person", LATER) == 1
    assert find(ledger, key, ADA) == ["confirmed"]


def test_targets_and_keys_are_apart(ledger: Ledger) -> None:
    """Nobody is known on one target by what they have on another, with the same secret."""
    one, other = TargetKey.from_secret("live", "s"), TargetKey.from_secret("test", "s")
    assert one.fingerprint(ADA) != other.fingerprint(ADA)
    assert one.name != other.name
    assert "_key" not in repr(one)
    key = enter(ledger)
    with ledger.writing() as connection:
        add_opt_outs(connection, key, [ADA], "import", AT)
        test = enter_target_key(connection, "test", None, OTHER_SALT)
    assert find(ledger, test, ADA) == [None]


def test_the_key_on_record_stays(ledger: Ledger) -> None:
    """A secret that is set later does not replace the salt that everyone's fingerprint was made with."""
    key = enter(ledger)
    assert enter(ledger, "secret") == key
    with ledger.reading() as connection:
        assert read_target_key(connection, "live", "secret") == key
        assert read_target_key(connection, "test", None) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "the opt-outs of the target live were written with a RUNNER_STATE_KEY, and none is set"),
        (
            "other",
            "the opt-outs of the target live cannot be read: they were written with another RUNNER_STATE_KEY",
        ),
    ],
)
def test_a_key_that_is_not_at_hand_stops(ledger: Ledger, given: str | None, message: str) -> None:
    """With another key nobody would have opted out."""
    enter(ledger, "secret")
    with pytest.raises(LedgerError) as caught:
        enter(ledger, given)
    assert caught.value.message == message
    assert caught.value.hint


def test_a_file_carries_them_to_another_ledger(ledger: Ledger, new_url: Callable[[], str]) -> None:
    """What is exported can be imported: the same people, the same decisions, and twice changes nothing."""
    key = enter(ledger)
    with ledger.writing() as connection:
        add_replies(connection, "live", [reply(key, ADA, "g1"), reply(key, EVE, "g2", "doubtful")])
        add_opt_outs(connection, key, [BOB], "import", AT)
        remove_opt_out(connection, key, BOB, LATER)
    with ledger.reading() as connection:
        lines = list(export_opt_outs(connection, key))
    assert not any(phone[1:] in line for line in lines for phone in (ADA, BOB, EVE))
    with Ledger(new_url()) as other:
        other.prepare()
        for added in (3, 0):
            with other.writing() as connection:
                assert import_opt_outs(connection, lines, "live", "a key set since") == Imported(added)
        with other.reading() as connection:
            assert list(export_opt_outs(connection, key)) == lines
        assert find(other, key, ADA, BOB, EVE) == ["confirmed", None, "doubtful"]


def export(ledger: Ledger, key: TargetKey) -> list[str]:
    with ledger.reading() as connection:
        return list(export_opt_outs(connection, key))


@pytest.mark.parametrize("source", ["person", "import", "forgotten"])
@pytest.mark.parametrize(
    ("let_in", "found", "imported"),
    [
        (AT, "confirmed", Imported(1)),
        (LATER, "confirmed", Imported(1)),
        (LATEST, None, Imported(0, left_out=1)),
    ],
)
def test_whoever_opts_out_elsewhere_after_they_were_let_in_here_has_opted_out(
    ledger: Ledger,
    new_url: Callable[[], str],
    source: Source,
    let_in: str,
    found: str | None,
    imported: Imported,
) -> None:
    """The later of the two counts, and of two at once the opt-out; what is left out is counted."""
    key = enter(ledger)
    with ledger.writing() as connection:
        add_opt_outs(connection, key, [ADA], source, LATER)
    with Ledger(new_url()) as here:
        here.prepare()
        enter(here)
        with here.writing() as connection:
            add_opt_outs(connection, key, [ADA], source, AT)
            remove_opt_out(connection, key, ADA, let_in)
            assert import_opt_outs(connection, export(ledger, key), "live", None) == imported
        assert find(here, key, ADA) == [found]


def test_an_opt_out_that_is_said_again_is_newer(ledger: Ledger, new_url: Callable[[], str]) -> None:
    """Whoever was on record all the time, and opted out once more, is in another ledger not let in since."""
    key = enter(ledger)
    with Ledger(new_url()) as here, Ledger(new_url()) as between:
        for one in (here, between):
            one.prepare()
            enter(one)
        for one in (ledger, between, here):
            with one.writing() as connection:
                add_opt_outs(connection, key, [ADA], "person", AT)
        with here.writing() as connection:
            remove_opt_out(connection, key, ADA, LATER)
            assert import_opt_outs(connection, export(ledger, key), "live", None) == Imported(0, left_out=1)
        with ledger.writing() as connection:
            assert add_opt_outs(connection, key, [ADA], "person", LATEST) == 0
        with between.writing() as connection:
            assert import_opt_outs(connection, export(ledger, key), "live", None) == Imported(0)
        with here.writing() as connection:
            assert import_opt_outs(connection, export(between, key), "live", None) == Imported(1)
        assert find(here, key, ADA) == ["confirmed"]


def test_a_file_lets_nobody_in_and_decides_no_reply(ledger: Ledger, new_url: Callable[[], str]) -> None:
    """Who has opted out here stays so, whoever let them in elsewhere; a dismissed reply stays dismissed."""
    key = enter(ledger)
    with Ledger(new_url()) as here:
        here.prepare()
        enter(here)
        with here.writing() as connection:
            add_opt_outs(connection, key, [ADA], "person", AT)
            add_replies(connection, "live", [reply(key, BOB, "g1"), reply(key, EVE, "g2", "doubtful")])
            decide_reply(connection, "live", "g1", "dismissed", AT)
        with ledger.writing() as connection:
            add_opt_outs(connection, key, [ADA], "person", AT)
            remove_opt_out(connection, key, ADA, LATER)
            add_replies(connection, "live", [reply(key, BOB, "g1"), reply(key, EVE, "g2", "doubtful")])
            decide_reply(connection, "live", "g1", "confirmed", LATEST)
            decide_reply(connection, "live", "g2", "dismissed", LATEST)
        with here.writing() as connection:
            assert import_opt_outs(connection, export(ledger, key), "live", None) == Imported(0, left_out=1)
        assert find(here, key, ADA, BOB, EVE) == ["confirmed", None, "doubtful"]


HEAD = '{"opt_outs_version": 1, "target": "live", "key_fingerprint": "%s", "salt": "%s"}\n'
NOT_ONE = "line 2 is not an exported opt-out"


def spoil(**values: object) -> str:
    """Return the line of an opt-out, some of whose values nobody exports."""
    good = {"fingerprint": "0" * 32, "evidence": "g1", "source": "reply", "state": "confirmed", "at": AT}
    return json.dumps({**good, **values}) + "\n"


GOOD = HEAD % (TargetKey.from_salt("live", SALT).name, SALT)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "line 1 is not the head of exported opt-outs"),
        (["phone\n", "+14155550101\n"], "line 1 is not the head of exported opt-outs"),
        ([GOOD.replace("1,", "2,", 1)], "the opt-outs were exported by a newer version of runner"),
        ([GOOD.replace("live", "test")], "the opt-outs are of the target test, not live"),
        (
            [HEAD % (TargetKey.from_salt("live", OTHER_SALT).name, OTHER_SALT)],
            "the opt-outs were written with another key than the ledger's, so their people cannot be matched",
        ),
        (
            [HEAD % ("0" * 16, SALT)],
            "the opt-outs were written with another RUNNER_STATE_KEY, or were edited",
        ),
        ([GOOD.replace("live", "\\\\ud800")], "line 1 is not the head of exported opt-outs"),
        ([GOOD.replace(SALT, SALT + "\\\\u0000")], "line 1 is not the head of exported opt-outs"),
        ([GOOD, spoil(fingerprint="A" * 32)], f"{NOT_ONE}: it has no usable fingerprint"),
        ([GOOD, spoil(evidence="g\0")], f"{NOT_ONE}: it has no usable evidence"),
        ([GOOD, spoil(evidence="\ud800")], f"{NOT_ONE}: it has no usable evidence"),
        ([GOOD, spoil(evidence="g" * 201)], f"{NOT_ONE}: it has no usable evidence"),
        (
            [GOOD, spoil(evidence="", at="2026-02-30T12:00:00.000000Z")],
            f"{NOT_ONE}: it has no usable evidence",
        ),
        ([GOOD, spoil(at="2026-02-30T12:00:00.000000Z")], f"{NOT_ONE}: it has no usable at"),
        ([GOOD, spoil(at="2026-11-20 12:00")], f"{NOT_ONE}: it has no usable at"),
        ([GOOD, spoil(at="\ud800")], f"{NOT_ONE}: it has no usable at"),
        (
            [GOOD, spoil(at=12345, source="rumour", state=[])],
            f"{NOT_ONE}: it has no usable source, state, at",
        ),
        ([GOOD, '{"fingerprint": "+14155550101"}\n'], "line 2 is not an exported opt-out"),
        ([GOOD, "[" * 100_000], "line 2 is not an exported opt-out"),
    ],
)
def test_a_file_that_is_none_is_refused(ledger: Ledger, lines: list[str], message: str) -> None:
    """What cannot be read as exported opt-outs is refused with its line, and nothing is entered."""
    enter(ledger)
    with pytest.raises(LedgerError) as caught, ledger.writing() as connection:
        import_opt_outs(connection, lines, "live", None)
    assert caught.value.message == message
    assert caught.value.hint
    with ledger.reading() as connection:
        assert list(iterate_opt_outs(connection, "live")) == []


@given(
    st.lists(st.integers(0, 2**128 - 1) | st.integers(0, 40).map(lambda n: n << 60), max_size=40), st.data()
)
def test_a_packed_set_is_a_set(numbers: list[int], data: st.DataObject) -> None:
    """It counts what it was given, exactly, in 16 bytes each."""
    written = sorted(f"{number:032x}" for number in numbers)
    packed = FingerprintSet(written)
    assert (len(packed), packed.size) == (len(written), 16 * len(written))
    asked = (
        data.draw(st.sampled_from(written) | st.integers(0, 2**128 - 1).map("{:032x}".format))
        if written
        else "0"
    )
    assert packed.count(asked) == written.count(asked)
    assert (asked in packed) == (asked in written)
