"""One campaign that is sent by a cluster while everything goes wrong, and what came of it."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.torture.cluster.faults import LEASE_S, choose_pause
from tests.torture.form import MESSAGES
from tests.torture.gauge import Gauge
from tests.torture.launcher import HANGS, Death
from tests.torture.repository import Audience, Repository
from tests.torture.schedule import make_random
from tests.torture.service import READ_TIMEOUT_S, Service, Temper
from tests.torture.tally import Tally

if TYPE_CHECKING:
    import random
    import threading
    from pathlib import Path

    from tests.torture.cluster.faults import Pauses
    from tests.torture.cluster.fleet import Fleet
    from tests.torture.cluster.nursery import Child
    from tests.torture.launcher import Ended, Phase, Step

_LISTS_LATE_S = 0.2
_READ_TIMEOUT_S = READ_TIMEOUT_S * 4 / 3
"""As long as slow answers let it be: a dozen processes share the machine."""
_TAKES_S = 0.06
CONCURRENCIES = (2, 4, 8, 16)
"""Requests in flight: with four workers and more, fewer than one each, and several."""
RATE = 40
"""Sends a second: fewer than come if nobody waits."""
_TRIES = 8
"""Undisturbed runs after which nothing may be left to do."""
_PATIENCE_S = 150.0
"""A run that takes longer hangs."""
_STEPS: tuple[tuple[Step, int], ...] = (("commit", 30), ("lockfile", 2), ("fsync", 3))
_PHASES: tuple[Phase, ...] = ("before", "after")
_ORDERLY = {0, 1, 3, 4, 6, 130}
"""Exit codes that a disturbed run may end with."""


class ClusterScenario:
    """A campaign, its service and its records; the cluster is shared with others.

    Args:
        seed: of the schedule.
        folder: a scratch folder of its own.
        fleet: the cluster.
        pauses: how long its clients are stopped: one of several ranges, in seconds.

    Attributes:
        tally: what it adds up to.
    """

    def __init__(self, seed: int, folder: Path, fleet: Fleet, pauses: Pauses) -> None:
        self._pauses = pauses
        self.tally = Tally()
        self._seed = seed
        self._fleet = fleet
        self._rng = rng = make_random(seed, "cluster")
        rate = rng.choice((None, RATE))
        self._gauge = Gauge(rng.choice(CONCURRENCIES), rate)
        self._service = _make_service(seed, rng, self._gauge)
        self._wire, port = fleet.make_wire()
        self._other_folder = folder / "other"
        self._target = f"torture-{seed}"
        self._lockfile = rng.choice(("full", "full", "summary"))
        limits = {"concurrency": self._gauge.concurrency} | ({"rate": f"{rate}/s"} if rate else {})
        self._repository = Repository(
            folder / "repository",
            _make_audience(rng),
            self._service.door.url,
            _READ_TIMEOUT_S,
            target=self._target,
            limits=limits,
            lockfile=self._lockfile,
        )
        self._arguments = ("--cluster", f"tcp://127.0.0.1:{port}", "--partition-lease", f"{LEASE_S}")
        self._log: list[str] = []
        self._started_at = time.monotonic()

    def run(self, is_over: threading.Event) -> None:
        """Run it, and add up what came of it.

        Args:
            is_over: is set when the disturbances end.
        """
        if self._rng.random() < 0.25:
            self._send_foreign_launch()
        while not is_over.is_set():
            self._disturb()
            self._edit()
            self._lose_lockfile()
        self._note("calm")
        self._service.calm()
        self._judge(self._run_until_done())
        self._service.door.close()

    def _note(self, what: str) -> None:
        self._log.append(f"{time.monotonic() - self._started_at:6.2f} {what}")

    def _send_foreign_launch(self) -> None:
        tag = "pulse" if self._repository.audience.has_one_tag else "pulse-ask"
        self._service.accept({"tag": tag, "text": "by hand", "phone": ["+14155559999"]})
        self._note("foreign launch")

    def _disturb(self) -> None:
        kinds = {
            self._apply: 30,
            self._kill: 20,
            self._die_at_step: 10,
            self._stop: 10,
            self._stop_and_replace: 8,
            self._interrupt: 8,
            self._start_two: 10,
            self._cut_off: 10,
        }
        self._rng.choices(tuple(kinds), tuple(kinds.values()))[0]()
        self._repository.keep_lockfile()

    def _kill(self) -> None:
        child = self._start()
        child.ended.wait(self._rng.uniform(0.2, 6))
        self.tally.faults["client killed"] += child.send_signal(signal.SIGKILL)
        self._finish(child)

    def _die_at_step(self) -> None:
        step, highest = self._rng.choice(_STEPS)
        child = self._start(Death(step, self._rng.choice(_PHASES), self._rng.randint(1, highest)))
        ended = self._finish(child)
        self.tally.faults["client killed by itself at a step"] += ended.code == -signal.SIGKILL

    def _stop(self) -> None:
        child = self._start()
        if self._pause(child):
            self.tally.faults["client stopped beyond its lease"] += 1
            time.sleep(choose_pause(self._rng, self._pauses))
            child.send_signal(signal.SIGCONT)
        self._finish(child)

    def _stop_and_replace(self) -> None:
        """Stop a client, let the server find it lost, and have another one go on before it comes back."""
        child = self._start()
        if self._pause(child):
            self._fleet.ledger.cut(child.pid)
            self._fleet.ledger.mend(child.pid)
            self.tally.faults["client stopped, and replaced by another one"] += 1
            other = self._start(folder=self._clone())
            time.sleep(choose_pause(self._rng, self._pauses))
            child.send_signal(signal.SIGCONT)
            self._finish(other)
        self._finish(child)

    def _pause(self, child: Child) -> bool:
        is_ended = child.ended.wait(self._rng.uniform(0.2, 4))
        return not is_ended and child.send_signal(signal.SIGSTOP)

    def _interrupt(self) -> None:
        child = self._start()
        for number in self._rng.choices((signal.SIGINT, signal.SIGTERM), k=self._rng.choice((1, 1, 2))):
            child.ended.wait(self._rng.uniform(0.3, 3))
            child.send_signal(number)
        ended = self._finish(child)
        self.tally.faults["client interrupted"] += ended.code in (130, -signal.SIGINT, -signal.SIGTERM)

    def _start_two(self) -> None:
        first = self._start()
        first.ended.wait(self._rng.choice((0.0, 0.3, 1.5)))
        second = self._start(folder=self._clone() if self._rng.random() < 0.5 else None)
        self.tally.faults["two runs at once"] += not first.ended.is_set()
        self._finish(first)
        self._finish(second)

    def _cut_off(self) -> None:
        child = self._start()
        child.ended.wait(self._rng.uniform(0.2, 3))
        wires = {"scheduler": (self._wire, 0), "ledger": (self._fleet.ledger, child.pid)}
        name = self._rng.choice(tuple(wires))
        wire, circuit = wires[name]
        if self._rng.random() < 0.5:
            kind = f"client cut off the {name}"
            wire.cut(circuit)
        else:
            kind = f"client's {name} gone silent"
            wire.deaden(circuit)
        self.tally.faults[kind] += not child.ended.is_set()
        time.sleep(choose_pause(self._rng, self._pauses))
        wire.mend(circuit)
        self._finish(child)

    def _apply(self) -> Ended:
        return self._finish(self._start())

    def _clone(self) -> Path:
        self._repository.clone(self._other_folder)
        return self._other_folder

    def _start(self, death: Death | None = None, folder: Path | None = None) -> Child:
        where = folder or self._repository.folder
        arguments = ("apply", "--auto-approve", "--format", "json", *self._arguments)
        child = self._fleet.run(*arguments, cwd=where, death=death)
        self._note(f"apply {child.streams[1].name} {child.pid} {death or ''} {where.name}")
        return child

    def _finish(self, child: Child) -> Ended:
        ended = child.finish(_PATIENCE_S)
        self.tally.commands += 1
        self._note(f"  {child.pid} → {ended.code} {' '.join(ended.err.split())[-200:]}")
        if ended.code == HANGS:
            self._violate(f"{ended.arguments} hangs: {ended.err[-3000:]}")
        if "Internal error" in ended.err or "Traceback" in ended.err:
            self._violate(f"a bug of the program: {ended.err.strip()}")
        elif ended.code not in _ORDERLY and ended.code >= 0:
            self._violate(f"exit code {ended.code}: {ended.err.strip()}")
        elif ended.code == 0 and ended.arguments[0] == "apply" and _counts("unknown", ended.out):
            self._violate(
                f"all is well, and launches are of unknown outcome: {ended.out} {ended.err.strip()}"
            )
        return ended

    def _edit(self) -> None:
        if self._rng.random() < 0.5:
            self._repository.audience.add(self._rng.randint(20, 60))
        if self._rng.random() < 0.3:
            self._repository.audience.edit(self._rng)
        self._repository.write()

    def _lose_lockfile(self) -> None:
        if self._rng.random() >= 0.3:
            return
        is_lost = self._rng.random() < 0.5
        content = None if is_lost else self._rng.choice(self._repository.lockfiles)
        if self._repository.put_lockfile(content):
            kind = "lockfile older" if content else "lockfile deleted"
            self.tally.faults[kind] += 1
            self._note(kind)

    def _run_until_done(self) -> Ended:
        for _ in range(_TRIES):
            self._service.come_to_rest()
            last = self._apply()
            # An answer that was late once more leaves a person's next message to another run.
            if last.code == 0 and not _counts("waiting", last.out):
                break
        return last

    def _judge(self, last: Ended) -> None:
        if last.code != 0:
            self._violate(f"it never ends: {last.code} {last.err.strip()}")
        arguments = ("plan", "--detailed-exitcode", "--format", "json")
        ended = self._finish(self._fleet.run(*arguments, cwd=self._repository.folder))
        if ended.code != 0:
            self._violate(f"the plan has something left: {ended.code} {ended.err.strip()}")
        met, self.tally.faults = self.tally.faults, Counter()
        # A lockfile that sums up names no launches: the ledger does, and the lockfile counts them.
        in_ledger = self._fleet.list_guids(self._target)
        is_full = self._lockfile == "full"
        recorded = self._repository.list_guids() if is_full else list(in_ledger.elements())
        self.tally.judge(self._service, self._repository.audience.list_due(()), recorded)
        self.tally.faults = met + Counter({f"service: {k}": n for k, n in self.tally.faults.items()})
        self.tally.judge_limits(self._gauge)
        self._compare_ledger(in_ledger)
        if self.tally.violations:
            story = (f"seed {self._seed}:", *self._log, *self.tally.violations, *self._explain_twice())
            self.tally.violations = ["\n    ".join(story)]

    def _compare_ledger(self, recorded: Counter[str]) -> None:
        """Compare ledger and lockfile with what was accepted, and with each other."""
        accepted = Counter(launch.guid for launch in self._service.launches if launch.is_ours)
        for what, which in (
            ("accepted, not in the ledger", accepted - recorded),
            ("in the ledger, not accepted", recorded - accepted),
        ):
            if which:
                self._violate(f"{what}: {which.total()}, first: {min(which)}")

        if self._repository.count_launches() != recorded.total():
            self._violate(f"the lockfile has {self._repository.count_launches()}, not {recorded.total()}")

    def _explain_twice(self) -> list[str]:
        texts = self._service.count_texts()
        twice = {text for text, count in texts.items() if count > 1}
        return [
            f"{launch.started} {launch.message} {launch.guid} {' '.join(launch.phones)}"
            for launch in self._service.launches
            if any((launch.message, phone) in twice for phone in launch.phones)
        ]

    def _violate(self, what: str) -> None:
        self.tally.violations.append(what)


def _make_service(seed: int, rng: random.Random, gauge: Gauge) -> Service:
    temper = Temper(
        seed,
        send_faults=rng.choice((0.0, 0.05, 0.2)),
        list_faults=rng.choice((0.0, 0.05)),
        lists_late_s=_LISTS_LATE_S,
        page_size=rng.randint(20, 50),
        skew_s=rng.uniform(-60, 60),
        takes_s=_TAKES_S,
    )
    return Service(temper, gauge)


def _make_audience(rng: random.Random) -> Audience:
    messages = tuple(rng.sample(MESSAGES, rng.randint(1, 2)))
    people = list(range(100, 100 + rng.randint(60, 150)))
    return Audience(people, messages, has_one_tag=rng.random() < 0.5, per_send=rng.randint(1, 4))


def _counts(what: str, out: str) -> bool:
    """Return whether the words of an `apply` count anything as this, such as launches of unknown outcome."""
    return any(campaign[what] for campaign in json.loads(out)["campaigns"])
