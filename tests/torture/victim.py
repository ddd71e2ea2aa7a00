"""The runner's own command line in a process that kills itself at a chosen step.

`python victim.py DEATH ARGUMENT…` runs one command. `python victim.py` alone reads requests, one JSON
object a line, and runs each in a process of its own: forked from this one, which has imported the
runner already, or started from scratch.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine.default import DefaultDialect

from runner.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable


def arm(death: dict[str, Any]) -> None:
    """Have this process kill itself.

    Args:
        death: `step` is `commit` (of the ledger), `lockfile` (replaced), `fsync` or `send` (bytes to the
            service); `phase` is `before`, `after`, or `amid`: half of the bytes have left; `number`
            counts the steps from 1.
    """
    owner, name, is_meant = _STEPS[death["step"]]
    original = getattr(owner, name)
    done = 0

    def step(*arguments: Any, **options: Any) -> Any:
        nonlocal done
        if not is_meant(arguments):
            return original(*arguments, **options)
        done += 1
        is_last = done == death["number"]
        if is_last and death["phase"] == "amid":
            connection, data = arguments
            original(connection, data[: len(data) // 2])
        if is_last and death["phase"] != "after":
            _die()
        result = original(*arguments, **options)
        if is_last:
            _die()
        return result

    setattr(owner, name, step)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_STEPS: dict[str, tuple[Any, str, Callable[[Any], bool]]] = {
    "commit": (DefaultDialect, "do_commit", lambda _: True),
    "lockfile": (os, "replace", lambda arguments: str(arguments[1]).endswith(".lock.json")),
    "fsync": (os, "fsync", lambda _: True),
    "send": (socket.socket, "sendall", lambda _: True),
}


def serve() -> None:
    """Run what is asked for on standard input, one command after the other, until it ends."""
    for command in ("apply", "plan", "reconcile", "resolve", "status"):
        importlib.import_module(f"runner.cli.commands.{command}")
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            os._exit(_become(request))
        print(pid, flush=True)  # noqa: T201  the answer to the harness
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


def _become(request: dict[str, Any]) -> int:
    os.chdir(request["cwd"])
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        descriptor = os.open(request["streams"][number], mode | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, number)
    os.environ.clear()
    os.environ.update(request["env"])
    if request["is_cold"]:
        program = [__file__, json.dumps(request["death"])] if request["death"] else ["-m", "runner"]
        os.execv(sys.executable, [sys.executable, *program, *request["arguments"]])  # noqa: S606  no shell is meant
    if request["death"]:
        arm(request["death"])
    code = run(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    if sys.argv[1:]:
        arm(json.loads(sys.argv[1]))
        sys.exit(run(sys.argv[2:]))
    serve()
