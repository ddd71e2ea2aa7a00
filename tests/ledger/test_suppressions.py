"""Ledger and file of suppressions: each learns what the other knows, on either database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import LedgerError, RunnerError
from runner.ledger.files.suppressions import HoldLine, OptOut, PauseLine
from runner.ledger.fingerprint import TargetKey
from runner.ledger.people.opt_outs import add_replies
from runner.ledger.people.suppressions import (
    compose_suppressions,
    find_pause,
    iterate_entries,
    read_pauses,
    save_suppressions,
    set_pause,
)
from runner.ledger.record.campaign_record import read_record
from runner.ledger.record.entry import dismiss_launches, list_unexplained
from runner.ledger.target_key import enter_key
from tests.keys import STATE_KEY
from tests.ledger.conftest import AT, KEY, dump, fill
from tests.ledger.test_record_files import write_entries

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.database import Ledger
    from runner.ledger.files.suppressions import Entry
    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.campaign_record import Identity

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

ADA, BOB = "+14155550101", "+14155550102"
EARLY, LATER, LATE = (f"2026-12-0{day}T10:00:00.000000Z" for day in (1, 2, 3))
PAUSE = PauseLine("pulse", "why", "paused", LATE)


def opt_out(phone: str, state: Any, at: str, source: Any = "person") -> OptOut:
    return OptOut(KEY.fingerprint(phone), source, source, state, at)


def book(*entries: Entry) -> str:
    return write_entries(entries, KEY)


def list_entries(ledger: Ledger) -> list[Entry]:
    with ledger.reading() as connection:
        return list(iterate_entries(connection, "live"))


def hold(guid: str, *phones: str, message: str = "ask", whole: bool = True) -> HoldLine:
    people = tuple(sorted(KEY.fingerprint(phone) for phone in phones))
    return HoldLine("pulse", guid, message, "pulse-2026", people, whole, AT)


def test_what_a_file_says_is_what_it_says_again(ledger: Ledger, tmp_path: Path) -> None:
    """Entered into a new ledger and written from it, a file is byte for byte what it was."""
    text = book(
        opt_out(ADA, "confirmed", EARLY), opt_out(BOB, "dismissed", EARLY), PAUSE,
        hold("guid", ADA), hold("guid", BOB, message="nudge"), hold("part", "+14155550103", whole=False),
    )  # fmt: skip
    file = tmp_path / "campaigns" / "live.suppressions.json"
    with ledger.writing() as connection:
        assert compose_suppressions(connection, KEY) is None
        assert not save_suppressions(connection, file, KEY)
    fill(ledger, text, text)
    with ledger.writing() as connection:
        assert save_suppressions(connection, file, KEY)
        assert not save_suppressions(connection, file, KEY)
        assert compose_suppressions(connection, KEY) == text
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("here", "there", "winner"),
    [
        (("confirmed", EARLY), ("dismissed", LATER), "dismissed"),
        (("confirmed", LATER), ("dismissed", EARLY), "confirmed"),
        (("dismissed", EARLY), ("confirmed", EARLY), "confirmed"),
        (("confirmed", EARLY), ("dismissed", EARLY), "confirmed"),
        (("dismissed", EARLY), ("doubtful", EARLY), "doubtful"),
    ],
)
def test_the_later_decision_counts_in_the_ledger_too(
    ledger: Ledger, here: tuple[str, str], there: tuple[str, str], winner: str
) -> None:
    """As between two files; of two of the same moment the more cautious one."""
    fill(ledger, book(opt_out(ADA, *here)), book(opt_out(ADA, *there)))
    (entry,) = list_entries(ledger)
    assert isinstance(entry, OptOut)
    assert entry.state == winner


def test_a_pause_is_said_once(ledger: Ledger) -> None:
    """Said again with the same reason it is not new; it holds under each of the campaign's names."""
    with ledger.writing() as connection:
        said = [
            set_pause(connection, KEY, "pulse", None, EARLY),
            set_pause(connection, KEY, "pulse", "why", LATE),
            set_pause(connection, KEY, "pulse", "why", LATE),
        ]
        assert said == [False, True, False]
        pause = find_pause(connection, "live", ["heartbeat", "pulse"])
        assert pause is not None
        assert (pause.reason, pause.describe()) == ("why", "paused since 2026-12-03 10:00 UTC: why")
        assert find_pause(connection, "test", ["pulse"]) is None
        assert set_pause(connection, KEY, "pulse", None, EARLY)
        assert read_pauses(connection, "live") == {}
    (entry,) = list_entries(ledger)
    assert entry == PauseLine("pulse", "", "resumed", LATE.replace("000000Z", "000001Z"))


def test_who_was_forgotten_elsewhere_leaves_one_entry(ledger: Ledger) -> None:
    """This ledger's entries about their replies give way, and later files do not bring them back."""
    with ledger.writing() as connection:
        enter_key(connection, KEY)
        reply = OptOut(KEY.fingerprint(ADA), "reply-1", "reply", "confirmed", EARLY)
        add_replies(connection, "live", [reply])
    fill(ledger, book(opt_out(ADA, "confirmed", LATER, "forgotten")), book(reply))
    assert list_entries(ledger) == [opt_out(ADA, "confirmed", LATER, "forgotten")]


def test_a_hold_ends_when_a_record_names_the_launch(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """As sent or as dismissed, in whatever form the guid is; until then its people are held here, too."""
    fill(ledger, book(hold("guid-a", ADA), hold("FOREIGN", BOB), hold("foreign", BOB)))
    assert read_record(ledger, identity).known.unexplained == {
        "ask": {KEY.fingerprint(ADA), KEY.fingerprint(BOB)}
    }
    fill(
        ledger,
        dump(make_record("a", 101), dismissed=["foreign"]),
        book(hold("guid-a", ADA), hold("foreign", BOB)),
    )
    known = read_record(ledger, identity).known
    assert (known.unresolved.get("ask", set()), known.sent) == (set(), {"ask": {KEY.fingerprint(ADA)}})
    with ledger.writing() as connection:
        assert list_unexplained(connection, 1) == []
        dismiss_launches(connection, 1, ["other"])
    fill(ledger, book(hold("other", BOB)))
    assert list_entries(ledger) == []
    deliver(make_record("b", 103))
    fill(ledger, book(hold("guid-b", BOB)))
    assert list_entries(ledger) == []


def test_a_file_of_another_key_is_refused(ledger: Ledger) -> None:
    """Nothing of it is entered, and the ledger stays as it was, whoever's key is wrong."""
    keyed = TargetKey.of("live", STATE_KEY)
    text = write_entries([opt_out(ADA, "confirmed", EARLY)], keyed)
    for key, words in ((KEY, "was written with a RUNNER_STATE_KEY, and none is set"), (keyed, "")):
        fill(ledger, book(opt_out(BOB, "confirmed", EARLY)))
        with pytest.raises(RunnerError) as caught:
            fill(ledger, text, key=key)
        if key is keyed:
            assert isinstance(caught.value, LedgerError)
        assert caught.value.message.endswith(words)
        assert list_entries(ledger) == [opt_out(BOB, "confirmed", EARLY)]
