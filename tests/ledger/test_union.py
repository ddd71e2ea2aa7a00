"""Two versions of a lockfile as one, and what one has that the other has not."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.diff import Advance, LockfileDiff, unite_lockfiles
from runner.ledger.lockfile.format import parse_lockfile
from runner.ledger.lockfile.integrity import renew_key
from runner.ledger.lockfile.writer import LockfileContents, write_lockfile
from runner.ledger.model import LaunchRecord
from runner.ledger.results.runs import make_run

FILE = Path("campaigns/coffee.live.lock.json")
KEY = FingerprintKey.from_salt("0123456789abcdef" * 2)
RUNS = (make_run("2026-12-01T10:00:00Z", "ab" * 16), make_run("2026-12-01T11:00:00Z", "cd" * 16, "9d" * 20))
NUMBERS = st.frozensets(st.integers(0, 9), max_size=6)


def make_launch(number: int) -> LaunchRecord:
    """One launch to two recipients; message and run go by the number."""
    people = (blake2b(f"{number} {one}".encode(), digest_size=10).hexdigest() for one in range(2))
    launch = LaunchRecord(
        message="ask" if number % 2 else "nudge",
        key="",
        tag="coffee",
        payload_digest="0" * 32,
        project_launch_guid=f"00000000-0000-4000-8000-{number:012}",
        sent_at="2026-12-01T10:00:00Z",
        recipients=tuple(sorted(people)),
        run=RUNS[number > 4].id,
    )
    return renew_key(launch, "coffee")


def write(folder: Path, numbers: frozenset[int], key: FingerprintKey = KEY, name: str = "coffee") -> str:
    file = folder / "lock.json"
    launches = sorted(map(make_launch, numbers), key=lambda launch: (launch.message, launch.key))
    runs = [run for run in RUNS if any(launch.run == run.id for launch in launches)]
    write_lockfile(file, LockfileContents(name, "live", key, launches, runs=runs))
    return file.read_text(encoding="utf-8")


@given(NUMBERS, NUMBERS)
def test_what_either_says_was_sent_was_sent(
    tmp_path_factory: pytest.TempPathFactory, ours: frozenset[int], theirs: frozenset[int]
) -> None:
    """The union is what would have been written had both been sent from one place, whichever comes first."""
    folder = tmp_path_factory.getbasetemp()
    texts = write(folder, ours), write(folder, theirs)
    expected = write(folder, ours | theirs)
    assert unite_lockfiles(FILE, *texts) == expected
    assert unite_lockfiles(FILE, *reversed(texts)) == expected


def test_a_side_that_git_has_merged_is_read_too(tmp_path: Path) -> None:
    """Markers in a work tree are no reason to lose what was sent."""
    one, two, three = (write(tmp_path, frozenset({number})) for number in (1, 3, 5))
    lines = [text.splitlines()[1:-1] for text in (one, two)]
    merged = "\n".join(["{", "<<<<<<< HEAD", *lines[0], "=======", *lines[1], ">>>>>>> theirs", "}", ""])
    united = unite_lockfiles(FILE, merged, three)
    assert united == write(tmp_path, frozenset({1, 3, 5}))
    assert not parse_lockfile(FILE, united).is_merged


def test_sides_with_keys_of_their_own_stay_two(tmp_path: Path) -> None:
    """Nobody could tell who is who in a file with two keys."""
    other = write(tmp_path, frozenset({2}), FingerprintKey.from_salt("f" * 32))
    with pytest.raises(LockfileError, match="each made with a key of its own"):
        unite_lockfiles(FILE, write(tmp_path, frozenset({1})), other)


def test_a_gain_counts_what_is_new(tmp_path: Path) -> None:
    """Launches and texts, by message; what was known is not counted again."""
    before, after = write(tmp_path, frozenset({1})), write(tmp_path, frozenset({1, 3, 5, 6}))
    assert Advance.read(FILE, before, after).find_gain(()) == LockfileDiff(
        "coffee", "live", {"ask": 2, "nudge": 1}, {"ask": 4, "nudge": 2}
    )
    assert Advance.read(FILE, None, before).find_gain(()) == LockfileDiff(
        "coffee", "live", {"ask": 1}, {"ask": 2}
    )
    assert Advance.read(FILE, after, after).find_gain(()) == LockfileDiff("coffee", "live", {}, {})
