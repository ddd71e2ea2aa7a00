"""`python -m tests.torture`: scenarios until enough faults were met, on SQLite and on PostgreSQL.

With `--cluster`, on a cluster of processes that fail, too.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.postgres import find_postgres, run_postgres
from tests.torture.cluster.series import WORKERS, count_cluster_faults, run_rounds
from tests.torture.ledgers import PostgresLedger, SqliteLedger
from tests.torture.series import JOBS, run_scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.postgres import PostgresServer
    from tests.torture.ledgers import Ledger
    from tests.torture.tally import Tally

_FAULTS, _CLUSTER_FAULTS = 1000, 500


def main() -> int:
    """Return 0 if nobody was texted twice and nobody skipped."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--faults", type=int, help="at least so many: of each ledger 1000, of a cluster 500")
    parser.add_argument("--seed", type=int, default=1, help="of the first scenario")
    parser.add_argument("--jobs", type=int, default=JOBS, help="scenarios at once")
    parser.add_argument("--ledger", choices=("sqlite", "postgresql"), help="this one alone")
    parser.add_argument("--cluster", action="store_true", help="apply on a cluster, and have that fail, too")
    parser.add_argument("--workers", type=int, default=WORKERS, help="of the cluster: processes")
    parser.add_argument("--keep", type=Path, help="of a cluster: where its logs go if anything is wrong")
    options = parser.parse_args()
    options.faults = options.faults or (_CLUSTER_FAULTS if options.cluster else _FAULTS)
    tallies = []
    if options.cluster:
        options.ledger = "postgresql"
    if options.ledger != "postgresql":
        tallies.append(_torture("SQLite", SqliteLedger, options))
    if options.ledger != "sqlite":
        programs = find_postgres()
        if programs is None:
            parser.error("PostgreSQL is not installed: apt-get install postgresql, or --ledger sqlite")
        with run_postgres(programs) as server:
            if options.cluster:
                tallies.append(_torture_cluster(server, options))
            else:
                tallies.append(_torture("PostgreSQL", lambda _: PostgresLedger(server), options))
    return int(any(tally.violations for tally in tallies))


def _torture(name: str, make_ledger: Callable[[Path], Ledger], options: argparse.Namespace) -> Tally:
    total = run_scenarios(
        make_ledger,
        faults=options.faults,
        first_seed=options.seed,
        jobs=options.jobs,
        show=lambda tally: _show(name, tally),
    )
    sys.stdout.write(f"{total.describe(name)}\n")
    return total


def _torture_cluster(server: PostgresServer, options: argparse.Namespace) -> Tally:
    name = f"Cluster of {options.workers} workers"
    total = run_rounds(
        server,
        faults=options.faults,
        first_seed=options.seed,
        workers=options.workers,
        show=_note_round,
        keep=options.keep,
    )
    sys.stdout.write(f"{total.describe(name)}\n")
    return total


def _note_round(tally: Tally) -> None:
    # A round takes a minute: each is worth a line, in a log, too.
    sys.stderr.write(f"{count_cluster_faults(tally):,} faults; {tally.sum_up()}\n")


def _show(name: str, tally: Tally) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{name}: {tally.faults.total():,} faults … ")


if __name__ == "__main__":
    sys.exit(main())
