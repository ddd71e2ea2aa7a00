"""Plans of people who were all texted, against plans of the same people before: whole commands.

    python -m tests.benchmarks.plan_again [--rows N] [--bare]

One process on SQLite and on PostgreSQL, and a cluster of two processes on PostgreSQL. Prints ratios of time, of
CPU time and of PostgreSQL's, and never fails. The campaign has a survey with a follow-up and a frequency cap,
and some people have opted out or answered, so that all is looked up that a plan can ask; with `--bare` it has
one text.
"""

from __future__ import annotations

import argparse
import csv
import os
import secrets
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from runner.ledger.bulk import divide
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import Intent, Outcome, StoredResult, format_moment
from runner.ledger.people.opt_outs import add_opt_outs
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.results.reconciled import store_results
from runner.ledger.target_key import enter_key
from tests.benchmarks.cluster_plan import YAML, list_tree, run_plan, write_campaign
from tests.ledger.counts import LaunchStats, store_stats
from tests.postgres import find_postgres, run_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres import PostgresServer

ROWS = 100_000
GOAL = 1.5
SECRET = "a key of nobody's for a benchmark"  # noqa: S105  of this benchmark's ledgers
NAME, TARGET = "renewal", "sandbox"
FULL = """\
version: 1
name: renewal
recipients:
  - csv: people.csv
policy:
  frequency_cap: {messages: 3, within: 30d}
messages:
  - id: hello
    introduction: "Hi {{ first_name }}, your plan {{ plan }} ends on {{ day }}."
    questions:
      - tag: nps
        text: "From 0 to 10: how likely are you to recommend us?"
        responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
  - id: again
    after: {message: hello, wait: 2d}
    to: unanswered
    text: "Hi {{ first_name }}, still there?"
"""
_GROUP = 20_000
_OPTED_OUT = 50
_ANSWERED = 10
"""One of so many people has opted out, and one of so many has answered."""


def read_phones(folder: Path) -> Iterator[str]:
    """Yield the phones of the audience."""
    with (folder / "campaigns" / "people.csv").open(encoding="utf-8") as stream:
        yield from (row["phone"] for row in csv.DictReader(stream))


def prepare(url: str, folder: Path) -> None:
    """Create a ledger in which nobody was texted, and some have opted out."""
    at = format_moment(datetime.now(UTC))
    with Ledger(url) as ledger:
        ledger.prepare()
        with ledger.writing() as connection:
            key = TargetKey.of(TARGET, SECRET)
            enter_key(connection, key)
            opted_out = (phone for number, phone in enumerate(read_phones(folder)) if not number % _OPTED_OUT)
            add_opt_outs(connection, key, opted_out, "import", at)


def send(url: str, folder: Path, definition: str) -> None:
    """Record what an `apply` and a `reconcile` of the campaign record, with a launch for each person."""
    at, key, texts = format_moment(datetime.now(UTC)), TargetKey.of(TARGET, SECRET), ("nps",) * 3
    people = (key.fingerprint(phone) for phone in read_phones(folder))
    with Ledger(url) as ledger:
        for group in divide(people, _GROUP):
            intents = [
                Intent("hello", secrets.token_hex(10), "tag", secrets.token_hex(10), (person,), definition)
                for person in group
            ]
            with ledger.writing() as connection:
                campaign_id = enter_campaign(connection, TARGET, NAME)
                ids = add_intents(connection, campaign_id, intents, at)
                record_outcomes(connection, [Outcome(one, "sent", at, secrets.token_hex(16)) for one in ids])
                answered = list(zip(ids, group, strict=True))[::_ANSWERED]
                store_stats(connection, [LaunchStats(one, 1, 0, 1, 1, 0, 1, 1) for one, _ in answered], at)
                rows = [
                    StoredResult(one, f"r{one}", who, *texts, 0, "9", "9", at, at) for one, who in answered
                ]
                store_results(connection, rows)


def read_server_cpu(server: PostgresServer | None) -> float:
    """Return the CPU seconds of a server's processes, with those that have ended."""
    ticks = 0
    for pid in [] if server is None else list_tree(server.process.pid):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(
    folder: Path, url: str, server: PostgresServer | None, *options: str
) -> tuple[float, float, float]:
    """Return the seconds of a plan, its CPU seconds, and the server's."""
    before = read_server_cpu(server)
    wall, cpu, _ = run_plan(folder, url, *options)
    return wall, cpu, read_server_cpu(server) - before


def compare(words: str, first: tuple[float, float, float], again: tuple[float, float, float]) -> None:
    """Print how much more the second plan took."""
    ratios = again[0] / first[0], sum(again[1:]) / sum(first[1:])
    sys.stdout.write(
        f"{words}, again: {ratios[0]:.2f} × the time of the first plan, {ratios[1]:.2f} × the CPU (goal {GOAL})\n"
    )
    for when, (wall, cpu, served) in (("first", first), ("again", again)):
        sys.stdout.write(f"    {when}: {wall:.1f} s; CPU {cpu:.1f} s and {served:.1f} s of PostgreSQL\n")
    sys.stdout.flush()


def main() -> None:
    """Run the benchmark of planning again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args()
    programs = find_postgres()
    if programs is None:
        sys.stdout.write("PostgreSQL is not installed\n")
        return
    os.environ["RUNNER_STATE_KEY"] = SECRET
    with tempfile.TemporaryDirectory() as name, run_postgres(programs) as server:
        folder = Path(name)
        write_campaign(folder / "campaigns", options.rows)
        (folder / "campaigns" / "renewal.yaml").write_text(YAML if options.bare else FULL, encoding="utf-8")
        definition = '{"text": "Hi"}' if options.bare else '{"text": "Hi", "questions": [{"tag": "nps"}]}'
        sqlite, postgres = f"sqlite:///{folder / 'ledger.sqlite'}", server.url(server.create_database())
        ways: list[tuple[str, str, PostgresServer | None, tuple[str, ...]]] = [
            ("SQLite, one process", sqlite, None, ()),
            ("PostgreSQL, one process", postgres, server, ()),
            ("PostgreSQL, local:2", postgres, server, ("--cluster", "local:2")),
        ]
        for url in (sqlite, postgres):
            prepare(url, folder)
        first = [measure(folder, url, on, *more) for _, url, on, more in ways]
        for url in (sqlite, postgres):
            send(url, folder, definition)
        for (words, url, on, more), before in zip(ways, first, strict=True):
            compare(words, before, measure(folder, url, on, *more))


if __name__ == "__main__":
    main()
