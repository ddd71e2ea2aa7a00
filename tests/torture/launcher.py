"""Starts the runner as processes that can be killed, from outside or by themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

USERNAME, API_KEY = "ada@example.com", "not-a-secret"
PATIENCE_S = 90.0
"""A command that runs longer hangs."""
HANGS = -1000
"""The exit code of a command that had to be killed because it hangs."""
_VICTIM = Path(__file__).with_name("victim.py")


Step = Literal["commit", "lockfile", "fsync", "send"]
Phase = Literal["before", "amid", "after"]


@dataclass(frozen=True, slots=True)
class Death:
    """Where a process kills itself: see `victim.arm`."""

    step: Step
    phase: Phase
    number: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended: `code` is negative if a signal ended it."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str


class Launcher:
    """Runs commands one after the other, each in a process of its own.

    Args:
        folder: where it may write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arguments: tuple[str, ...] = ()
        self._process = subprocess.Popen(
            [sys.executable, str(_VICTIM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def start(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        death: Death | None = None,
        is_cold: bool = False,
    ) -> None:
        """Start `runner`; `finish` must follow.

        Args:
            arguments: after `runner`.
            cwd: the current folder of the process.
            env: its whole environment.
            death: where it kills itself; None to let it live.
            is_cold: whether to start the interpreter anew, as a user does.
        """
        self._arguments = arguments
        self._file("out").write_bytes(b"")
        self._file("err").write_bytes(b"")
        request = {
            "arguments": arguments,
            "cwd": str(cwd),
            "env": dict(env),
            "death": asdict(death) if death else None,
            "is_cold": is_cold,
            "streams": [os.devnull, str(self._file("out")), str(self._file("err"))],
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        self.pid = int(self._read())

    def is_running(self) -> bool:
        """Return whether the command that was started has not ended yet."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def send_signal(self, number: signal.Signals) -> None:
        """Send the running command a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def finish(self) -> Ended:
        """Wait until the command has ended."""
        hangs = threading.Event()

        def give_up() -> None:
            hangs.set()
            self.send_signal(signal.SIGKILL)

        timer = threading.Timer(PATIENCE_S, give_up)
        timer.start()
        try:
            code = int(self._read())
        finally:
            timer.cancel()
        out, err = (self._file(name).read_text(encoding="utf-8") for name in ("out", "err"))
        return Ended(self._arguments, HANGS if hangs.is_set() else code, out, err)

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _file(self, name: str) -> Path:
        return self._folder / f"{self._process.pid}.{name}"


def make_environment(
    ledger_url: str,
    *,
    settle_window_s: float,
    state_key: str | None,
    credentials: tuple[str, str] = (USERNAME, API_KEY),
    state_remote: str | None = None,
) -> dict[str, str]:
    """Return the whole environment of a run; an empty URL leaves it the default ledger."""
    username, api_key = credentials
    given = {"LEDGER": ledger_url, "STATE_KEY": state_key, "STATE_REMOTE": state_remote}
    return {
        **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        "NO_COLOR": "1",
        "RUNNER_USERNAME": username,
        "RUNNER_API_KEY": api_key,
        "RUNNER_SETTLE_WINDOW": f"{settle_window_s * 1000:.0f}ms",
        **{f"RUNNER_{name}": value for name, value in given.items() if value},
    }
