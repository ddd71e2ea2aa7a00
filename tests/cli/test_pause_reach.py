"""How soon a pause reaches a run of another process that shares its ledger."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.world import ASK

if TYPE_CHECKING:
    from tests.cli.world import World

PHONES = tuple(f"+1415555{number:04}" for number in range(100, 140))
REACH_S = 5


def count_texted(world: World) -> int:
    """Return how many people were texted, by the service's own records."""
    return len(world.query("SELECT phone FROM participant JOIN session ON participant_id = participant.id"))


@pytest.mark.slow
@pytest.mark.parametrize("ledger", ["file", "postgres"])
def test_a_pause_reaches_a_run_within_seconds(
    world: World, ledger: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one text a second, a pause by another process lets at most five more go, and the run exits with 7."""
    if ledger == "postgres":
        monkeypatch.setenv("RUNNER_LEDGER", request.getfixturevalue("postgres_ledger"))
    world.write(ASK, phones=PHONES, rules="limits: {recipients_per_send: 1, rate: 1/s}\n")
    world.run("sandbox", "clock")  # so that the service has its tables
    command = [sys.executable, "-m", "runner", "apply", "--auto-approve", "--concurrency", "1"]
    with subprocess.Popen(command, cwd=world.folder, stdout=subprocess.PIPE, text=True) as process:
        while count_texted(world) < 2:
            assert process.poll() is None
            time.sleep(0.1)
        world.run("pause", "pulse", "--reason", "a wrong link")
        before, paused_at = count_texted(world), time.monotonic()
        process.communicate(timeout=60)
        took_s = time.monotonic() - paused_at
    assert process.returncode == 7
    assert count_texted(world) - before <= REACH_S
    assert took_s < 2 * REACH_S
