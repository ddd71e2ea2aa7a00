"""What each stage of a plan on a cluster costs a core, what it writes, and how many tasks a scheduler takes.

    python -m tests.benchmarks.cluster_stages [--rows N]

The stages run one after the other in this process, by way of the bytes that would go to workers, beside the
plan that one process makes. Prints a table and never fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.campaign.load import load_campaign
from runner.cluster.address import parse_address
from runner.cluster.audience_scatter import choose_partitions
from runner.cluster.campaign_plan import plan_on_cluster
from runner.cluster.dask_engine import open_cluster
from runner.cluster.folder import PlanJob, SharedFolder
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems
from tests.benchmarks.cluster_plan import write_campaign
from tests.cluster.in_process import InProcess
from tests.cluster.tasks import square

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.campaign.model import Campaign

ROWS = 1_000_000
CALLS = 5_000
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Stages(InProcess):
    """Calls made in this process, the CPU seconds of which are kept, by function."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def run(
        self, task: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function with each of several arguments."""
        given = list(arguments)
        start = time.process_time()
        results = list(super().run(task, given))
        self.seconds[task.__name__] += time.process_time() - start
        return iter(results)


def say(name: str, found: str) -> None:
    """Write a line of the table at once."""
    sys.stdout.write(f"{name:44} {found}\n")
    sys.stdout.flush()


def plan_alone(campaign: Campaign) -> float:
    """Plan in one process; return the CPU seconds."""
    start = time.process_time()
    context = PlanContext(now=NOW)
    Planner(campaign, "sandbox", RecordedDeliveries({}, {}), None, PlanOptions(), context).make_plan(
        Problems()
    )
    return time.process_time() - start


def plan_in_stages(campaign: Campaign, folder: Path) -> Stages:
    """Plan in partitions, and write the launches; return what the stages took."""
    stages = Stages()
    partitions = choose_partitions([campaign])
    job = PlanJob(campaign, "sandbox", PlanOptions(), PlanContext(NOW), partitions, keeps_launches=True)
    plan_on_cluster(stages, SharedFolder(str(folder)), job, Problems())
    return stages


def count_tasks() -> float:
    """Return how many calls of next to nothing a scheduler brings to two workers and back, in a second."""
    with open_cluster(parse_address("local:2"), {}) as cluster:
        list(cluster.run(square, [(1,)] * 100))
        start = time.monotonic()
        list(cluster.run(square, [(number,) for number in range(CALLS)]))
        return CALLS / (time.monotonic() - start)


def main() -> None:
    """Run the benchmark of a plan's stages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    rows: int = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_campaign(folder / "campaigns", rows)
        campaign, _ = load_campaign(folder / "campaigns" / "renewal.yaml", current=folder)
        if campaign is None:
            raise ValueError(name)
        say("one process plans", f"{rows / plan_alone(campaign):,.0f} rows a second")
        scratch = folder / "scratch"
        scratch.mkdir()
        for stage, seconds in plan_in_stages(campaign, scratch).seconds.items():
            say(stage, f"{rows / seconds:,.0f} rows a second of a core")
        for ending in ("rows", "launches"):
            size = sum(file.stat().st_size for file in scratch.glob(f"*.{ending}"))
            say(f"bytes of {ending}", f"{size / rows:,.0f} a row")
    say("a scheduler and two workers", f"{count_tasks():,.0f} calls a second")


if __name__ == "__main__":
    main()
