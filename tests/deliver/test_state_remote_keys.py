"""The state remote with a state key: what somebody else put on the ref is refused; what is there is moved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runner.git.state_ref import StateRef
from runner.ledger.files.lockfile import dump_lockfile
from runner.ledger.fingerprint import TargetKey
from tests.deliver.conftest import PATIENCE_S
from tests.deliver.machines import World, assert_everybody_once, hold_from
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.deliver.conftest import FaultyService
    from tests.deliver.machines import Machine

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leaping_clock")]

PATIENT = ("--lock-timeout", "10m")
MENDING = (
    "  nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it (git push "
    "origin --delete refs/runner/live): `runner apply` asks the service for what they lack\n"
)


@pytest.fixture
def world(tmp_path: Path, service_env: dict[str, str]) -> World:
    """A remote whose machines have one state key."""
    return World(tmp_path / "world", {**service_env, "RUNNER_STATE_KEY": STATE_KEY})


def die_while_sending(world: World, faulty: FaultyService) -> None:
    """Leave a reservation of six launches on the ref, of which three have left."""
    hold_from(faulty, 3, {"end": "hold", "accepts": True})
    with world.clone("first").applying("--concurrency", "1") as process:
        faulty.wait_for_requests(3)
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})


def change(machine: Machine, edit: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """Change what the ref says, as anybody can who may push it."""
    ref = StateRef.open(machine.folder, "origin", "live")
    snapshot = ref.read()
    texts = edit(dict(snapshot.texts))
    ref.swap(snapshot.commit, ref.compose(texts))


def free(texts: dict[str, str]) -> dict[str, str]:
    """Have nobody hold the ref."""
    return {**texts, "state.json": json.dumps({**json.loads(texts["state.json"]), "holder": None})}


RESERVED = "pulse.0.reserved.json"


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"reserved_at":"20', '"reserved_at":"19'),
        lambda text: text.replace('"message":"ask"', '"message":"nudge"'),
    ],
)
def test_a_forged_reservation_is_refused(
    world: World, faulty: FaultyService, edit: Callable[[str], str]
) -> None:
    """Whoever can push the ref cannot have people held, or taken for others."""
    die_while_sending(world, faulty)
    second = world.clone("second")
    change(second, lambda texts: free({**texts, RESERVED: edit(texts[RESERVED])}))
    sent = len(faulty.requests)
    done = second.apply()
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Error: the lockfile origin:refs/runner/live/pulse.0.reserved.json:6: the reserved launch "
    )
    assert done.stderr.endswith(
        f"was written without this RUNNER_STATE_KEY: it does not fit its seal\n{MENDING}"
    )
    assert len(faulty.requests) == sent


def test_a_forged_lockfile_on_the_ref_is_refused(world: World, faulty: FaultyService) -> None:
    """Lines that the key has not written, and a file that says it was made without one."""
    first, second = world.clone("first"), world.clone("second")
    assert first.apply().returncode == 0
    place = "the lockfile origin:refs/runner/live/pulse.lock.json"

    def forget(texts: dict[str, str]) -> dict[str, str]:
        data = json.loads(texts["pulse.lock.json"])
        data["launches"][0]["sent_at"] = "2020-01-01T00:00:00.000000Z"
        return {**texts, "pulse.lock.json": json.dumps(data)}

    change(second, forget)
    done = second.apply()
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {place}:1: the launch ")
    assert done.stderr.endswith(
        f"was written without this RUNNER_STATE_KEY: it does not fit its seal\n{MENDING}"
    )
    public = "".join(dump_lockfile("pulse", TargetKey.of("live", None), []))
    change(second, lambda texts: {**texts, "pulse.lock.json": public})
    done = second.apply()
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"Error: {place} was written without a RUNNER_STATE_KEY, and now there is one\n"
    )
    assert_everybody_once(world, faulty)


def test_what_is_on_the_ref_is_moved_to_a_new_key(world: World, faulty: FaultyService) -> None:
    """A machine without ledger and lockfile moves it all; what was reserved is held until a person decides."""
    die_while_sending(world, faulty)
    second, third = world.clone("second"), world.clone("third")
    keys = {"RUNNER_STATE_KEY": OTHER_STATE_KEY, "RUNNER_OLD_STATE_KEY": STATE_KEY}
    done = second.run("key", "rotate", "--auto-approve", *PATIENT, **keys)
    waited, said = done.stderr.splitlines()
    assert (done.returncode, waited.partition(":")[0], said) == (
        0,
        "Waiting for the run that holds refs/runner/live on origin",
        (
            "Move 6 fingerprints on live to the new key, in the ledger and in "
            "origin:refs/runner/live/pulse.lock.json."
        ),
    )
    stopped = third.apply()
    assert stopped.returncode == 1
    assert "it was written with another RUNNER_STATE_KEY" in stopped.stderr
    # What was reserved is known by a digest of the old key.
    new = {"RUNNER_STATE_KEY": OTHER_STATE_KEY}
    assert third.apply(**new).returncode == 4
    for guid in faulty.guids:
        third.run("resolve", "--adopt", guid, **new)
    assert third.apply(**new).returncode == 0
    assert_everybody_once(world, faulty)
    assert world.list_files() == ["pulse.lock.json", "state.json"]
