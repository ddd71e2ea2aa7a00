"""The copy of results in columns: brought up to date a piece at a time, and never worth more than the ledger."""

from __future__ import annotations

import resource
import secrets
import signal
import stat
import subprocess
import sys
import threading
from copy import deepcopy
from typing import TYPE_CHECKING

import pytest

from runner.errors import RunnerError
from runner.ledger.report_model import FeedRow, ResultVersion
from runner.report.columns.dataset import ResultColumns
from runner.report.columns.engine import Engine
from tests.report.counted import make_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = ["lock", "results-13.duckdb"]
HINT = "make room on the disk, and check that this user may write there"
HOLD = """
import sys
from pathlib import Path
from runner.report.columns.dataset import ResultColumns
with ResultColumns(Path(sys.argv[1])).hold():
    print("held", flush=True)
    sys.stdin.readline()
"""


class Feed:
    """A ledger of one campaign: rows by the revision that entered them last, and what a copy has asked for."""

    def __init__(self, edition: str = "first") -> None:
        self.edition = edition
        self.revision = 0
        self.marks = {-1: ""}
        self.asked: list[int] = []
        self._rows: dict[tuple[int, str], tuple[int, FeedRow]] = {}

    @property
    def rows(self) -> list[FeedRow]:
        return sorted(row for _, row in self._rows.values())

    def enter(self, *rows: FeedRow) -> None:
        self.revision += 1
        self.marks[self.revision] = secrets.token_hex(4)
        self._rows.update({(row.launch_id, row.result_guid): (self.revision, row) for row in rows})

    def forget(self, participant: str) -> None:
        self._rows = {key: held for key, held in self._rows.items() if held[1].participant != participant}
        self.edition += "'"

    def read_since(self, revision: int) -> Iterator[FeedRow]:
        self.asked.append(revision)
        return (row for entered, row in self._rows.values() if entered > revision)

    def refresh(self, folder: Path) -> list[FeedRow]:
        """Bring the copy in a folder up to date; return what is in it."""
        copy = ResultColumns(folder)
        with copy.hold() as engine:
            copy.refresh(
                engine, ResultVersion(self.edition, self.revision), self.read_since, self.marks.__getitem__
            )
            return sorted(
                FeedRow._make(row) for row in engine.rows("FROM results SELECT " + ", ".join(FeedRow._fields))
            )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the copy is to be."""
    return tmp_path / "results" / "pulse"


@pytest.fixture
def feed() -> Feed:
    """A ledger with two results."""
    feed = Feed()
    feed.enter(make_row("p1", "first", "Yes", guid="a"), make_row("p2", "first", "No", guid="b"))
    return feed


def test_the_first_copy_has_every_result(folder: Path, feed: Feed) -> None:
    """A copy that is made anew asks for all there is."""
    assert feed.refresh(folder) == feed.rows
    assert feed.asked == [-1]


def test_the_copy_is_for_its_owner_alone(folder: Path, feed: Feed) -> None:
    """Answers stand in it: nobody else of the machine may look into the folder."""
    feed.refresh(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(file.name for file in folder.iterdir()) == FILES


def test_a_refresh_reads_only_what_is_new(folder: Path, feed: Feed) -> None:
    """The ledger is asked for what came after the revision of the copy, and for nothing if there is none."""
    feed.refresh(folder)
    feed.refresh(folder)
    feed.enter(make_row("p3", "first", "Yes", guid="c"))
    assert feed.refresh(folder) == feed.rows
    assert feed.asked == [-1, 1]


def test_a_changed_result_replaces_the_old_one(folder: Path, feed: Feed) -> None:
    """A result of the same launch and guid is there once; one of another launch stands beside it."""
    feed.refresh(folder)
    changed = make_row("p1", "first", "No", guid="a")
    feed.enter(changed, changed._replace(launch_id=2), make_row("p9", "first", "Yes", guid="z"))
    assert feed.refresh(folder) == feed.rows
    assert len(feed.rows) == 4


def test_another_edition_makes_the_copy_anew(folder: Path, feed: Feed) -> None:
    """What the ledger has forgotten is in no file of the copy any more."""
    feed.enter(make_row("p3", "words", "I am Ada", guid="c"))
    feed.refresh(folder)
    feed.forget("p3")
    assert feed.refresh(folder) == feed.rows
    assert feed.asked == [-1, -1]


def test_a_ledger_that_was_put_back_makes_the_copy_anew(folder: Path, feed: Feed) -> None:
    """A copy that is ahead of the ledger is not of what the ledger has."""
    older = Feed()
    older.enter(make_row("p1", "first", "Yes", guid="a"))
    feed.enter(make_row("p3", "first", "Yes", guid="c"))
    feed.refresh(folder)
    assert older.refresh(folder) == older.rows
    assert older.asked == [-1]


@pytest.mark.parametrize("damage", [b"", b"no copy at all, and long enough to look at" * 500])
def test_a_damaged_copy_is_made_anew(folder: Path, feed: Feed, damage: bytes) -> None:
    """Whatever stands in the copy, the ledger is what counts."""
    feed.refresh(folder)
    (folder / "results-13.duckdb").write_bytes(damage)
    assert feed.refresh(folder) == feed.rows
    assert feed.asked == [-1, -1]


def test_a_copy_that_was_not_finished_is_made_anew(folder: Path, feed: Feed) -> None:
    """A copy is of no use before it says which revision it has, and one of another version has another name."""
    feed.refresh(folder)
    with ResultColumns(folder).hold() as engine:
        engine.run(f"ATTACH '{folder / FILES[1]}' AS copy")
        engine.run("DELETE FROM copy.version")
    (folder / "results-7.duckdb").write_text("of another version", encoding="utf-8")
    assert feed.refresh(folder) == feed.rows
    assert feed.asked == [-1, -1]
    assert sorted(file.name for file in folder.iterdir()) == FILES


def test_what_a_killed_refresh_left_goes_away(folder: Path, feed: Feed) -> None:
    """Answers on their way to the engine do no harm, and are gone with the next report."""
    feed.refresh(folder)
    (folder / "staged.csv").write_text("half an answ", encoding="utf-8")
    (folder / "spill").mkdir()
    (folder / "spill" / "duckdb_temp_storage_DEFAULT-0.tmp").write_text("answer", encoding="utf-8")
    assert feed.refresh(folder) == feed.rows
    assert feed.asked == [-1]
    assert sorted(file.name for file in folder.iterdir()) == FILES


def test_a_refresh_that_fails_leaves_the_copy_as_it_was(folder: Path, feed: Feed) -> None:
    """When the ledger breaks off in the middle, the next refresh asks for the same again."""
    feed.refresh(folder)
    feed.enter(make_row("p3", "first", "Yes", guid="c"))
    copy = ResultColumns(folder)

    def break_off(_since: int) -> Iterator[FeedRow]:
        yield make_row("p4", "first", "Yes", guid="d")
        raise RuntimeError

    with copy.hold() as engine, pytest.raises(RuntimeError):
        copy.refresh(engine, ResultVersion(feed.edition, feed.revision), break_off, feed.marks.__getitem__)
    assert not (folder / "staged.csv").exists()
    assert feed.refresh(folder) == feed.rows
    assert feed.asked == [-1, 1]


def test_a_ledger_that_was_restored_is_copied_anew(folder: Path, feed: Feed) -> None:
    """Its revisions have the numbers of those that it had reached before, and other results."""
    backup = deepcopy(feed)
    feed.enter(make_row("p1", "first", "Maybe", guid="a"))
    feed.refresh(folder)
    for answer in ("Never", "Always"):
        backup.enter(make_row("p2", "first", answer, guid="b"))
        assert backup.refresh(folder) == backup.rows
    assert backup.asked == [-1, 2]


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path: Path, feed: Feed) -> None:
    """A folder that cannot be made is an error that says where and what to do."""
    (tmp_path / "results").write_text("in the way", encoding="utf-8")
    folder = tmp_path / "results" / "pulse"
    with pytest.raises(RunnerError) as caught:
        feed.refresh(folder)
    assert caught.value.message == f"the copy of the results in {folder} cannot be written: Not a directory"
    assert caught.value.hint == HINT


def test_a_file_without_room_is_said_in_plain_words(tmp_path: Path) -> None:
    """The engine's own words about a write that the system refuses are JSON: the system's are shown."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = tmp_path / "groups.parquet"
    try:
        with Engine(tmp_path) as engine:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
            with pytest.raises(RunnerError) as caught:
                engine.save("SELECT 1 AS count", file, "FORMAT parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.message == f"{file} cannot be written: File too large"
    assert caught.value.hint == "make room on the disk"


ODD_TEXTS = (
    "",
    " ",
    '"',
    '""',
    '"quoted", and more',
    "it's, isn't it; \\N \\n NULL",
    "two\nlines",
    "two\r\nlines",
    "old\rmac",
    "\n",
    "\r",
    "tab\there",
    "Ça va 😀 👩‍👩‍👧 \u202eback\u202c \u2028 \ufeff",
    "\x01\x1b[31m\x7f",
    "#comment",
    "NULL",
    "None",
    "é" * 40_000,
    '"' * 40_000,
    "😀" * 40_000,
)


def test_any_text_survives(folder: Path) -> None:
    """Quotes, line ends, empty texts and whatever else there is come out as they went in."""
    feed = Feed()
    feed.enter(
        *(
            make_row(f"p{number}", text[:50], text, text, text=text, guid=str(number))
            for number, text in enumerate(ODD_TEXTS)
        )
    )
    assert feed.refresh(folder) == feed.rows


def test_none_is_null_and_no_text(tmp_path: Path) -> None:
    """What is not known is not taken for the word `None`, which somebody may have written."""
    rows = [("None", None, '"None"'), (None, "", "NULL"), ("None", "None", "None")]
    with Engine(tmp_path) as engine:
        engine.load("loaded", ("a", "b", "c"), rows)
        assert set(engine.rows("FROM loaded")) == set(rows)


def test_no_two_participants_have_the_same_number(folder: Path) -> None:
    """A pseudonym and a text that is none are numbered apart, and a number is a participant's for good."""
    names = ("0" * 20, "f" * 20, "0" * 19 + "1", "0" * 19, "0" * 21, "F" * 20, "", "p", "é", "0" * 20 + "\n")
    feed = Feed()
    feed.enter(*(make_row(name, "q", "x", guid=f"{launch}{name}") for name in names for launch in "ab"))
    copy = ResultColumns(folder)
    with copy.hold() as engine:
        copy.refresh(engine, ResultVersion("first", 1), feed.read_since, feed.marks.__getitem__)
        numbered = engine.rows("SELECT DISTINCT participant, person::VARCHAR FROM results")
    assert dict(numbered).keys() == set(names)
    assert len(numbered) == len({number for _, number in numbered}) == len(names)
    assert dict(numbered)["f" * 20] == "ffffffff-ffff-ffff-ffff-000000000000"


def test_times_that_cannot_be_read_are_none(folder: Path) -> None:
    """A time is in microseconds since 1970, UTC if it does not say; what is no time of a calendar is none."""
    times = {
        "2026-11-20T10:00:00": 1_795_168_800_000_000,
        "2026-11-20T12:00:00.000001+02:00": 1_795_168_800_000_001,
        "2026-11-20T10:00:00.5Z": 1_795_168_800_500_000,
        "9999-12-31T23:59:59.999999Z": 253_402_300_799_999_999,
        "99999-01-01T00:00:00": None,
        "1969-07-20T20:17:40Z": None,
        "infinity": None,
        "2026-02-30T10:00:00": None,
        "soon": None,
        "": None,
    }
    feed = Feed()
    feed.enter(*(make_row("p", "q", "x", guid=time, started=time, created=time) for time in times))
    copy = ResultColumns(folder)
    with copy.hold() as engine:
        copy.refresh(engine, ResultVersion("first", 1), feed.read_since, feed.marks.__getitem__)
        rows = engine.rows("SELECT result_guid, started_us, created_us FROM results")
    assert {guid: started for guid, started, _ in rows} == times
    assert {guid: created for guid, _, created in rows} == {guid: us or 0 for guid, us in times.items()}


def test_another_process_has_its_turn_first(folder: Path, feed: Feed) -> None:
    """While another process holds the copy, a refresh waits; then it goes on."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    found: list[FeedRow] = []
    waiting = threading.Thread(target=lambda: found.extend(feed.refresh(folder)))
    waiting.start()
    waiting.join(0.2)
    assert (waiting.is_alive(), feed.asked) == (True, [])
    holder.stdin.close()
    assert holder.wait(60) == 0
    holder.stdout.close()
    waiting.join(60)
    assert found == feed.rows
