"""What it costs to load and to validate a campaign of many inline recipients, as ratios.

Loading against PyYAML's `CSafeLoader` on the same file; `runner validate` against check-jsonschema on the same
file and schema, whole processes both.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from runner.campaign.load import load_campaign
from runner.source.json_schema import schema_text
from tests.benchmarks.pairs import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign

RECIPIENTS = 10_000
RUNS = 11
HEAD = """version: 1
messages:
  - id: ask
    text: "Hi {{ first_name }}, your {{ plan }} plan is ready."
recipients:
"""


def write_campaign(folder: Path) -> Path:
    """Write a campaign whose recipients stand in the file itself."""
    file = folder / "campaign.yaml"
    rows = (
        f'  - phone: "+1415{2_000_000 + number}"\n    vars: {{first_name: Name{number}, plan: pro}}\n'
        for number in range(RECIPIENTS)
    )
    file.write_text(HEAD + "".join(rows), encoding="utf-8")
    return file


def measure_call(function: Callable[[], Any]) -> float:
    """Return the CPU seconds until a call returns; what it returned is freed after the clock has stopped."""
    start = time.process_time()
    result = function()
    elapsed = time.process_time() - start
    assert result is not None
    return elapsed


def measure_loading(file: Path) -> tuple[float, float, float]:
    """Return our loader's CPU time over CSafeLoader's, and the CPU seconds of both.

    Both run as users run them, with Python's collector of cycles on; ours pauses it by itself while
    the tree grows, and what it catches up on afterwards is on our bill.
    """

    def load_ours() -> Campaign:
        campaign, problems = load_campaign(file, current=file.parent)
        assert campaign is not None, problems
        return campaign

    def load_theirs() -> Any:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)

    load_ours(), load_theirs()
    return compare(lambda: measure_call(load_ours), lambda: measure_call(load_theirs), RUNS)


def measure_process(command: list[str], folder: Path) -> float:
    """Return the CPU seconds of a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "NO_COLOR": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_validating(file: Path) -> tuple[float, float, float]:
    """Return the CPU time of `runner validate` over check-jsonschema's, and the CPU seconds of both."""
    schema = file.with_name("schema.json")
    schema.write_text(json.dumps(json.loads(schema_text("campaign"))), encoding="utf-8")
    ours = [sys.executable, "-m", "runner", "validate", str(file)]
    theirs = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema), str(file)]
    return compare(
        lambda: measure_process(ours, file.parent), lambda: measure_process(theirs, file.parent), RUNS
    )


def main() -> None:
    """Run the benchmark of loading."""
    with tempfile.TemporaryDirectory() as name:
        file = write_campaign(Path(name))
        for words, (ratio, ours, theirs), of, goal in (
            ("load", measure_loading(file), "CSafeLoader", 0.6),
            ("validate", measure_validating(file), "check-jsonschema", 0.45),
        ):
            sys.stdout.write(f"{words} {RECIPIENTS:,} inline recipients: {ratio:.2f} × {of} (goal {goal})\n")
            sys.stdout.write(f"    {ours:.3f} s; {of} {theirs:.3f} s\n")


if __name__ == "__main__":
    main()
