"""The cost of reports of 300,000 and of 10,000,000 results, against a DuckDB script for the same groups.

The ledger is filled by SQLite itself. The first report copies the results into columns; the reports after
that read the copy. The script (`by_hand.py`) reads what the report reads: first the ledger, then the copy. Each
runs in a process of its own. Prints ratios and never fails: machines are noisy.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from runner.ledger.database import Ledger
from runner.ledger.model import Intent, Outcome
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.results.reconciled import store_results, store_starts
from runner.report.columns.dataset import remove_copies
from runner.report.columns.engine import MEMORY_LIMIT
from tests.benchmarks.sandbox import write

GOALS: dict[int, tuple[float | None, float]] = {300_000: (2.0, 1.3), 10_000_000: (None, 1.5)}
"""Goals of the first report and of those after it, by the number of results; None if there is none."""
BY_HAND = Path(__file__).with_name("by_hand.py")
AT = "2026-11-21T12:00:00.000000Z"
LAUNCHED = "2026-11-18T11:00:00.000000"
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
# Each participant answers three questions, a minute apart; no two texts are the same.
_FILL = """
WITH RECURSIVE counted(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < :count)
INSERT INTO results (launch_id, result_guid, participant, question_guid, question_tag, question_text,
  question_display_order, result_answer, result_response, created, updated, revision)
SELECT 1, printf('%08x-0000-4000-8000-%012x', n, n),
  printf('%020x', n / 3 * 2654435761), 'q',
  CASE n % 3 WHEN 0 THEN 'nps' WHEN 1 THEN 'reason' ELSE 'service' END,
  'as asked', n % 3 + 1,
  CASE n % 3 WHEN 0 THEN 1 + n * 7 % 11 WHEN 1 THEN written ELSE 1 + n * 5 % 4 END,
  CASE n % 3 WHEN 0 THEN n * 7 % 11 WHEN 1 THEN written
    ELSE CASE n * 5 % 4 WHEN 0 THEN 'bad' WHEN 1 THEN 'fair' WHEN 2 THEN 'good' ELSE 'great' END END,
  strftime('%Y-%m-%dT%H:%M:%S.000000', 1795000000 + n / 3 % 500000 + n % 3 * 60, 'unixepoch'), '', 1
FROM (SELECT n, printf('The courier was %s and %s: order %d',
    CASE n % 5 WHEN 0 THEN 'late' WHEN 1 THEN 'early' WHEN 2 THEN 'rude' WHEN 3 THEN 'kind' ELSE 'slow' END,
    CASE n % 7 WHEN 0 THEN 'wet' WHEN 1 THEN 'lost' WHEN 2 THEN 'cold' ELSE 'friendly' END, n) AS written
  FROM counted)
"""

# A fifth of the people answered nothing.
_FILL_PEOPLE = """
WITH RECURSIVE counted(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < :count)
INSERT INTO {} SELECT {} FROM (SELECT n, printf('%020x', n * 2654435761) AS participant FROM counted)
"""
_DELIVERIES = (
    "deliveries (campaign_id, message, fingerprint, launch_id, released)",
    ":campaign, 'ask', participant, 1, 0",
)
_SESSIONS = (
    "sessions (launch_id, participant, status, stopped, blocked, replaced, progress)",
    "1, participant, CASE n % 50 WHEN 0 THEN 'ACTIVE' ELSE 'COMPLETE' END, 0, 0, n % 97 = 0, 2",
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
            campaign_id = enter_campaign(connection, "sandbox", "pulse")
            intent = Intent("ask", "key", "pulse", "digest", ("f" * 20,), "{}")
            (number,) = add_intents(connection, campaign_id, [intent], AT)
            record_outcomes(connection, [Outcome(number, "sent", AT, "guid")])
            store_starts(connection, {number: LAUNCHED})
            store_results(connection, [])
    with sqlite3.connect(file) as database:
        database.execute(_FILL, {"count": results})
        values = {"count": results * 5 // 12, "campaign": campaign_id}
        for table in (_DELIVERIES, _SESSIONS):
            database.execute(_FILL_PEOPLE.format(*table), values)
        database.execute("UPDATE launches SET recipients = :count + 1", values)
        database.execute("UPDATE launch_stats SET reconciled_at = ?", (AT,))


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took.

    Attributes:
        wall_s: seconds.
        cpu_s: seconds of all threads.
        peak_mib: the most memory.
    """

    wall_s: float
    cpu_s: float
    peak_mib: float


def measure(*command: str | Path, cwd: Path) -> Cost:
    """Return what a Python program costs that is installed as pip does it: with its bytecode."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cwd / "bytecode")
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command], cwd=cwd, env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def main() -> None:
    """Fill ledgers, and measure reports of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, choices=GOALS, help="Default: each of these numbers.")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for results in GOALS if options.results is None else [options.results]:
        with TemporaryDirectory() as scratch:
            measure_reports(Path(scratch), results, options.runs)


def measure_reports(folder: Path, results: int, runs: int) -> None:
    """Fill a ledger in a folder, and measure the first report and those after it.

    A first report of millions takes minutes, so it is measured once.
    """
    fill_ledger(folder, results)
    first_goal, goal = GOALS[results]
    report = ("-m", "runner", "report", "--format", "json", "--out", folder / "reports")
    ledger, copies = folder / ".runner" / "ledger.sqlite", folder / ".runner" / "results"
    pairs = []
    for _ in range(runs if results == min(GOALS) else 1):
        remove_copies(folder / ".runner")
        ours = measure(*report, cwd=folder)
        pairs.append((ours, measure(BY_HAND, ledger, MEMORY_LIMIT, cwd=folder)))
    write(f"first report of {results:,} results: {compare(pairs, first_goal)}")
    (copy,) = copies.iterdir()
    pairs = []
    for _ in range(runs):
        ours = measure(*report, cwd=folder)
        pairs.append((ours, measure(BY_HAND, copy, MEMORY_LIMIT, cwd=folder)))
    write(f"report of {results:,} results again: {compare(pairs, goal)}")


def compare(pairs: list[tuple[Cost, Cost]], goal: float | None) -> str:
    """Return what reports cost, by the pair of report and script in the middle."""
    ours, theirs = sorted(pairs, key=lambda pair: pair[0].wall_s / pair[1].wall_s)[len(pairs) // 2]
    return (
        f"{ours.wall_s / theirs.wall_s:.2f} x a DuckDB script's time for the same groups "
        f"({ours.wall_s:.1f} s against {theirs.wall_s:.1f} s; {f'goal {goal}' if goal else 'no goal'}); "
        f"{ours.cpu_s / theirs.cpu_s:.2f} x its CPU; "
        f"at most {ours.peak_mib:.0f} MiB (engine {MEMORY_LIMIT}; by hand {theirs.peak_mib:.0f} MiB)"
    )


if __name__ == "__main__":
    main()
