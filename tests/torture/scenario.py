"""One scenario: a campaign that is sent while everything goes wrong, and what came of it."""

from __future__ import annotations

import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture.launcher import API_KEY, HANGS, USERNAME, Death, Ended, Launcher, make_environment
from tests.torture.ledgers import SqliteLedger
from tests.torture.repository import MESSAGES, Audience, Repository
from tests.torture.sandbox import SandboxService
from tests.torture.schedule import make_random
from tests.torture.service import READ_TIMEOUT_S, Service, Temper
from tests.torture.tally import Tally

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.torture.launcher import Phase, Step
    from tests.torture.launches import CountingService
    from tests.torture.ledgers import Ledger

_LISTS_LATE_S = 0.2
SETTLE_WINDOW_S = 0.6
"""Longer than the service takes to accept and to list a launch, whatever happens."""
_TRIES = 6
"""Undisturbed runs after which nothing may be left to do."""
_APPLY = ("apply", "--auto-approve", "--format", "json")
_STEPS: tuple[tuple[Step, int], ...] = (("commit", 12), ("send", 30), ("lockfile", 2), ("fsync", 3))
"""Steps to die at, each with the highest number that is tried."""
_PHASES: tuple[Phase, ...] = ("before", "after", "amid")
_ORDERLY = {0, 1, 3, 4, 6, 130}
"""Exit codes that a disturbed run may end with."""


def run_scenario(seed: int, make_ledger: Callable[[Path], Ledger] = SqliteLedger) -> Tally:
    """Run one scenario.

    Args:
        seed: of its schedule; the timing of processes is not a function of it.
        make_ledger: given the repository's folder, returns its ledger.
    """
    with tempfile.TemporaryDirectory(prefix="torture-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        launchers = [stack.enter_context(Launcher(folder)) for _ in range(2)]
        scenario = Scenario(seed, folder, launchers, make_ledger(folder / "repository"))
        stack.callback(scenario.service.door.close)
        scenario.run()
        return scenario.tally


def _make_service(seed: int, rng: random.Random, folder: Path) -> CountingService:
    """Return the sandbox every second time, else a service that is still less reliable."""
    if seed % 2 == 0:
        return SandboxService(
            folder / "service.sqlite",
            rng,
            seed=seed,
            username=USERNAME,
            api_key=API_KEY,
            slow_for_s=READ_TIMEOUT_S * 1.5,
            lists_late_s=_LISTS_LATE_S,
        )
    temper = Temper(
        seed,
        send_faults=rng.choice((0.0, 0.3, 0.3, 0.5)),
        list_faults=rng.choice((0.0, 0.1)),
        lists_late_s=_LISTS_LATE_S,
        page_size=rng.randint(3, 12),
        skew_s=rng.uniform(-60, 60),
    )
    return Service(temper)


class Scenario:
    """A campaign, its service, its records, and the processes that work on it.

    Args:
        seed: of the schedule.
        folder: a scratch folder.
        launchers: two, to run two commands at once.
        ledger: where runs record.
    """

    def __init__(self, seed: int, folder: Path, launchers: list[Launcher], ledger: Ledger) -> None:
        self.tally = Tally()
        self._seed = seed
        self._rng = rng = make_random(seed, "scenario")
        self._launchers = launchers
        self._ledger = ledger
        self._other_folder = folder / "other"
        self.service = _make_service(seed, rng, folder)
        messages = tuple(rng.sample(MESSAGES, rng.randint(1, 2)))
        people = list(range(100, 100 + rng.randint(8, 24)))
        audience = Audience(people, messages, has_one_tag=rng.random() < 0.5, per_send=rng.randint(1, 4))
        self._repository = Repository(folder / "repository", audience, self.service.door.url, READ_TIMEOUT_S)
        self._has_key = rng.random() < 0.4
        key = "torture" if self._has_key else None
        self._env = make_environment(ledger.url, settle_window_s=SETTLE_WINDOW_S, state_key=key)
        self._ledger_copies: list[object] = []
        self._log: list[str] = []
        self._losses = {
            "ledger deleted": self._delete_ledger,
            "ledger older": self._restore_ledger,
            "lockfile deleted": self._delete_lockfile,
            "lockfile older": self._restore_lockfile,
            "both lost": self._lose_both,
        }

    def run(self) -> None:
        """Run it, and add up what came of it."""
        if self._rng.random() < 0.25:
            self._send_foreign_launch()
        for _ in range(self._rng.randint(4, 7)):
            self._disturb()
            self._edit()
            self._lose_records()
        self.service.calm()
        self._judge(self._run_until_done())

    def _send_foreign_launch(self) -> None:
        tag = "pulse" if self._repository.audience.has_one_tag else "pulse-ask"
        self.service.accept({"tag": tag, "text": "by hand", "phone": ["+14155559999"]})
        self._log.append("foreign launch")

    def _disturb(self) -> None:
        kinds = (self._die_at_step, self._kill, self._interrupt, self._start_two, self._shut_out, self._apply)
        if self._rng.random() < 0.4 and self._ledger.is_there():
            self._ledger_copies.append(self._ledger.copy())
        self._rng.choices(kinds, (45, 15, 10, 15, 5, 10))[0]()
        self._repository.keep_lockfile()

    def _die_at_step(self) -> None:
        self._start(self._launchers[0], death=self._choose_death())
        self._finish(self._launchers[0])

    def _choose_death(self) -> Death:
        step, highest = self._rng.choices(_STEPS, (5, 5, 1, 1))[0]
        phase = self._rng.choice(_PHASES if step == "send" else _PHASES[:2])
        return Death(step, phase, self._rng.randint(1, highest))

    def _kill(self) -> None:
        self._start(self._launchers[0])
        time.sleep(self._rng.uniform(0.02, 1.2))
        self._launchers[0].send_signal(signal.SIGKILL)
        self._finish(self._launchers[0])

    def _interrupt(self) -> None:
        launcher = self._launchers[0]
        # An interpreter that is interrupted while it starts has its own ways to say so.
        self._start(launcher, coldness=0)
        for number in self._rng.choices((signal.SIGINT, signal.SIGTERM), k=self._rng.choice((1, 1, 2))):
            time.sleep(self._rng.uniform(0.05, 0.5))
            launcher.send_signal(number)
        ended = self._finish(launcher)
        if ended.code in (130, -signal.SIGINT, -signal.SIGTERM):
            self.tally.faults["interrupted"] += 1

    def _start_two(self) -> None:
        first, second = self._launchers
        self._start(first, death=self._choose_death() if self._rng.random() < 0.3 else None)
        time.sleep(self._rng.choice((0, 0.1, 0.4)))
        is_elsewhere = self._ledger.is_shared and self._rng.random() < 0.5
        if is_elsewhere:
            self._repository.clone(self._other_folder)
        self._start(second, folder=self._other_folder if is_elsewhere else None)
        self.tally.faults["two runs at once"] += first.is_running()
        self._finish(first)
        self._finish(second)

    def _shut_out(self) -> None:
        self.service.door.shut()
        self._start(self._launchers[0])
        if self._rng.random() < 0.5:
            time.sleep(0.5)
            self.service.door.open()
        ended = self._finish(self._launchers[0])
        self.service.door.open()
        # A run that has nothing to send may not even notice.
        self.tally.faults["service down"] += ended.code == 1

    def _apply(self) -> Ended:
        self._start(self._launchers[0])
        return self._finish(self._launchers[0])

    def _start(
        self,
        launcher: Launcher,
        *,
        death: Death | None = None,
        folder: Path | None = None,
        coldness: float = 0.1,
    ) -> None:
        self._log.append(f"apply, {death}" if death else "apply")
        # Now and then all the way from the interpreter's start, as a user has it.
        is_cold = self._rng.random() < coldness
        launcher.start(
            *_APPLY, cwd=folder or self._repository.folder, env=self._env, death=death, is_cold=is_cold
        )

    def _finish(self, launcher: Launcher) -> Ended:
        ended = launcher.finish()
        self.tally.commands += 1
        self._log.append(f"  → {ended.code} {' '.join(ended.err.split())[-200:]}")
        if ended.code == -signal.SIGKILL:
            self.tally.faults["killed"] += 1
        if ended.code == HANGS:
            self._violate(f"{ended.arguments} hangs")
        if "Internal error" in ended.err or "Traceback" in ended.err:
            self._violate(f"a bug of the program: {ended.err.strip()}")
        elif ended.code not in _ORDERLY and ended.code >= 0:
            self._violate(f"exit code {ended.code}: {ended.err.strip()}")
        return ended

    def _edit(self) -> None:
        if self._rng.random() < 0.3:
            self._repository.audience.edit(self._rng)
        if self._rng.random() < 0.1 and self._is_everything_recorded():
            # What was sent in other words is in the lockfile for good: the service alone could not tell.
            self._repository.forget_older_lockfiles()
            self._repository.audience.version += 1
            self._log.append("texts edited")
        self._repository.write()

    def _is_everything_recorded(self) -> bool:
        self.service.come_to_rest()
        if self._apply().code != 0:
            return False
        self._repository.keep_lockfile()
        accepted = {launch.guid for launch in self.service.launches if launch.is_ours}
        return accepted == set(self._repository.list_guids())

    def _lose_records(self) -> None:
        if self._rng.random() >= 0.35:
            return
        # One of the three records is always left: what was accepted is listed before another one is lost.
        self.service.come_to_rest()
        kind = self._rng.choice(tuple(self._losses))
        if self._losses[kind]():
            self.tally.faults[kind] += 1
            self._log.append(kind)

    def _restore_ledger(self) -> bool:
        if self._ledger_copies:
            self._ledger.restore(self._rng.choice(self._ledger_copies))
        return bool(self._ledger_copies)

    def _restore_lockfile(self) -> bool:
        return self._repository.put_lockfile(self._rng.choice(self._repository.lockfiles))

    def _delete_lockfile(self) -> bool:
        return self._repository.put_lockfile(self._repository.lockfiles[0])

    def _lose_both(self) -> bool:
        is_lockfile_lost = self._restore_lockfile()
        return self._delete_ledger() and is_lockfile_lost

    def _delete_ledger(self) -> bool:
        was_there = self._ledger.is_there()
        self._ledger.delete()
        if not self._has_key and self._repository.read_lockfile() is None:
            # With the last of its records a campaign has lost its salt: those from before fit no more.
            self._ledger_copies.clear()
            self._repository.forget_older_lockfiles()
        return was_there

    def _run_until_done(self) -> Ended:
        for _ in range(_TRIES):
            self.service.come_to_rest()
            last = self._apply()
            if last.code == 0:
                break
        return last

    def _judge(self, last: Ended) -> None:
        if last.code != 0:
            self._violate(f"it never ends: {last.code} {last.err.strip()}")
        launcher = self._launchers[0]
        arguments = ("plan", "--detailed-exitcode", "--format", "json")
        launcher.start(*arguments, cwd=self._repository.folder, env=self._env)
        ended = self._finish(launcher)
        if ended.code != 0:
            self._violate(f"the plan has something left: {ended.code} {ended.err.strip()}")
        self.tally.judge(self.service, self._repository.audience, self._repository.list_guids())
        if self.tally.violations:
            story = (f"seed {self._seed}:", *self._log, *self.tally.violations)
            self.tally.violations = ["\n    ".join(story)]

    def _violate(self, what: str) -> None:
        self.tally.violations.append(what)
