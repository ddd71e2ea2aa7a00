"""One scenario: a campaign that is sent while everything goes wrong, and what came of it."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.keys import STATE_KEY
from tests.torture.draw import make_audience, make_service
from tests.torture.launcher import API_KEY, HANGS, USERNAME, Death, Ended, Launcher, make_environment
from tests.torture.ledgers import ClusterLedger, LocalLedger, SqliteLedger
from tests.torture.oracle import Oracle, wait_for_hold
from tests.torture.person import Person
from tests.torture.records import Records, can_be_known
from tests.torture.reference import CREDENTIALS, ReferenceTorture
from tests.torture.renames import renamed
from tests.torture.repository import Repository, phone_of
from tests.torture.schedule import make_random
from tests.torture.service import READ_TIMEOUT_S, Service
from tests.torture.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torture.launcher import Phase, Step
    from tests.torture.ledgers import Ledger

SETTLE_WINDOW_S = 3.0
"""Longer than the service takes to accept and to list a launch, whatever happens, also where its machine stalls."""
_TRIES = 8
"""Undisturbed runs after which nothing may be left to do."""
_APPLY = ("apply", "--auto-approve", "--format", "json")
_STATE = ("--state-lease", "1")
"""A lease that one whose holder was killed can be waited for."""
_PATIENCE = ("--lock-timeout", "20s")
_UNRESOLVED = 4
_ANSWERS_LATE_S = 0.05
"""How long a request may be under way whose sender has died."""
_STEPS: tuple[tuple[Step, int], ...] = (("commit", 12), ("send", 30), ("lockfile", 2), ("fsync", 3))
"""Steps to die at, each with the highest number that is tried."""
_PHASES: tuple[Phase, ...] = ("before", "after", "amid")
_ORDERLY = {0, 1, 2, 3, 4, 6, 130}
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
        self.service = make_service(seed, rng, folder)
        self._audience = make_audience(rng, self.service)
        self._repository = Repository(
            folder / "repository", self._audience, self.service.door.url, READ_TIMEOUT_S
        )
        has_key = rng.random() < 0.4
        if is_remote := isinstance(ledger, LocalLedger):
            has_key = True
            ledger.join(self._repository.folder)
        self._env = make_environment(
            ledger.url,
            settle_window_s=SETTLE_WINDOW_S,
            state_key=STATE_KEY if has_key else None,
            credentials=CREDENTIALS if isinstance(self.service, ReferenceTorture) else (USERNAME, API_KEY),
            state_remote="origin" if is_remote else None,
        )
        if isinstance(ledger, ClusterLedger):
            self._env["RUNNER_CLUSTER"] = "local:2"
        self._records = Records(self._repository, ledger, has_key=has_key)
        self._person = Person(self.service, self._audience, self._run)
        self._oracle = Oracle(self.service, self._audience)
        self._last = 0
        self._places: dict[Launcher, Path] = {}
        self._began: dict[Launcher, float] = {}
        self._log: list[str] = self._describe_service()

    def _describe_service(self) -> list[str]:
        service = self.service
        return [f"switches: {' '.join(service.switches)}"] if isinstance(service, ReferenceTorture) else []

    def run(self) -> None:
        """Run it, and add up what came of it."""
        self._count_first_step()
        if self._rng.random() < 0.25:
            self._send_foreign_launch()
        for _ in range(self._rng.randint(4, 7)):
            self._disturb()
            self._answer()
            self._edit()
            self._lose_records()
            if self._last == _UNRESOLVED and self._rng.random() < 0.3:
                self._resolve()
        self.service.calm()
        self._judge(self._run_until_done())

    def _count_first_step(self) -> None:
        """Have the program say, before anything was sent, how many people a rollout's first step has."""
        if self._audience.form.rules.first_step is None:
            return
        plan = json.loads(self._run("plan", "--format", "json").out)["campaigns"][0]
        self._oracle.step = plan["people"]

    def _send_foreign_launch(self) -> None:
        tag = self._rng.choice(tuple(self._audience.list_tags().values()))
        # Half of the time to people who are to be texted: they are held until a person says whose it was.
        phone = self._rng.choice(("+14155559999", self._audience.phones[0]))
        self.service.accept({"tag": tag, "text": "by hand", "phone": [phone]})
        self._log.append(f"foreign launch to {phone}")

    def _disturb(self) -> None:
        if self._rng.random() < 0.4:
            self._records.copy_ledger()
        kinds: dict[Callable[[], object], int] = {
            self._die_at_step: 40,
            self._kill: 15,
            self._interrupt: 10,
            self._start_two: 12,
            self._shut_out: 5,
            self._apply: 8,
            self._apply_saved: 8,
            self._hide_lists: 6,
            self._rename: 6,
            self._delete_ref: 6,
            self._change_files: 8,
            lambda: self._run("reconcile"): 4,
        }
        self._rng.choices(tuple(kinds), tuple(kinds.values()))[0]()
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
        death = self._choose_death() if self._rng.random() < 0.3 else None
        # Not in the other folder, which is made anew for the second one.
        self._start(first, death=death, folder=self._repository.folder)
        time.sleep(self._rng.choice((0, 0.1, 0.4)))
        self._start(second, folder=self._choose_folder(0.5))
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

    def _apply_saved(self) -> None:
        """Save a plan, let something happen now and then, and send that plan."""
        if self._run("plan", "--out", "plan.json").code:
            return
        if self._rng.random() < 0.4:
            self._edit()
        self._start(self._launchers[0], "apply", "--plan", "plan.json", folder=self._repository.folder)
        self._finish(self._launchers[0])

    def _hide_lists(self) -> None:
        """Have lists be empty for longer than any window, where records show that they lie."""
        launches = [launch for launch in self.service.launches if launch.is_ours]
        kept = self._records.list_kept()
        shown = {launch.tag for launch in launches if launch.guid.lower() in kept}
        asked = {*self._audience.list_tags().values(), *(launch.tag for launch in launches)}
        if isinstance(self.service, ReferenceTorture) and shown >= asked:
            self.service.hide()
            self.tally.faults["lists empty for long"] += 1
            self._log.append("lists empty")
            self._start(self._launchers[0], folder=self._repository.folder)
            self._finish(self._launchers[0])
            self.service.show()
        else:
            self._apply()

    def _rename(self) -> None:
        """Run it once under another name that it does not explain, where its tag is on record."""
        kept = self._records.list_kept()
        shown = {launch.tag for launch in self.service.launches if launch.guid.lower() in kept}
        if shown.isdisjoint(self._audience.list_tags().values()):
            self._apply()
            return
        with renamed(self._repository):
            self._start(self._launchers[0], folder=self._repository.folder)
            # It says nothing of what is recorded under the campaign's own name.
            ended = self._launchers[0].finish()
        self.tally.commands += 1
        self.tally.faults["renamed between runs, unsaid"] += ended.code == _UNRESOLVED
        self._log.append(f"  renamed → {ended.code} {' '.join(ended.err.split())[-200:]}")
        if ended.code not in _ORDERLY or "Internal error" in ended.err:
            self._violate(f"renamed: {ended.code}: {ended.err.strip()}")

    def _delete_ref(self) -> None:
        """Delete the ref that machines share, if they do, while a run may be sending."""
        self._start(self._launchers[0])
        time.sleep(self._rng.uniform(0.1, 1.2))
        if self._records.delete_ref(self._is_known):
            self.tally.faults["state ref deleted during a run"] += 1
            self._log.append("state ref deleted")
        self._finish(self._launchers[0])

    def _change_files(self) -> None:
        """Change the campaign's files while a run that has read them waits, or sends."""
        command: tuple[str, ...] = ()
        if self._rng.random() < 0.5 and self._run("plan", "--out", "plan.json").code == 0:
            command = ("apply", "--plan", "plan.json")
        self._start(self._launchers[0], *command, folder=self._repository.folder)
        time.sleep(self._rng.uniform(0.2, 1.5))
        is_running = self._launchers[0].is_running()
        self._audience.edit(self._rng)
        self._repository.write()
        self.tally.faults["files changed during a run"] += is_running
        self._log.append("files changed")
        self._finish(self._launchers[0])

    def _run(self, *arguments: str) -> Ended:
        """Run a command other than `apply` to its end."""
        self._start(self._launchers[0], *arguments, folder=self._repository.folder)
        return self._finish(self._launchers[0])

    def _resolve(self) -> None:
        self.service.come_to_rest()
        self.tally.resolved += self._person.resolve()
        if self._person.problem is not None:
            self._log.append(f"a person cannot resolve: {self._person.problem}")
        self._repository.keep_lockfile()

    def _choose_folder(self, elsewhere: float) -> Path:
        """Return where a run takes place: with this probability in another folder, as on another machine."""
        is_local = isinstance(self._ledger, LocalLedger)
        if not (self._ledger.is_shared or is_local) or self._rng.random() >= elsewhere:
            return self._repository.folder
        self._repository.clone(self._other_folder, keeps_state=is_local and self._rng.random() < 0.5)
        if isinstance(self._ledger, LocalLedger):
            self._ledger.join(self._other_folder)
        return self._other_folder

    def _start(
        self,
        launcher: Launcher,
        *command: str,
        death: Death | None = None,
        folder: Path | None = None,
        coldness: float = 0.1,
    ) -> None:
        is_local = isinstance(self._ledger, LocalLedger)
        where = folder or self._choose_folder(0.3 if is_local else 0)
        arguments = command or _APPLY
        if is_local:
            arguments += _STATE + (_PATIENCE if arguments[0] == "apply" else ())
        self._log.append(f"{where.name}: {' '.join(arguments)} {death or ''}")
        self._places[launcher] = where
        self._began[launcher] = time.monotonic()
        # Now and then all the way from the interpreter's start, as a user has it.
        is_cold = self._rng.random() < coldness
        launcher.start(*arguments, cwd=where, env=self._env, death=death, is_cold=is_cold)

    def _finish(self, launcher: Launcher) -> Ended:
        ended = launcher.finish()
        self.tally.commands += 1
        if ended.arguments[0] == "apply":
            self._records.note_end(self._places[launcher], ended.code)
            self._last = ended.code
        self._log.append(f"  → {ended.code} {' '.join(ended.err.split())[-200:]}")
        self._oracle.look(ended.arguments[0], self._began[launcher])
        if ended.code == -signal.SIGKILL:
            self.tally.faults["killed"] += 1
        if ended.code == HANGS:
            self._violate(f"{ended.arguments} hangs")
        if "Internal error" in ended.err or "Traceback" in ended.err:
            self._violate(f"a bug of the program: {ended.err.strip()}")
        elif ended.code not in _ORDERLY and ended.code >= 0:
            self._violate(f"exit code {ended.code}: {ended.err.strip()}")
        return ended

    def _answer(self) -> None:
        """Have some people answer the first message, if it asks and the service knows how, or edit an answer."""
        first = self._audience.messages[0]
        if first not in self._audience.form.surveys or not isinstance(self.service, ReferenceTorture):
            return
        for person in self._rng.sample(self._audience.people, min(4, len(self._audience.people))):
            self.service.answer(phone_of(person), self._rng.choice("0123"))
        replies = self.service.list_replies()
        if not replies or self._rng.random() < 0.6:
            return
        phone, guid, tag, before = self._rng.choice(replies)
        if tag == "nps":
            self._oracle.note_edit(guid, phone, before)
            self.service.edit_answer(guid, phone, self._rng.choice("0123"))
            self.tally.faults["answer edited"] += 1

    def _edit(self) -> None:
        if self._rng.random() < 0.3:
            self._audience.edit(self._rng)
        if self._rng.random() < (0.8 if self._audience.form.rules.has_changes else 0.35):
            # An answer may be late to come: what it is about was sent before the edit.
            time.sleep(_ANSWERS_LATE_S)
            self.service.come_to_rest()
            what = self._audience.rewrite(self._rng, lambda: self._is_known(self._records.list_kept()))
            if what is not None:
                self.tally.faults[what] += 1
                self._log.append(what)
        self._repository.write()

    def _is_known(self, kept: set[str]) -> bool:
        """Return whether what was sent can be known from these guids on record, and from the service."""
        service = self.service
        if isinstance(service, Service) and not service.list_hidden() <= kept:
            return False
        if self._audience.form.rules.have_moved and not self._list_dated() <= kept:
            # Nobody can know for which date a text was that stands in no record.
            return False
        return can_be_known(
            service.launches,
            self._audience,
            kept,
            is_new=self._records.is_new,
            is_literal=not isinstance(service, ReferenceTorture) or service.is_literal,
        )

    def _list_dated(self) -> set[str]:
        return {launch.guid.lower() for launch in self.service.launches if launch.cell is not None}

    def _lose_records(self) -> None:
        if self._rng.random() >= 0.35:
            return
        # One of the three records is always left. A new ledger waits for lists that are late; an older one
        # has no reason to.
        is_listed = self._rng.random() < 0.7
        if is_listed:
            time.sleep(_ANSWERS_LATE_S)
            self.service.come_to_rest()
        kind = self._records.lose(self._rng, self._is_known, is_listed=is_listed)
        if kind is not None:
            self.tally.faults[kind] += 1
            self._log.append(kind)

    def _run_until_done(self) -> Ended:
        for _ in range(_TRIES):
            self.service.come_to_rest()
            self._start(self._launchers[0], folder=self._repository.folder)
            last = self._finish(self._launchers[0])
            if last.code == _UNRESOLVED:
                self._resolve()
            elif last.code == 0:
                self._read_answers()
                # A follow-up is due once a run has sent what it comes after.
                if self._run("plan", "--detailed-exitcode").code == 0:
                    break
        return last

    def _read_answers(self) -> None:
        form = self._audience.form
        if form.rules.first_step is not None:
            wait_for_hold()
        if form.follows in ("unanswered", "detractors") or form.rules.is_read:
            self._run("reconcile")

    def _judge(self, last: Ended) -> None:
        if last.code != 0:
            self._violate(f"it never ends: {last.code} {last.err.strip()}")
        ended = self._run("plan", "--detailed-exitcode", "--format", "json")
        if ended.code != 0:
            self._violate(f"the plan has something left: {ended.code} {ended.err.strip()}")
        self.tally.judge(self.service, self._oracle.list_due(), self._repository.list_guids())
        self.tally.violations += [*self._oracle.violations, *self._oracle.list_wrong()]
        if self.tally.violations:
            story = (f"seed {self._seed}:", *self._log, *self.tally.violations)
            self.tally.violations = ["\n    ".join(story)]

    def _violate(self, what: str) -> None:
        self.tally.violations.append(what)
