"""The command `runner` without its start: each is a fork of a process that has imported all of it.

A fork has all that a process of its own has: arguments, folder, environment, streams, signals of its own, an exit code;
and it is killed with the process that a shell has started for it. What a start alone can bring, as a
`sitecustomize`, is started as ever.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLIENT = """\
#!{python} -SE
import json, os, socket, sys
if "PYTHONPATH" in os.environ:
    os.execv("{runner}", ["{runner}", *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect("{address}")
    said = json.dumps([["runner", *sys.argv[1:]], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(said).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(said)
    sys.exit(server.recv(1)[0])
"""


@contextmanager
def running_warm_runner(folder: Path) -> Iterator[Path]:
    """Keep the process while a block lasts, and yield a folder for PATH that has the command in it.

    Args:
        folder: an empty one.
    """
    address, command = folder / "socket", folder / "bin/runner"
    command.parent.mkdir()
    runner = Path(sysconfig.get_path("scripts")) / "runner"
    command.write_text(
        _CLIENT.format(python=sys.executable, runner=runner, address=address), encoding="utf-8"
    )
    command.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        # It ends when this end of the pipe does.
        with subprocess.Popen(
            [sys.executable, "-m", "tests.gitops.warm", str(listening.fileno())],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            cwd=Path(__file__).parent.parent.parent,
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
        ):
            yield command.parent


def _serve(listening: socket.socket) -> None:
    import_module("runner.__main__")
    commands = import_module("runner.cli.commands")
    for module in iter_modules(commands.__path__):
        import_module(f"{commands.__name__}.{module.name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        waiting: list[socket.socket | int] = [listening, 0]
        ready, _, _ = select.select(waiting, [], [])
        if 0 in ready:
            return
        client, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            _supervise(client)
        client.close()


def _supervise(client: socket.socket) -> None:
    """Run one command, and end with it, or it with its client."""
    head, streams, _, _ = socket.recv_fds(client, 4, 3)
    size, said = int.from_bytes(head, "big"), b""
    while len(said) < size:
        said += client.recv(size - len(said))
    child = os.fork()
    if child == 0:
        client.close()
        _run(said, streams)
    ended = os.pidfd_open(child)
    waiting: list[socket.socket | int] = [ended, client]
    ready, _, _ = select.select(waiting, [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if ended in ready:
        client.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def _run(said: bytes, streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Those of this process may be files, and these are pipes.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  open while the process is
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  as above
    sys.argv, folder, environment = json.loads(said)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    import_module("runner.__main__").main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
