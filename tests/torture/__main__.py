"""`python -m tests.torture`: scenarios until enough faults were met.

A third of them on SQLite, a third on PostgreSQL, and a third on machines that share a git remote alone.
With `--ledger cluster` on PostgreSQL, with plans from a cluster of two processes.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.postgres import find_postgres, run_postgres
from tests.torture.ledgers import ClusterLedger, LocalLedger, PostgresLedger, SqliteLedger
from tests.torture.series import JOBS, run_scenarios
from tests.torture.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.torture.ledgers import Ledger

_FAULTS = 2000
_RECORDS = ("sqlite", "postgresql", "state-remote")


def main() -> int:
    """Return 0 if nobody was texted twice and nobody skipped."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--faults", type=int, default=_FAULTS, help="at least so many")
    parser.add_argument("--seed", type=int, default=1, help="of the first scenario")
    parser.add_argument("--jobs", type=int, default=JOBS, help="scenarios at once")
    parser.add_argument("--ledger", choices=(*_RECORDS, "cluster"), help="this one alone")
    options = parser.parse_args()
    chosen = [options.ledger] if options.ledger else list(_RECORDS)
    makers: dict[str, Callable[[Path], Ledger]] = {"sqlite": SqliteLedger, "state-remote": LocalLedger}
    with ExitStack() as stack:
        if not {"postgresql", "cluster"}.isdisjoint(chosen):
            programs = find_postgres()
            if programs is None:
                parser.error("PostgreSQL is not installed: apt-get install postgresql, or --ledger sqlite")
            server = stack.enter_context(run_postgres(programs))
            makers["postgresql"] = lambda _: PostgresLedger(server)
            makers["cluster"] = lambda _: ClusterLedger(server)
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


if __name__ == "__main__":
    sys.exit(main())
