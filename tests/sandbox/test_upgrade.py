"""A database that an older version wrote is brought up to date in place, once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runner.sandbox.records import RESULT_FILTERS, RecordList
from runner.sandbox.sandbox_errors import SandboxError
from runner.sandbox.service import Service
from runner.sandbox.store import SCHEMA_VERSION, open_store

SCHEMA_1 = Path(__file__).with_name("cases") / "schema_1.sql"
NOW = "2026-12-01T12:00:00.000000"
SURVEY = json.dumps({"tag": "a", "questions": [{"text": "Q1", "tag": "x"}, {"text": "Q2", "tag": "y"}]})
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "setting": [("api_key", "secret")],
    "launch": [
        (1, "l1", NOW, "a", SURVEY, 0, 3, 3, 3, 0, 1, 1),
        (2, "l2", NOW, "", '{"text": "Hi"}', 0, 0, 0, 0, 1, 0, 0),
        (3, "l3", NOW, "a", SURVEY, 0, 1, 1, 0, 0, 1, 0),
    ],
    "question": [
        (1, 0, "q1", "x", "Q1"),
        (1, 1, "q2", "y", "Q2"),
        (3, 0, "q3", "x", "Q1"),
        (3, 1, "q4", "y", "Q2"),
    ],
    "participant": [(1, "p1", "+14155550101"), (2, "p2", "+14155550102"), (3, "p3", "+14155550103")],
    "session": [
        (1, "s1", 1, 1, NOW, NOW, "COMPLETE", None),
        (2, "s2", 1, 2, NOW, NOW, "ACTIVE", 1),
        (3, "s3", 2, 2, NOW, NOW, "QUEUED", None),
        (4, "s4", 3, 3, NOW, NOW, "ACTIVE", 0),
    ],
    "transcript": [
        (1, 1, 1, NOW, "question", "Q1"),
        (2, 1, 1, NOW, "inbound", "one"),
        (3, 3, None, NOW, "inbound", "?"),
    ],
    "result": [
        (1, "r1", 1, 1, 1, 0, "a", "x", "one", "one", NOW, NOW),
        (2, "r2", 1, 2, 2, 0, "a", "x", "two", "two", NOW, NOW),
        (3, "r3", 1, 1, 1, 1, "a", "y", "three", "three", NOW, NOW),
    ],
}


@pytest.fixture
def old_db(db: Path) -> Path:
    """A database of schema 1 with some rows in every table."""
    db.parent.mkdir(parents=True)
    with closing(sqlite3.connect(db)) as connection:
        connection.executescript(SCHEMA_1.read_text(encoding="utf-8"))
        for table, rows in ROWS.items():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608  names of this file
        connection.execute(
            "UPDATE totals SET questions = 4, renders = 4, results = 3, queued = 1, active = 2, complete = 1"
        )
        connection.executescript("PRAGMA application_id = 0x4D535353; PRAGMA user_version = 1")
        connection.commit()
    return db


def read_schema(path: Path) -> set[tuple[str, str]]:
    with closing(open_store(path)) as store:
        rows = store.connection.execute("SELECT name, COALESCE(sql, '') FROM sqlite_schema")
        return {(name, sql) for name, sql in rows}


def test_upgraded_schema_is_the_new_one(old_db: Path, tmp_path: Path) -> None:
    """An upgraded file has the very tables and indices of a new one."""
    assert read_schema(old_db) == read_schema(tmp_path / "new.sqlite")


def test_every_row_survives_the_upgrade(old_db: Path) -> None:
    """All rows of all tables are there after the upgrade, as they were, and the second opening changes nothing."""
    for _ in range(2):
        with closing(open_store(old_db)) as store:
            for table, rows in ROWS.items():
                kept = store.connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  names of this file
                assert [row[: len(rows[0])] for row in kept] == rows
            assert store.connection.execute("SELECT * FROM totals").fetchone() == (1, 0, 4, 4, 3, 1, 2, 1)
            assert store.connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
            assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert store.keep_secret("api_key") == "secret"


@pytest.mark.parametrize("name", RESULT_FILTERS)
def test_old_and_new_results_are_listed_together(old_db: Path, name: str) -> None:
    """After the upgrade, conversations go on, and filtered lists hold old and new results in order."""
    with closing(open_store(old_db)) as store:
        service = Service(store)
        assert service.receive("+14155550102", "four", datetime(2026, 12, 1, 13, tzinfo=UTC)).completed == 2
        listing = RecordList(store)
        records = listing.list_results({}, 10, 0).records
        assert [record["result_answer"] for record in records] == ["one", "two", "three", "four"]
        value = records[-1][name]
        matching = [record for record in records if record[name] == value]
        page = listing.list_results({name: value}, 10, 0)
        assert (page.total_count, page.records) == (len(matching), matching)


def test_old_records_are_listed_as_new_ones(old_db: Path) -> None:
    """After the upgrade old definitions have their text, empty for surveys, and old results their order from 0."""
    with closing(open_store(old_db)) as store:
        listing = RecordList(store)
        stats = listing.list_stats({}, 10, 0)
        assert [stat["project_definition"]["text"] for stat in stats.records] == ["", "Hi", ""]
        orders = [record["question_display_order"] for record in listing.list_results({}, 10, 0).records]
        assert orders == ["0", "0", "1"]


def test_failed_upgrade_leaves_the_old_file(old_db: Path) -> None:
    """An upgrade that cannot be finished changes nothing."""
    with closing(sqlite3.connect(old_db)) as connection:
        connection.execute("CREATE TABLE old_launch (id)")
        connection.commit()
    with pytest.raises(SandboxError, match="old_launch"):
        open_store(old_db)
    with closing(sqlite3.connect(old_db)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM result").fetchone() == (3,)
