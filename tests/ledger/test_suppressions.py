"""Ledger and file of suppressions: each learns what the other knows, on either database."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runner.ledger.people.suppression_file import BookText, Entry, parse_book, settle, write_book

from runner.errors import SuppressionsError
from runner.ledger.people.opt_outs import OptOut, add_opt_outs, add_replies, remove_opt_out
from runner.ledger.people.suppressions import (
    absorb_book,
    is_absorbed,
    iterate_entries,
    read_told,
    set_pause,
    write_suppressions,
)
from runner.ledger.target_key import KeySource, TargetKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.ledger.database import Ledger

SECRET = "a-secret-of-these-tests-alone"  # noqa: S105  of these tests alone
KEY = TargetKey.from_secret("live", SECRET)
PEOPLE = KeySource("live", SECRET, "0" * 32)
ADA, BOB = "+14155550101", "+14155550102"
EARLY, LATER, LATE = (f"2026-12-0{day}T10:00:00.000000Z" for day in (1, 2, 3))


def opt_out(phone: str, state: str, at: str, source: str = "person") -> Entry:
    return {
        "kind": "opt_out", "fingerprint": KEY.fingerprint(phone), "evidence": source, "source": source,
        "state": state, "at": at,
    }  # fmt: skip


def write(file: Path, entries: Iterable[Entry]) -> BookText:
    stream = StringIO()
    write_book(stream, KEY, settle(entries))
    file.write_text(stream.getvalue(), encoding="utf-8")
    return BookText(file, stream.getvalue())


def absorb(ledger: Ledger, text: BookText) -> None:
    with ledger.writing() as connection:
        absorb_book(connection, text, "live", SECRET)


def list_entries(ledger: Ledger) -> list[Entry]:
    with ledger.reading() as connection:
        return list(iterate_entries(connection, "live"))


def test_what_a_file_tells_is_what_it_tells_on(ledger: Ledger, tmp_path: Path) -> None:
    """Entered into a new ledger and written from it, a file is byte for byte what it was."""
    file = tmp_path / "live.suppressions.json"
    pause: Entry = {"kind": "pause", "campaign": "pulse", "state": "paused", "at": EARLY, "reason": "why"}
    hold: Entry = {
        "kind": "hold", "campaign": "pulse", "message": "ask", "launch": "guid", "tag": "pulse", "whole": True,
        "at": EARLY, "key_fingerprint": "0" * 16, "fingerprints": ["0" * 20],
    }  # fmt: skip
    text = write(file, [opt_out(ADA, "confirmed", EARLY), opt_out(BOB, "dismissed", EARLY), pause, hold])
    absorb(ledger, text)
    file.unlink()
    with ledger.writing() as connection:
        assert write_suppressions(connection, file, PEOPLE, None)
        assert not write_suppressions(connection, file, PEOPLE, text)
    assert file.read_text(encoding="utf-8") == text.text


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
    ledger: Ledger, tmp_path: Path, here: tuple[str, str], there: tuple[str, str], winner: str
) -> None:
    """As between two files, and for who only reads."""
    absorb(ledger, write(tmp_path / "here", [opt_out(ADA, *here)]))
    text = write(tmp_path / "there", [opt_out(ADA, *there)])
    with ledger.reading() as connection:
        told = read_told(connection, [text], "live", SECRET).suppressions
    assert told.find(ADA) == (None if winner == "dismissed" else winner)
    absorb(ledger, text)
    (entry,) = list_entries(ledger)
    assert entry["state"] == winner


def test_a_clock_that_was_set_back_undoes_no_decision(ledger: Ledger, tmp_path: Path) -> None:
    """A decision after another one is newer, whatever the clock says: no file brings the older one back."""
    text = write(tmp_path / "file", [opt_out(ADA, "dismissed", LATE), opt_out(BOB, "confirmed", LATE)])
    absorb(ledger, text)
    with ledger.writing() as connection:
        add_opt_outs(connection, KEY, [ADA], "person", EARLY)
        remove_opt_out(connection, KEY, BOB, EARLY)
    absorb(ledger, BookText(tmp_path / "other", text.text))
    with ledger.reading() as connection:
        told = read_told(connection, [], "live", SECRET).suppressions
    assert (told.find(ADA), told.find(BOB)) == ("confirmed", None)


def test_who_was_forgotten_elsewhere_leaves_one_entry(ledger: Ledger, tmp_path: Path) -> None:
    """This ledger's entries about their replies give way."""
    with ledger.writing() as connection:
        PEOPLE.enter(connection)
        reply = OptOut(KEY.fingerprint(ADA), "reply-1", "reply", "confirmed", EARLY)
        add_replies(connection, "live", [reply])
    absorb(ledger, write(tmp_path / "file", [opt_out(ADA, "confirmed", LATER, "forgotten")]))
    assert [entry["source"] for entry in list_entries(ledger)] == ["forgotten"]


def test_a_copy_that_lacks_what_was_taken_in_takes_it_in_again(ledger: Ledger, tmp_path: Path) -> None:
    """That a file is known is believed only as long as its entries are there."""
    text = write(tmp_path / "file", [opt_out(ADA, "confirmed", EARLY)])
    absorb(ledger, text)
    with ledger.writing() as connection:
        assert is_absorbed(connection, "live", text)
        connection.exec_driver_sql("DELETE FROM opt_outs")
        assert not is_absorbed(connection, "live", text)
    absorb(ledger, text)
    assert len(list_entries(ledger)) == 1


def test_a_pause_is_said_once(ledger: Ledger) -> None:
    """Said again with the same reason it is not new; with a clock set back it is later than the last word."""
    with ledger.writing() as connection:
        said = [
            set_pause(connection, PEOPLE, "pulse", None, EARLY),
            set_pause(connection, PEOPLE, "pulse", "why", LATE),
            set_pause(connection, PEOPLE, "pulse", "why", LATE),
            set_pause(connection, PEOPLE, "pulse", None, EARLY),
        ]
    assert said == [False, True, False, True]
    (entry,) = list_entries(ledger)
    assert (entry["state"], entry["at"]) == ("resumed", LATE.replace("000000Z", "000001Z"))


def test_a_machine_whose_clock_is_behind_can_end_a_pause(ledger: Ledger, tmp_path: Path) -> None:
    """The file that the pause came with brings it back neither here nor on a machine that knows both."""
    pause: Entry = {"kind": "pause", "campaign": "pulse", "state": "paused", "at": LATE, "reason": "why"}
    file = tmp_path / "live.suppressions.json"
    text = write(file, [pause])
    absorb(ledger, text)
    with ledger.writing() as connection:
        assert set_pause(connection, PEOPLE, "pulse", None, EARLY)
        write_suppressions(connection, file, PEOPLE, BookText(tmp_path / "other", text.text))
    (entry,) = settle([*list_entries(ledger), pause])
    assert entry["state"] == "resumed"


def test_a_file_of_another_key_is_refused(ledger: Ledger) -> None:
    """Nothing of it is entered, and the ledger stays as it was."""
    salted = TargetKey.from_salt("live", "0123456789abcdef" * 2)
    stream = StringIO()
    write_book(stream, salted, [opt_out(ADA, "confirmed", EARLY)])
    with ledger.writing() as connection:
        KeySource("live", None, "f" * 32).enter(connection)
    with (
        pytest.raises(SuppressionsError, match="written with different keys"),
        ledger.writing() as connection,
    ):
        absorb_book(connection, BookText(Path("file"), stream.getvalue()), "live", None)
    assert list_entries(ledger) == []


def test_a_folder_that_cannot_be_written_to_is_an_error(ledger: Ledger, tmp_path: Path) -> None:
    """The ledger has everything; what to do is said."""
    absorb(ledger, write(tmp_path / "file", [opt_out(ADA, "confirmed", EARLY)]))
    (tmp_path / "full").write_text("", encoding="utf-8")
    with pytest.raises(SuppressionsError) as caught, ledger.writing() as connection:
        write_suppressions(connection, tmp_path / "full/live.suppressions.json", PEOPLE, None)
    assert caught.value.message == f"{tmp_path}/full/live.suppressions.json cannot be written: File exists"
    assert caught.value.hint == "the ledger has everything: run the same command again when this is mended"


def test_a_written_file_is_sealed_throughout(ledger: Ledger, tmp_path: Path) -> None:
    """The key tells that nobody else wrote any of it."""
    file = tmp_path / "live.suppressions.json"
    with ledger.writing() as connection:
        add_opt_outs(connection, PEOPLE.enter(connection), [ADA, BOB], "person", EARLY)
        write_suppressions(connection, file, PEOPLE, None)
    book = parse_book(file, file.read_text(encoding="utf-8"))
    assert book.open_key("live", SECRET) == KEY
    assert len(book.entries) == 2
