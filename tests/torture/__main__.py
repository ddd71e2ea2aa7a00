"""`python -m tests.torture`: scenarios until enough faults were met.

A third of them on SQLite, a third on PostgreSQL, and a third on machines that share a git remote alone.

With `--cluster`, on a cluster of processes that fail, too.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.postgres import find_postgres, run_postgres
from tests.torture.cluster.faults import COMINGS, LEFT
from tests.torture.cluster.series import WORKERS, count_cluster_faults, run_rounds
from tests.torture.ledgers import LocalLedger, PostgresLedger, SqliteLedger
from tests.torture.series import JOBS, run_scenarios
from tests.torture.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.postgres import PostgresServer
    from tests.torture.ledgers import Ledger

_FAULTS, _CLUSTER_FAULTS = 2000, 500
_RECORDS = ("sqlite", "postgresql", "state-remote")


def main() -> int:
    """Return 0 if nobody was texted twice and nobody skipped."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--faults", type=int, help="at least so many: 2000, of a cluster 500")
    parser.add_argument("--seed", type=int, default=1, help="of the first scenario")
    parser.add_argument("--jobs", type=int, default=JOBS, help="scenarios at once")
    parser.add_argument("--ledger", choices=_RECORDS, help="this one alone")
    parser.add_argument("--cluster", action="store_true", help="apply on a cluster, and have that fail, too")
    parser.add_argument("--workers", type=int, default=WORKERS, help="of the cluster: processes")
    parser.add_argument("--keep", type=Path, help="of a cluster: where its logs go if anything is wrong")
    options = parser.parse_args()
    options.faults = options.faults or (_CLUSTER_FAULTS if options.cluster else _FAULTS)
    chosen = [options.ledger] if options.ledger else list(_RECORDS)
    makers: dict[str, Callable[[Path], Ledger]] = {"sqlite": SqliteLedger, "state-remote": LocalLedger}
    with ExitStack() as stack:
        if options.cluster or "postgresql" in chosen:
            programs = find_postgres()
            if programs is None:
                parser.error("PostgreSQL is not installed: apt-get install postgresql, or --ledger sqlite")
            server = stack.enter_context(run_postgres(programs))
            makers["postgresql"] = lambda _: PostgresLedger(server)
        if options.cluster:
            return int(bool(_torture_cluster(server, options).violations))
        total = Tally()
        for name in chosen:
            total.add(_torture(name, makers[name], options, -(-options.faults // len(chosen))))
    sys.stdout.write(
        f"In all: {total.faults.total():,} faults in {total.commands:,} runs; {total.sum_up()}\n"
    )
    return int(bool(total.violations))


def _torture(
    name: str, make_ledger: Callable[[Path], Ledger], options: argparse.Namespace, faults: int
) -> Tally:
    told = 0

    def show(tally: Tally) -> None:
        nonlocal told
        lines = [f"{name}: {tally.faults.total():,} faults; {tally.sum_up()}", *tally.violations[told:]]
        told = len(tally.violations)
        sys.stderr.write("\n".join((*lines, "")))

    total = run_scenarios(
        make_ledger,
        faults=faults,
        first_seed=options.seed,
        jobs=options.jobs,
        show=show,
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
    sys.stdout.write(f"{total.describe(name, (*COMINGS, LEFT))}\n")
    return total


def _note_round(tally: Tally) -> None:
    # A round takes a minute: each is worth a line, in a log, too.
    sys.stderr.write(f"{count_cluster_faults(tally):,} faults; {tally.sum_up()}\n")


if __name__ == "__main__":
    sys.exit(main())
