"""A ledger in a real file, and values to put into it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.ledger.database import Ledger
from runner.ledger.files.lockfile import LOCKFILE, dump_lockfile, parse_lockfile
from runner.ledger.files.suppressions import parse_book
from runner.ledger.fingerprint import TargetKey, launch_key
from runner.ledger.model import Intent, LaunchRecord, Outcome
from runner.ledger.people.suppressions import absorb_book
from runner.ledger.record.campaign_record import Identity, absorb_lockfile, enter_record, rewrite_lockfile
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.tables import SCHEMA_VERSION, info, metadata
from runner.ledger.target_key import enter_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import LiteralString

    from sqlalchemy import Connection

    from runner.ledger.model import LaunchState
    from tests.postgres import PostgresServer

KEY = TargetKey.of("live", None)
AT = "2026-11-20T12:00:00.000000Z"
EMPTY: LiteralString = f"""
TRUNCATE {", ".join(table.name for table in metadata.sorted_tables)} RESTART IDENTITY;
INSERT INTO {info.name} (name, value) VALUES ('schema', '{SCHEMA_VERSION}')
"""  # noqa: S608  names of our tables
"""Empties a ledger on PostgreSQL; its tables stay."""
FILE, BOOK = Path("pulse.live.lock.json"), Path("live.suppressions.json")


def dump(*records: LaunchRecord, name: str = "pulse", key: TargetKey = KEY, **more: Any) -> str:
    """Return the text of a lockfile with these launches."""
    ordered = sorted(records, key=lambda one: (one.message, one.key))
    return "".join(dump_lockfile(name, key, ordered, **more))


def absorb(connection: Connection, *texts: str, key: TargetKey = KEY) -> None:
    """Enter lockfiles and files of suppressions into a ledger, in this order."""
    for text in texts:
        if '  "entries": [' in text:
            absorb_book(connection, parse_book(BOOK, text, key), key)
        else:
            absorb_lockfile(connection, FILE, parse_lockfile(FILE, text, key).lockfile, key)


def fill(ledger: Ledger, *texts: str, key: TargetKey = KEY) -> None:
    """Enter files into a ledger, and commit."""
    with ledger.writing() as connection:
        absorb(connection, *texts, key=key)


def rewrite(ledger: Ledger, identity: Identity) -> str:
    """Write the lockfile as a run does, and return its text; empty if there is none."""
    rewrite_lockfile(ledger, identity, enter_record(ledger, identity).require_entered())
    return LOCKFILE.read(identity.lockfile) or ""


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    """Where an SQLite ledger is to be."""
    return tmp_path / ".runner" / "ledger.sqlite"


@pytest.fixture
def sqlite_ledger(sqlite_file: Path) -> Iterator[Ledger]:
    """An open SQLite ledger with its tables, for what is true of files alone."""
    with Ledger(f"sqlite:///{sqlite_file}") as opened:
        opened.prepare()
        yield opened


@pytest.fixture(scope="session")
def spare_databases() -> list[str]:
    """Databases with a ledger's tables that no test uses now: to empty one is quicker than to make one."""
    return []


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(
    request: pytest.FixtureRequest, tmp_path: Path, spare_databases: list[str]
) -> Iterator[Callable[[], str]]:
    """A function that returns where a new ledger can be: every test that uses one runs on both databases."""
    if request.param == "sqlite":
        numbers = itertools.count()
        yield lambda: f"sqlite:///{tmp_path / f'ledger-{next(numbers)}.sqlite'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    used: list[str] = []

    def take() -> str:
        used.append(spare_databases.pop() if spare_databases else server.create_ledger())
        return server.url(used[-1])

    yield take
    for name in used:
        server.end_sessions(name)
        server.execute(EMPTY, database=name)
    spare_databases += used


@pytest.fixture(params=["sqlite", "postgresql"])
def blank_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger is to be, on each of the databases: it has no tables."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.url(server.create_database())
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


@pytest.fixture
def ledger_url(new_url: Callable[[], str]) -> str:
    """Where the ledger is, on each of the databases."""
    return new_url()


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """An open ledger with its tables."""
    with Ledger(ledger_url) as opened:
        opened.prepare()
        yield opened


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    """The campaign `pulse` on the target `live`."""
    return Identity("pulse", tmp_path / "pulse.yaml", KEY)


@pytest.fixture
def make_record() -> Callable[..., LaunchRecord]:
    """Make an accepted launch of the phones with these numbers; its digest and guid grow from `name`."""

    def make(name: str, *numbers: int, message: str = "ask", **notes: Any) -> LaunchRecord:
        recipients = tuple(sorted(KEY.fingerprint(f"+1415555{number:04}") for number in numbers))
        key = launch_key("pulse", message, f"d1g35t-{name}", recipients)
        return LaunchRecord(
            message, key, "pulse-2026", f"d1g35t-{name}", recipients, f"guid-{name}", AT, **notes
        )

    return make


@pytest.fixture
def deliver(request: pytest.FixtureRequest) -> Callable[..., list[int]]:
    """Enter launches into the ledger, each with an outcome; return their numbers."""

    def enter(*records: LaunchRecord, state: LaunchState = "sent", into: Ledger | None = None) -> list[int]:
        opened: Ledger = into or request.getfixturevalue("ledger")
        with opened.writing() as connection:
            campaign_id = enter_campaign(connection, "live", "pulse")
            enter_key(connection, KEY)
            intents = [
                Intent(
                    r.message,
                    r.key,
                    r.tag,
                    r.payload_digest,
                    r.recipients,
                    '{"text": "Hello"}',
                    arm=r.arm,
                    run=r.run,
                )
                for r in records
            ]
            ids = add_intents(connection, campaign_id, intents, AT)
            outcomes = [
                Outcome(launch_id, state, AT, record.project_launch_guid if state == "sent" else None)
                for launch_id, record in zip(ids, records, strict=True)
            ]
            record_outcomes(connection, outcomes if state != "intent" else [])
        return ids

    return enter
