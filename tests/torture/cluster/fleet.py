"""A cluster of processes that are killed, stopped and cut off, and started again as an operator would."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, Self

from psycopg import Connection, OperationalError, sql
from psycopg.errors import UndefinedTable

from tests.cluster.schedulers import free_port
from tests.keys import STATE_KEY
from tests.torture.cluster.nursery import Nursery
from tests.torture.cluster.wire import Exchange, open_port_wire, open_socket_wire
from tests.torture.launcher import make_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.postgres import PostgresServer
    from tests.torture.cluster.nursery import Child
    from tests.torture.cluster.wire import Wire
    from tests.torture.launcher import Death

SETTLE_WINDOW_S = 1.5
"""Longer than the service takes to accept and to list a launch, whatever happens."""
_SOCKET = ".s.PGSQL.5432"
_PATIENCE_S = 60.0
_POLL_S = 0.02
GRACE_S = 6.0
"""How long a worker that is told to end may take before it is killed, as a platform has it: some leases."""
RETIRES_S = 60.0
"""How long a scheduler may take to let a worker go."""
_REST_S = 0.5
"""A worker that ends sooner than this after its start has to wait, as one that crashes over and over does."""
_HOLDERS: LiteralString = (
    "SELECT holder FROM partition_leases "
    "WHERE holder IS NOT NULL AND expires_at > extract(epoch FROM clock_timestamp())"
)
_DASK = {
    # At its shortest: a worker that says nothing for five seconds is given up, as Dask has it.
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s",
    "DASK_DISTRIBUTED__ADMIN__LOG_FORMAT": "%(asctime)s %(name)s %(levelname)s %(message)s",
}


@dataclass(slots=True)
class Berth:
    """Where a worker process lives, and the next one once it has died.

    Attributes:
        name: of its workers.
        wire: to the scheduler.
        port: where the wire begins.
        child: the process.
        is_busy: whether a fault is under way here.
        is_followed: whether a process that has ended is followed by another one.
        env: variables of its own; None for one that is missing.
        started_at: when the process was started, in monotonic seconds.
    """

    name: str
    wire: Wire
    port: int
    child: Child
    is_busy: bool = False
    is_followed: bool = True
    env: Mapping[str, str | None] = field(default_factory=dict)
    started_at: float = 0.0

    def is_old_enough(self) -> bool:
        """Return whether its process, if it has ended, may be followed by another one yet."""
        return time.monotonic() - self.started_at >= _REST_S


class Fleet:
    """A scheduler, workers and a ledger, and the wires between them.

    Args:
        folder: a scratch folder.
        server: where the ledger's database is made.
        workers: how many.
        env: variables that runs and workers have beside those of every run.
        choose_death: returns where a worker that is started will kill itself; None to let it live.

    Attributes:
        env: the whole environment of a run.
        berths: the workers; others may join, and leave.
        database: of the ledger, on its server.
        ledger: the wire to it, from every process; a circuit of it is a process id.
    """

    def __init__(
        self,
        folder: Path,
        server: PostgresServer,
        *,
        workers: int,
        env: Mapping[str, str],
        choose_death: Callable[[], Death | None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._choose_death = choose_death
        self.database = server.create_database()
        self._server = server
        self._connection: Connection[Any] | None = None
        self._exchange = self._stack.enter_context(Exchange())
        self.ledger = open_socket_wire(self._exchange, folder / _SOCKET, server.folder / _SOCKET)
        url = server.url(self.database).replace(str(server.folder), str(folder))
        self.env = {**make_environment(url, settle_window_s=SETTLE_WINDOW_S, state_key=STATE_KEY), **env}
        # What the tests import is found wherever a process runs.
        self.env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path.cwd()), self.env.get("PYTHONPATH"))))
        (folder / "logs").mkdir()
        self._nursery = self._stack.enter_context(Nursery(folder / "logs", {**self.env, **_DASK}))
        self._port = free_port()
        self._back_at = 0.0
        self._starting = threading.Lock()
        self.scheduler = self._start_scheduler()
        self._names = (f"worker-{number}" for number in count())
        self.berths = [self._make_berth({}) for _ in range(workers)]
        self._is_ending = threading.Event()
        self._watch = threading.Thread(target=self._restart_what_died, daemon=True)
        self._deaths = 0
        self._watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._watch.join()
        for child in (self.scheduler, *(berth.child for berth in self.berths)):
            child.send_signal(signal.SIGKILL)
        self._stack.close()
        self._hang_up()

    def make_wire(self) -> tuple[Wire, int]:
        """Return a wire to the scheduler, which is one circuit, 0, and the port at which it begins."""
        return open_port_wire(self._exchange, self._port)

    def run(self, *arguments: str, cwd: Path, death: Death | None = None) -> Child:
        """Start the runner.

        Args:
            arguments: after `runner`.
            cwd: its current folder.
            death: where it kills itself; None to let it live.
        """
        return self._nursery.start("runner", *arguments, cwd=cwd, env=self.env, death=death)

    def wait_until_whole(self) -> None:
        """Wait until every worker has found the scheduler.

        Raises:
            TimeoutError: one doesn't.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while not all(_has_registered(berth.child) for berth in self.berths):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster doesn't come back:\n{self.tail_logs()}")
            time.sleep(_POLL_S)

    def join(self, env: Mapping[str, str | None]) -> Berth:
        """Start one more worker, with some variables of its own; None for one that it lacks."""
        berth = self._make_berth(env)
        berth.started_at = time.monotonic()
        self.berths = [*self.berths, berth]
        return berth

    def await_worker(self, berth: Berth, patience_s: float) -> bool:
        """Wait until a worker has found the scheduler; return whether it did in time."""
        deadline = time.monotonic() + patience_s
        while not (is_there := _has_registered(berth.child)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return is_there

    def leave(self, berth: Berth) -> None:
        """Have a worker that has joined end in order, and none follow it."""
        with self._starting:
            berth.is_followed = False
        self.end_in_order(berth.child)
        self.berths = [each for each in self.berths if each is not berth]

    def end_in_order(self, child: Child) -> bool:
        """Tell a process to end, and kill it if it takes too long; return whether it ended by itself."""
        child.send_signal(signal.SIGTERM)
        if child.ended.wait(GRACE_S):
            return True
        child.send_signal(signal.SIGKILL)
        child.ended.wait()
        return False

    def retire(self, berth: Berth) -> bool:
        """Have the scheduler let a worker go; return whether it does so in time."""
        address = f"tcp://127.0.0.1:{self._port}"
        child = self._nursery.start(
            "retire", address, berth.name, cwd=self._folder, env={**self.env, **_DASK}
        )
        return child.finish(RETIRES_S).code == 0

    def kill_scheduler(self, away_s: float) -> bool:
        """Kill the scheduler, and start another one on its port after so many seconds."""
        self._back_at = time.monotonic() + away_s
        return self.scheduler.send_signal(signal.SIGKILL)

    def take_deaths(self) -> int:
        """Return how many workers have killed themselves since this was asked last."""
        taken, self._deaths = self._deaths, 0
        return taken

    def find_holders(self) -> set[int]:
        """Return the process ids of those who hold a lease of a partition."""
        try:
            if self._connection is None:
                self._connection = self._server.connect(self.database)
            rows = self._connection.execute(_HOLDERS).fetchall()
        except UndefinedTable:
            return set()
        except OperationalError:
            # This session may be ended like any other.
            self._hang_up()
            return set()
        return {int(number) for (holder,) in rows for number in re.findall(r"\d+", holder)}

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def list_sessions(self) -> list[int]:
        """Return the server's numbers of the sessions of runs and workers."""
        query = sql.SQL("SELECT pid FROM pg_stat_activity WHERE datname = {}")
        rows = self._server.execute(query.format(sql.Literal(self.database)))
        return [pid for (pid,) in rows]

    def list_guids(self, target: str) -> Counter[str]:
        """Return the `project_launch_guid`s on record for a target."""
        query = sql.SQL(
            "SELECT project_launch_guid FROM launches JOIN campaigns ON campaigns.id = campaign_id "
            "WHERE target = {} AND project_launch_guid IS NOT NULL"
        )
        rows = self._server.execute(query.format(sql.Literal(target)), database=self.database)
        return Counter(guid for (guid,) in rows)

    def tail_logs(self, lines: int = 30) -> str:
        """Return the ends of what the processes wrote."""
        return "\n".join(self._iterate_tails(lines))

    def _iterate_tails(self, lines: int) -> Iterator[str]:
        for child in (self.scheduler, *(berth.child for berth in self.berths)):
            yield f"--- {child.streams[1].name}, process {child.pid}"
            yield from child.streams[1].read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]

    def _make_berth(self, env: Mapping[str, str | None]) -> Berth:
        wire, port = self.make_wire()
        name = next(self._names)
        return Berth(name, wire, port, self._start_worker(name, port, env, death=None), env=env)

    def _start_scheduler(self) -> Child:
        return self._nursery.start(
            "scheduler",
            *("--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard", "--no-jupyter"),
            cwd=self._folder,
            env={**self.env, **_DASK},
        )

    def _start_worker(
        self, name: str, port: int, env: Mapping[str, str | None], death: Death | None
    ) -> Child:
        full = {**self.env, **_DASK, **env}
        return self._nursery.start(
            "worker",
            *(f"tcp://127.0.0.1:{port}", "--name", name, "--nthreads", "1", "--memory-limit", "0"),
            *("--no-nanny", "--no-dashboard", "--local-directory", str(self._folder / name)),
            cwd=self._folder,
            env={name: value for name, value in full.items() if value is not None},
            death=death,
        )

    def _restart_what_died(self) -> None:
        while not self._is_ending.wait(_POLL_S):
            if self.scheduler.ended.is_set() and time.monotonic() >= self._back_at:
                self.scheduler = self._start_scheduler()
            for berth in self.berths:
                with self._starting:
                    self._follow(berth)

    def _follow(self, berth: Berth) -> None:
        if berth.child.ended.is_set() and berth.is_old_enough() and berth.is_followed:
            self._deaths += berth.child.code == -signal.SIGKILL and not berth.child.is_killed
            # Its connections to the ledger may be dead: that is no business of the next one's.
            berth.child = self._start_worker(berth.name, berth.port, berth.env, self._choose_death())
            berth.started_at = time.monotonic()


def _has_registered(child: Child) -> bool:
    log = child.streams[1]
    return not child.ended.is_set() and log.exists() and "Registered to" in log.read_text(encoding="utf-8")
