"""`python -m tests.torture`: scenarios until enough faults were met, on SQLite and on PostgreSQL."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tests.postgres import find_postgres, run_postgres
from tests.torture.ledgers import PostgresLedger, SqliteLedger
from tests.torture.series import JOBS, run_scenarios

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.ledgers import Ledger
    from tests.torture.tally import Tally


def main() -> int:
    """Return 0 if nobody was texted twice and nobody skipped."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--faults", type=int, default=1000, help="at least so many on each ledger")
    parser.add_argument("--seed", type=int, default=1, help="of the first scenario")
    parser.add_argument("--jobs", type=int, default=JOBS, help="scenarios at once")
    parser.add_argument("--ledger", choices=("sqlite", "postgresql"), help="this one alone")
    options = parser.parse_args()
    tallies = []
    if options.ledger != "postgresql":
        tallies.append(_torture("SQLite", SqliteLedger, options))
    if options.ledger != "sqlite":
        programs = find_postgres()
        if programs is None:
            parser.error("PostgreSQL is not installed: apt-get install postgresql, or --ledger sqlite")
        with run_postgres(programs) as server:
            tallies.append(_torture("PostgreSQL", lambda _: PostgresLedger(server), options))
    return int(any(tally.violations for tally in tallies))


def _torture(name: str, make_ledger: Callable[[Path], Ledger], options: argparse.Namespace) -> Tally:
    def show(tally: Tally) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{name}: {tally.faults.total():,} faults … ")

    total = run_scenarios(
        make_ledger, faults=options.faults, first_seed=options.seed, jobs=options.jobs, show=show
    )
    sys.stdout.write(f"{total.describe(name)}\n")
    return total


if __name__ == "__main__":
    sys.exit(main())
