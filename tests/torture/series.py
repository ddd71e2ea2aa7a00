"""Scenarios one after the other, and several at once, until enough faults were met."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import count
from typing import TYPE_CHECKING

from tests.torture.scenario import run_scenario
from tests.torture.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from tests.torture.ledgers import Ledger

JOBS = 4
"""Scenarios at once: most of the time they wait."""


def run_scenarios(
    make_ledger: Callable[[Path], Ledger],
    *,
    faults: int,
    first_seed: int = 1,
    jobs: int = JOBS,
    show: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Run scenarios with seeds in a row until so many faults were met; all that were started end.

    Args:
        make_ledger: given a repository's folder, returns its ledger.
        faults: at least so many.
        first_seed: of the first scenario.
        jobs: scenarios at once.
        show: is told how far it is.
    """
    total, ended = Tally(), 0
    seeds = count(first_seed)
    running: set[Future[Tally]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        while running or total.faults.total() < faults:
            # None is begun that those which are under way will probably spare.
            while len(running) < jobs and _expect(total, ended, len(running)) < faults:
                running.add(pool.submit(run_scenario, next(seeds), make_ledger))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total.add(future.result())
            ended += len(done)
            show(total)
    return total


def _expect(total: Tally, ended: int, running: int) -> float:
    """Return how many faults it will be with those that are met in scenarios under way, as in the others."""
    return total.faults.total() * (1 + running / ended) if ended else 0
