"""A ledger in another database: all of it or nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Boolean, Integer, Table, insert, select

from runner.errors import LedgerError
from runner.ledger import maintenance
from runner.ledger.database import Ledger
from runner.ledger.maintenance import copy_ledger
from runner.ledger.results.result_feed import read_version
from runner.ledger.tables import campaigns, info, locks, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from tests.postgres import PostgresServer

MANY = 450
"""Rows of each table: two groups that go into PostgreSQL through COPY, and one that does not."""
PATIENCE_S = 60
TABLES = [table for table in metadata.sorted_tables if table is not info]


def make_row(table: Table, number: int) -> dict[str, Any]:
    """Return a row that refers to rows of the same number; in every second one, what may be null is."""

    def make(kind: object) -> Any:
        if isinstance(kind, Boolean):
            return number % 3 == 0
        return number if isinstance(kind, Integer) else f'What, "then"?\n\t\\N héé 🙂 {number}'

    return {column.name: None if column.nullable and number % 2 else make(column.type) for column in table.c}


def fill(ledger: Ledger, rows: int) -> None:
    with ledger.writing() as connection:
        for table in TABLES:
            connection.execute(insert(table), [make_row(table, number) for number in range(1, rows + 1)])


def read_all(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    with ledger.reading() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table)).all()), key=repr)
            for table in TABLES
            if table is not locks
        }


def read_edition(ledger: Ledger) -> str:
    with ledger.reading() as connection:
        return read_version(connection).edition


@pytest.fixture
def server_ledger(postgres_ledger: str) -> Iterator[Ledger]:
    """An open ledger with its tables on a server."""
    with Ledger(postgres_ledger) as opened:
        opened.prepare()
        yield opened


@pytest.mark.slow
def test_to_a_server_and_back(
    sqlite_ledger: Ledger, server_ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every table is equal but the locks; reports count anew, and a server's numbers go on after the last."""
    monkeypatch.setattr(maintenance, "_GROUP", 200)
    fill(sqlite_ledger, MANY)
    counts = copy_ledger(sqlite_ledger, server_ledger)
    assert (counts["deliveries"], "locks" in counts) == (MANY, False)
    with Ledger(f"sqlite:///{tmp_path / 'back.sqlite'}") as back:
        back.prepare()
        copy_ledger(server_ledger, back)
        before = read_all(sqlite_ledger)
        assert read_all(server_ledger) == before
        assert read_all(back) == before
        assert {len(rows) for rows in before.values()} == {MANY}
        with back.reading() as connection:
            assert connection.execute(select(locks)).all() == []
        assert len({read_edition(ledger) for ledger in (sqlite_ledger, server_ledger, back)}) == 3
        assert back.is_ready()
    with server_ledger.writing() as connection:
        named = {"target": "live", "name": "pulse"}
        added = connection.execute(insert(campaigns).values(named)).inserted_primary_key
    assert tuple(added or ()) == (MANY + 1,)


def test_what_is_refused(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    """A ledger that has entries stays as it is."""
    fill(sqlite_ledger, 1)
    before = read_all(sqlite_ledger)
    with Ledger(f"sqlite:///{tmp_path / 'other.sqlite'}") as other:
        other.prepare()
        for source in (other, sqlite_ledger):
            with pytest.raises(LedgerError) as caught:
                copy_ledger(source, sqlite_ledger)
            assert caught.value.message == "the ledger is not empty"
            assert caught.value.hint == (
                "a copy fills an empty ledger: name a new one with --ledger or RUNNER_LEDGER"
            )
        assert read_all(sqlite_ledger) == before


def wait_for_copy(connection: psycopg.Connection[Any]) -> int:
    """Wait until a copy waits for a lock of this test, and return the process of its session."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        query = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        if (row := connection.execute(query, [TABLES[-1].name]).fetchone()) is not None:
            return int(row[0])
        time.sleep(0.02)
    raise AssertionError("no copy waits")


@pytest.mark.slow
def test_a_copy_that_fails_or_is_killed(
    server_ledger: Ledger, postgres: PostgresServer, postgres_ledger: str, new_url: Callable[[], str]
) -> None:
    """Nothing of it is left, in a file or on a server; the same copy can be made again."""
    fill(server_ledger, MANY)
    name, url = postgres_ledger.partition("?")[0].rpartition("/")[2], new_url()
    with Ledger(url) as copy, closing(postgres.connect(name)) as connection, ThreadPoolExecutor(1) as pool:
        copy.prepare()
        with connection.transaction():
            # The copy has all other tables by then.
            connection.execute(f"LOCK TABLE {TABLES[-1].name} IN ACCESS EXCLUSIVE MODE")
            failing = pool.submit(copy_ledger, server_ledger, copy)
            connection.execute("SELECT pg_cancel_backend(%s)", [wait_for_copy(connection)])
            error = failing.exception(PATIENCE_S)
            assert isinstance(error, LedgerError)
            assert f"/{name}?" in error.message
            assert "cannot be used: canceling statement" in error.message
            assert not any(read_all(copy).values())
            command = [sys.executable, "-m", "runner", "ledger", "copy", "--from", postgres_ledger]
            with subprocess.Popen([*command, "--ledger", url]) as process:
                wait_for_copy(connection)
                process.kill()
            assert not any(read_all(copy).values())
            connection.execute("SELECT pg_terminate_backend(%s)", [wait_for_copy(connection)])
        copy_ledger(server_ledger, copy)
        assert read_all(copy) == read_all(server_ledger)
