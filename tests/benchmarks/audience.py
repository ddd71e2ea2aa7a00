"""A million personal rows: read, validated and planned, against csv reading and Jinja2 rendering alone.

Prints ratios and their parts and never fails. Each stage runs in a process of its own, so
that its peak of memory over start-up is its own; times are CPU, and the parts of one ratio run one after the other.
`--rows N` measures fewer.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import phonenumbers

from runner.audience.audience import AudienceTally, iterate_audience
from runner.audience.phone import parse_phone
from runner.audience.table import open_table
from runner.campaign.load import load_campaign
from runner.ledger.model import RecordedDeliveries
from runner.plan.model import PlanOptions
from runner.plan.plan_context import PlanContext
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems
from tests.benchmarks.pairs import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign

ROWS = 1_000_000
PAIRS = 5
AREA_CODES = (206, 212, 312, 415, 646)
TEXT = "Hi {{ first_name }}, your plan {{ plan }} ends soon."
YAML = f'version: 1\nrecipients:\n  - csv: people.csv\nmessages:\n  - id: hello\n    text: "{TEXT}"\n'
NAMES = frozenset({"first_name", "plan"})
MIB_PER_KIB = 1 / 1024


def write_campaign(folder: Path, rows: int) -> None:
    """Write a campaign whose texts all differ, and its audience of valid phones, each once."""
    chosen = random.Random(5)  # noqa: S311  phones of nobody, the same ones in each run
    numbers = chosen.sample(range(2_000_000, 9_999_999), -(-rows // len(AREA_CODES)))
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["phone", "first_name", "plan", "city"])
        for row in range(rows):
            code, number = AREA_CODES[row % len(AREA_CODES)], numbers[row // len(AREA_CODES)]
            writer.writerow([f"+1{code}{number}", f"Name{row}", "pro", "Rome"])
    (folder / "campaign.yaml").write_text(YAML, encoding="utf-8")


def read_dicts(campaign: Campaign) -> None:
    with (campaign.root / "people.csv").open(newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        header = next(reader)
        for row in reader:
            dict(zip(header, row, strict=True))


def read_and_render(campaign: Campaign) -> None:
    template = jinja2.Environment(autoescape=False).from_string(TEXT)  # noqa: S701  texts, no pages
    with (campaign.root / "people.csv").open(newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        header = next(reader)
        for row in reader:
            template.render(dict(zip(header, row, strict=True)))


def read_table(campaign: Campaign) -> None:
    with open_table(campaign.root / "people.csv") as table:
        columns = [(name, table.header.index(name)) for name in sorted(NAMES)]
        for _, cells in table.rows:
            {name: cells[index] for name, index in columns}


def read_audience(campaign: Campaign) -> None:
    for _ in iterate_audience(campaign, NAMES, Problems(), AudienceTally()):
        pass


def make_plan(campaign: Campaign) -> None:
    context = PlanContext(datetime(2026, 11, 20, 12, tzinfo=UTC))
    planner = Planner(campaign, "", RecordedDeliveries({}, {}), None, PlanOptions(), context)
    assert planner.make_plan(Problems()) is not None


def parse_slowly(campaign: Campaign) -> None:
    for phone in read_phones(campaign):
        number = phonenumbers.parse(phone)
        assert phonenumbers.is_valid_number(number)
        phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def parse_quickly(campaign: Campaign) -> None:
    for phone in read_phones(campaign):
        parse_phone(phone, None)


def read_phones(campaign: Campaign) -> list[str]:
    """Return some of the phones; reading them is part of both sides of the ratio, and small."""
    with open_table(campaign.root / "people.csv") as table:
        return [cells[0] for (_, cells), _ in zip(table.rows, range(20_000), strict=False)]


STAGES: dict[str, Callable[[Campaign], None]] = {
    stage.__name__: stage
    for stage in (
        read_dicts,
        read_table,
        read_and_render,
        read_audience,
        make_plan,
        parse_slowly,
        parse_quickly,
    )
}


def run_stage(name: str, folder: Path) -> None:
    """Run one stage, and write its CPU seconds and its peak of memory over start-up in MiB."""
    campaign, _ = load_campaign(folder / "campaign.yaml", current=folder)
    assert campaign is not None
    parse_phone("+14155550101", None)
    peak, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    STAGES[name](campaign)
    seconds = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * MIB_PER_KIB
    sys.stdout.write(json.dumps([seconds, grown]))


def measure(name: str, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of a stage, and its peak of memory in MiB over start-up."""
    command = [sys.executable, "-m", "tests.benchmarks.audience", "--stage", name, "--folder", str(folder)]
    seconds, grown = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return seconds, grown


def report(words: str, name: str, reference: str, folder: Path, goal: str) -> None:
    """Write the ratio of two stages, and the memory of the first."""
    peaks = []

    def run_ours() -> float:
        seconds, grown = measure(name, folder)
        peaks.append(grown)
        return seconds

    ratio, seconds, alone = compare(run_ours, lambda: measure(reference, folder)[0], PAIRS)
    grown = max(peaks)
    sys.stdout.write(
        f"{words}: {ratio:.2f} × {reference} ({goal})\n"
        f"    {seconds:.2f} s and {grown:,.0f} MiB over start-up; {reference} {alone:.2f} s\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Run the benchmark of audiences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--stage", choices=sorted(STAGES))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.stage:
        run_stage(options.stage, options.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_campaign(folder, options.rows)
        report("phones in E.164", "parse_quickly", "parse_slowly", folder, "goal 0.15")
        report("rows streamed", "read_table", "read_dicts", folder, "goal 1.5, 20 MiB")
        report("audience, deduplicated", "read_audience", "read_dicts", folder, "no goal")
        report("plan", "make_plan", "read_and_render", folder, "goal 1.8, 150 MiB")


if __name__ == "__main__":
    main()
