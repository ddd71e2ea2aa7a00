"""Two clones without a common ledger, and the git remote that keeps them apart (`--state-remote`).

The remote is a real bare repository, the service counts what it accepted, and whoever is killed is a process.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.git.command import Git
from runner.git.state_ref import StateRef
from runner.sandbox.rehearsal.faults import Faults
from runner.sandbox.web.server import running_service
from runner.service.client import ServiceClient
from runner.service.connection import Connection
from runner.service.paging import list_launches
from runner.service.target import Credentials, Target
from runner.workflow.delivery.remote_intents import iterate_groups
from runner.workflow.scope import Scope
from runner.workflow.workspace.state_remote import StateRemote
from tests.deliver.conftest import PATIENCE_S
from tests.deliver.machines import (
    REF,
    Machine,
    World,
    assert_everybody_once,
    hold_from,
    slow_down,
    wait_for,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deliver.conftest import FaultyService

SHORT = ("--state-lease", "6")
"""A lease that a test can wait for; a busy machine has to renew it in time."""
SQLITE = "sqlite:///ledger.sqlite"
PATIENT = ("--lock-timeout", "10m")
"""Outlasts a lease of two minutes, which passes at once on a leaping clock."""


AN_HOUR_AHEAD = """
import datetime
class Ahead(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(hours=1)
datetime.datetime = Ahead
"""
"""Has a process see another time of day than the rest of the machine."""
SLEPT = """
import os, time
read = time.clock_gettime
time.clock_gettime = lambda clock: read(clock) + 3600 * os.path.exists({mark!r})
"""
"""Has a process's steady clock be an hour ahead when there is a file: as if it had been asleep."""


@pytest.fixture
def world(tmp_path: Path, service_env: dict[str, str]) -> World:
    return World(tmp_path / "world", service_env)


@pytest.mark.slow
def test_a_clone_whose_lockfile_was_never_pushed_is_followed_by_one_that_knows(
    world: World, faulty: FaultyService
) -> None:
    """Main is protected: the next machine learns from the ref whom the first one texted."""
    first, second = world.clone("first"), world.clone("second", "--depth=1")
    assert first.apply().returncode == 0
    assert_everybody_once(world, faulty)
    assert world.list_files() == ["pulse.lock.json", "state.json"]
    assert Git(world.remote).run("rev-list", "--count", REF) == "1"
    assert world.show("pulse.lock.json") + "\n" == first.lockfile.read_text(encoding="utf-8")
    reads = len(faulty.reads)
    plan = second.run("plan", "--detailed-exitcode")
    assert (plan.returncode, plan.stderr) == (0, "")
    assert len(faulty.reads) == reads
    done = second.apply()
    assert (done.returncode, done.stderr) == (0, "")
    assert second.lockfile.read_bytes() == first.lockfile.read_bytes()
    assert_everybody_once(world, faulty)
    assert second.git.ask("rev-parse", "--verify", "--quiet", REF).status == 1


@pytest.mark.slow
def test_campaigns_in_a_subfolder_are_sent_once_from_there_and_from_the_top(
    world: World, faulty: FaultyService, service_env: dict[str, str]
) -> None:
    """The second run reads what the first one left on the ref, and both are recorded, whatever the folder."""
    author = world.clone("mover")
    (author.folder / "team x/ä").mkdir(parents=True)
    author.git.run("mv", "campaigns", "team x/ä/campaigns")
    author.git.run("commit", "--quiet", "-m", "Give each team a folder")
    author.git.run("push", "--quiet", "origin", "HEAD:main")
    for number, (name, place, path) in enumerate(
        [("one", "team x/ä", "campaigns"), ("two", ".", "team x"), ("three", "team x", "ä/campaigns")]
    ):
        clone = world.clone(name, "--depth=1").folder
        machine = Machine(clone / place, service_env)
        assert machine.run("plan", path).stderr == ""
        done = machine.apply(path)
        assert (done.returncode, done.stderr) == (0, "")
        assert_everybody_once(world, faulty)
        assert (clone / "team x/ä/campaigns/pulse.live.lock.json").is_file()
        recorded = machine.run("ci", "record", path)
        assert recorded.returncode == 0, recorded.stderr
        assert ("6 texts of pulse" in recorded.stdout) == (number == 0)
    shown = Git(world.remote).run("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "main")
    assert shown.splitlines() == ["team x/ä/campaigns/pulse.live.lock.json", "team x/ä/campaigns/pulse.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize("accepts", [True, False], ids=["accepted", "not accepted"])
@pytest.mark.usefixtures("leaping_clock")
def test_the_next_machine_settles_what_a_killed_one_had_reserved(
    world: World, faulty: FaultyService, *, accepts: bool
) -> None:
    """Killed while it sent: the reserved launches that are listed are adopted, the others are sent."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 3, {"end": "hold", "accepts": accepts})
    with first.applying("--concurrency", "2") as process:
        faulty.wait_for_requests(4)
        assert '"key":' in world.show("pulse.0.reserved.json")
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})
    assert not first.lockfile.exists()
    plan = second.run("status", "--format", "json")
    assert '"unresolved": 6' in plan.stdout
    assert second.apply(*PATIENT).returncode == 0
    assert_everybody_once(world, faulty)
    # Both are named: who reserved what had left, and who sent the rest.
    record = json.loads(second.lockfile.read_text(encoding="utf-8"))
    assert len(record["runs"]) == len({one["run"] for one in record["launches"]}) == 2
    # The one that was killed comes back.
    assert first.apply().returncode == 0
    assert_everybody_once(world, faulty)
    assert world.list_files() == ["pulse.lock.json", "state.json"]


@pytest.mark.slow
def test_the_same_machine_need_not_wait_for_a_run_that_it_knows_to_be_dead(
    world: World, faulty: FaultyService
) -> None:
    """Two minutes of lease are left, but the lock beside the ledger is free: only death leaves it so."""
    machine = world.clone("first")
    hold_from(faulty, 3, {"end": "hold"})
    with machine.applying("--concurrency", "1") as process:
        faulty.wait_for_requests(3)
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})
    assert machine.apply().returncode == 0
    assert_everybody_once(world, faulty)


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_run_that_is_killed_before_its_first_send_keeps_nobody_from_being_texted(
    world: World, faulty: FaultyService
) -> None:
    """What was reserved and is in no list was not sent."""
    first, second = world.clone("first"), world.clone("second")
    hook = world.remote / "hooks/post-receive"
    # The remote has moved the ref, and is slow to say so.
    hook.write_text(f"#!/bin/sh\ngit ls-tree {REF} | grep reserved && sleep 30\n", encoding="utf-8")
    hook.chmod(0o755)
    with first.applying() as process:
        wait_for(lambda: "pulse.0.reserved.json" in world.list_files())
        process.kill()
    assert faulty.accepted == {}
    hook.unlink()
    assert second.apply(*PATIENT).returncode == 0
    assert_everybody_once(world, faulty)


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_text_edited_after_a_kill_reaches_only_those_who_had_none(
    world: World, faulty: FaultyService
) -> None:
    """Launches of the old text are known by what stands for it, although this clone never had it."""
    first = world.clone("first")
    hold_from(faulty, 3, {"end": "hold"})
    with first.applying("--concurrency", "1") as process:
        faulty.wait_for_requests(3)
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})
    author = world.clone("second")
    world.write_campaign(author, "Hello again?")
    done = author.apply(*PATIENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert_everybody_once(world, faulty)
    texts = [launch["project_definition"]["text"] for launch in faulty.launches]
    assert sorted(texts) == ["Hello again?"] * 3 + ["Hello, how are you?"] * 3


@pytest.mark.slow
def test_of_two_machines_one_is_told_who_sends(world: World, faulty: FaultyService) -> None:
    """While one sends, the other exits with 6, and names it; one that waits finds nothing left to do."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 1, {"end": "hold"})
    with first.applying() as process:
        faulty.wait_for_requests(6)
        refused = second.apply()
        assert refused.returncode == 6
        assert refused.stderr.startswith(
            f"Error: refs/runner/live on origin is held by another run: process {process.pid} on "
        )
        assert refused.stderr.endswith(
            "\n  wait until that run has ended, or have this one wait with --lock-timeout. If that run has died, "
            "`runner apply --settle-only --lock-timeout 3m` takes over, once it has seen the ref unmoved for 140 s\n"
        )
        here = first.apply()
        assert here.returncode == 6
        assert here.stderr.startswith(
            f"Error: refs/runner/live on origin is held by another run: process {process.pid} on "
        )
        with second.applying("--lock-timeout", "90s") as other:
            faulty.open_gate()
            assert process.wait(PATIENCE_S) == 0
            assert other.wait(PATIENCE_S) == 0
    assert_everybody_once(world, faulty)


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_run_that_settles_and_sends_nothing_leaves_the_ref_alone(
    world: World, faulty: FaultyService
) -> None:
    """Once somebody was killed, or the ref lacks a campaign that was sent, it is taken."""
    first, second = world.clone("first"), world.clone("second")
    before = world.find()
    assert second.run("apply", "--settle-only", "--quiet").returncode == 0
    assert world.find() == before
    hold_from(faulty, 3, {"end": "hold"})
    with first.applying("--concurrency", "1") as process:
        faulty.wait_for_requests(3)
        assert second.run("apply", "--settle-only", "--quiet").returncode == 6
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})
    assert second.run("apply", "--settle-only", "--quiet", *PATIENT).returncode == 0
    assert len(json.loads(world.show("pulse.lock.json"))["launches"]) == len(faulty.accepted)
    settled = world.find()
    assert second.run("apply", "--settle-only", "--quiet").returncode == 0
    assert world.find() == settled
    Git(world.remote).run("update-ref", REF, before)
    assert second.run("apply", "--settle-only", "--quiet").returncode == 0
    assert world.list_files() == ["pulse.lock.json", "state.json"]
    assert second.apply().returncode == 0
    assert_everybody_once(world, faulty)


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_holder_that_was_stopped_sends_nothing_more_after_another_took_over(
    tmp_path: Path, world: World, faulty: FaultyService
) -> None:
    """SIGSTOP while a request is out, SIGCONT after the lease was taken: whoever is left is the other's."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 2, {"end": "hold"})
    mark = tmp_path / "slept"
    with first.applying("--concurrency", "1", prelude=SLEPT.format(mark=str(mark))) as process:
        faulty.wait_for_requests(2)
        process.send_signal(signal.SIGSTOP)
        mark.touch()
        faulty.behave({})
        assert second.apply(*PATIENT).returncode == 0
        sent = len(faulty.requests)
        faulty.open_gate()
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 6
    assert err.endswith(
        "Error: this run has lost refs/runner/live on origin to another run; nothing more is sent\n"
        "  let the other run end, then run the same command again\n"
    )
    assert len(faulty.requests) == sent
    assert_everybody_once(world, faulty)


@pytest.mark.slow
def test_a_clock_that_is_an_hour_ahead_takes_nothing_over(
    tmp_path: Path, service_env: dict[str, str], faulty: FaultyService
) -> None:
    """The first machine is cut off from git, not from the service: it stops before the second begins."""
    world = World(tmp_path / "world", service_env, recipients=60)
    first, second = world.clone("first"), world.clone("second")
    door = world.remote.with_name("door.git")
    door.symlink_to(world.remote)
    first.git.run("remote", "set-url", "origin", f"file://{door}")
    with first.applying("--concurrency", "1", *SHORT) as process:
        slow_down(faulty, process)
        faulty.wait_for_requests(2)
        door.unlink()
        with second.applying(*PATIENT, prelude=AN_HOUR_AHEAD) as other:
            _, err = process.communicate(timeout=PATIENCE_S)
            _, said = other.communicate(timeout=PATIENCE_S)
    assert_everybody_once(world, faulty)
    assert (other.returncode, said) == (0, "")
    assert process.returncode == 1
    assert "could not be renewed in time; nothing more is sent: " in err


@pytest.mark.slow
def test_nobody_is_texted_twice_when_the_ref_is_deleted_while_a_run_sends(
    tmp_path: Path, service_env: dict[str, str], faulty: FaultyService
) -> None:
    """The run that held it stops, and the next one waits until it must have."""
    world = World(tmp_path / "world", service_env, recipients=60)
    first, second = world.clone("first"), world.clone("second")
    with first.applying("--concurrency", "1", *SHORT) as process:
        slow_down(faulty, process)
        faulty.wait_for_requests(1)
        before = world.find()
        # It has just renewed its hold: it won't look at the ref for a while.
        wait_for(lambda: world.find() != before)
        Git(world.remote).run("update-ref", "-d", REF)
        done = second.run("apply", "--auto-approve", *SHORT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert_everybody_once(world, faulty)
    assert process.returncode == 1
    assert (
        "Error: refs/runner/live on origin was deleted while this run held it; nothing more is sent\n" in err
    )
    assert done.returncode == 0
    assert done.stderr.startswith(
        "There is no refs/runner/live on origin: it was never made, or was deleted while another machine sends. "
        "Waiting 7 s, after which no other run can hold it and the service lists all that it sent. If you "
        "know that nothing is being sent, `runner ci start --target live` makes it, and ends this wait.\n"
    )


@pytest.mark.slow
def test_an_interrupted_run_lets_the_ref_go(world: World, faulty: FaultyService) -> None:
    """With what was sent on record there; the next machine sends the rest at once."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 1, {"end": "hold"})
    with first.applying("--concurrency", "2") as process:
        faulty.wait_for_requests(2)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Stopping: ")
        faulty.open_gate()
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert '"holder": null' in world.show("state.json")
    assert world.list_files() == ["pulse.lock.json", "state.json"]
    faulty.behave({})
    assert second.apply().returncode == 0
    assert_everybody_once(world, faulty)


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["tag: pulse-2026", "tag: other"], ids=["same tag", "same texts"])
def test_a_campaign_that_is_renamed_on_a_new_machine_is_held(
    world: World, faulty: FaultyService, tag: str
) -> None:
    """Only the ref knows the old name: held by its tag or its texts, and with the hint's line nobody is texted."""
    second = world.clone("second")
    assert world.clone("first").apply().returncode == 0
    file = second.campaign.rename(second.campaign.with_name("beat.yaml"))
    text = file.read_text(encoding="utf-8").replace("name: pulse\ntag: pulse-2026", f"name: beat\n{tag}")
    file.write_text(text, encoding="utf-8")
    held = second.apply()
    assert held.returncode == 4, held.stderr
    assert "add `renamed_from: [pulse]` to campaigns/beat.yaml" in held.stderr
    file.write_text(text.replace("name: beat", "name: beat\nrenamed_from: [pulse]"), encoding="utf-8")
    done = second.apply()
    assert done.returncode == 0, done.stderr
    assert_everybody_once(world, faulty)


@pytest.mark.slow
def test_an_old_commit_texts_nobody_again(world: World, faulty: FaultyService) -> None:
    """A job that is run again from before the send, on a new machine."""
    old = world.clone("old")
    author = world.clone("first")
    assert author.apply().returncode == 0
    world.commit(author)
    done = old.apply()
    assert (done.returncode, done.stderr) == (0, "")
    assert_everybody_once(world, faulty)


@pytest.mark.slow
def test_a_remote_that_fails_after_the_sends_is_said(world: World, faulty: FaultyService) -> None:
    """What was sent is recorded here; the exit code and a sentence say that the remote doesn't know."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 6, {"end": "hold"})
    hook = world.remote / "hooks/pre-receive"
    with first.applying() as process:
        faulty.wait_for_requests(6)
        hook.write_text("#!/bin/sh\necho 'closed for today'\nexit 1\n", encoding="utf-8")
        hook.chmod(0o755)
        faulty.open_gate()
        _, err = process.communicate(timeout=PATIENCE_S)
    refused = (
        "the git remote origin refuses to move refs/runner/live: pre-receive hook declined (closed for today)"
    )
    assert process.returncode == 1
    assert err == (
        f"Warning: refs/runner/live on origin could not be let go: {refused}\n"
        "  run the same command again here: it brings what was sent. Other machines take the ref over once they "
        "have seen it unmoved for 140 s: have them wait with --lock-timeout 3m\n"
    )
    hook.unlink()
    assert first.lockfile.read_text(encoding="utf-8").count("project_launch_guid") == 6
    # The other machine settles what the ref still reserves.
    assert second.run("plan", "--detailed-exitcode").returncode == 0
    # The remedy.
    again = first.apply("--lock-timeout", "3m")
    assert (again.returncode, "Warning" in again.stderr) == (0, False)
    assert second.run("plan", "--detailed-exitcode").returncode == 0
    assert_everybody_once(world, faulty)


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_list_that_is_late_doesnt_deceive_the_next_machine(tmp_path: Path) -> None:
    """The sandbox lists launches two seconds late; the next machine waits for longer than that."""
    faults = Faults({}, latency=timedelta(milliseconds=250), late_by=timedelta(seconds=2))
    with running_service(tmp_path / "service.sqlite", faults=faults) as service:
        env = {
            "RUNNER_BASE_URL": service.url,
            "RUNNER_USERNAME": service.username,
            "RUNNER_API_KEY": service.api_key,
            "RUNNER_STATE_REMOTE": "origin",
            "RUNNER_SETTLE_WINDOW": "3s",
        }
        world = World(tmp_path / "world", env)
        first, second = world.clone("first"), world.clone("second")
        target = Target("live", service.url, Credentials(service.username, service.api_key))
        with closing(Connection(target, verify=True)) as connection:
            client = ServiceClient(target, connection)
            with first.applying("--concurrency", "1") as process:
                wait_for(lambda: (client.count_launches("pulse-2026") or 0) >= 2)
                process.kill()
            faults.replace({"late-list": 1})
            faults.latency = timedelta()
            assert second.apply(*PATIENT).returncode == 0
            faults.replace({})
            listed = list_launches(client, "pulse-2026")
            assert Counter(phone for stat in listed.launches for phone in stat.recipients) == dict.fromkeys(
                world.phones, 1
            )


@pytest.mark.slow
def test_a_frequency_cap_counts_what_other_machines_sent(world: World, faulty: FaultyService) -> None:
    """Of a campaign that this clone's command is not about, and whose lockfile it doesn't have."""
    first, second = world.clone("first"), world.clone("second")
    assert first.apply().returncode == 0
    other = second.campaign.with_name("other.yaml")
    text = second.campaign.read_text(encoding="utf-8").replace("pulse", "other")
    cap = "policy: {frequency_cap: {messages: 1, within: 1w}}\n"
    other.write_text(text + cap, encoding="utf-8")
    plan = second.run("plan", "campaigns/other.yaml", "--format", "json")
    assert json.loads(plan.stdout)["campaigns"][0]["messages"][0]["capped"] == len(world.phones)
    assert second.apply("campaigns/other.yaml").returncode == 0
    assert_everybody_once(world, faulty)


def test_a_lease_that_cannot_be_had_stops_every_command_in_words(world: World, faulty: FaultyService) -> None:
    """What is wrong with the remote is said once, and nothing is sent; what only reads goes on without it."""
    machine = world.clone("first")
    unknown = machine.apply("--state-remote", "upstream")
    assert (unknown.returncode, unknown.stderr) == (
        1,
        (
            "Error: the state cannot be kept on the git remote 'upstream': error: No such remote 'upstream'\n"
            "  --state-remote and RUNNER_STATE_REMOTE take the name of a remote of the clone that the campaigns "
            "are kept in; `git remote` lists them\n"
        ),
    )
    world.remote.rename(world.remote.with_name("elsewhere.git"))
    words = (
        f": the git remote origin cannot be used: fatal: '{world.remote}' does not appear to be a git "
        "repository; fatal: Could not read from remote repository.\n"
        "  check the network, and that this user may use the remote: git ls-remote origin\n"
    )
    for command in ("apply --record-remote none", "reconcile"):
        done = machine.run(*command.split())
        assert (done.returncode, done.stderr) == (1, f"Error{words}")
    said = f"Warning: what other machines recorded may be missing{words.splitlines()[0]}\n"
    assert machine.run("plan").stderr == machine.run("status").stderr == said
    assert faulty.requests == []


def test_a_damaged_ref_is_not_taken_for_an_empty_one(world: World, faulty: FaultyService) -> None:
    """Neither its reservations nor its lockfile; the words say where."""
    machine = world.clone("first")
    ref = StateRef.open(machine.folder, "origin", "live")
    state = '{"holder": null, "moves": 1, "state_version": 2}'
    commit = ref.compose({"state.json": state, "pulse.0.reserved.json": "{}"})
    ref.swap(ref.find(), commit)
    done = machine.apply()
    assert (done.returncode, done.stderr) == (
        1,
        (
            "Error: the lockfile origin:refs/runner/live/pulse.0.reserved.json is damaged at its top level\n"
            "  nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it (git "
            "push origin --delete refs/runner/live): `runner apply` asks the service for what they lack\n"
        ),
    )
    commit = ref.compose({"state.json": state, "pulse.lock.json": "{}"})
    ref.swap(ref.find(), commit)
    done = machine.apply()
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Error: the lockfile origin:refs/runner/live/pulse.lock.json is damaged at its top level\n"
    )
    assert "  nothing is sent as long as it is unclear who was texted. With the lockfiles at" in done.stderr
    # What is not known is not shown as nothing.
    for command in (("status",), ("report",), ("who", "+14155550100")):
        done = machine.run(*command)
        assert done.returncode == 1, done.stdout
        assert (
            "the lockfile origin:refs/runner/live/pulse.lock.json is damaged at its top level\n"
            in done.stderr
        )
    assert faulty.requests == []


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_ref_that_was_removed_on_purpose_is_made_again(world: World, faulty: FaultyService) -> None:
    """As the words about a damaged one advise: it takes a lease and a margin, and the settle window."""
    machine = world.clone("first")
    machine.git.run("push", "--quiet", "origin", "--delete", REF)
    done = machine.run("apply", "--auto-approve", "--settle-window", "1m")
    assert done.returncode == 0
    assert done.stderr.startswith(
        "There is no refs/runner/live on origin: it was never made, or was deleted while another machine sends. "
        "Waiting 200 s, after which no other run can hold it and the service lists all that it sent. If you "
        "know that nothing is being sent, `runner ci start --target live` makes it, and ends this wait.\n"
    )
    assert world.list_files() == ["pulse.lock.json", "state.json"]
    assert_everybody_once(world, faulty)


@pytest.mark.slow
def test_a_group_is_reserved_with_one_push(world: World, faulty: FaultyService) -> None:
    """A push to begin, one for each group, and one that brings the record and ends."""
    machine = world.clone("first")
    log = world.remote / "pushes"
    hook = world.remote / "hooks/post-receive"
    hook.write_text(f"#!/bin/sh\ncat >> {log}\n", encoding="utf-8")
    hook.chmod(0o755)
    assert machine.apply().returncode == 0
    assert len(log.read_text(encoding="utf-8").splitlines()) == 3
    assert machine.apply().returncode == 0
    assert len(log.read_text(encoding="utf-8").splitlines()) == 5
    assert_everybody_once(world, faulty)


@given(st.lists(st.integers(1, 9)), st.integers(1, 5), st.integers(1, 20))
def test_groups_are_bounded_and_lose_nobody(sizes: list[int], most: int, recipients: int) -> None:
    """In launches, and in recipients before the last launch."""
    launches = [SimpleNamespace(phones=range(size)) for size in sizes]
    groups = list(iterate_groups(iter(launches), most, recipients))  # type: ignore[arg-type]
    assert [launch for group in groups for launch in group] == launches
    for group in groups:
        assert 1 <= len(group) <= most
        assert sum(len(launch.phones) for launch in group[:-1]) < recipients


@pytest.mark.slow
@pytest.mark.usefixtures("leaping_clock")
def test_a_killed_job_is_recorded_although_its_campaign_was_deleted(
    world: World, faulty: FaultyService
) -> None:
    """Its reservations are settled, adopted, and in the lockfile to be committed: accepted is on record."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 3, {"end": "hold", "accepts": True})
    with first.applying("--concurrency", "2") as process:
        faulty.wait_for_requests(4)
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})
    second.campaign.unlink()
    assert '"gone": [\n    "pulse"\n  ]' in second.run("status", "--format", "json").stdout
    done = second.apply("--settle-only", *PATIENT)
    assert done.returncode == 0
    record = json.loads(second.lockfile.read_text(encoding="utf-8"))
    assert sorted(one["project_launch_guid"] for one in record["launches"]) == sorted(faulty.guids)
    assert len(faulty.guids) == 4
    assert "Record 4 texts of pulse on live" in second.run("ci", "record").stdout
    assert world.list_files() == ["pulse.lock.json", "state.json"]


def test_a_person_makes_the_ref(world: World, faulty: FaultyService) -> None:
    """Who knows that nothing is being sent makes it once: no run has to wait, and one that waits goes on."""
    machine = world.clone("first")
    machine.git.run("push", "--quiet", "origin", "--delete", REF)
    made = machine.run("ci", "start", "--target", "live")
    assert (made.returncode, made.stdout) == (0, "Made refs/runner/live on origin.\n"), made.stderr
    again = machine.run("ci", "start", "--target", "live")
    assert (again.returncode, again.stdout) == (0, "refs/runner/live on origin is there already.\n")
    done = machine.run("apply", "--auto-approve", "--settle-window", "1m")
    assert (done.returncode, done.stderr) == (0, "")
    assert_everybody_once(world, faulty)


@pytest.mark.parametrize(
    ("url", "given", "setting", "ledger", "has_origin", "expected"),
    [
        ("https://sms.example.com", None, None, SQLITE, True, REF),
        ("https://sms.example.com", None, None, SQLITE, False, None),
        ("https://sms.example.com", None, None, "postgresql://host/db", True, None),
        ("https://sms.example.com", None, "none", SQLITE, True, None),
        ("https://sms.example.com", "none", "origin", SQLITE, True, None),
        ("http://127.0.0.1:9", None, None, SQLITE, True, None),
        ("http://127.0.0.1:9", None, "origin", SQLITE, True, REF),
    ],
)
def test_a_target_on_another_machine_has_the_ref_by_default(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    given: str | None,
    setting: str | None,
    ledger: str,
    expected: str | None,
    *,
    has_origin: bool,
) -> None:
    """Where the repository has a remote `origin` and no ledger is shared, unless a person says otherwise."""
    machine = world.clone("first")
    if not has_origin:
        machine.git.run("remote", "remove", "origin")
    monkeypatch.chdir(machine.folder)
    state = StateRemote.choose(Scope(state_remote=given), Target("live", url, state_remote=setting), ledger)
    assert (state and state.ref.name) == expected


@pytest.mark.slow
def test_a_ref_that_was_lost_does_not_begin_with_trust(world: World, faulty: FaultyService) -> None:
    """What only the lost ref had was sent under another tag: the next run finds it, and holds its people."""
    first, second = world.clone("first"), world.clone("second")
    first.apply("--limit", "2")
    first.run("optouts", "add", world.phones[-1])
    world.commit(first)
    first.campaign.write_text(first.campaign.read_text().replace("tag: pulse-2026", "tag: other"))
    first.apply("--limit", "1")
    Git(world.remote).run("update-ref", "-d", REF)
    second.git.run("pull", "--quiet", "origin", "main")
    assert second.run("ci", "start", "--target", "live").stdout == f"Made {REF} on origin.\n"
    # Nobody has to send for the next machine to know who opted out.
    assert world.list_files() == ["live.suppressions.json", "state.json"]
    done = second.apply()
    assert (done.returncode, len(faulty.accepted), set(faulty.accepted.values())) == (4, 5, {1}), done.stderr
    assert "pulse.lock.json" in world.list_files()
