"""Memory of the process that starts `reconcile`, `report` and `report --by`, in KB a recipient.

    python -m tests.benchmarks.client_memory [--small N] [--large N] [--a-send N]

Each command runs on two sizes, in one process on SQLite and on PostgreSQL, and on `--cluster local:2`. The
difference of the peaks, divided by the difference of the sizes, is what a recipient costs. Lockfiles hold
counts (`lockfile: summary`). Prints figures and never fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert

from runner.ledger.bulk import BulkStatement, divide
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.record.deliveries import enter_campaign
from runner.ledger.results.reconciled import store_results
from runner.ledger.tables import deliveries, launches
from runner.sandbox.store import open_store
from tests.benchmarks.cluster_plan import read_peak
from tests.benchmarks.million import Size, fill_store
from tests.benchmarks.reconcile import describe
from tests.benchmarks.sandbox import SANDBOX, running, write
from tests.postgres import find_postgres, run_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Insert, Table

GOAL_KB = 0.01
AT = "2026-11-21T12:00:00.000000Z"
KEY = TargetKey.of("live", None)
CAMPAIGN = """
version: 1
name: pulse
lockfile: summary
recipients:
  - csv: people.csv
messages:
  - id: ask
    tag: tag-0
    questions:
      - {tag: nps-0, text: "How likely?", responses: ["1", "2"]}
"""
COMMANDS = {
    "reconcile": ("reconcile",),
    "report": ("report", "--format", "json", "--out", "reports"),
    "report --by": ("report", "--format", "json", "--out", "reports", "--by", "city"),
}
_CITIES = ("Rome", "Oslo", "Lima", "Cairo", "Kyoto")
_GROUP = 5_000
_EVERY_S = 0.05
_ENTERED = (
    "id",
    "campaign_id",
    "message",
    "launch_key",
    "tag",
    "payload_digest",
    "definition",
    "recipients",
    "state",
    "project_launch_guid",
    "intent_at",
    "outcome_at",
    "is_open",
)


def insert_into(table: Table) -> BulkStatement:
    """Return a statement that inserts many rows of a table."""

    def compose(_: Connection) -> Insert:
        return insert(table)

    return BulkStatement(compose, list(_ENTERED) if table is launches else [c.name for c in table.c])


def _sent(guid: str) -> tuple[object, ...]:
    return "sent", guid, AT, AT, True


@dataclass(frozen=True, slots=True)
class Project:
    """A repository with a campaign of so many recipients, and the service's database."""

    folder: Path
    recipients: int
    a_send: int

    @property
    def service(self) -> Path:
        """The service's database."""
        return self.folder / "service.sqlite"

    def fill(self) -> None:
        """Write the campaign, its audience, and what the service has."""
        (self.folder / ".git").mkdir(parents=True)
        (self.folder / "campaigns").mkdir()
        (self.folder / "campaigns" / "pulse.yaml").write_text(CAMPAIGN, encoding="utf-8")
        with (self.folder / "campaigns" / "people.csv").open("w", encoding="utf-8") as people:
            people.write("phone,city\n")
            people.writelines(f"{phone},{_CITIES[n % 5]}\n" for n, phone in enumerate(self.list_phones()))
        fill_store(self.service, Size(self.recipients // self.a_send, self.recipients, 1))

    def list_phones(self) -> Iterator[str]:
        """Yield the phones of the service's participants, in the order of their numbers."""
        return (f"+1415{2_000_001 + number}" for number in range(self.recipients))

    def fill_ledger(self, url: str) -> None:
        """Record everything as sent."""
        with closing(open_store(self.service)) as store, store.read() as connection:
            sent = connection.execute("SELECT id, guid, project_tag FROM launch ORDER BY id").fetchall()
        with Ledger(url) as ledger:
            ledger.prepare()
            with ledger.writing() as connection:
                campaign_id = enter_campaign(connection, "live", "pulse")
                store_results(connection, [])
                for group in divide(sent, _GROUP):
                    rows = [
                        dict(
                            zip(
                                _ENTERED,
                                [number, campaign_id, "ask", guid, tag, "d", "{}", self.a_send, *_sent(guid)],
                                strict=True,
                            )
                        )
                        for number, guid, tag in group
                    ]
                    insert_into(launches).run(connection, rows)
                people = (
                    {
                        "campaign_id": campaign_id,
                        "message": "ask",
                        "fingerprint": KEY.fingerprint(phone),
                        "launch_id": number % len(sent) + 1,
                        "released": False,
                    }
                    for number, phone in enumerate(self.list_phones())
                )
                for group in divide(people, _GROUP):
                    insert_into(deliveries).run(connection, group)
        with Ledger(url) as ledger, ledger.autocommit() as connection:
            connection.exec_driver_sql("ANALYZE")

    def measure(self, command: Sequence[str], environment: dict[str, str]) -> tuple[int, float]:
        """Return the most memory of the process that was started, in KiB, and the seconds that it took."""
        started = time.monotonic()
        program = [sys.executable, "-m", "runner", *command]
        values = {**os.environ, "PYTHONPATH": str(Path.cwd()), **environment}
        with subprocess.Popen(program, cwd=self.folder, env=values, stdout=subprocess.DEVNULL) as process:
            peak = 0
            while process.poll() is None:
                peak = max(peak, read_peak(process.pid))
                time.sleep(_EVERY_S)
        assert process.returncode == 0, (command, process.returncode)
        return peak, time.monotonic() - started


def measure(project: Project, ledger: str, options: Sequence[str]) -> dict[str, tuple[int, float]]:
    """Return peak and seconds of each command, each with a new copy of the results."""
    project.fill_ledger(ledger)
    found = {}
    with running(SANDBOX, project.service) as served:
        told = describe(served)
        environment = {
            "RUNNER_LEDGER": ledger,
            "RUNNER_BASE_URL": told["url"],
            "RUNNER_USERNAME": told["username"],
            "RUNNER_API_KEY": told["api_key"],
        }
        for name, command in COMMANDS.items():
            shutil.rmtree(project.folder / ".runner" / "results", ignore_errors=True)
            found[name] = project.measure([*command, *options], environment)
    for lockfile in (project.folder / "campaigns").glob("*.lock.json"):
        lockfile.unlink()
    return found


def main() -> None:
    """Fill two projects, and measure the commands on each ledger."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=500_000)
    parser.add_argument("--a-send", type=int, default=500, help="recipients of a launch")
    options = parser.parse_args()
    programs = find_postgres()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        projects = [
            Project(Path(name) / str(size), size, options.a_send) for size in (options.small, options.large)
        ]
        for project in projects:
            project.fill()
        places: dict[str, tuple[Callable[[Project], str], Sequence[str]]] = {
            "SQLite": (lambda project: f"sqlite:///{project.folder / 'ledger.sqlite'}", ())
        }
        if programs is None:
            write("PostgreSQL is not installed: one process on SQLite only")
        else:
            server = stack.enter_context(run_postgres(programs))
            places["PostgreSQL"] = (lambda _: server.url(server.create_database()), ())
        for place, (make_ledger, more) in places.items():
            show(place, projects, [measure(project, make_ledger(project), more) for project in projects])


def show(place: str, projects: Sequence[Project], found: Sequence[dict[str, tuple[int, float]]]) -> None:
    """Print what a recipient costs each command."""
    few, many = projects
    for name in COMMANDS:
        (low, _), (high, seconds) = found[0][name], found[1][name]
        each = (high - low) / (many.recipients - few.recipients)
        write(
            f"{name}, {place}, {few.a_send} a send: {each:.3f} KB a recipient (goal {GOAL_KB}); "
            f"{low / 1024:.0f} MiB with {few.recipients:,}, {high / 1024:.0f} MiB and {seconds:.1f} s with "
            f"{many.recipients:,}"
        )


if __name__ == "__main__":
    main()
