"""Schemathesis, a judge that knows nothing of us but the OpenAPI description, fuzzes the running service.

Its command is run as others would run it, with all of its checks. `make fuzz` gives it five minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.sandbox.model import ServiceAddress
    from runner.sandbox.service import Service

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "8"))
ROUNDS_S = (SECONDS, 3 * SECONDS, 9 * SECONDS)
"""A busy machine may take longer than the first to come to where there are answers."""
SEED = os.environ.get("FUZZ_SEED", "1")
SETTINGS = """
hooks = "{hooks}"
[auth.openapi.username]
api_key = "${{FUZZED_USERNAME}}"
[auth.openapi.api_key]
api_key = "${{FUZZED_API_KEY}}"
# A page may be empty: the link to its first record then leads nowhere, and nobody has the guid made up instead.
[[operations]]
include-operation-id = ["showStat", "showResult"]
[operations.checks.positive_data_acceptance]
expected-statuses = [200, 404]
"""
_WAITING = "SELECT DISTINCT phone FROM participant JOIN session ON participant_id = participant.id "
_WAITING += "WHERE status = 'ACTIVE' LIMIT 50"


@contextmanager
def answering(domain: Service) -> Iterator[None]:
    """Let participants answer whatever they are asked while the block lasts: without them nobody has results."""
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.wait(0.02):
            with domain.store.read() as connection:
                phones = [phone for (phone,) in connection.execute(_WAITING)]
            for phone in phones:
                domain.receive(phone, "1", datetime.now(UTC))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def fuzz(address: ServiceAddress, folder: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    """Run Schemathesis: the examples, what covers each rule of the schemas, random and stateful requests."""
    settings = folder / "schemathesis.toml"
    hooks = Path(__file__).with_name("schemathesis_hooks.py")
    settings.write_text(SETTINGS.format(hooks=hooks.as_posix()), encoding="utf-8")
    command: list[str | Path] = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", settings,
        "run", REPOSITORY / "schemas/service.openapi.yaml", "--url", address.url,
        "--max-time", str(seconds), "--request-timeout", "60", "--suppress-health-check", "all", "--seed", SEED, "--generation-database", "none", "--no-color",
    ]  # fmt: skip
    credentials = {"FUZZED_USERNAME": address.username, "FUZZED_API_KEY": address.api_key}
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **credentials}, capture_output=True, text=True, check=False
    )


def has_something_to_see(address: ServiceAddress) -> bool:
    """Return whether there are launches, and answers to them."""
    query = {"username": address.username, "api_key": address.api_key}
    answers = [
        requests.get(f"{address.url}/api/{path}/", params=query, timeout=60).json()
        for path in ("results", "stats")
    ]
    return all(answer["meta"]["total_count"] > 0 for answer in answers)


@pytest.mark.timeout(sum(ROUNDS_S) * 3 + 100)
def test_fuzzing_finds_nothing(address: ServiceAddress, domain: Service, tmp_path: Path) -> None:
    """The service is what its description says, for requests of all kinds and in any order."""
    with answering(domain):
        for seconds in ROUNDS_S:
            done = fuzz(address, tmp_path, seconds)
            assert done.returncode == 0, done.stdout + done.stderr
            if has_something_to_see(address):
                break
        else:
            pytest.fail("the fuzzing has never been where there is something to see")
