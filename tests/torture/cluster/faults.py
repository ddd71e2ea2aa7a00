"""What befalls a cluster: at random, one thing soon after the other, and several at once."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Self

from psycopg import sql

from tests.keys import OTHER_STATE_KEY
from tests.torture.cluster.nursery import VERSION
from tests.torture.launcher import Death

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.postgres import PostgresServer
    from tests.torture.cluster.fleet import Berth, Fleet
    from tests.torture.launcher import Phase, Step

LEASE_S = 1.5
Pauses = tuple[tuple[float, float], ...]
BRIEF_S: Pauses = ((1.8, 2.8),)
PAUSES_S: Pauses = (*BRIEF_S, (6.0, 11.0))
"""How long a process is stopped, and a connection dead: longer than a lease, which may have passed on by then;
the longer ones so that what was under way may have been settled, too, and sent again by others. Only those,
right between the last look at the lease and the first byte of a request, could text somebody twice
(`runner.ledger.locks.partition_lease`): that takes microseconds."""
REST_S = (0.05, 0.8)
"""From one fault to the next."""
_FEWEST_WELL = 2
"""Workers that nothing happens to, so that there is something to befall."""
_BLINK_S = 0.05
AWAY_S = (2.0, 4.0)
"""How long a scheduler that was killed stays away."""
STRANGERS: Mapping[str, Mapping[str, str | None]] = {
    "worker without the API key joined": {"RUNNER_API_KEY": None},
    "worker with another state key joined": {"RUNNER_STATE_KEY": OTHER_STATE_KEY},
    "worker of another version joined": {VERSION: "0.0.0"},
}
"""Workers that must not send, with the variables that they differ in."""
JOINED, LEFT, ENDED, RETIRED = "worker joined", "worker left", "worker told to end", "worker retired"
KILLED = "worker told to end, killed after some seconds"
AWAY = "scheduler killed, away for seconds"
COMINGS = (JOINED, ENDED, RETIRED, *STRANGERS, AWAY)
"""The faults of a cluster whose members come and go."""
_MOST_GUESTS = 4
_JOINS_S = 60.0
_WORK_S = 3.0
"""For how long a fault of a worker waits for one that is at work."""


class Mishaps:
    """Brings faults over a cluster while the block lasts; at its end all that can be mended is.

    Args:
        fleet: the cluster.
        server: of its ledger.
        rng: chooses.
        pauses: how long pauses are: one of several ranges, in seconds.
        first: faults that come before all others, in this order, each of a worker to one that is at work.

    Attributes:
        faults: how often each has happened.
    """

    def __init__(
        self,
        fleet: Fleet,
        server: PostgresServer,
        rng: random.Random,
        pauses: Pauses,
        first: Sequence[str] = (),
    ) -> None:
        self._first = deque(first)
        self._guests = 0
        self._counting = threading.Lock()
        self._pauses = pauses
        self.faults: Counter[str] = Counter()
        self._fleet = fleet
        self._server = server
        self._rng = rng
        self._is_over = threading.Event()
        self._mends: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._strike_on)
        self._on_workers: dict[str, tuple[int, Callable[[Berth, float], bool]]] = {
            "worker killed": (5, self._kill),
            "worker killed, its ledger sessions left": (3, self._kill_and_leave),
            "worker stopped beyond its lease": (6, self._stop),
            "worker stopped beyond its lease, given up": (6, self._stop_and_give_up),
            "worker told to leave": (4, self._tell_to_leave),
            "worker cut off the scheduler": (2, self._cut_off),
            "worker's scheduler gone silent": (2, self._silence),
            "worker cut off the ledger": (2, self._cut_off_ledger),
            "worker's ledger gone silent": (4, self._silence_ledger),
            ENDED: (4, self._end),
            RETIRED: (3, self._retire),
        }
        self._on_all: dict[str, tuple[int, Callable[[float], bool]]] = {
            "scheduler killed": (2, self._kill_scheduler),
            "scheduler stopped": (1, self._stop_scheduler),
            "all workers killed": (1, self._kill_all),
            "a ledger session ended": (2, self._end_session),
            "all ledger sessions ended": (1, self._end_sessions),
            AWAY: (1, self._take_scheduler_away),
            JOINED: (4, self._join),
            **{kind: (1, partial(self._admit, kind)) for kind in STRANGERS},
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        for mend in self._mends:
            mend.join()
        self._count("worker killed by itself at a step", self._fleet.take_deaths())

    @property
    def is_through(self) -> bool:
        """Whether the faults that come first have come."""
        return not self._first

    def _strike_on(self) -> None:
        while not self._is_over.wait(self._rng.uniform(*REST_S)):
            self._strike()

    def _strike(self) -> None:
        kinds = {**self._on_workers, **self._on_all}
        kind = self._rng.choices(tuple(kinds), [weight for weight, _ in kinds.values()])[0]
        kind = self._first[0] if self._first else kind
        pause_s = choose_pause(self._rng, self._pauses)
        if kind in self._on_all:
            is_done = self._on_all[kind][1](pause_s)
            self._count(kind, is_done)
            # Of workers that join it is known later whether they have.
            if self._first and (is_done or kind in (JOINED, *STRANGERS)):
                self._first.popleft()
            return
        well = [berth for berth in self._fleet.berths if not berth.is_busy]
        if len(well) <= _FEWEST_WELL:
            return
        at_work = self._await_work(well)
        if self._first and not at_work:
            return
        is_done = self._on_workers[kind][1](self._rng.choice(at_work or well), pause_s)
        self._count(kind if at_work else f"idle {kind}", is_done)
        # One that comes first has to happen: one that has not comes again.
        if is_done and self._first:
            self._first.popleft()

    def _count(self, kind: str, number: int) -> None:
        with self._counting:
            self.faults[kind] += number

    def _await_work(self, berths: list[Berth]) -> list[Berth]:
        """Return the workers that are at work, as soon as there is one: they hold a lease."""
        deadline = time.monotonic() + _WORK_S
        at_work: list[Berth] = []
        while not at_work and time.monotonic() < deadline and not self._is_over.wait(_BLINK_S):
            holders = self._fleet.find_holders()
            at_work = [berth for berth in berths if berth.child.pid in holders]
        return at_work

    def _mend_later(self, pause_s: float, mend: Callable[[], object], berth: Berth | None = None) -> bool:
        def wait_and_mend() -> None:
            time.sleep(pause_s)
            mend()
            if berth is not None:
                berth.is_busy = False

        if berth is not None:
            berth.is_busy = True
        thread = threading.Thread(target=wait_and_mend)
        self._mends.append(thread)
        thread.start()
        return True

    def _kill(self, berth: Berth, _: float) -> bool:
        return berth.child.send_signal(signal.SIGKILL)

    def _kill_and_leave(self, berth: Berth, pause_s: float) -> bool:
        """Kill a worker as the loss of its machine does: the server waits for what comes no more."""
        pid, wire = berth.child.pid, self._fleet.ledger
        wire.deaden(pid)
        is_killed = berth.child.send_signal(signal.SIGKILL)
        self._mend_later(pause_s, lambda: wire.mend(pid))
        return is_killed

    def _tell_to_leave(self, berth: Berth, _: float) -> bool:
        """Let a worker go as Kubernetes does; the next one comes when it has gone."""
        return berth.child.send_signal(signal.SIGTERM)

    def _stop(self, berth: Berth, pause_s: float) -> bool:
        child = berth.child
        return child.send_signal(signal.SIGSTOP) and self._mend_later(
            pause_s, lambda: child.send_signal(signal.SIGCONT), berth
        )

    def _stop_and_give_up(self, berth: Berth, pause_s: float) -> bool:
        """Stop a worker, and have the scheduler find it lost: another one gets its partition."""
        is_stopped = self._stop(berth, pause_s)
        if is_stopped:
            berth.wire.cut(0)
            time.sleep(_BLINK_S)
            berth.wire.mend(0)
        return is_stopped

    def _cut_off(self, berth: Berth, pause_s: float) -> bool:
        berth.wire.cut(0)
        return self._mend_later(pause_s, lambda: berth.wire.mend(0), berth)

    def _silence(self, berth: Berth, pause_s: float) -> bool:
        berth.wire.deaden(0)
        return self._mend_later(pause_s, lambda: berth.wire.mend(0), berth)

    def _cut_off_ledger(self, berth: Berth, pause_s: float) -> bool:
        pid = berth.child.pid
        self._fleet.ledger.cut(pid)
        return self._mend_later(pause_s, lambda: self._fleet.ledger.mend(pid), berth)

    def _silence_ledger(self, berth: Berth, pause_s: float) -> bool:
        pid = berth.child.pid
        self._fleet.ledger.deaden(pid)
        return self._mend_later(pause_s, lambda: self._fleet.ledger.mend(pid), berth)

    def _end(self, berth: Berth, _: float) -> bool:
        """End a worker as a platform does that replaces it."""
        return not berth.child.ended.is_set() and self._mend_later(
            0.0, lambda: self._count(KILLED, not self._fleet.end_in_order(berth.child)), berth
        )

    def _retire(self, berth: Berth, _: float) -> bool:
        if self._first:
            # A scheduler that goes away meanwhile would let nobody go.
            return self._fleet.retire(berth)
        self._mend_later(0.0, lambda: self._count(RETIRED, self._fleet.retire(berth)), berth)
        return False

    def _join(self, pause_s: float) -> bool:
        return self._admit(JOINED, pause_s)

    def _admit(self, kind: str, pause_s: float) -> bool:
        """Have one more worker join for a while; it counts if it was there."""
        if self._guests >= _MOST_GUESTS:
            return False
        self._guests += 1
        berth = self._fleet.join(STRANGERS.get(kind, {}))
        self._mend_later(0.0, partial(self._let_go, kind, berth, pause_s), berth)
        return False

    def _let_go(self, kind: str, berth: Berth, pause_s: float) -> None:
        was_there = self._fleet.await_worker(berth, _JOINS_S)
        time.sleep(pause_s)
        self._fleet.leave(berth)
        self._guests -= 1
        self._count(kind, was_there)
        self._count(LEFT, was_there and kind == JOINED)

    def _take_scheduler_away(self, _: float) -> bool:
        return self._fleet.kill_scheduler(self._rng.uniform(*AWAY_S))

    def _kill_scheduler(self, _: float) -> bool:
        return self._fleet.scheduler.send_signal(signal.SIGKILL)

    def _stop_scheduler(self, pause_s: float) -> bool:
        scheduler = self._fleet.scheduler
        return scheduler.send_signal(signal.SIGSTOP) and self._mend_later(
            pause_s, lambda: scheduler.send_signal(signal.SIGCONT)
        )

    def _kill_all(self, _: float) -> bool:
        return sum(berth.child.send_signal(signal.SIGKILL) for berth in self._fleet.berths) > 0

    def _end_session(self, _: float) -> bool:
        pids = self._fleet.list_sessions()
        return bool(pids) and self._terminate(self._rng.choice(pids))

    def _terminate(self, pid: int) -> bool:
        statement = sql.SQL("SELECT pg_terminate_backend({})").format(sql.Literal(pid))
        return bool(self._server.execute(statement)[0][0])

    def _end_sessions(self, _: float) -> bool:
        self._server.end_sessions(self._fleet.database)
        return True


def choose_pause(rng: random.Random, pauses: Pauses) -> float:
    """Return how long a process is stopped, or a connection dead, in seconds."""
    return rng.uniform(*rng.choice(pauses))


_STEPS: tuple[tuple[Step, int], ...] = (("commit", 60), ("send", 60))
_PHASES: tuple[Phase, ...] = ("before", "after", "amid")


def choose_deaths(rng: random.Random, share: float) -> Iterator[Death | None]:
    """Yield, for one worker process after the other, where it kills itself, if it does.

    Args:
        rng: chooses.
        share: of those that do, from 0 to 1.
    """
    while True:
        step, highest = rng.choice(_STEPS)
        phase = rng.choice(_PHASES if step == "send" else _PHASES[:2])
        death = Death(step, phase, rng.randint(1, highest))
        yield death if rng.random() < share else None
