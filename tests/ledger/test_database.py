"""Opening the ledger: what cannot be a ledger is refused in words, and nothing else is touched."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from runner.errors import LedgerError
from runner.ledger.database import Ledger, show_url
from runner.ledger.model import CampaignLaunches, Outcome
from runner.ledger.record.deliveries import count_states, record_outcomes
from runner.ledger.tables import info

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.model import LaunchRecord

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

COUNT_LAUNCHES = """
import sys
from sqlalchemy import func, select
from runner.ledger.database import Ledger
from runner.ledger.tables import launches
with Ledger(sys.argv[1]) as ledger, ledger.reading() as connection:
    print(connection.execute(select(func.count()).select_from(launches)).scalar_one())
"""
INTERRUPT_RETURN = """
import sys
from sqlalchemy import event
from sqlalchemy.pool import Pool
from runner.ledger.database import Ledger

def interrupt(*_):
    raise KeyboardInterrupt

with Ledger(sys.argv[1]) as ledger:
    ledger.prepare()
    event.listen(Pool, "reset", interrupt)
    try:
        with ledger.reading():
            pass
    except KeyboardInterrupt:
        print("interrupted")
"""
WRONG_URL = "the ledger's URL is not one that can be used here"
URL_HINT = "as in sqlite:///path/to/ledger.sqlite, or postgresql+psycopg://…"
MOVE_AWAY = "move it away and run again: the ledger is filled from the lockfiles"


_FORGOTTEN = "name a file, as in sqlite:///path/to/ledger.sqlite"
_UNCLEAR = "write %40 for an `@` in the user's name or the password, in --ledger or RUNNER_LEDGER"


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        *(
            (url, WRONG_URL, URL_HINT)
            for url in ("", "nonsense", "/a/path", "sqlite:/x", "postgresql://host:port/db")
        ),
        *(
            (url, f"the ledger {url} would be forgotten when this command ends", _FORGOTTEN)
            for url in ("sqlite://", "sqlite:///", "sqlite:///:memory:")
        ),
        # A part of the password would be taken for the host, and shown.
        *(
            (url, "the ledger's URL has more than one `@`, so the end of its password is unclear", _UNCLEAR)
            for url in (
                "postgresql://ada:s3@cret@db.example.com/ledger",
                "postgresql://ada:s3@cr/et@db.example.com/ledger",
                "postgresql://ada:s3@c?re=t@db.example.com/ledger",
                "postgresql+psycopg://ada@corp:s3cret@db.example.com/ledger",
            )
        ),
    ],
)
def test_a_url_that_names_no_ledger_is_refused(url: str, message: str, hint: str) -> None:
    """A wrong RUNNER_LEDGER is an error in words, wherever it is looked at first; nothing of a password is said."""
    for use in (Ledger, Ledger.exists, *([] if "forgotten" in message else [show_url])):
        with pytest.raises(LedgerError) as caught:
            use(url)
        assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s3cret@db.example.com/ledger", "postgresql://ada:***@db.example.com/ledger"),
        (
            "postgresql://db.example.com/ledger?user=ada&password=s3cret",
            "postgresql://db.example.com/ledger?user=ada",
        ),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    """The URL of a database server is shown without its password, wherever that stands."""
    assert show_url(url) == shown


def test_it_is_for_its_owner_alone(sqlite_ledger: Ledger, sqlite_file: Path) -> None:
    """Texts and answers are in it: nobody else on the machine may read it."""
    assert sqlite_ledger.file == sqlite_file
    assert stat.S_IMODE(sqlite_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(sqlite_file.parent.stat().st_mode) == 0o700


def test_commits_are_on_the_disk(sqlite_ledger: Ledger) -> None:
    """What is committed outlives a power loss: WAL with full synchronisation."""
    with sqlite_ledger.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_block_that_reads_sees_one_moment(
    ledger: Ledger, deliver: Deliver, make_record: MakeRecord
) -> None:
    """What another writes meanwhile is seen by the next block, not by this one, and nobody waits."""
    record = make_record("one", 1)
    (launch,) = deliver(record, state="intent")
    with ledger.reading() as connection:
        before = count_states(connection, CampaignLaunches(1))
        with ledger.writing() as other:
            record_outcomes(other, [Outcome(launch, "sent", record.sent_at, record.project_launch_guid)])
        assert count_states(connection, CampaignLaunches(1)) == before == {("ask", "intent"): 1}
    with ledger.reading() as connection:
        assert count_states(connection, CampaignLaunches(1)) == {("ask", "sent"): 1}


@pytest.mark.slow
def test_opening_again_keeps_what_others_see(
    sqlite_ledger: Ledger, sqlite_file: Path, deliver: Deliver, make_record: MakeRecord
) -> None:
    """A second ledger of this process comes and goes, another process too, and every launch is still there."""
    elsewhere = [sys.executable, "-c", COUNT_LAUNCHES, f"sqlite:///{sqlite_file}"]
    deliver(make_record("one", 1), into=sqlite_ledger)
    with Ledger(f"sqlite:///{sqlite_file}") as again:
        assert again.is_ready()
    assert subprocess.run(elsewhere, check=True, capture_output=True, text=True).stdout == "1\n"
    deliver(make_record("two", 2), into=sqlite_ledger)
    assert subprocess.run(elsewhere, check=True, capture_output=True, text=True).stdout == "2\n"


def test_two_runs_can_make_the_tables_at_once(blank_url: str) -> None:
    """Of several processes that find no tables one makes them, and the others find them."""

    def prepare(_number: int) -> None:
        with Ledger(blank_url) as ledger:
            ledger.prepare()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(prepare, range(4))) == [None] * 4


def test_new_files_are_opened_at_once(tmp_path: Path) -> None:
    """Of several runs that open a new file together none is told that it is locked."""

    def open_together(number: int) -> None:
        with Ledger(f"sqlite:///{tmp_path / f'{number // 4}.sqlite'}") as ledger:
            start.wait()
            ledger.prepare()

    start = Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(open_together, range(40))) == [None] * 40


def test_a_ledger_of_another_version_is_refused(ledger: Ledger, ledger_url: str) -> None:
    """Another version, or an earlier state of this one, may mean what this one doesn't know."""
    with pytest.raises(LedgerError) as caught, ledger.writing() as connection:
        connection.exec_driver_sql("SELECT gone FROM runs")
    assert caught.value.hint == MOVE_AWAY
    with ledger.writing() as connection:
        connection.execute(update(info).values(value="4"))
    for use in (ledger.prepare, ledger.is_ready):
        with pytest.raises(LedgerError) as caught:
            use()
        said = " was written by another version of runner (schema 4, this one knows 3)"
        assert caught.value.message == show_url(ledger_url) + said
        assert caught.value.hint == f"use that version; or {MOVE_AWAY}"


def test_a_database_without_tables_is_a_ledger_to_be(blank_url: str) -> None:
    """A run that was killed right after it made the file leaves nothing in anyone's way."""
    if blank_url.startswith("sqlite"):
        assert not Ledger.exists(blank_url)
    with Ledger(blank_url) as ledger:
        assert not ledger.is_ready()
        ledger.prepare()
        assert ledger.is_ready()
    assert Ledger.exists(blank_url)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    """Another program's database is not read as an empty ledger, and a file of another kind is left as it is."""
    notes, cats = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    notes.write_text("milk, eggs\n" * 100, encoding="utf-8")
    with closing(sqlite3.connect(cats)) as connection:
        connection.execute("CREATE TABLE cats (name)")
        connection.commit()
    for file, message, hint in (
        (notes, f"the ledger sqlite:///{notes} cannot be used: file is not a database", MOVE_AWAY),
        (cats, f"sqlite:///{cats} is not a ledger", "check --ledger and RUNNER_LEDGER"),
    ):
        with Ledger(f"sqlite:///{file}") as ledger:
            for use in (ledger.prepare, ledger.is_ready):
                with pytest.raises(LedgerError) as caught:
                    use()
                assert (caught.value.message, caught.value.hint) == (message, hint)
    assert notes.read_text(encoding="utf-8") == "milk, eggs\n" * 100
    with closing(sqlite3.connect(cats)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("cats",)]


def test_a_corrupt_ledger_is_refused(
    sqlite_file: Path, sqlite_ledger: Ledger, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A ledger whose pages are damaged is never taken for an empty one."""
    deliver(*(make_record(str(number), number) for number in range(100, 200)), into=sqlite_ledger)
    sqlite_ledger.__exit__()
    with sqlite_file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(b"\xde\xad\xbe\xef" * 1024 * 8)
    url = f"sqlite:///{sqlite_file}"
    with Ledger(url) as damaged, pytest.raises(LedgerError) as caught:
        damaged.prepare()
    assert caught.value.message == f"the ledger {url} cannot be used: database disk image is malformed"
    assert caught.value.hint == MOVE_AWAY


def test_an_interrupt_while_a_connection_is_handed_back_is_no_bug(tmp_path: Path) -> None:
    """It ends the run in order: the library's traceback of it would tell people that the program failed."""
    command = [sys.executable, "-c", INTERRUPT_RETURN, f"sqlite:///{tmp_path / 'ledger.sqlite'}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
