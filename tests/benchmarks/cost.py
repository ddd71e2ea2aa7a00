"""CPU of one send, all included, against a prepared requests call and one grouped ledger record.

Prints the ratio and its parts and never fails. All parts are measured in one run, with the
same concurrency, on the core that the client is pinned to.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import requests
from requests.adapters import HTTPAdapter

from runner.ledger.database import Ledger
from runner.ledger.model import Intent, Outcome
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from tests.benchmarks import delivery

if TYPE_CHECKING:
    from collections.abc import Callable

CONCURRENCY = 64
SENDS = 6_000
GROUP = 64
GOAL = 1.6
AT = "2026-11-20T12:00:00.000000Z"


def measure_prepared_call(url: str) -> float:
    """Return the CPU seconds of a call that is prepared once and goes through requests' own adapter."""
    adapter = HTTPAdapter(pool_connections=1, pool_maxsize=CONCURRENCY, max_retries=0)
    prepared = requests.Request("POST", f"{url}/api/send?username=b&api_key=b", json={"phone": []}).prepare()
    turns = threading.local()

    def post(number: int) -> None:
        request: requests.PreparedRequest = getattr(turns, "request", None) or prepared.copy()
        turns.request = request
        request.body = b'{"phone":["+1415%d"],"text":"Hi Ada, your parcel %d is on its way."}' % (
            number,
            number,
        )
        request.headers["Content-Length"] = str(len(request.body))
        assert adapter.send(request, timeout=60).content

    def run(sends: int) -> None:
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(post, range(2_000_000, 2_000_000 + sends)))

    run(CONCURRENCY)
    try:
        return cpu_of(lambda: run(SENDS)) / SENDS
    finally:
        adapter.close()


def measure_grouped_record() -> float:
    """Return the CPU seconds of one launch's intent and outcome, committed in groups."""
    with tempfile.TemporaryDirectory() as folder, Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        ledger.prepare()
        with ledger.writing() as connection:
            campaign_id = enter_campaign(connection, "live", "bench")
        intents = [
            Intent("ask", f"{n:020x}", "bench", f"{n:032x}", (f"{n:020x}",), '{"text":"Hello"}')
            for n in range(SENDS)
        ]

        def record() -> None:
            waiting: list[Outcome] = []
            for start in range(0, SENDS, GROUP):
                with ledger.writing() as connection:
                    record_outcomes(connection, waiting)
                    ids = add_intents(connection, campaign_id, intents[start : start + GROUP], AT)
                waiting = [Outcome(number, "sent", AT, f"guid-{number}") for number in ids]
            with ledger.writing() as connection:
                record_outcomes(connection, waiting)

        return cpu_of(record) / SENDS


def measure_apply(url: str) -> float:
    """Return the CPU seconds of one send of `runner apply`; its start-up is taken off."""
    small, large = (
        delivery.measure_apply(url, CONCURRENCY, people=people)
        for people in (CONCURRENCY, SENDS + CONCURRENCY)
    )
    return (large.cpu_s - small.cpu_s) / SENDS


def cpu_of(work: Callable[[], None]) -> float:
    """Return the CPU seconds that this process spends on some work, in all its threads."""
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    """Run the benchmark of what a send costs."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {1})
    with delivery.running_service() as url:
        call, record, apply = measure_prepared_call(url), measure_grouped_record(), measure_apply(url)
    sys.stdout.write(
        f"CPU per send, all included: {apply / (call + record):.2f} × a prepared call + a grouped record (goal {GOAL})\n"
        f"    apply {apply * 1e6:,.0f} µs, prepared call {call * 1e6:,.0f} µs, grouped record {record * 1e6:,.0f} µs\n"
    )


if __name__ == "__main__":
    main()
