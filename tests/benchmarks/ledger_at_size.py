"""What PostgreSQL makes of a large ledger: rows a second into it and out of it, and bytes a recipient.

    python -m tests.benchmarks.ledger_at_size [deliveries...]

Prints a table for each number of deliveries (default: 1e5 and 1e6) and never fails. A server is started for
it, with PostgreSQL's own settings.
"""

from __future__ import annotations

import resource
import secrets
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.ledger.database import Ledger
from runner.ledger.maintenance import copy_ledger
from runner.ledger.model import Intent, LaunchRecord, Outcome, StoredResult
from runner.ledger.record.deliveries import enter_campaign, read_known, record_outcomes
from runner.ledger.record.entry import absorb_launches, add_intents
from runner.ledger.results.reconciled import store_results
from runner.ledger.tables import deliveries, launches, results
from tests.postgres import find_postgres, run_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Table

    from tests.postgres import PostgresServer

SIZES = (100_000, 1_000_000)
A_SEND = 500
"""Recipients of a launch that many share."""
GROUP = 20
"""Launches that one transaction records, of those that many share."""
PERSONAL_GROUP = 2_000
"""Launches that one transaction records, of those to one person each."""
AT = "2026-11-20T12:00:00.000000Z"
DEFINITION = '{"text": "' + "x" * 150 + '"}'


def say(line: str) -> None:
    """Write a line of the table at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@contextmanager
def measuring(name: str, rows: int) -> Iterator[None]:
    """Print how many rows a second the block has brought on."""
    start = time.perf_counter()
    yield
    elapsed = time.perf_counter() - start
    say(f"  {name:44}{rows / elapsed:12,.0f} rows/s  ({elapsed:,.1f} s)")


def make_people(count: int) -> list[str]:
    """Return fingerprints, random as real ones are."""
    return sorted(secrets.token_hex(10) for _ in range(count))


def send(ledger: Ledger, name: str, total: int, a_send: int, group: int) -> int:
    """Record launches as a run does, intents and outcomes, and return the ledger's number of the campaign."""
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", name)
    for start in range(0, total, a_send * group):
        intents = [
            Intent("ask", secrets.token_hex(16), "tag", secrets.token_hex(16), tuple(people), DEFINITION)
            for people in (make_people(a_send) for _ in range(min(group, (total - start) // a_send)))
        ]
        with ledger.writing() as connection:
            ids = add_intents(connection, campaign_id, intents, AT)
        with ledger.writing() as connection:
            record_outcomes(connection, [Outcome(one, "sent", AT, secrets.token_hex(16)) for one in ids])
    return campaign_id


def absorb(ledger: Ledger, name: str, total: int) -> None:
    """Enter launches as a lockfile tells of them."""
    records = [
        LaunchRecord(
            "ask",
            secrets.token_hex(16),
            "tag",
            "digest",
            tuple(make_people(A_SEND)),
            secrets.token_hex(16),
            AT,
        )
        for _ in range(total // A_SEND)
    ]
    with measuring(f"lockfile absorbed, {name}", total), ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", name)
        absorb_launches(connection, campaign_id, records)


def reconcile(ledger: Ledger, name: str, total: int, launch_id: int) -> None:
    """Keep results as reconciling does."""
    texts = (secrets.token_hex(10), "question", "nps", "How likely are you to recommend us?")
    rows = (
        StoredResult(launch_id + number % 50, secrets.token_hex(16), *texts, 1, "9", "9", AT, AT)
        for number in range(total)
    )
    with measuring(f"results stored, {name}", total), ledger.writing() as connection:
        store_results(connection, rows)


def weigh(server: PostgresServer, database: str, table: Table) -> int:
    """Return the bytes of a table with all its indexes."""
    with server.connect(database) as connection:
        row = connection.execute("SELECT pg_total_relation_size(%s::regclass)", [table.name]).fetchone()
        return int(row[0]) if row else 0


def measure(server: PostgresServer, total: int) -> None:
    """Print what a ledger of so many deliveries takes."""
    say(f"{total:,} deliveries")
    database = server.create_database()
    with Ledger(server.url(database)) as ledger:
        ledger.prepare()
        empty = {table.name: weigh(server, database, table) for table in (deliveries, launches, results)}
        with measuring(f"intents and outcomes, {A_SEND} a send", total):
            campaign_id = send(ledger, "shared", total, A_SEND, GROUP)
        for table in (deliveries, launches):
            grown = weigh(server, database, table) - empty[table.name]
            say(f"  {f'{table.name}, {A_SEND} a send':44}{grown / total:12,.1f} bytes a recipient")
        few = total // 10
        before = sum(weigh(server, database, table) for table in (deliveries, launches))
        with measuring("intents and outcomes, one a send", few):
            send(ledger, "personal", few, 1, PERSONAL_GROUP)
        grown = sum(weigh(server, database, table) for table in (deliveries, launches)) - before
        say(f"  {'deliveries and launches, one a send':44}{grown / few:12,.1f} bytes a recipient")
        with measuring("deliveries read", total), ledger.reading() as connection:
            read_known(connection, campaign_id)
        load(ledger, min(total, SIZES[0]))
        size = weigh(server, database, results) - empty[results.name]
        say(f"  {'results':44}{size / (2 * min(total, SIZES[0])):12,.1f} bytes a result")
        move(server, ledger)
    say(f"  {'memory of this process, at most':44}{_peak_mib():12,.0f} MiB")


def load(ledger: Ledger, total: int) -> None:
    """Fill the ledger from a lockfile and with results."""
    absorb(ledger, "absorbed", total)
    reconcile(ledger, "reconciled", total, 1)


def move(server: PostgresServer, ledger: Ledger) -> None:
    """Copy the ledger to a file, and to another database."""
    with tempfile.TemporaryDirectory() as folder:
        for name, url in (
            ("to SQLite", f"sqlite:///{folder}/ledger.sqlite"),
            ("to PostgreSQL", server.url(server.create_database())),
        ):
            with Ledger(url) as other:
                other.prepare()
                start = time.perf_counter()
                rows = sum(copy_ledger(ledger, other).values())
            elapsed = time.perf_counter() - start
            say(f"  {f'copied {name}':44}{rows / elapsed:12,.0f} rows/s  ({elapsed:,.1f} s)")


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(sizes: Sequence[str]) -> None:
    """Measure each size on a server of its own."""
    programs = find_postgres()
    if programs is None:
        raise SystemExit("PostgreSQL is not installed")
    with run_postgres(programs) as server:
        for size in map(int, sizes or SIZES):
            measure(server, size)


if __name__ == "__main__":
    main(sys.argv[1:])
