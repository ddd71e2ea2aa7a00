"""The lockfile: a pure function of the sent texts, whole or not at all (docs/delivery.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.format import lockfile_path, read_lockfile
from runner.ledger.lockfile.integrity import renew_key
from runner.ledger.lockfile.writer import LockfileContents, require_writable, write_lockfile
from runner.ledger.results.runs import make_run
from runner.source.json_schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.ledger.model import LaunchRecord

SALTED = FingerprintKey.from_salt("0123456789abcdef" * 2)
SECRET = FingerprintKey.from_secret("a state key")
RESTORE = "restore it with git; nothing is sent as long as it is unclear who was texted"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pulse.live.lock.json"


@pytest.fixture
def records(make_record: Callable[..., LaunchRecord]) -> list[LaunchRecord]:
    return [make_record("a", 101, 102), make_record("b", 103), make_record("c", 101, message="nudge")]


def test_its_name_says_campaign_and_target(tmp_path: Path) -> None:
    """It stands beside the campaign, under the campaign file's stem and the target's name."""
    assert lockfile_path(tmp_path / "a.b.yaml", "live") == tmp_path / "a.b.live.lock.json"


@pytest.mark.parametrize("key", [SALTED, SECRET])
def test_what_is_written_is_read(file: Path, records: list[LaunchRecord], key: FingerprintKey) -> None:
    """Reading gives back what was written, with the key's name, and the salt if there is one."""
    assert write_lockfile(file, LockfileContents("pulse", "live", key, records))
    lockfile = read_lockfile(file)
    assert lockfile is not None
    assert (lockfile.campaign, lockfile.target) == ("pulse", "live")
    assert (lockfile.key_fingerprint, lockfile.salt) == (key.name, key.salt)
    assert list(lockfile.launches) == records


@pytest.mark.parametrize("key", [SALTED, SECRET])
def test_its_form_is_the_contracts(file: Path, records: list[LaunchRecord], key: FingerprintKey) -> None:
    """It is valid by its schema, its keys are sorted, and each launch has one line."""
    write_lockfile(file, LockfileContents("pulse", "live", key, records))
    text = file.read_text(encoding="utf-8")
    data = json.loads(text)
    load_validator("lockfile").validate(data)
    assert list(data) == sorted(data)
    launch_lines = [line for line in text.splitlines() if '"project_launch_guid"' in line]
    assert [json.loads(line.rstrip(",")) for line in launch_lines] == data["launches"]
    assert all(list(launch) == sorted(launch) for launch in data["launches"])
    assert all(launch["recipients"] == sorted(launch["recipients"]) for launch in data["launches"])
    assert text.endswith("}\n")


def test_it_is_a_pure_function(file: Path, records: list[LaunchRecord]) -> None:
    """The same launches give the same bytes, and a file that is the same is not touched."""
    assert write_lockfile(file, LockfileContents("pulse", "live", SALTED, records))
    before, inode = file.read_bytes(), file.stat().st_ino
    assert not write_lockfile(file, LockfileContents("pulse", "live", SALTED, iter(records)))
    assert (file.read_bytes(), file.stat().st_ino) == (before, inode)
    assert list(file.parent.iterdir()) == [file]


def test_without_launches_it_is_valid_too(file: Path) -> None:
    """No launches are an empty list, not a broken file."""
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, []))
    lockfile = read_lockfile(file)
    assert lockfile is not None
    assert lockfile.launches == ()


def test_a_new_launch_is_one_new_line(
    file: Path, records: list[LaunchRecord], make_record: Callable[..., LaunchRecord]
) -> None:
    """A diff shows the launches that came, and nothing else."""
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, records))
    before = file.read_text(encoding="utf-8").splitlines()
    write_lockfile(
        file, LockfileContents("pulse", "live", SALTED, [records[0], make_record("aa", 107), *records[1:]])
    )
    after = file.read_text(encoding="utf-8").splitlines()
    assert [line for line in after if line not in before] == [after[5]]
    assert [line for line in after if line in before] == before


def test_a_failure_half_way_leaves_the_old_file(file: Path, records: list[LaunchRecord]) -> None:
    """What was there stays, and no half of a file is left beside it."""
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, records[:1]))
    before = file.read_bytes()

    def break_off() -> Iterator[LaunchRecord]:
        yield records[0]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_lockfile(file, LockfileContents("pulse", "live", SALTED, break_off()))
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_folder_that_is_gone_is_said(tmp_path: Path, records: list[LaunchRecord]) -> None:
    """Where the file cannot be written, the error names it, and says that nothing is lost."""
    file = tmp_path / "gone" / "pulse.live.lock.json"
    with pytest.raises(LockfileError) as caught:
        write_lockfile(file, LockfileContents("pulse", "live", SALTED, records))
    assert caught.value.message == f"the lockfile {file} cannot be written: No such file or directory"
    assert caught.value.hint == "the ledger has everything: run `runner apply` again when this is mended"


def test_a_missing_file_is_no_lockfile(file: Path) -> None:
    """Before the first send there is none, and that is no error."""
    assert read_lockfile(file) is None


VALID = {
    "campaign": "pulse",
    "key_fingerprint": "0" * 16,
    "launches": [],
    "lockfile_version": 1,
    "salt": "0" * 32,
    "target": "live",
}
MERGED = '{\n<<<<<<< ours\n  "campaign": "pulse",\n=======\n>>>>>>> theirs\n}'


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("", "is not JSON (line 1, column 1)", RESTORE),
        ('{\n  "campaign": ', "is not JSON (line 2, column 15)", RESTORE),
        (MERGED, "has merge conflict markers in it, around lines that were edited by hand", RESTORE),
        (MERGED[2:], "has merge conflict markers in it, around lines that were edited by hand", RESTORE),
        ('{"launches": [], "launches": []}', "says the same thing twice, and was edited by hand", RESTORE),
        ("[" * 100_000, "is not JSON (nested too deeply)", RESTORE),
        (
            json.dumps({**VALID, "lockfile_version": 2, "new": 1}),
            "was written by a newer version of runner",
            "update runner",
        ),
        ("[]", "is damaged at its top level: [] is not of type 'object'", RESTORE),
        (
            json.dumps({**VALID, "launches": [{"key": "k"}]}),
            "is damaged at launches/0: 'message' is a required property",
            RESTORE,
        ),
        (
            json.dumps({**VALID, "launches": {}}),
            "is damaged at launches: {} is not of type 'array'",
            RESTORE,
        ),
        (
            json.dumps({**VALID, "salt": "short"}),
            "is damaged at salt: 'short' does not match '^[0-9a-f]{32}$'",
            RESTORE,
        ),
        (
            json.dumps({**VALID, "lockfile_version": 0}),
            "is damaged at lockfile_version: 1 was expected",
            RESTORE,
        ),
    ],
)
def test_a_damaged_file_is_refused(file: Path, text: str, words: str, hint: str) -> None:
    """What cannot be read is never taken for "nobody was texted": it stops, and says how to mend it."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(LockfileError) as caught:
        read_lockfile(file)
    assert caught.value.message == f"the lockfile {file} {words}"
    assert caught.value.hint == hint


WRITE = """
import sys
from pathlib import Path
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.writer import LockfileContents, write_lockfile
def launches():
    print("writing", flush=True)
    sys.stdin.readline()
    yield from ()
key = FingerprintKey.from_salt("0123456789abcdef" * 2)
write_lockfile(Path(sys.argv[1]), LockfileContents("pulse", "live", key, launches()))
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


def test_what_a_killed_run_has_left_is_removed(file: Path, records: list[LaunchRecord]) -> None:
    """A draft without a writer goes with the next write, even of another process; other files stay."""
    other = file.with_name(f".{file.name}.swp")
    other.touch()
    with writing(file) as process:
        process.kill()
        process.wait()
    assert len(list(file.parent.iterdir())) == 2
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, records))
    assert sorted(file.parent.iterdir()) == [other, file]


def test_a_draft_that_is_being_written_is_left_alone(file: Path, records: list[LaunchRecord]) -> None:
    """Two runs with ledgers of their own may write at once: each writes the whole file."""
    with writing(file) as process:
        write_lockfile(file, LockfileContents("pulse", "live", SALTED, records))
        require_writable(file)
        assert len(list(file.parent.iterdir())) == 2
        process.communicate("go on\n", timeout=60)
        assert process.returncode == 0
    lockfile = read_lockfile(file)
    assert lockfile is not None
    assert lockfile.launches == ()
    assert list(file.parent.iterdir()) == [file]


def test_the_probe_leaves_nothing_behind(file: Path, records: list[LaunchRecord]) -> None:
    """Before the first send it is tried out whether the lockfile can be written; nothing is left of that."""
    require_writable(file)
    assert list(file.parent.iterdir()) == []
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, records))
    before = file.read_bytes()
    require_writable(file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_lockfile_that_could_not_be_written_is_said_early(tmp_path: Path) -> None:
    """The probe names the file, and says that nothing was sent."""
    file = tmp_path / "gone" / "pulse.live.lock.json"
    with pytest.raises(LockfileError) as caught:
        require_writable(file)
    assert caught.value.message == (
        f"the lockfile {file} could not be written: No such file or directory. Nothing was sent"
    )


def test_bytes_that_are_no_text_are_refused(file: Path) -> None:
    """A file that is not UTF-8 is a damaged one."""
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(LockfileError) as caught:
        read_lockfile(file)
    assert caught.value.message == f"the lockfile {file} is not UTF-8"
    assert caught.value.hint == RESTORE


def test_a_folder_in_its_place_is_refused(file: Path) -> None:
    """A folder of that name is no lockfile, and not the absence of one."""
    file.mkdir()
    with pytest.raises(LockfileError) as caught:
        read_lockfile(file)
    assert caught.value.message == f"the lockfile {file} cannot be read: Is a directory"
    assert caught.value.hint == RESTORE


def test_a_launch_with_a_wrong_value_is_damage(file: Path, records: list[LaunchRecord]) -> None:
    """The quick look at launches lets nothing pass that the schema refuses."""
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, [replace(records[0], recipients=(7,))]))  # type: ignore[arg-type]
    with pytest.raises(LockfileError, match=r"is damaged at launches/0/recipients/0: 7 is not of type"):
        read_lockfile(file)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({0: {"recipients": ("a" * 20,)}}, "a launch had another message or other recipients: guid-a"),
        ({0: {"recipients": ()}}, "a launch had another message or other recipients: guid-a"),
        ({1: {"message": "nudge"}}, "a launch had another message or other recipients: guid-b"),
        ({1: {"payload_digest": "d"}}, "a launch had another message or other recipients: guid-b"),
        ({1: {"key": ""}}, "a launch had another message or other recipients: guid-b"),
        (
            {index: {"message": "new"} for index in range(3)},
            "3 launches had another message or other recipients: guid-a, guid-b, guid-c",
        ),
        (
            {index: {"message": "new"} for index in range(5)},
            "5 launches had another message or other recipients: guid-a, guid-b, guid-c and 2 more",
        ),
    ],
)
def test_what_was_edited_is_refused(
    file: Path, make_record: Callable[..., LaunchRecord], changes: dict[int, dict[str, Any]], words: str
) -> None:
    """Whoever is taken out by hand would be texted again: each launch's key says what it held, all wrong ones are named."""
    records = [make_record(name, number, number + 50) for number, name in enumerate("abcde", 101)]
    edited = [replace(record, **changes.get(index, {})) for index, record in enumerate(records)]
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, edited))
    with pytest.raises(LockfileError) as caught:
        read_lockfile(file)
    assert caught.value.message == f"the lockfile {file} was edited by hand: its keys say that {words}"
    assert caught.value.hint == RESTORE


@pytest.mark.parametrize("time", ["yesterday", "", "2026-02-30T10:00:00Z", "2026-12-01T10:00:00"])
@pytest.mark.parametrize("place", ["launch", "run"])
def test_what_is_no_time_is_refused(
    file: Path, make_record: Callable[..., LaunchRecord], place: str, time: str
) -> None:
    """A time that cannot be read would stay in the ledger, and stop every report."""
    launch, runs = make_record("a", 101, 102), []
    if place == "launch":
        launch = replace(launch, sent_at=time)
    else:
        runs = [make_run(time, "0" * 32)]
    write_lockfile(file, LockfileContents("pulse", "live", SALTED, [launch], runs=runs))
    with pytest.raises(LockfileError) as caught:
        read_lockfile(file)
    assert caught.value.message == (
        f"the lockfile {file} was edited by hand: “{time}” is not a time with a time zone"
    )
    assert caught.value.hint == RESTORE


def test_an_edit_on_one_side_of_a_merge_is_seen(file: Path, make_record: Callable[..., LaunchRecord]) -> None:
    """Both sides of a launch are checked before they are taken together."""
    launch = make_record("a", 101, 102)
    write_lockfile(
        file,
        LockfileContents(
            "pulse", "live", SALTED, [launch, replace(launch, recipients=launch.recipients[:1])]
        ),
    )
    with pytest.raises(LockfileError, match=r"a launch had another message or other recipients: guid-a$"):
        read_lockfile(file)


def test_keys_made_with_any_of_the_campaigns_names_are_good(
    file: Path, make_record: Callable[..., LaunchRecord]
) -> None:
    """Of a renamed campaign the first name makes the keys; its other names have made some, too."""
    launches = [renew_key(make_record(name, 101), name) for name in ("pulse", "beat", "heartbeat")]
    key = replace(SALTED, first_name="pulse")
    write_lockfile(file, LockfileContents("heartbeat", "live", key, launches))
    assert read_lockfile(file, ["heartbeat", "beat"]) is not None
    with pytest.raises(LockfileError, match="was edited by hand: its keys say that a launch"):
        read_lockfile(file)
