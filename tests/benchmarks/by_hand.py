"""The groups of a report by statements that an expert would write, over a ledger, or over reports' copy of it.

What `tests.benchmarks.report` measures against: nothing is loaded here but the engine and, to read a ledger,
SQLite. DuckDB's own reader of SQLite is an extension that it would fetch from the network.
"""

from __future__ import annotations

import csv
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

_LEDGERS_RESULTS = """
SELECT message, arm, project_launch_start AS started, participant AS person, question_tag,
  result_response AS response, created
FROM results JOIN launches ON launches.id = results.launch_id
JOIN launch_stats ON launch_stats.launch_id = results.launch_id
"""
_LEDGERS_CONTACTS = """
SELECT message, fingerprint AS person, status, stopped, replaced
FROM deliveries LEFT JOIN sessions
  ON sessions.launch_id = deliveries.launch_id AND sessions.participant = deliveries.fingerprint
WHERE NOT released
"""
_READ_RESULTS = """
CREATE TEMP TABLE results AS
SELECT *, lower(trim(response)) AS folded, epoch_us(started::TIMESTAMP) AS started_us,
  epoch_us(created::TIMESTAMP) AS created_us
FROM
"""

# Who answered what last, how far people came, how fast, on which day, and what became of everybody.
_STATEMENTS = (
    """
CREATE TEMP TABLE people AS
SELECT person, min(started_us) AS started_us, min(created_us) AS first_us,
  arg_max(response, created_us) FILTER (WHERE question_tag = 'nps') AS nps,
  max(created_us) FILTER (WHERE question_tag = 'nps') AS nps_us,
  arg_max(folded, created_us) FILTER (WHERE question_tag = 'reason') AS reason,
  max(created_us) FILTER (WHERE question_tag = 'reason') AS reason_us,
  arg_max(response, created_us) FILTER (WHERE question_tag = 'service') AS service,
  max(created_us) FILTER (WHERE question_tag = 'service') AS service_us
FROM results GROUP BY person
""",
    "SELECT message, arm, question_tag, count(*) FROM results GROUP BY ALL",
    "SELECT nps IS NULL, reason IS NULL, service IS NULL, count(*) FROM people GROUP BY ALL",
    "SELECT nps, count(*) FROM people GROUP BY ALL",
    "SELECT reason IS NULL, count(*) FROM people GROUP BY ALL",
    "SELECT service, count(*) FROM people GROUP BY ALL",
    "SELECT (first_us - started_us) // 1000000, count(*) FROM people GROUP BY ALL",
    "SELECT make_timestamp(first_us)::DATE, count(*) FROM people GROUP BY ALL",
    "SELECT make_timestamp(created_us)::DATE, count(*) FROM results GROUP BY ALL",
    """
SELECT status, stopped, replaced, nps IS NULL, service IS NULL, count(*)
FROM contacts LEFT JOIN people ON people.person = contacts.person GROUP BY ALL
""",
)


def main(source: Path, memory_limit: str) -> None:
    """Run the statements over a ledger's file, or over the folder of a copy."""
    with TemporaryDirectory() as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory_limit,
            "temp_directory": str(Path(folder) / "spill"),
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=settings) as engine:
            if source.is_dir():
                attach_copy(engine, source)
            else:
                read_ledger(engine, source, Path(folder))
            for statement in _STATEMENTS:
                engine.execute(statement).fetchall()


def attach_copy(engine: duckdb.DuckDBPyConnection, copy: Path) -> None:
    """Make the copy's tables visible."""
    (file,) = copy.glob("*.duckdb")
    engine.execute(f"ATTACH '{file}' AS copy (READ_ONLY)")
    engine.execute("CREATE TEMP VIEW results AS FROM copy.results")
    engine.execute("CREATE TEMP VIEW contacts AS FROM copy.contacts")


def read_ledger(engine: duckdb.DuckDBPyConnection, ledger: Path, folder: Path) -> None:
    """Read the ledger's results and contacts by way of files in a folder."""
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        for name, query in (("results", _LEDGERS_RESULTS), ("contacts", _LEDGERS_CONTACTS)):
            found = database.execute(query)
            with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                rows = csv.writer(file)
                rows.writerow(column[0] for column in found.description)
                rows.writerows(found)
    results, contacts = (
        f"read_csv('{folder / name}.csv', all_varchar = true)" for name in ("results", "contacts")
    )
    engine.execute(f"{_READ_RESULTS} {results}")
    engine.execute(f"CREATE TEMP TABLE contacts AS FROM {contacts}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
