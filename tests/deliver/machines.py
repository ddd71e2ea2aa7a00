"""Clones that share a remote and nothing else: what tests of `--state-remote` are made of."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.git.command import Git
from tests.cli.inside import run_inside
from tests.deliver.conftest import PATIENCE_S, PHONES, USERNAME
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.deliver.conftest import Behaviour, FaultyService, Request

REF = "refs/runner/live"


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
    def applying(self, *arguments: str, prelude: str = "") -> Iterator[subprocess.Popen[str]]:
        """Run `apply` as a process, which is killed in the end.

        Args:
            arguments: after `apply --auto-approve --quiet`.
            prelude: Python that the process runs first.
        """
        program = f"{prelude}\nfrom runner.__main__ import main\nmain()"
        command = [sys.executable, "-c", program, "apply", "--auto-approve", "--quiet", *arguments]
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
        leave_free_ref(author.folder)

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

    def find(self) -> str:
        """Return the commit that the ref is at; nothing if there is no ref."""
        return Git(self.remote).ask("rev-parse", "--verify", "--quiet", REF).output.strip()

    def list_files(self) -> list[str]:
        """Return the names of the files on the ref."""
        return Git(self.remote).ask("ls-tree", "--name-only", REF).output.split()


def hold_from(faulty: FaultyService, first: int, behaviour: Behaviour) -> None:
    """Have the service do something else from the n-th send on."""

    def decide(number: int, _request: Request) -> Behaviour:
        return behaviour if number >= first else {}

    faulty.decide = decide


def slow_down(faulty: FaultyService, process: subprocess.Popen[str]) -> None:
    """Have the service take its time for each send as long as a run lasts, which so outlasts a short lease."""

    def decide(_number: int, _request: Request) -> Behaviour:
        if process.poll() is None:
            time.sleep(0.5)
        return {}

    faulty.decide = decide


def assert_everybody_once(world: World, faulty: FaultyService) -> None:
    assert faulty.accepted == dict.fromkeys(world.phones, 1)


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
