"""Rounds of several campaigns on one cluster, until enough faults were met."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture.cluster.faults import PAUSES_S, Mishaps, choose_deaths
from tests.torture.cluster.fleet import Fleet
from tests.torture.cluster.scenario import ClusterScenario
from tests.torture.schedule import make_random
from tests.torture.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.postgres import PostgresServer
    from tests.torture.cluster.faults import Pauses

WORKERS = 4
CAMPAIGNS = 4
"""That are sent at once."""
ROUND_S = 30.0
"""For how long the campaigns of a round are disturbed."""
_LOOK_S = 0.05
_DEATHS = 0.25
"""The share of workers that kill themselves at a step."""


def run_rounds(
    server: PostgresServer,
    *,
    faults: int,
    first_seed: int = 1,
    workers: int = WORKERS,
    campaigns: int = CAMPAIGNS,
    round_s: float = ROUND_S,
    pauses: Pauses = PAUSES_S,
    first: Sequence[str] = (),
    show: Callable[[Tally], None] = lambda _: None,
    keep: Path | None = None,
) -> Tally:
    """Run rounds on one cluster until so many faults were met, those of the service not counted.

    Args:
        server: where the ledger's database is made.
        faults: at least so many.
        first_seed: of the first campaign; the others follow.
        workers: worker processes.
        campaigns: at once.
        round_s: for how long those of a round are disturbed, in seconds.
        pauses: how long processes are stopped: one of several ranges, in seconds.
        first: faults of the first round that come before all others.
        show: is told how far it is.
        keep: a folder for what processes wrote, if anything is wrong; None to throw it away.
    """
    total, seed = Tally(), first_seed
    deaths = choose_deaths(make_random(first_seed, "deaths"), _DEATHS)
    with tempfile.TemporaryDirectory(prefix="torture-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        fleet = Fleet(folder, server, workers=workers, env={}, choose_death=lambda: next(deaths))
        stack.enter_context(fleet)
        while count_cluster_faults(total) < faults:
            seeds = range(seed, seed + campaigns)
            scenarios = [ClusterScenario(seed, folder / f"campaign-{seed}", fleet, pauses) for seed in seeds]
            mishaps = Mishaps(fleet, server, make_random(seed, "mishaps"), pauses, first)
            tally, first = _run_round(fleet, scenarios, mishaps, round_s), ()
            seed += campaigns
            total.add(tally)
            show(total)
            if tally.violations and keep is not None:
                shutil.copytree(folder / "logs", keep / f"{seeds[0]}", dirs_exist_ok=True)
    return total


def count_cluster_faults(tally: Tally) -> int:
    """Return how many faults befell processes, connections and records."""
    return sum(number for kind, number in tally.faults.items() if not kind.startswith("service: "))


def _run_round(fleet: Fleet, scenarios: Sequence[ClusterScenario], mishaps: Mishaps, round_s: float) -> Tally:
    fleet.wait_until_whole()
    is_over = threading.Event()
    until = time.monotonic() + round_s
    with ThreadPoolExecutor(len(scenarios)) as pool:
        running = [pool.submit(scenario.run, is_over) for scenario in scenarios]
        with mishaps:
            while time.monotonic() < until or not mishaps.is_through:
                time.sleep(_LOOK_S)
        is_over.set()
    tally = Tally(faults=mishaps.faults)
    for future, scenario in zip(running, scenarios, strict=True):
        future.result()
        tally.add(scenario.tally)
    return tally
