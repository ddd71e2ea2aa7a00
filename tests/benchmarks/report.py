"""What a report of 10,000,000 results costs, against DuckDB's own time for the same groups.

The ledger is filled by SQLite itself. The first report copies the results into columns; the reports after
that read the copy, and so do the statements that it is measured against, written here by hand. Each runs in a
process of its own. Prints ratios and never fails: machines are noisy (design: performance).
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from runner.ledger.database import Ledger
from runner.ledger.deliveries import enter_campaign, record_outcomes
from runner.ledger.entry import add_intents
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.model import Intent, Outcome
from runner.ledger.reconciled import store_results
from runner.report.columns.engine import MEMORY_LIMIT
from tests.benchmarks.sandbox import write

GOAL = 1.5
AT = "2026-11-21T12:00:00.000000Z"
KEY = FingerprintKey.from_salt("0123456789abcdef" * 2)
CAMPAIGN = """
version: 1
name: pulse
recipients: [{phone: "+14155550101"}]
messages:
  - id: ask
    tag: pulse
    questions:
      - tag: nps
        text: "From 0 to 10?"
        responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        scale: nps
      - {tag: reason, text: "Why?", scale: text}
      - {tag: service, text: "How was it?", responses: ["bad", "fair", "good", "great"], scale: csat}
"""
# Each participant answers three questions, a minute apart.
_FILL = """
WITH RECURSIVE counted(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < :count)
INSERT INTO results (launch_id, result_guid, participant, question_guid, question_tag, question_text,
  question_display_order, result_answer, result_response, created, updated, revision)
SELECT 1, printf('%08x-0000-4000-8000-%012x', n, n),
  printf('%020x', n / 3 * 2654435761), 'q',
  CASE n % 3 WHEN 0 THEN 'nps' WHEN 1 THEN 'reason' ELSE 'service' END,
  'as asked', n % 3 + 1,
  CASE n % 3 WHEN 0 THEN 1 + n * 7 % 11 WHEN 1 THEN 'the courier was late and rude ' || n % 1009 ELSE 1 + n * 5 % 4 END,
  CASE n % 3 WHEN 0 THEN n * 7 % 11 WHEN 1 THEN 'the courier was late and rude ' || n % 1009
    ELSE CASE n * 5 % 4 WHEN 0 THEN 'bad' WHEN 1 THEN 'fair' WHEN 2 THEN 'good' ELSE 'great' END END,
  strftime('%Y-%m-%dT%H:%M:%S.000000', 1795000000 + n / 3 % 500000 + n % 3 * 60, 'unixepoch'), '', 1
FROM counted
"""
# The same groups by hand: who answered what last, how far people came, how fast, on which day, in which words.
_BY_HAND = (
    """
CREATE TEMP TABLE people AS
SELECT participant, min(created_us) AS first_us,
  arg_max(response, created_us) FILTER (WHERE question_tag = 'nps') AS nps,
  max(created_us) FILTER (WHERE question_tag = 'nps') AS nps_us,
  arg_max(length(response), created_us) FILTER (WHERE question_tag = 'reason') AS reason,
  max(created_us) FILTER (WHERE question_tag = 'reason') AS reason_us,
  arg_max(response, created_us) FILTER (WHERE question_tag = 'service') AS service,
  max(created_us) FILTER (WHERE question_tag = 'service') AS service_us
FROM results GROUP BY participant
""",
    "SELECT message, arm, question_tag, count(*) FROM results GROUP BY ALL",
    "SELECT nps IS NULL, reason IS NULL, service IS NULL, count(*) FROM people GROUP BY ALL",
    "SELECT nps, count(*) FROM people GROUP BY ALL",
    "SELECT reason, count(*) FROM people GROUP BY ALL",
    "SELECT service, count(*) FROM people GROUP BY ALL",
    "SELECT first_us // 1000000, count(*) FROM people GROUP BY ALL",
    "SELECT (nps_us - first_us) // 1000000, count(*) FROM people GROUP BY ALL",
    "SELECT (reason_us - nps_us) // 1000000, count(*) FROM people GROUP BY ALL",
    "SELECT (service_us - reason_us) // 1000000, count(*) FROM people GROUP BY ALL",
    "SELECT make_timestamp(first_us)::DATE, count(*) FROM people GROUP BY ALL",
    "SELECT make_timestamp(created_us)::DATE, count(*) FROM results GROUP BY ALL",
    "SELECT count(DISTINCT participant) FROM results",
    r"""
SELECT word, count(DISTINCT participant) FROM (
  SELECT participant, unnest(regexp_extract_all(lower(response), '[\p{L}\p{M}]+')) AS word
  FROM results WHERE question_tag = 'reason') WHERE length(word) > 2 GROUP BY ALL
""",
)


def fill_ledger(folder: Path, results: int) -> None:
    """Write a repository with a campaign, and a ledger with its results."""
    (folder / ".git").mkdir()
    (folder / "campaigns").mkdir()
    (folder / "campaigns" / "pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
    file = folder / ".runner" / "ledger.sqlite"
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.prepare()
        with ledger.writing() as connection:
            campaign_id = enter_campaign(connection, "sandbox", "pulse", KEY)
            intent = Intent("ask", "key", "pulse", "digest", "{}", ("f" * 20,))
            (number,) = add_intents(connection, campaign_id, [intent], AT)
            record_outcomes(connection, [Outcome(number, "sent", AT, "guid")])
            store_results(connection, [])
    with sqlite3.connect(file) as database:
        database.execute(_FILL, {"count": results})


def run_by_hand(copy: Path) -> None:
    """Run the statements over the copy, and print seconds and MiB."""
    with duckdb.connect(
        config={"memory_limit": MEMORY_LIMIT, "temp_directory": str(copy / "spill")}
    ) as engine:
        started = time.perf_counter()
        engine.read_parquet(f"{copy}/*.parquet").create_view("results")
        for statement in _BY_HAND:
            engine.execute(statement).fetchall()
        write(f"{time.perf_counter() - started:.2f} s")


def measure(*command: str | Path, cwd: Path) -> tuple[float, float]:
    """Return the seconds and the peak MiB of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    started = time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - started
    return took, max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, before) / 1024


def main() -> None:
    """Measure, or with `--by-hand` be what it is measured against."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--by-hand", type=Path)
    options = parser.parse_args()
    if options.by_hand:
        run_by_hand(options.by_hand)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        fill_ledger(folder, options.results)
        report = ("-m", "runner", "report", "--format", "json", "--out", folder / "reports")
        first, _ = measure(*report, cwd=folder)
        write(f"first report of {options.results:,} results, copied from SQLite: {first:.1f} s")
        (copy,) = (folder / ".runner" / "results").iterdir()
        pairs = []
        for _ in range(options.runs):
            ours, mib = measure(*report, cwd=folder)
            theirs, _ = measure("-m", "tests.benchmarks.report", "--by-hand", copy, cwd=Path.cwd())
            pairs.append((ours / theirs, ours, theirs))
        ratio, ours, theirs = sorted(pairs)[len(pairs) // 2]
        write(
            f"report: {ratio:.2f} x DuckDB's own time for the same groups ({ours:.1f} s against {theirs:.1f} s; "
            f"goal {GOAL}); at most {mib:.0f} MiB, all processes"
        )


if __name__ == "__main__":
    main()
