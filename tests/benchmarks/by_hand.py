"""The groups of a report by statements that an expert would write, over the copy that reports are counted from.

What `tests.benchmarks.report` measures against: nothing is loaded here but the engine.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

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


def main(copy: Path, memory_limit: str) -> None:
    """Run the statements."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "temp_directory": str(copy / "spill"),
        "preserve_insertion_order": False,
    }
    with duckdb.connect(config=settings) as engine:
        (file,) = copy.glob("*.duckdb")
        engine.execute(f"ATTACH '{file}' AS copy (READ_ONLY)")
        engine.execute("CREATE TEMP VIEW results AS FROM copy.results")
        engine.execute("CREATE TEMP VIEW contacts AS FROM copy.contacts")
        for statement in _STATEMENTS:
            engine.execute(statement).fetchall()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
