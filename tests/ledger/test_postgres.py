"""The ledger on a PostgreSQL server: what a file does not have, such as passwords and other programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, select

from runner.errors import LedgerError
from runner.ledger.database import Ledger, show_url
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock
from runner.ledger.results.result_feed import iterate_feed
from runner.ledger.tables import info
from tests.pooler import run_pooler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.ledger.model import LaunchRecord
    from tests.postgres import PostgresServer

CHECK_SERVER = (
    "check that the server runs, and its name, user and password in --ledger or RUNNER_LEDGER; this user must be "
    "able to create and write tables there"
)

HOLDER = LockHolder("ci-1", 41, None, "2026-11-20T12:00:00.000000Z")
KEEP_SESSIONS = (
    "name the server itself in --ledger or RUNNER_LEDGER, or have its pooler keep sessions "
    "(pgbouncer: pool_mode=session)"
)


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder for a socket, whose path has to be short."""
    with TemporaryDirectory(prefix="pool-") as name:
        yield Path(name)


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The name of an empty database."""
    return postgres.create_database()


def test_a_wrong_password_is_said_without_it(postgres: PostgresServer, database: str) -> None:
    """A password that is refused is the user's to mend, and is not shown."""
    url = postgres.url(database, password="n0t-the-one")  # noqa: S106  a wrong one
    with Ledger(url) as ledger, pytest.raises(LedgerError) as caught:
        ledger.prepare()
    assert caught.value.message.startswith(f"the ledger {show_url(url)} cannot be used: connection failed: ")
    assert caught.value.message.endswith('FATAL: password authentication failed for user "ada"')
    assert "n0t-the-one" not in caught.value.message
    assert caught.value.hint == CHECK_SERVER


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("localhost:1", "Connection refused"),
        ("nowhere.invalid", "failed to resolve host 'nowhere.invalid'"),
    ],
)
def test_an_unreachable_server_is_said(where: str, words: str) -> None:
    """A server that doesn't answer is named, with what to check, on one line."""
    with Ledger(f"postgresql://ada:s3cret@{where}/ledger") as ledger, pytest.raises(LedgerError) as caught:
        ledger.prepare()
    assert caught.value.message.startswith(f"the ledger postgresql://ada:***@{where}/ledger cannot be used: ")
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint == CHECK_SERVER


def test_without_the_driver_it_says_what_to_install() -> None:
    """The driver is an extra of the package: without it the error names the command that installs it."""
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from runner.errors import LedgerError; from runner.ledger.database import Ledger\n"
        "try: Ledger('postgresql://db.example.com/ledger')\n"
        "except LedgerError as error: print(error.message, error.hint, sep='; ')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == (
        "a ledger on PostgreSQL needs the driver psycopg, which is not installed; "
        "install the extra `postgres`: in the clone, `pipx install --force '.[postgres]'`\n"
    )


def test_other_programs_tables_stay_theirs(postgres: PostgresServer, database: str) -> None:
    """A database may be shared, but a table of the same name is not taken for the ledger's."""
    postgres.execute("CREATE TABLE results (cat text)", database=database)
    with Ledger(postgres.url(database)) as ledger:
        with pytest.raises(LedgerError) as caught:
            ledger.prepare()
        assert not ledger.is_ready()
    assert caught.value.message.endswith('relation "results" already exists')
    assert caught.value.hint == "give the ledger a database or a schema of its own"


def test_a_database_that_cannot_hold_every_text_is_refused(postgres: PostgresServer) -> None:
    """Texts have accents and emoji: an encoding without them would fail in the middle of a run."""
    options = "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
    url = postgres.url(postgres.create_database(options))
    with Ledger(url) as ledger, pytest.raises(LedgerError) as caught:
        ledger.prepare()
    assert caught.value.message == f"{show_url(url)} cannot hold every text: its encoding is LATIN1"
    assert caught.value.hint == "create the database with: createdb --encoding=UTF8 --template=template0"


def test_commits_wait_for_the_disk(postgres: PostgresServer, database: str) -> None:
    """Where the server acknowledges commits before they are on the disk, the ledger asks it not to."""
    postgres.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    with Ledger(postgres.url(database)) as ledger, ledger.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_a_pooler_that_keeps_no_sessions_is_refused(
    postgres: PostgresServer, database: str, socket_folder: Path
) -> None:
    """Before anything is locked in a session that the next transaction of somebody else is lent."""
    with run_pooler(postgres, database, socket_folder) as url, Ledger(url) as ledger:
        ledger.prepare()
        with pytest.raises(LedgerError) as caught, hold_campaign_lock(ledger, "live", ["pulse"], HOLDER):
            pytest.fail("locked")
        assert caught.value.message == (
            f"the ledger {show_url(url)} is behind a connection pooler that keeps no sessions, and so would lose "
            "the lock that keeps two runs apart"
        )
        assert caught.value.hint == KEEP_SESSIONS
    assert postgres.execute("SELECT FROM pg_locks WHERE locktype = 'advisory'", database=database) == []


def test_order_is_bytewise_whatever_the_servers_language(postgres: PostgresServer, database: str) -> None:
    """The server would sort `a` before `B`; the lockfile's order is that of SQLite and of Python."""
    words = ["B", "a", "é", "Z", "_", "😀", "aa"]
    with Ledger(postgres.url(database)) as ledger:
        ledger.prepare()
        with ledger.writing() as connection:
            connection.execute(insert(info), [{"name": word, "value": "order"} for word in words])
            query = select(info.c.name).where(info.c.value == "order").order_by(info.c.name)
            found = list(connection.execute(query).scalars())
            servers = list(
                connection.exec_driver_sql(
                    "SELECT name FROM ledger_info WHERE value = 'order' ORDER BY name COLLATE \"en-x-icu\""
                ).scalars()
            )
    assert found == sorted(words)
    assert servers != found


def test_a_lost_connection_is_said_and_the_next_command_goes_on(
    postgres: PostgresServer,
    database: str,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """A server that is restarted during a run ends the run in words; nothing that was committed is lost."""
    url = postgres.url(database)
    with Ledger(url) as ledger:
        ledger.prepare()
        deliver(make_record("a", 101), into=ledger)
        postgres.end_sessions(database)
        with pytest.raises(LedgerError) as caught, ledger.writing() as connection:
            connection.exec_driver_sql("SELECT 1")
        assert caught.value.hint == CHECK_SERVER
        with ledger.reading() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM launches").scalar() == 1
            assert list(iterate_feed(connection, 1, -1)) == []


def test_an_error_does_not_quote_the_row(postgres: PostgresServer, database: str) -> None:
    """A row that the server refuses is not in the error: it can hold what a person answered."""
    with Ledger(postgres.url(database)) as ledger:
        ledger.prepare()
        with pytest.raises(LedgerError) as caught, ledger.writing() as connection:
            connection.execute(
                insert(info), [{"name": "secret", "value": "a"}, {"name": "secret", "value": "b"}]
            )
    assert "duplicate key value" in caught.value.message
    assert "secret" not in caught.value.message
