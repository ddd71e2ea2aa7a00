"""The cost of the sandbox's endpoints: pages of a large store against each other, sends against Flask with waitress.

Prints ratios and their parts and never fails: machines are noisy, so a ratio of one run counts, never a time.
Client and service are pinned to a core each, where there are two.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from tests.benchmarks.million import Size, fill_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HERE = Path(__file__).parent
PAGE_GOAL, SEND_GOAL = 2.0, 2.0
LIMIT = 100
PAGES = 150
CONNECTIONS = 64
ROUNDS = 3
SANDBOX = (sys.executable, "-m", "runner", "sandbox", "serve", "--port", "0", "--db")
FLASK = (sys.executable, "-m", "tests.benchmarks.flask_service")


@dataclass(frozen=True, slots=True)
class Served:
    """A running service: where, its process, and the query that carries its credentials."""

    host: str
    port: int
    process: int
    credentials: Mapping[str, str]

    def target(self, path: str, **query: object) -> str:
        """Give the target of a request."""
        return f"{path}?{urlencode({**self.credentials, **query})}"


def pin(core: int, *command: str | Path) -> list[str]:
    """Return a command that runs on one core, where the machine has it and knows how."""
    words = [str(word) for word in command]
    is_possible = shutil.which("taskset") is not None and (os.cpu_count() or 1) > core
    return ["taskset", "-c", str(core), *words] if is_possible else words


@contextmanager
def running(command: Sequence[str], db: Path) -> Iterator[Served]:
    """Run a service on the first core while the block lasts."""
    with subprocess.Popen(pin(0, *command, db), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = dict(process.stdout.readline().strip().split(": ", 1) for _ in range(3))
            url = urlsplit(said.pop("url"))
            yield Served(url.hostname or "", url.port or 0, process.pid, said)
        finally:
            process.terminate()


def fetch(connection: http.client.HTTPConnection, target: str) -> bytes:
    """Return the body of an answer."""
    connection.request("GET", target)
    return connection.getresponse().read()


def measure_pages(served: Served, filters: Mapping[str, str]) -> tuple[float, float, int]:
    """Return the median seconds of the first page and of the last, and the number of records."""
    connection = http.client.HTTPConnection(served.host, served.port)
    path = "/api/results"
    total = json.loads(fetch(connection, served.target(path, limit=1, **filters)))["meta"]["total_count"]
    offsets = (0, max(0, total - LIMIT))
    times: dict[int, list[float]] = {offset: [] for offset in offsets}
    # In turns: what disturbs the machine disturbs both.
    for _ in range(PAGES):
        for offset in offsets:
            target = served.target(path, limit=LIMIT, offset=offset, **filters)
            started = time.perf_counter()
            page = fetch(connection, target)
            times[offset].append(time.perf_counter() - started)
            assert len(json.loads(page)["objects"]) == min(LIMIT, total)
    first, last = (statistics.median(times[offset]) for offset in offsets)
    return first, last, total


def show_pages(size: Size) -> None:
    """Print what the last page costs against the first, unfiltered and for each filter."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "service.sqlite"
        started = time.monotonic()
        fill_store(db, size)
        took = time.monotonic() - started
        write(f"{size.launches:,} launches, {size.results:,} sessions and results, written in {took:.0f} s")
        with running(SANDBOX, db) as served:
            connection = http.client.HTTPConnection(served.host, served.port)
            record = json.loads(fetch(connection, served.target("/api/results", limit=1)))["objects"][0]
            names = ("project_tag", "question_tag", "project_launch_guid", "participant_guid")
            for filters in ({}, *({name: record[name]} for name in names)):
                first, last, total = measure_pages(served, filters)
                write(
                    f"last page, {', '.join(filters) or 'unfiltered'}: {last / first:.2f} of the first "
                    f"(goal {PAGE_GOAL}): {last * 1e3:.2f} of {first * 1e3:.2f} ms; {total:,} results"
                )


@dataclass(frozen=True, slots=True)
class Sends:
    """One run of wrk: committed sends a second, and CPU seconds that the service took for each."""

    rate: float
    cpu_s: float


def measure_sends(served: Served, seconds: int) -> Sends:
    """Return what wrk gets answered."""
    url = f"http://{served.host}:{served.port}{served.target('/api/send')}"
    command = pin(1, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", HERE / "launch.lua", url)
    before = read_cpu_s(served.process)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cpu_s = read_cpu_s(served.process) - before
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    count = re.search(r"(\d+) requests in", said)
    assert rate is not None, said
    assert count is not None, said
    assert "Non-2xx" not in said, said
    return Sends(float(rate[1]), cpu_s / int(count[1]))


def read_cpu_s(process: int) -> float:
    """Return the CPU seconds that a process has taken; not a number where the system doesn't tell."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.exists():
        return float("nan")
    # proc(5): the name in brackets may hold anything; utime and stime are fields 14 and 15.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show_sends(seconds: int) -> None:
    """Print how many committed sends the sandbox takes against Flask with waitress."""
    if shutil.which("wrk") is None:
        write("sends: not measured, wrk is not installed")
        return
    runs: dict[Sequence[str], list[Sends]] = {SANDBOX: [], FLASK: []}
    for _ in range(ROUNDS):
        for command, measured in runs.items():
            with (
                tempfile.TemporaryDirectory() as folder,
                running(command, Path(folder) / "a.sqlite") as served,
            ):
                measured.append(measure_sends(served, seconds))
    rates = [statistics.median(run.rate for run in each) for each in runs.values()]
    cpu_us = [statistics.median(run.cpu_s for run in each) * 1e6 for each in runs.values()]
    write(
        f"POST /api/send, committed: {rates[0] / rates[1]:.2f} of Flask with waitress (goal {SEND_GOAL}): "
        f"{rates[0]:,.0f}/s of {rates[1]:,.0f}/s at {CONNECTIONS} connections; "
        f"CPU {cpu_us[0]:.0f} of {cpu_us[1]:.0f} µs a send"
    )


def write(line: str) -> None:
    """Show a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--results", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=4, help="of each of the six runs of wrk")
    chosen = parser.parse_args()
    show_pages(Size(chosen.launches, chosen.results))
    show_sends(chosen.seconds)


if __name__ == "__main__":
    main()
