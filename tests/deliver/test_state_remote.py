"""Two clones without a common ledger, and the git remote that keeps them apart (`--state-remote`).

The remote is a real bare repository, the service counts what it accepted, and whoever is killed is a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from runner.repository.git import Git
from tests.cli.inside import run_inside
from tests.deliver.conftest import API_KEY, PATIENCE_S, PHONES, USERNAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.deliver.conftest import Behaviour, FaultyService, Request

REF = "refs/runner/live"
SHORT = ("--state-lease", "2")
"""A lease that a killed holder's successor can wait for."""
PATIENT = ("--lock-timeout", "20s", *SHORT)


class Machine:
    """A clone with a ledger of its own.

    Attributes:
        folder: its work tree.
        git: its git.
    """

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.git = Git(folder)
        self._env = env

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command in this process."""
        return run_inside(*arguments, cwd=self.folder, env={**self._env, **env})

    def apply(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Send what there is to send."""
        return self.run("apply", "--auto-approve", "--quiet", *arguments, **env)

    @contextmanager
    def applying(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run `apply` as a process, which is killed in the end."""
        command = [sys.executable, "-m", "runner", "apply", "--auto-approve", "--quiet", *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **self._env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    @property
    def campaign(self) -> Path:
        """The campaign file."""
        return self.folder / "campaigns/pulse.yaml"

    @property
    def lockfile(self) -> Path:
        """What was sent, in the clone."""
        return self.folder / "campaigns/pulse.live.lock.json"


class World:
    """A remote, the machines that share it, and the service.

    Attributes:
        remote: the bare repository.
        phones: the campaign's recipients.
    """

    def __init__(self, folder: Path, env: dict[str, str], recipients: int = 6) -> None:
        self._folder = folder
        self._env = env
        self.phones = PHONES[:recipients]
        self.remote = folder / "remote.git"
        folder.mkdir(exist_ok=True)
        Git(folder).run("init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
        author = self.clone("author")
        self.write_campaign(author)
        self.commit(author)

    def write_campaign(self, machine: Machine, text: str = "Hello, how are you?") -> None:
        """Write the campaign: one text to each of the phones, one phone a launch."""
        recipients = "".join(f'  - phone: "{phone}"\n' for phone in self.phones)
        machine.campaign.parent.mkdir(exist_ok=True)
        machine.campaign.write_text(
            f"version: 1\nname: pulse\ntag: pulse-2026\nrecipients:\n{recipients}"
            f"limits:\n  recipients_per_send: 1\nmessages:\n  - id: ask\n    text: {text}\n",
            encoding="utf-8",
        )

    def clone(self, name: str, *options: str) -> Machine:
        """Return a new machine, with what the remote has."""
        Git(self._folder).run("clone", "--quiet", *options, f"file://{self.remote}", name)
        machine = Machine(self._folder / name, self._env)
        for key, value in (("user.name", "Ada"), ("user.email", USERNAME)):
            machine.git.run("config", key, value)
        return machine

    def commit(self, machine: Machine) -> None:
        """Commit everything, and push it."""
        machine.git.run("add", "campaigns")
        machine.git.run("commit", "--quiet", "-m", "Change the campaign")
        machine.git.run("push", "--quiet", "origin", "HEAD:main")

    def show(self, file: str) -> str:
        """Return what a file on the ref says."""
        return Git(self.remote).run("show", f"{REF}:{file}")

    def list_files(self) -> list[str]:
        """Return the names of the files on the ref."""
        return Git(self.remote).run("ls-tree", "--name-only", REF).split()


@pytest.fixture
def world(tmp_path: Path, faulty: FaultyService) -> World:
    env = {
        "RUNNER_BASE_URL": faulty.url,
        "RUNNER_USERNAME": USERNAME,
        "RUNNER_API_KEY": API_KEY,
        "RUNNER_STATE_REMOTE": "origin",
        # This service lists a launch at once.
        "RUNNER_SETTLE_WINDOW": "0s",
    }
    return World(tmp_path / "world", env)


def hold_from(faulty: FaultyService, first: int, behaviour: Behaviour) -> None:
    """Have the service do something else from the n-th send on."""

    def decide(number: int, _request: Request) -> Behaviour:
        return behaviour if number >= first else {}

    faulty.decide = decide


def assert_everybody_once(world: World, faulty: FaultyService) -> None:
    assert faulty.accepted == dict.fromkeys(world.phones, 1)


def test_a_clone_whose_lockfile_was_never_pushed_is_followed_by_one_that_knows(
    world: World, faulty: FaultyService
) -> None:
    """Main is protected: the next machine learns from the ref whom the first one texted."""
    first, second = world.clone("first"), world.clone("second", "--depth=1")
    assert first.apply().returncode == 0
    assert_everybody_once(world, faulty)
    assert world.list_files() == ["pulse.lock.json", "state.json"]
    assert world.show("pulse.lock.json") + "\n" == first.lockfile.read_text(encoding="utf-8")
    reads = len(faulty.reads)
    plan = second.run("plan", "--detailed-exitcode")
    assert (plan.returncode, plan.stderr) == (0, "")
    assert len(faulty.reads) == reads
    done = second.apply()
    assert (done.returncode, done.stderr) == (0, "")
    assert second.lockfile.read_bytes() == first.lockfile.read_bytes()
    assert_everybody_once(world, faulty)
    assert Git(world.remote).run("rev-list", "--count", REF) == "1"
    assert second.git.ask("rev-parse", "--verify", "--quiet", REF).status == 1


@pytest.mark.parametrize("accepts", [True, False], ids=["accepted", "not accepted"])
def test_the_next_machine_settles_what_a_killed_one_had_reserved(
    world: World, faulty: FaultyService, *, accepts: bool
) -> None:
    """Killed while it sent: the reserved launches that are listed are adopted, the others are sent."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 3, {"end": "hold", "accepts": accepts})
    with first.applying("--concurrency", "2", *SHORT) as process:
        faulty.wait_for_requests(4)
        assert '"key": ' in world.show("pulse.0.reserved.json")
        process.kill()
        process.wait(PATIENCE_S)
    faulty.open_gate()
    faulty.behave({})
    assert not first.lockfile.exists()
    plan = second.run("status", "--format", "json")
    assert '"unresolved": 6' in plan.stdout
    assert second.apply(*PATIENT).returncode == 0
    assert_everybody_once(world, faulty)
    # The one that was killed comes back.
    assert first.apply().returncode == 0
    assert_everybody_once(world, faulty)
    assert first.lockfile.read_bytes() == second.lockfile.read_bytes()
    assert world.list_files() == ["pulse.lock.json", "state.json"]


def test_a_run_that_is_killed_before_its_first_send_keeps_nobody_from_being_texted(
    world: World, faulty: FaultyService
) -> None:
    """What was reserved and is in no list was not sent."""
    first, second = world.clone("first"), world.clone("second")
    (world.remote / "hooks/post-receive").write_text("#!/bin/sh\nsleep 30\n", encoding="utf-8")
    with first.applying(*SHORT) as process:
        # The remote has moved the ref, and is slow to say so.
        wait_for(lambda: Git(world.remote).ask("rev-parse", "--verify", REF).status == 0)
        (world.remote / "hooks/post-receive").chmod(0o755)
        wait_for(lambda: "pulse.0.reserved.json" in world.list_files())
        process.kill()
    assert faulty.accepted == {}
    (world.remote / "hooks/post-receive").unlink()
    assert second.apply(*PATIENT).returncode == 0
    assert_everybody_once(world, faulty)


def test_a_text_edited_after_a_kill_reaches_only_those_who_had_none(
    world: World, faulty: FaultyService
) -> None:
    """Launches of the old text are known by what stands for it, although this clone never had it."""
    first = world.clone("first")
    hold_from(faulty, 3, {"end": "hold"})
    with first.applying("--concurrency", "1", *SHORT) as process:
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
        assert "; should that have died, until 20" in refused.stderr
        assert refused.stderr.endswith(
            " UTC at the latest\n  wait until that run has ended, or have this one wait with --lock-timeout: "
            "a hold that is not renewed for 120 s is taken over\n"
        )
        with second.applying("--lock-timeout", "30s") as other:
            faulty.open_gate()
            assert process.wait(PATIENCE_S) == 0
            assert other.wait(PATIENCE_S) == 0
    assert_everybody_once(world, faulty)


def test_a_holder_that_was_stopped_sends_nothing_more_after_another_took_over(
    world: World, faulty: FaultyService
) -> None:
    """SIGSTOP while a request is out, SIGCONT after the lease was taken: whoever is left is the other's."""
    first, second = world.clone("first"), world.clone("second")
    hold_from(faulty, 2, {"end": "hold"})
    with first.applying("--concurrency", "1", *SHORT) as process:
        faulty.wait_for_requests(2)
        process.send_signal(signal.SIGSTOP)
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


def test_an_old_commit_texts_nobody_again(world: World, faulty: FaultyService) -> None:
    """A job that is run again from before the send, on a new machine."""
    old = world.clone("old")
    author = world.clone("first")
    assert author.apply().returncode == 0
    world.commit(author)
    done = old.apply()
    assert (done.returncode, done.stderr) == (0, "")
    assert_everybody_once(world, faulty)


def test_a_remote_that_fails_after_the_sends_is_said(world: World, faulty: FaultyService) -> None:
    """What was sent is recorded here; the exit code and two sentences say that the remote doesn't know."""
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
        "the git remote origin refuses to move refs/runner/live: pre-receive hook declined; "
        "remote: closed for today"
    )
    assert process.returncode == 1
    assert err == (
        f"Warning: pulse: the record could not be brought to refs/runner/live on origin: {refused}\n"
        "  the ledger and campaigns/pulse.live.lock.json have everything: commit and push the lockfile, or run "
        "the same command again here. Until then other machines ask the service\n"
        f"Warning: refs/runner/live on origin could not be let go: {refused}\n"
        "  everything that was sent is recorded here; other machines can take the ref over 120 s after its "
        "last move: have them wait with --lock-timeout\n"
    )
    hook.unlink()
    assert first.lockfile.read_text(encoding="utf-8").count("project_launch_guid") == 6
    # The other machine settles what the ref still reserves.
    assert second.run("plan", "--detailed-exitcode").returncode == 0
    assert_everybody_once(world, faulty)


def test_forgetting_removes_a_person_from_the_ref(world: World) -> None:
    """The record that all machines share goes without them, too."""
    machine = world.clone("first")
    assert machine.apply().returncode == 0
    before = world.show("pulse.lock.json")
    assert machine.run("forget", PHONES[0], "--auto-approve").returncode == 0
    after = world.show("pulse.lock.json")
    assert after + "\n" == machine.lockfile.read_text(encoding="utf-8")
    assert after != before
    assert '"forgotten"' in after


def wait_for(is_so: object) -> None:
    """Wait until something is so."""
    assert callable(is_so)
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
