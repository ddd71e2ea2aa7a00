"""Starts processes of a cluster that can be killed, and says when they have ended.

`python nursery.py` alone reads requests, one JSON object a line, and runs each in a process of its own that
is forked from this one, which has imported all that they need: many can run at once, and each starts in
milliseconds. It answers each with its process id, and tells of each process that has ended.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from distributed import Client

from tests.torture.launcher import HANGS, Ended
from tests.torture.victim import arm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.torture.launcher import Death

Program = Literal["runner", "scheduler", "worker", "retire"]
_COMMANDS: dict[str, str] = {
    "scheduler": "distributed.cli.dask_scheduler",
    "worker": "distributed.cli.dask_worker",
}
VERSION = "TORTURE_VERSION"
"""The variable with the version that the runner in a process pretends to have."""
_TELL_STACKS = signal.SIGUSR1
"""Has a process write to its standard error where its threads are."""
_STACKS_S = 0.5
_IMPORTED = (
    *_COMMANDS.values(),
    "runner.cli.commands.apply",
    "runner.cli.commands.plan",
    "runner.workflow.delivery.cluster_delivery",
    "runner.cluster.dask_connection",
)


@dataclass(slots=True)
class Child:
    """A process of the cluster.

    Attributes:
        pid: its number.
        arguments: what it was started with.
        streams: where its standard output and error go.
        code: its exit code, negative if a signal ended it; None while it runs.
        is_killed: whether it was sent SIGKILL from here.
        ended: is set once it has ended.
    """

    pid: int
    arguments: tuple[str, ...]
    streams: tuple[Path, Path]
    code: int | None = None
    is_killed: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def send_signal(self, number: signal.Signals) -> bool:
        """Send it a signal; return whether it was there to get it."""
        if self.ended.is_set():
            return False
        self.is_killed = self.is_killed or number == signal.SIGKILL
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def finish(self, patience_s: float) -> Ended:
        """Wait until it has ended; one that takes longer hangs, and is killed.

        Args:
            patience_s: how long it may take, in seconds.
        """
        hangs = not self.ended.wait(patience_s)
        if hangs:
            self.send_signal(signal.SIGCONT)
            self.send_signal(_TELL_STACKS)
            self.ended.wait(_STACKS_S)
            self.send_signal(signal.SIGKILL)
            self.ended.wait()
        assert self.code is not None
        out, err = (stream.read_text(encoding="utf-8", errors="replace") for stream in self.streams)
        return Ended(self.arguments, HANGS if hangs else self.code, out, err)


class Nursery:
    """Starts processes from any thread.

    Args:
        folder: where their output goes.
        env: the environment that they are started from.
    """

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._count = 0
        command = [sys.executable, "-m", "tests.torture.cluster.nursery"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(env)
        )
        self._pids: list[int] = []
        self._has_pid = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(
        self,
        program: Program,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        death: Death | None = None,
    ) -> Child:
        """Start a process.

        Args:
            program: which.
            arguments: its arguments.
            cwd: its current folder.
            env: its whole environment.
            death: where it kills itself; None to let it live.
        """
        with self._lock:
            self._count += 1
            name = f"{self._count:05}-{program}"
            streams = (self._folder / f"{name}.out", self._folder / f"{name}.err")
            request = {
                "program": program,
                "arguments": arguments,
                "cwd": str(cwd),
                "env": dict(env),
                "death": asdict(death) if death else None,
                "streams": [os.devnull, *map(str, streams)],
            }
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            with self._has_pid:
                self._has_pid.wait_for(lambda: self._pids)
                return self._children[self._pids.pop()]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                child = self._children.pop(told["pid"])
                child.code = told["code"]
                child.ended.set()
                continue
            streams = (Path(told["streams"][1]), Path(told["streams"][2]))
            child = Child(told["pid"], tuple(told["arguments"]), streams)
            with self._has_pid:
                self._children[child.pid] = child
                self._pids.append(child.pid)
                self._has_pid.notify()


def serve() -> None:
    """Start what is asked for on standard input, and kill what is left when that ends."""
    for module in _IMPORTED:
        importlib.import_module(module)
    # A collection in a child would copy all that it shares with this process.
    gc.collect()
    gc.freeze()
    # A child that ends wakes the loop.
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    alive: set[int] = set()
    requests = b""
    while True:
        ready, _, _ = select.select([0, awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            _reap(alive)
        if 0 not in ready:
            continue
        piece = os.read(0, 1 << 16)
        if not piece:
            break
        *lines, requests = (requests + piece).split(b"\n")
        for line in lines:
            _start(json.loads(line), alive, (awake, wake))
    for pid in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while alive:
        alive.discard(os.wait()[0])


def _start(request: dict[str, Any], alive: set[int], pipe: tuple[int, int]) -> None:
    pid = os.fork()
    if not pid:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in pipe:
            os.close(descriptor)
        _become(request)
    alive.add(pid)
    _tell({"pid": pid, "arguments": request["arguments"], "streams": request["streams"]})


def _reap(alive: set[int]) -> None:
    while alive:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        alive.discard(pid)
        _tell({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201  the answer to the harness


def _become(request: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        os.chdir(request["cwd"])
        for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
            descriptor = os.open(request["streams"][number], mode | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(request["env"])
        faulthandler.register(_TELL_STACKS)
        _pretend_version(os.environ.pop(VERSION, None))
        if request["death"]:
            arm(request["death"])
        code = _run(request["program"], request["arguments"])
    except BaseException:  # noqa: BLE001  a child never goes on as its parent
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    # As every program ends: its threads may have something to finish.
    sys.exit(code)


def _pretend_version(version: str | None) -> None:
    own = [module for name, module in sys.modules.items() if name.startswith("runner.")]
    for module in own:
        if version is not None and hasattr(module, "__version__"):
            module.__dict__["__version__"] = version


def _run(program: Program, arguments: list[str]) -> int:
    if program == "runner":
        return _run_runner(arguments)
    if program == "retire":
        return _retire(*arguments)
    main = importlib.import_module(_COMMANDS[program])
    try:
        main.main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _retire(scheduler: str, worker: str) -> int:
    """Have a scheduler let a worker go, given its name."""
    with Client(scheduler, set_as_default=False) as client:
        client.retire_workers(names=[worker], close_workers=True)
    return 0


def _run_runner(arguments: list[str]) -> int:
    main: Any = importlib.import_module("runner.cli.main")
    show_bug = main.show_bug

    def show_all(error: BaseException) -> int:
        # To users it says the place alone; of what the harness brings about there is no secret.
        traceback.print_exception(error)
        return int(show_bug(error))

    main.show_bug = show_all
    return int(main.run(arguments))


if __name__ == "__main__":
    serve()
