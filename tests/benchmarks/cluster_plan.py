"""Plans of very many people: a cluster of two processes on this machine against one process, whole commands.

Prints ratios of time, and the peak of memory of each process, and never fails. `--rows N` plans for fewer,
`--workers N` with more processes; `--out` has the launches written as well, which one process does not do. The
ledger is on PostgreSQL, and empty.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from math import gcd
from pathlib import Path

from tests.postgres import find_postgres, run_postgres

ROWS = 10_000_000
GOAL = 0.65
_CITIES = ("Rome", "Oslo", "Lima", "Cairo", "Kyoto")
_AREAS = (201, 202, 203, 205, 206, 207, 208, 209, 210, 212, 213, 214, 215, 216, 217, 312, 404, 415, 646)
_PREFIXES = 7_900_000
YAML = """\
version: 1
name: renewal
recipients:
  - csv: people.csv
messages:
  - id: hello
    text: "Hi {{ first_name }}, your plan {{ plan }} ends on {{ day }}. Reply RENEW to keep it."
"""
_RSS_EVERY_S = 0.2


def write_campaign(folder: Path, rows: int) -> None:
    """Write a campaign whose texts all differ, and its audience of phones, each once, in random order."""
    chosen = random.Random(5)  # noqa: S311  phones of nobody, the same ones in each run
    per_area = -(-rows // len(_AREAS))
    folder.mkdir(parents=True)
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["phone", "first_name", "plan", "day", "city", "customer"])
        # Coprime to their number, so that no phone comes twice.
        step = next(
            one for one in iter(lambda: chosen.randrange(_PREFIXES), None) if gcd(one, _PREFIXES) == 1
        )
        for row in range(rows):
            area = _AREAS[row % len(_AREAS)]
            number = 2_000_000 + (row // len(_AREAS)) * step % _PREFIXES
            city = _CITIES[row % len(_CITIES)]
            writer.writerow([f"+1{area}{number}", f"Name{row}", "pro", f"May {row % 28 + 1}", city, row])
    if per_area > _PREFIXES:
        raise ValueError("there are not so many phones")
    (folder / "renewal.yaml").write_text(YAML, encoding="utf-8")


class Watch:
    """Reads the resident memory of a process and of those that it started, while it runs.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self.peaks: dict[int, int] = {}
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> list[float]:
        """Return the peaks of all processes, in MiB, the largest first."""
        self._is_over.set()
        self._thread.join()
        return sorted((peak / 1024 for peak in self.peaks.values()), reverse=True)

    def _look(self) -> None:
        while not self._is_over.wait(_RSS_EVERY_S):
            for pid in list_tree(self._pid):
                self.peaks[pid] = max(self.peaks.get(pid, 0), read_peak(pid))


def list_tree(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *(one for child in children for one in list_tree(child))]


def read_peak(pid: int) -> int:
    """Return the most memory that a process has had, in KiB; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def run_plan(folder: Path, ledger: str, *options: str) -> tuple[float, float, list[float]]:
    """Plan in a process of its own; return wall seconds, CPU seconds of all processes, and peaks in MiB."""
    command = [sys.executable, "-m", "runner", "plan", "--quiet", "--format", "json", *options]
    environment = {**os.environ, "RUNNER_LEDGER": ledger, "PYTHONPATH": str(Path.cwd())}
    before, start = os.times(), time.monotonic()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as process:
        watch = Watch(process.pid)
        code = process.wait()
        peaks = watch.stop()
    wall, after = time.monotonic() - start, os.times()
    assert code == 0, code
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu, peaks


def report(words: str, found: tuple[float, float, list[float]]) -> None:
    """Write what a run took."""
    wall, cpu, peaks = found
    # Of the processes that only start others, and the scheduler's part, nobody asks.
    each = ", ".join(f"{peak:,.0f}" for peak in peaks if peak >= peaks[0] / 4)
    sys.stdout.write(f"{words}: {wall:.1f} s, {cpu:.1f} s of CPU; peaks of memory {each} MiB\n")
    sys.stdout.flush()


def main() -> None:
    """Run the benchmark of plans on a cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--out", action="store_true")
    options = parser.parse_args()
    programs = find_postgres()
    if programs is None:
        sys.stdout.write("PostgreSQL is not installed\n")
        return
    with tempfile.TemporaryDirectory() as name, run_postgres(programs) as server:
        folder = Path(name)
        write_campaign(folder / "campaigns", options.rows)
        size = (folder / "campaigns" / "people.csv").stat().st_size / 2**20
        sys.stdout.write(f"{options.rows:,} people, {size:,.0f} MiB of CSV\n")
        ledger = server.url(server.create_database())
        cluster = ["--cluster", f"local:{options.workers}", *(["--out", "set"] if options.out else [])]
        for _ in range(options.pairs):
            alone = run_plan(folder, ledger)
            report("one process", alone)
            together = run_plan(folder, ledger, *cluster)
            report(f"local:{options.workers}", together)
            sys.stdout.write(
                f"{together[0] / alone[0]:.2f} × the time of one process (goal {GOAL} with two); "
                f"{together[1] / alone[1]:.2f} × its CPU (goal 1.25)\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
