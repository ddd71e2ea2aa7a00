"""Waves of a campaign on machines that share only a git remote (`--state-remote`)."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.deliver.conftest import PATIENCE_S
from tests.deliver.machines import World, hold_from

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deliver.conftest import FaultyService
    from tests.deliver.machines import Machine


@pytest.fixture
def world(tmp_path: Path, service_env: dict[str, str]) -> World:
    return World(tmp_path / "world", service_env)


def raise_wave(machine: Machine, wave: str) -> None:
    """Put the campaign of a machine into a wave."""
    lines = machine.campaign.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("wave:")]
    machine.campaign.write_text("".join([*kept, f"wave: {wave}\n"]), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_run_that_is_killed_in_a_wave_is_settled_by_the_next_machine(
    world: World, faulty: FaultyService
) -> None:
    """What the killed run had reserved counts for its wave, and for no other."""
    first, second = world.clone("first"), world.clone("second")
    raise_wave(first, "a")
    assert first.apply().returncode == 0
    for machine in (first, second):
        raise_wave(machine, "b")
    hold_from(faulty, len(faulty.requests) + 3, {"end": "hold"})
    with first.applying("--concurrency", "1") as process:
        faulty.wait_for_requests(len(world.phones) + 3)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    faulty.behave({})
    faulty.open_gate()
    done = second.apply("--lock-timeout", "10m")
    assert done.returncode == 0, done.stderr
    assert faulty.accepted == dict.fromkeys(world.phones, 2)
    launches = json.loads(second.lockfile.read_text(encoding="utf-8"))["launches"]
    assert sorted(one["occasion"] for one in launches) == ["a"] * 6 + ["b"] * 6
    assert {(one["tag"], one["occasion"]) for one in launches} == {
        ("pulse-2026-a", "a"),
        ("pulse-2026-b", "b"),
    }
    third = world.clone("third")
    raise_wave(third, "b")
    assert third.apply().returncode == 0
    assert faulty.accepted == dict.fromkeys(world.phones, 2)
