"""The file of suppressions: its union, its seals, and what is refused."""

from __future__ import annotations

import json
import subprocess
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import MissingKeyError, SuppressionsError
from runner.ledger.lockfile.diff import SuppressionGain, find_suppression_gain
from runner.ledger.people.suppression_file import (
    Entry,
    lacks_suppressions,
    parse_book,
    settle,
    unite_books,
    write_book,
)
from runner.ledger.target_key import TargetKey
from runner.source.json_schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = Path("campaigns/live.suppressions.json")
SECRET = "correct horse battery staple"  # noqa: S105  of these tests alone
KEY = TargetKey.from_secret("live", SECRET)
SALTED = TargetKey.from_salt("live", "0123456789abcdef" * 2)
MOMENTS = st.integers(0, 3).map(lambda day: f"2026-12-0{day + 1}T10:00:00.000000Z")


def opt_out(person: int, evidence: str, state: str, at: str, source: str = "reply") -> Entry:
    return {
        "kind": "opt_out", "fingerprint": f"{person:032x}", "evidence": evidence, "source": source,
        "state": state, "at": at,
    }  # fmt: skip


def pause(campaign: str, state: str, at: str, reason: str = "") -> Entry:
    return {"kind": "pause", "campaign": campaign, "state": state, "at": at, "reason": reason}


def hold(people: Iterable[int], launch: str = "guid") -> Entry:
    return {
        "kind": "hold", "campaign": "pulse", "message": "ask", "launch": launch, "tag": "pulse", "whole": True,
        "at": "2026-12-01T10:00:00Z", "key_fingerprint": "0" * 16,
        "fingerprints": [f"{person:020x}" for person in sorted(people)],
    }  # fmt: skip


STATES = st.sampled_from(["confirmed", "doubtful", "dismissed"])
OPT_OUTS = st.one_of(
    st.builds(opt_out, st.integers(0, 2), st.sampled_from(["r1", "r2"]), STATES, MOMENTS),
    st.builds(
        lambda person, state, at: opt_out(person, "forgotten", state, at, "forgotten"),
        st.integers(0, 2), st.sampled_from(["confirmed", "dismissed"]), MOMENTS,
    ),
)  # fmt: skip
PAUSES = st.builds(
    pause, st.sampled_from(["pulse", "coffee"]), st.sampled_from(["paused", "resumed"]), MOMENTS,
    st.sampled_from(["", "why"]),
)  # fmt: skip
HOLDS = st.builds(hold, st.frozensets(st.integers(0, 3)), st.sampled_from(["g1", "g2"]))
ENTRIES = st.lists(st.one_of(OPT_OUTS, PAUSES, HOLDS), max_size=8)


def write(entries: Iterable[Entry], key: TargetKey = KEY) -> str:
    stream = StringIO()
    write_book(stream, key, settle(entries))
    return stream.getvalue()


@given(ENTRIES, ENTRIES)
def test_the_order_of_two_versions_makes_no_difference(ours: list[Entry], theirs: list[Entry]) -> None:
    """The union of two files is what would have been written had all been decided in one place."""
    united = unite_books(FILE, write(ours), write(theirs))
    assert united == unite_books(FILE, write(theirs), write(ours)) == write([*ours, *theirs])


@given(ENTRIES, ENTRIES, ENTRIES)
def test_three_versions_may_be_united_in_any_order(
    one: list[Entry], two: list[Entry], three: list[Entry]
) -> None:
    """Machines that learn of each other on different ways end up with the same file."""
    texts = [write(entries) for entries in (one, two, three)]
    left = unite_books(FILE, unite_books(FILE, texts[0], texts[1]), texts[2])
    assert left == unite_books(FILE, texts[0], unite_books(FILE, texts[1], texts[2]))


@given(ENTRIES)
def test_a_file_united_with_itself_stays_as_it_is(entries: list[Entry]) -> None:
    """Byte for byte; and it lacks nothing of itself."""
    text = write(entries)
    assert unite_books(FILE, text, text) == text
    assert not lacks_suppressions(FILE, text, text)


@given(ENTRIES, ENTRIES)
def test_the_union_lacks_nothing_of_either(ours: list[Entry], theirs: list[Entry]) -> None:
    """An older version that is put back is told from one that goes on."""
    united = unite_books(FILE, write(ours), write(theirs))
    assert not lacks_suppressions(FILE, write(ours), united)
    assert not lacks_suppressions(FILE, write(theirs), united)
    held = [entry for entry in settle(ours) if entry["kind"] != "hold"]
    assert lacks_suppressions(FILE, write(ours), write([])) == bool(held)


@pytest.mark.parametrize(
    ("ours", "theirs", "winner"),
    [
        (("confirmed", 1), ("dismissed", 2), "dismissed"),
        (("dismissed", 1), ("confirmed", 2), "confirmed"),
        (("confirmed", 1), ("dismissed", 1), "confirmed"),
        (("doubtful", 1), ("dismissed", 1), "doubtful"),
        (("doubtful", 1), ("confirmed", 1), "confirmed"),
    ],
)
def test_the_newest_decision_counts(ours: tuple[str, int], theirs: tuple[str, int], winner: str) -> None:
    """Of two of one moment, the one that keeps a person from being texted."""
    texts = [
        write([opt_out(1, "r", state, f"2026-12-0{day}T10:00:00.000000Z")]) for state, day in (ours, theirs)
    ]
    (entry,) = parse_book(FILE, unite_books(FILE, *texts)).entries
    assert entry["state"] == winner


def test_who_was_forgotten_leaves_one_entry() -> None:
    """Another machine's entries about them go; replies since they were let in again stay."""
    early, late = "2026-12-01T10:00:00.000000Z", "2026-12-03T10:00:00.000000Z"
    forgotten = opt_out(1, "forgotten", "confirmed", "2026-12-02T10:00:00.000000Z", "forgotten")
    said = [opt_out(1, "r1", "confirmed", early), opt_out(1, "r2", "confirmed", late)]
    united = unite_books(FILE, write(said), write([forgotten]))
    assert [entry["evidence"] for entry in parse_book(FILE, united).entries] == ["forgotten", "r2"]


@given(ENTRIES)
def test_what_is_written_fits_its_schema(entries: list[Entry]) -> None:
    """With seals and without; one entry is one line."""
    for key in (KEY, SALTED):
        text = write(entries, key)
        data = json.loads(text)
        assert not list(load_validator("suppressions").iter_errors(data))
        assert text.count("\n    {") == len(data["entries"]) == len(settle(entries))
        assert all("seal" in entry for entry in data["entries"])


def merge_with_git(folder: Path, base: str, ours: str, theirs: str) -> str:
    """Return what git makes of two versions, conflict markers and all."""
    for name, text in (("base", base), ("ours", ours), ("theirs", theirs)):
        (folder / name).write_text(text, encoding="utf-8")
    command = ["git", "merge-file", "-p", "--diff3", "ours", "base", "theirs"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@settings(max_examples=30)
@given(ENTRIES, ENTRIES, ENTRIES)
def test_what_git_has_merged_is_the_union(
    tmp_path_factory: pytest.TempPathFactory, base: list[Entry], ours: list[Entry], theirs: list[Entry]
) -> None:
    """With markers in it or not: nothing that either side decided is lost."""
    texts = [write(base), write([*base, *ours]), write([*base, *theirs])]
    merged = merge_with_git(tmp_path_factory.mktemp("merge"), *texts)
    united = unite_books(FILE, merged, merged)
    parse_book(FILE, united).open_key("live", SECRET)
    assert not lacks_suppressions(FILE, unite_books(FILE, texts[1], texts[2]), united)


def spoil(text: str, **changes: Any) -> str:
    """Return a file with its first entry changed by hand."""
    data = json.loads(text)
    entry = {**data["entries"][0], **changes}
    data["entries"][0] = {name: value for name, value in entry.items() if value is not None}
    return json.dumps(data)


FIRST = opt_out(1, "r1", "confirmed", "2026-12-01T10:00:00.000000Z")
FORGED = (
    "campaigns/live.suppressions.json:1: the entry was not written with this RUNNER_STATE_KEY: "
    "opt_out (reply) of 2026-12-0{day}T10:00:00.000000Z"
)


@pytest.mark.parametrize(
    "changes",
    [
        {"seal": None},
        {"seal": "0" * 32},
        {"state": "dismissed"},
        {"fingerprint": f"{2:032x}"},
        {"at": "2026-12-02T10:00:00.000000Z"},
        {"evidence": "r9"},
    ],
    ids=str,
)
def test_an_entry_that_nobody_with_the_key_wrote_is_refused(changes: dict[str, Any]) -> None:
    """Without a seal, with a wrong one, or with anything changed under it."""
    day = 2 if "at" in changes else 1
    book = parse_book(FILE, spoil(write([FIRST]), **changes))
    with pytest.raises(SuppressionsError) as caught:
        book.open_key("live", SECRET)
    assert caught.value.message == FORGED.format(day=day)
    assert caught.value.hint == "somebody has edited or forged it: restore it with git"


@pytest.mark.parametrize(
    ("written", "instead"), [("confirmed", "dismissed"), (f"{2:032x}", f"{3:032x}"), ("r2", "r3")]
)
def test_a_slip_in_a_file_without_a_key_is_found(written: str, instead: str) -> None:
    """Its salt makes seals that anybody could make, and that a changed digit does not fit."""
    second = opt_out(2, "r2", "confirmed", "2026-12-01T10:00:00.000000Z")
    lines = write([FIRST, second], SALTED).splitlines()
    lines[3] = lines[3].replace(written, instead)
    with pytest.raises(SuppressionsError) as caught:
        parse_book(FILE, "\n".join(lines)).open_key("live", None)
    assert caught.value.message == (
        "campaigns/live.suppressions.json:4: the entry is damaged: opt_out (reply) of 2026-12-01T10:00:00.000000Z"
    )
    assert caught.value.hint == "restore it with git"


def test_an_entry_of_another_target_is_refused() -> None:
    """A person who was let in on one target is not let in on another by a copied line."""
    other = json.loads(write([FIRST], TargetKey.from_secret("staging", SECRET)))
    data = {**json.loads(write([])), "entries": other["entries"]}
    with pytest.raises(SuppressionsError, match="1: the entry was not written with this RUNNER_STATE_KEY"):
        parse_book(FILE, json.dumps(data)).open_key("live", SECRET)


def test_a_salt_of_somebody_elses_choosing_is_refused() -> None:
    """With a key set, a file without entries must not have the people's fingerprints made with its own salt."""
    book = parse_book(FILE, write([], SALTED))
    assert book.open_key("live", None).salt == SALTED.salt
    with pytest.raises(SuppressionsError) as caught:
        book.open_key("live", SECRET)
    assert caught.value.message == (
        "campaigns/live.suppressions.json was not written with this RUNNER_STATE_KEY: its seal is missing or wrong"
    )
    assert caught.value.hint == (
        "if the key was set just now, `runner key rotate` signs or moves it; else restore it with git"
    )


def test_a_salt_that_is_older_than_the_key_goes_on() -> None:
    """Its fingerprints cannot be made anew; from now on its entries have seals."""
    key = TargetKey.from_salt("live", SALTED.salt or "", SECRET)
    assert parse_book(FILE, write([FIRST], key)).open_key("live", SECRET) == SALTED


@pytest.mark.parametrize(
    ("target", "secret", "error", "message"),
    [
        ("live", None, MissingKeyError, "was written with a RUNNER_STATE_KEY, and none is set"),
        (
            "live",
            "another",
            SuppressionsError,
            "cannot be read: it was written with another RUNNER_STATE_KEY",
        ),
        ("test", SECRET, SuppressionsError, "is of the target 'live', not 'test'"),
    ],
)
def test_a_key_that_is_not_at_hand_is_named(
    target: str, secret: str | None, error: type[Exception], message: str
) -> None:
    """Otherwise nobody would have opted out."""
    with pytest.raises(error) as caught:
        parse_book(FILE, write([FIRST])).open_key(target, secret)
    assert str(caught.value) == f"campaigns/live.suppressions.json {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON, or was edited by hand (line 1)"),
        ("{}", "is damaged at its top level"),
        (write([FIRST])[:-3], "is not JSON, or was edited by hand (line 8)"),
        (write([FIRST]).replace('"confirmed"', '"perhaps"'), "is damaged at entries/0"),
        (write([FIRST]).replace('"kind": "opt_out"', '"kind": "wish"'), "is damaged at entries/0"),
        (
            write([FIRST]).replace('"suppressions_version": 1', '"suppressions_version": 2'),
            "was written by a newer version of runner",
        ),
        (
            write([FIRST]).replace('"state": ', '"state": "dismissed", "state": '),
            "is not JSON, or was edited by hand",
        ),
        ("[" * 100_000, "is not JSON (nested too deeply)"),
    ],
)
def test_what_is_no_such_file_is_refused(text: str, message: str) -> None:
    """In words, and without what stands in it."""
    with pytest.raises(SuppressionsError) as caught:
        parse_book(FILE, text)
    assert str(caught.value) == f"campaigns/live.suppressions.json {message}"


def test_salts_of_two_machines_do_not_unite() -> None:
    """Nobody can tell whether their people are the same; what to do is said."""
    other = TargetKey.from_salt("live", "fedcba9876543210" * 2)
    with pytest.raises(SuppressionsError) as caught:
        unite_books(FILE, write([FIRST], SALTED), write([FIRST], other))
    assert caught.value.message == (
        "campaigns/live.suppressions.json holds the opt-outs of two machines, each made with a key of its own"
    )
    assert caught.value.hint == (
        "keep one side (git checkout --ours campaigns/live.suppressions.json, or --theirs), and enter the people "
        "of the other again with `runner optouts add` or `import`; replies are found again by "
        "`runner reconcile --full`. With a RUNNER_STATE_KEY the two just merge"
    )


def test_what_was_decided_between_two_versions_is_counted() -> None:
    """People, not entries; a campaign that goes on is told from one that is paused."""
    at = "2026-12-01T10:00:00.000000Z"
    before = write([opt_out(1, "r1", "confirmed", at), pause("pulse", "paused", at)])
    later = "2026-12-02T10:00:00.000000Z"
    after = write(
        [
            opt_out(1, "r1", "dismissed", later),
            opt_out(2, "r2", "confirmed", at),
            opt_out(2, "r3", "doubtful", at),
            pause("pulse", "resumed", later),
            pause("coffee", "paused", at),
        ]
    )
    assert find_suppression_gain(FILE, before, after) == SuppressionGain(
        "live", 1, 1, ("coffee",), ("pulse",)
    )
