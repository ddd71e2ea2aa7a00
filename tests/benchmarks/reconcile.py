"""The cost of reading many results into the ledger: results per second, memory, requests.

Against the sandbox, in a process of its own. Prints figures and never fails: machines are noisy, so the ratio
to reading the same lists and keeping nothing counts.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.ledger.bulk import divide
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import Intent, Outcome
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.reconcile.account import AccountReading
from runner.reconcile.campaign import reconcile_campaign
from runner.reconcile.launches import ReconcileContext
from runner.sandbox.store import open_store
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.paging import ListWalk
from runner.service.target import Credentials, Target
from tests.benchmarks.million import Size, fill_store
from tests.benchmarks.sandbox import SANDBOX, Served, pin, running, write

if TYPE_CHECKING:
    from runner.service.answer import Answer

MEMORY_GOAL_MIB = 60
AT = "2026-11-21T12:00:00.000000Z"
KEY = TargetKey.of("live", None)
_AT_ONCE = 50
_LAUNCHES = """
    SELECT launch.guid, project_tag, group_concat(DISTINCT phone)
    FROM launch JOIN session ON launch_id = launch.id JOIN participant ON participant_id = participant.id
    GROUP BY launch.id ORDER BY launch.id"""


class _Connection(Connection):
    """A connection that counts its requests."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.requests: Counter[str] = Counter()

    def get(self, path: str, query: dict[str, str | int]) -> Answer:
        self.requests[path] += 1
        return super().get(path, query)


def open_ledger(folder: Path) -> Ledger:
    """Return the ledger of a folder."""
    return Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")


def enter_launches(ledger: Ledger, db: Path) -> int:
    """Record the store's launches as sent, and return the campaign's number."""
    with closing(open_store(db)) as store, store.read() as connection, ledger.writing() as opened:
        campaign_id: int = enter_campaign(opened, "live", "pulse")
        for launches in divide(connection.execute(_LAUNCHES), _AT_ONCE):
            intents = [
                Intent("ask", guid, tag, "d1g35t", tuple(map(KEY.fingerprint, phones.split(","))), "{}")
                for guid, tag, phones in launches
            ]
            sent = zip(add_intents(opened, campaign_id, intents, AT), launches, strict=True)
            record_outcomes(opened, [Outcome(number, "sent", AT, guid) for number, (guid, *_) in sent])
    return campaign_id


def measure(folder: Path, served: dict[str, Any]) -> None:
    """Reconcile three times, and print what each took: all, nothing, and all again; and the account's."""
    before = read_peak_mib()
    target = Target("live", served["url"], Credentials(served["username"], served["api_key"]))
    connection = _Connection(target)
    client = ServiceClient(target, connection)
    with open_ledger(folder) as ledger:
        with ledger.writing() as opened:
            campaign_id: int = enter_campaign(opened, "live", "pulse")
        started = time.perf_counter()
        walk = ListWalk(lambda offset: client.read_results({}, offset))
        bare = sum(page.size for page in iter(walk.read_page, None))
        bare_rate = bare / (time.perf_counter() - started)
        write(f"read and kept nowhere: {bare:,} results, {bare_rate:,.0f}/s")
        for title, full in (("first", False), ("nothing new", False), ("in full", True)):
            connection.requests.clear()
            started = time.perf_counter()
            context = ReconcileContext(ledger, client, KEY, campaign_id, AT, full=full)
            summary = reconcile_campaign(context)
            took = time.perf_counter() - started
            rate = summary.results / took
            write(
                f"{title}: {summary.results:,} results, complete: {summary.is_complete}; {took:.1f} s, "
                f"{rate:,.0f}/s, {rate / bare_rate:.2f} of reading alone; "
                f"{connection.requests.total():,} requests; "
                f"{read_peak_mib() - before:.1f} MiB over start-up (goal {MEMORY_GOAL_MIB})"
            )
            connection.requests.clear()
            started = time.perf_counter()
            contexts = {campaign_id: context}
            AccountReading(ledger, client, KEY, AT, contexts).read(summary.new_results, accept=False)
            took = time.perf_counter() - started
            write(
                f"the account after it: {took:.1f} s, {connection.requests.total():,} requests; "
                f"{read_peak_mib() - before:.1f} MiB over start-up"
            )


def read_peak_mib() -> float:
    """Return the most memory that this process has had, in MiB; not a number where the system doesn't tell."""
    status = Path("/proc/self/status")
    # proc(5): VmHWM is this program's own; what getrusage(2) says includes the process that started it.
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    """Fill a store and a ledger, and measure in a process that has filled neither."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--results", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--served", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder:
        measure(given.folder, given.served)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill_store(folder / "service.sqlite", Size(given.launches, given.results))
        with open_ledger(folder) as ledger:
            ledger.prepare()
            enter_launches(ledger, folder / "service.sqlite")
        with running(SANDBOX, folder / "service.sqlite") as served:
            program = (sys.executable, "-m", "tests.benchmarks.reconcile")
            chosen = ("--folder", folder, "--served", json.dumps(describe(served)))
            subprocess.run(pin(1, *program, *chosen), check=True)


def describe(served: Served) -> dict[str, str]:
    """Return where a service is, and its credentials."""
    return {"url": f"http://{served.host}:{served.port}", **served.credentials}


if __name__ == "__main__":
    main()
