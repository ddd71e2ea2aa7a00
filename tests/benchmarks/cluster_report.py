"""Savings of a cluster of two processes on this machine against one process: reconciling, and reports.

Whole commands on a ledger on PostgreSQL, start and end of the workers included. Prints ratios and never fails:
machines are noisy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runner.ledger.database import Ledger
from runner.ledger.model import Intent, Outcome
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.results.reconciled import store_results, store_starts
from tests.benchmarks.million import Size, fill_store
from tests.benchmarks.pairs import compare
from tests.benchmarks.reconcile import describe, enter_launches
from tests.benchmarks.report import AT, CAMPAIGN, KEY, LAUNCHED
from tests.benchmarks.sandbox import SANDBOX, running, write
from tests.postgres import PostgresServer, find_postgres, run_postgres

GOAL = 0.65
LAUNCHES = 100
# As in `report.py`: each participant answers three questions, a minute apart; no two texts are the same.
_FILL = """
INSERT INTO results (launch_id, result_guid, participant, question_guid, question_tag, question_text,
  question_display_order, result_answer, result_response, created, updated, revision)
SELECT (SELECT min(id) FROM launches) + n / 3 %% %(launches)s, lpad(to_hex(n), 8, '0') || '-0000-4000',
  lpad(to_hex(n / 3 * 2654435761), 20, '0'), 'q', (ARRAY['nps', 'reason', 'service'])[n %% 3 + 1],
  'as asked', n %% 3 + 1,
  CASE n %% 3 WHEN 0 THEN (1 + n * 7 %% 11)::text WHEN 1 THEN written ELSE (1 + n * 5 %% 4)::text END,
  CASE n %% 3 WHEN 0 THEN (n * 7 %% 11)::text WHEN 1 THEN written
    ELSE (ARRAY['bad', 'fair', 'good', 'great'])[n * 5 %% 4 + 1] END,
  to_char(timestamp '2026-11-18 12:00' + make_interval(secs => n / 3 %% 500000 + n %% 3 * 60),
    'YYYY-MM-DD"T"HH24:MI:SS.US'), '', 1
FROM (SELECT n, format('The courier was %%s and %%s: order %%s',
    (ARRAY['late', 'early', 'rude', 'kind', 'slow'])[n %% 5 + 1],
    (ARRAY['wet', 'lost', 'cold', 'friendly'])[n %% 4 + 1], n) AS written
  FROM generate_series(0::bigint, %(results)s - 1) AS n) AS counted
"""


class Bench:
    """A repository, and a server whose databases are ledgers of it."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server = server
        self.folder = folder
        (folder / ".git").mkdir()
        (folder / "campaigns").mkdir()
        (folder / "campaigns" / "pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")

    def measure(self, ledger: str, *command: str, environment: dict[str, str] | None = None) -> float:
        """Return the seconds that a command takes."""
        values = {"RUNNER_LEDGER": self._server.url(ledger), **(environment or {})}
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "runner", *command],
            cwd=self.folder,
            env={**inherited, **values},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return time.perf_counter() - started

    def copy(self, ledger: str) -> str:
        """Return a copy of a ledger."""
        self._server.end_sessions(ledger)
        return self._server.create_database(f"TEMPLATE {ledger}")

    def open(self, ledger: str) -> Ledger:
        return Ledger(self._server.url(ledger))

    def fill(self, results: int) -> str:
        """Return a ledger with that many results."""
        name = self._server.create_database()
        with self.open(name) as ledger:
            ledger.prepare()
            with ledger.writing() as connection:
                campaign_id = enter_campaign(connection, "sandbox", "pulse", KEY)
                intents = [
                    Intent("ask", f"key-{n}", "pulse", "digest", (f"{n:020x}",), "{}")
                    for n in range(LAUNCHES)
                ]
                numbers = add_intents(connection, campaign_id, intents, AT)
                record_outcomes(connection, [Outcome(n, "sent", AT, f"guid-{n}") for n in numbers])
                store_starts(connection, dict.fromkeys(numbers, LAUNCHED))
                store_results(connection, [])
            with ledger.writing() as connection:
                connection.exec_driver_sql(_FILL, {"launches": LAUNCHES, "results": results})
                connection.exec_driver_sql(
                    "UPDATE launches SET recipients = %(each)s", {"each": results // LAUNCHES}
                )
        return name

    def report(self, ledger: str, *options: str) -> float:
        """Return the seconds that a first report takes: there is no copy of the results yet."""
        shutil.rmtree(self.folder / ".runner" / "results", ignore_errors=True)
        return self.measure(ledger, "report", "--format", "json", "--out", "reports", *options)


def measure_reports(bench: Bench, results: int, pairs: int) -> None:
    """Print what reports take."""
    ledger = bench.fill(results)
    ratio, ours, theirs = compare(
        lambda: bench.report(ledger, "--cluster", "local:2"), lambda: bench.report(ledger), pairs
    )
    write(
        f"report of {results:,} results: {ratio:.2f} of one process's time "
        f"({ours:.1f} s against {theirs:.1f} s; goal {GOAL})"
    )


def measure_reconciling(bench: Bench, size: Size, pairs: int) -> None:
    """Print what it takes to read all results of a service for the first time."""
    db = bench.folder / "service.sqlite"
    fill_store(db, size)
    empty = bench.fill(0)
    with bench.open(empty) as ledger:
        enter_launches(ledger, db)
    with running(SANDBOX, db) as served:
        told = describe(served)
        environment = {
            "RUNNER_BASE_URL": told["url"],
            "RUNNER_USERNAME": told["username"],
            "RUNNER_API_KEY": told["api_key"],
        }

        def reconcile(*options: str) -> float:
            # Its keys are made up, and would be told from what a run writes.
            for lockfile in (bench.folder / "campaigns").glob("*.lock.json"):
                lockfile.unlink()
            return bench.measure(bench.copy(empty), "reconcile", *options, environment=environment)

        ratio, ours, theirs = compare(lambda: reconcile("--cluster", "local:2"), reconcile, pairs)
    write(
        f"reconcile {size.results:,} results of {size.launches:,} launches: {ratio:.2f} of one process's time "
        f"({ours:.1f} s against {theirs:.1f} s)"
    )


def main() -> None:
    """Fill ledgers, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=10_000_000, help="of the report")
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--listed", type=int, default=200_000, help="results that the service lists")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    programs = find_postgres()
    if programs is None:
        sys.exit("PostgreSQL is not installed, as with: apt-get install postgresql")
    with run_postgres(programs) as server, tempfile.TemporaryDirectory() as scratch:
        bench = Bench(server, Path(scratch))
        measure_reports(bench, options.results, options.pairs)
        measure_reconciling(bench, Size(options.launches, options.listed), options.pairs)


if __name__ == "__main__":
    main()
