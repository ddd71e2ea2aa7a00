"""`runner forget` with a state remote: what goes from the ref, and what is said of what stays elsewhere."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from runner.git.command import Git
from runner.ledger.fingerprint import TargetKey
from runner.workflow.workspace.record_files import POLL_S
from tests.deliver.conftest import PATIENCE_S, PHONES
from tests.deliver.machines import REF, Machine, World, assert_everybody_once, hold_from

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deliver.conftest import FaultyService

STATE = f"{REF} on origin"
EARLIER = (
    f"earlier states of {STATE} hold their fingerprints: the ref no longer leads there, but the remote keeps them "
    "until it removes what no ref leads to (git gc --prune=now there; GitHub may have to be asked), and so do "
    "clones that have used the ref, caches of CI, and backups"
)


@pytest.fixture
def world(tmp_path: Path, service_env: dict[str, str]) -> World:
    """A remote and its machines, without a state key."""
    return World(tmp_path / "world", service_env)


PERSON = TargetKey.of("live", None).fingerprint(PHONES[0])


def forget(machine: Machine, *arguments: str, status: int = 0) -> list[str]:
    """Forget the first recipient, and return what is said to be out of reach."""
    done = machine.run("forget", PHONES[0], *arguments, "--auto-approve", "--format", "json")
    assert done.returncode == status, done.stderr
    unreached: list[str] = json.loads(done.stdout)["unreached"]
    return unreached


def list_fingerprints(text: str) -> set[str]:
    """Return the fingerprints of people that a lockfile, or a reservation, has texted."""
    document = json.loads(text)
    launches = document["launches"] if "launches" in document else document["reserved"]
    return {one for launch in launches for one in launch["recipients"]}


def read_objects(git: Git, *objects: str) -> list[str]:
    """Return the texts of the records among some objects, which may be given as options of `rev-list`."""
    names = [line.split()[0] for line in git.run("rev-list", "--objects", *objects).splitlines()]
    texts = [git.run("cat-file", "blob", one) for one in names if git.run("cat-file", "-t", one) == "blob"]
    return [text for text in texts if '"launches"' in text]


def list_unreachable(world: World) -> list[str]:
    """Return the records in the remote that no ref leads to."""
    found = Git(world.remote).run("fsck", "--unreachable", "--no-reflogs", "--no-progress").splitlines()
    blobs = [line.split()[2] for line in found if line.split()[1] == "blob"]
    return [
        text for blob in blobs if '"launches"' in (text := Git(world.remote).run("cat-file", "blob", blob))
    ]


def test_forgetting_removes_a_person_from_the_ref(world: World) -> None:
    """The record that all machines share goes without them, as one commit with nothing before it."""
    machine = world.clone("first")
    assert machine.apply().returncode == 0
    before = world.show("pulse.lock.json")
    assert forget(machine)[-1] == EARLIER
    after = world.show("pulse.lock.json")
    assert after + "\n" == machine.lockfile.read_text(encoding="utf-8")
    assert PERSON in list_fingerprints(before)
    remote = Git(world.remote)
    assert remote.run("rev-list", "--count", REF) == "1"
    records = read_objects(remote, REF)
    assert records
    assert all(PERSON not in list_fingerprints(text) for text in records)


def test_the_remote_has_nothing_left_of_a_person_once_it_has_pruned(world: World) -> None:
    """Until then it does, as is said."""
    machine = world.clone("first")
    assert machine.apply().returncode == 0
    forget(machine)
    assert any(PERSON in list_fingerprints(text) for text in list_unreachable(world))
    Git(world.remote).run("gc", "--quiet", "--prune=now")
    assert list_unreachable(world) == []
    assert all(PERSON not in list_fingerprints(text) for text in read_objects(Git(world.remote), "--all"))


@pytest.mark.slow
def test_other_machines_go_on_and_bring_nothing_back(world: World, faulty: FaultyService) -> None:
    """One whose own ledger still knows them writes the ref without them, and texts the newcomer alone."""
    first, second = world.clone("first"), world.clone("second")
    assert first.apply().returncode == 0
    # It learns all of it, and keeps it.
    assert second.apply().returncode == 0
    forget(first)
    world.phones = PHONES[:7]
    world.write_campaign(second)
    done = second.apply()
    assert (done.returncode, done.stderr) == (0, "")
    assert_everybody_once(world, faulty)
    records = read_objects(Git(world.remote), REF)
    assert len(list_fingerprints(world.show("pulse.lock.json"))) == 6
    assert all(PERSON not in list_fingerprints(text) for text in records)
    assert first.run("plan", "--detailed-exitcode").returncode == 0


@pytest.mark.slow
def test_what_a_killed_run_left_on_the_ref_goes_too(world: World, faulty: FaultyService) -> None:
    """Its reservations name the person as well."""
    machine = world.clone("first")
    hold_from(faulty, 3, {"end": "hold", "accepts": True})
    with machine.applying("--concurrency", "1") as process:
        faulty.wait_for_requests(3)
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})
    reserved = list_fingerprints(world.show("pulse.0.reserved.json"))
    assert machine.apply().returncode == 0
    forget(machine)
    assert PERSON in reserved
    assert all(PERSON not in list_fingerprints(text) for text in read_objects(Git(world.remote), REF))


@pytest.mark.slow
def test_a_ref_that_cannot_be_moved_is_named(world: World) -> None:
    """Exit code 1, and in the list that it still leads to them; forgetting them again mends it."""
    machine = world.clone("first")
    assert machine.apply().returncode == 0
    before = world.show("pulse.lock.json")
    hook = world.remote / "hooks/pre-receive"
    # The first push, which takes the ref, and no other.
    hook.write_text("#!/bin/sh\nmkdir taken || { echo 'closed for today'; exit 1; }\n", encoding="utf-8")
    hook.chmod(0o755)
    assert forget(machine, status=1)[-1] == (
        f"{STATE}, which could not be moved, and still leads to their fingerprints: forget them again when the "
        "remote can be reached"
    )
    assert world.show("pulse.lock.json") == before
    hook.unlink()
    assert forget(machine)[-1] == EARLIER
    assert all(PERSON not in list_fingerprints(text) for text in read_objects(Git(world.remote), REF))


@pytest.mark.slow
def test_campaigns_that_only_the_ref_knows_lose_them_too(world: World) -> None:
    """Another machine's, whose file is not here."""
    first, second = world.clone("first"), world.clone("second")
    other = second.campaign.with_name("other.yaml")
    other.write_text(second.campaign.read_text(encoding="utf-8").replace("pulse", "other"), encoding="utf-8")
    second.campaign.unlink()
    assert second.apply().returncode == 0
    assert forget(first)[-1] == EARLIER
    assert len(list_fingerprints(world.show("other.lock.json"))) == 5


@pytest.mark.slow
def test_who_is_to_be_forgotten_during_a_run_gets_no_more_texts(world: World, faulty: FaultyService) -> None:
    """The run on another machine leaves them out; their data goes once the ref is free."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 1, {"end": "hold", "accepts": True})
    with first.applying("--concurrency", "1") as process:
        faulty.wait_for_requests(1)
        done = second.run("forget", PHONES[4], "--auto-approve")
        assert done.returncode == 6, done.stderr
        assert "is on record as opted out, and gets no more texts." in done.stderr
        assert '"source":"person"' in world.show("live.suppressions.json")
        time.sleep(2 * POLL_S)
        faulty.behave({})
        faulty.open_gate()
        process.wait(PATIENCE_S)
    assert faulty.accepted == dict.fromkeys((*PHONES[:4], *world.phones[5:]), 1)
    assert second.run("forget", PHONES[4], "--auto-approve").returncode == 0
    assert '"source":"forgotten"' in world.show("live.suppressions.json")
