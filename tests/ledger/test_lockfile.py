"""The lockfile on disk: whole or as it was, whoever is killed, and without drafts left behind."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from runner.errors import LockfileError
from runner.ledger.files.lockfile import (
    LOCKFILE,
    dump_lockfile,
    read_campaign_name,
    read_key_name,
    require_writable,
)
from runner.ledger.files.sealed import digest_text
from tests.ledger.conftest import KEY, dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from runner.ledger.model import LaunchRecord

    MakeRecord = Callable[..., LaunchRecord]

RESTORE = "restore it with git; nothing is sent as long as it is unclear who was texted"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The lockfile of `pulse` on the target `live`."""
    return tmp_path / "pulse.live.lock.json"


@pytest.fixture
def records(make_record: MakeRecord) -> list[LaunchRecord]:
    """Launches in the order of the file."""
    made = [make_record("a", 101, 102), make_record("b", 103), make_record("c", 101, message="nudge")]
    return sorted(made, key=lambda one: (one.message, one.key))


def save(file: Path, launches: Iterable[LaunchRecord]) -> bool:
    changed, digest = LOCKFILE.save(file, dump_lockfile("pulse", KEY, launches))
    assert digest == digest_text(file.read_text(encoding="utf-8"))
    return changed


def test_it_is_a_pure_function(file: Path, records: list[LaunchRecord], make_record: MakeRecord) -> None:
    """The same launches leave the file untouched, and a new launch is one new line of a diff."""
    assert LOCKFILE.read(file) is None
    assert save(file, records)
    before, inode = file.read_text(encoding="utf-8"), file.stat().st_ino
    assert not save(file, iter(records))
    assert (file.read_text(encoding="utf-8"), file.stat().st_ino) == (before, inode)
    assert save(file, sorted([*records, make_record("d", 107)], key=lambda one: (one.message, one.key)))
    assert len(set(file.read_text(encoding="utf-8").splitlines()) - set(before.splitlines())) == 1
    assert list(file.parent.iterdir()) == [file]
    assert (read_campaign_name(before), read_key_name(before)) == ("pulse", KEY.name)
    assert (read_campaign_name("{}"), read_key_name("{}")) == (None, None)
    assert read_campaign_name(dump(*records, name='a "b" é')) == 'a "b" é'


def test_a_failure_half_way_leaves_the_old_file(file: Path, records: list[LaunchRecord]) -> None:
    """What was there stays, and no half of a file is left beside it."""
    save(file, records[:1])
    before = file.read_bytes()

    def break_off() -> Iterator[LaunchRecord]:
        yield records[0]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        save(file, break_off())
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path, file: Path) -> None:
    """It is no absence of a record; and before the first send it is tried out whether it can be written."""
    gone = file / file.name
    file.write_bytes(b"\xff\xfe{}")
    folder = tmp_path / "folder"
    folder.mkdir()
    acts: list[tuple[Callable[[], object], Path, str, str]] = [
        (
            lambda: LOCKFILE.save(gone, dump_lockfile("pulse", KEY, [])),
            gone,
            "cannot be written: File exists",
            "the ledger has everything: run the same command again when this is mended",
        ),
        (
            lambda: require_writable(gone),
            gone,
            "could not be written: Not a directory. Nothing was sent",
            (
                "make the folder writable, with some room on its disk, and the name of the campaign's file no longer than "
                "the file system takes, then run the same command again"
            ),
        ),
        (
            lambda: require_writable(folder),
            folder,
            "could not be written: it is a folder. Nothing was sent",
            "move the folder away, then run the same command again",
        ),
        (lambda: LOCKFILE.read(file), file, "is not UTF-8", RESTORE),
        (lambda: LOCKFILE.read(folder), folder, "cannot be read: Is a directory", RESTORE),
    ]
    for act, place, words, hint in acts:
        with pytest.raises(LockfileError) as caught:
            act()
        assert (caught.value.message, caught.value.hint) == (f"the lockfile {place} {words}", hint)


WRITE = """
import sys
from pathlib import Path
from runner.ledger.files.lockfile import LOCKFILE, dump_lockfile
from runner.ledger.fingerprint import TargetKey
def launches():
    print("writing", flush=True)
    sys.stdin.readline()
    yield from ()
LOCKFILE.save(Path(sys.argv[1]), dump_lockfile("pulse", TargetKey.of("live", None), launches()))
"""


@contextmanager
def writing(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another process write the lockfile, as far as its first launch."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            yield process
        finally:
            process.kill()
