"""The speed of `runner apply`, with its durable ledger, against that of wrk on the same service.

Prints ratios and their parts and never fails: machines are noisy, so a ratio of one run counts, never a time.
Client and service are pinned to a core each, where there are two.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
LATENCY_S = 0.05
SECONDS = 8
SLOW_FSYNC_S = 0.005
CAMPAIGN = """\
version: 1
name: bench
recipients:
  - csv: people.csv
messages:
  - id: parcel
    text: "Hi {{ first_name }}, your parcel {{ number }} is on its way."
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """One apply.

    Attributes:
        rate: launches a second, from the first one's arrival to the last one's answer.
        process_s: seconds of the whole process, its start included.
        cpu_s: CPU seconds of the process, user and system.
        accepted: launches.
    """

    rate: float
    process_s: float
    cpu_s: float
    accepted: int


def pin(core: int, *command: str | Path) -> list[str]:
    """Return a command that runs on one core, where the machine has it and knows how."""
    words = [str(word) for word in command]
    is_possible = shutil.which("taskset") is not None and (os.cpu_count() or 1) > core
    return ["taskset", "-c", str(core), *words] if is_possible else words


@contextmanager
def running_service() -> Iterator[str]:
    """Run the service on the first core while the block lasts, and yield its URL."""
    command = pin(0, sys.executable, HERE / "service.py", str(LATENCY_S))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def read_progress(url: str) -> tuple[int, float, float]:
    """Return how many launches were accepted since the last call, when the first came, and when the last went."""
    with urllib.request.urlopen(f"{url}/progress") as answer:  # noqa: S310  our own loopback service
        accepted, first_at, last_at = json.loads(answer.read())
    return accepted, first_at, last_at


def measure_wrk(url: str, concurrency: int) -> float:
    """Return the requests a second that wrk gets answered."""
    command = pin(
        1, "wrk", "-t1", f"-c{concurrency}", f"-d{SECONDS}s", "-s", HERE / "send.lua", f"{url}/api/send"
    )
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # What wrk left behind is still being answered: it must not count for the next client.
    time.sleep(2 * LATENCY_S)
    read_progress(url)
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found is not None, said
    return float(found[1])


def measure_apply(
    url: str, concurrency: int, environment: dict[str, str] | None = None, *, people: int | None = None
) -> Sent:
    """Return how `runner apply` did with an audience; by default one that keeps it busy for some seconds."""
    people = people or int(concurrency / LATENCY_S * SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        write_campaign(Path(folder), people)
        command = pin(
            1, sys.executable, "-m", "runner", "apply", "campaigns", "--auto-approve", "--quiet",
            "--concurrency", str(concurrency),
        )  # fmt: skip
        # Nothing was lost here: the wait of a new ledger is not what is measured.
        credentials = {
            "RUNNER_BASE_URL": url,
            "RUNNER_USERNAME": "bench",
            "RUNNER_API_KEY": "bench",
            "RUNNER_SETTLE_WINDOW": "0s",
        }
        variables = {**os.environ, **credentials, **(environment or {})}
        before, started = os.times(), time.monotonic()
        subprocess.run(command, cwd=folder, env=variables, check=True, stdout=subprocess.DEVNULL)
        process_s, after = time.monotonic() - started, os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    accepted, first_at, last_at = read_progress(url)
    return Sent(accepted / (last_at - first_at), process_s, cpu_s, accepted)


def write_campaign(folder: Path, people: int) -> None:
    """Write a campaign in which everyone gets a text of their own."""
    campaigns = folder / "campaigns"
    campaigns.mkdir()
    (campaigns / "bench.yaml").write_text(CAMPAIGN, encoding="utf-8")
    rows = (f"Ada,{number},+1415{2_000_000 + number}\n" for number in range(people))
    (campaigns / "people.csv").write_text("first_name,number,phone\n" + "".join(rows), encoding="utf-8")


def show(name: str, sent: Sent, ceiling: float, of: str, goal: float) -> None:
    """Print one benchmark's ratio, its goal, and the parts."""
    sys.stdout.write(
        f"{name}: {sent.rate / ceiling:.2f} of {of} (goal {goal})\n"
        f"    {sent.rate:,.0f}/s of {ceiling:,.0f}/s; {sent.accepted:,} launches; process {sent.process_s:.1f} s, "
        f"CPU {sent.cpu_s:.1f} s, {sent.cpu_s / sent.accepted * 1e6:,.0f} µs a launch with everything\n"
    )
    sys.stdout.flush()


def compile_slow_fsync(folder: str) -> Path | None:
    """Return the library that slows fsync down; None without a compiler."""
    if shutil.which("gcc") is None:
        return None
    library = Path(folder) / "slow_fsync.so"
    source = HERE / "slow_fsync.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    return library


def main() -> None:
    """Run the benchmarks of sending."""
    with running_service() as url:
        for concurrency, goal in ((64, 0.95), (256, 0.60)):
            if shutil.which("wrk") is None:
                ceiling, of = concurrency / LATENCY_S, "threads/latency, as wrk is not installed"
            else:
                ceiling, of = measure_wrk(url, concurrency), "wrk"
            show(f"apply, {concurrency} threads, 50 ms", measure_apply(url, concurrency), ceiling, of, goal)
        with tempfile.TemporaryDirectory() as folder:
            library = compile_slow_fsync(folder)
            if library is None:
                sys.stdout.write("apply with a slow fsync: skipped, gcc is not installed\n")
                return
            slow = {"LD_PRELOAD": str(library), "SLOW_FSYNC_US": str(int(SLOW_FSYNC_S * 1e6))}
            sent = measure_apply(url, 64, slow)
        show("apply, 64 threads, 50 ms, 5 ms fsync", sent, 64 / LATENCY_S, "threads/latency", 0.75)


if __name__ == "__main__":
    main()
