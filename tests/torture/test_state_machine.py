"""Delivery as a state machine: hypothesis looks for the sequence of mishaps that breaks the promise."""

from __future__ import annotations

import signal
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.keys import STATE_KEY
from tests.torture.launcher import Death, Launcher, make_environment
from tests.torture.ledgers import SqliteLedger
from tests.torture.oracle import Oracle
from tests.torture.repository import Audience, Repository
from tests.torture.schedule import make_random
from tests.torture.service import ACCEPTS_LATE_S, READ_TIMEOUT_S, SEND_FAULTS, Service, Temper
from tests.torture.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.launcher import Ended

pytestmark = pytest.mark.slow

LISTS_LATE_S = 0.15
SETTLE_WINDOW_S = ACCEPTS_LATE_S + LISTS_LATE_S + 0.1
EXAMPLES, STEPS = 6, 6
deaths = st.one_of(
    st.builds(Death, st.just("commit"), st.sampled_from(["before", "after"]), st.integers(1, 10)),
    st.builds(Death, st.just("send"), st.sampled_from(["before", "amid", "after"]), st.integers(1, 12)),
    st.builds(Death, st.just("lockfile"), st.sampled_from(["before", "after"]), st.just(1)),
)


class DeliveryMachine(RuleBasedStateMachine):
    """A campaign of few recipients whose runs die, whose service errs and whose records get lost.

    Args:
        launcher: starts the runs.
        folder: a scratch folder.
    """

    def __init__(self, launcher: Launcher, folder: Path) -> None:
        super().__init__()
        self._launcher = launcher
        self.service = Service(
            Temper(0, send_faults=0, list_faults=0, lists_late_s=LISTS_LATE_S, page_size=3, skew_s=-30)
        )
        audience = Audience(list(range(100, 106)), ("ask", "hello"), has_one_tag=True, per_send=2)
        self.repository = Repository(folder, audience, self.service.door.url, READ_TIMEOUT_S)
        self.ledger = SqliteLedger(folder)
        self._env = make_environment(self.ledger.url, settle_window_s=SETTLE_WINDOW_S, state_key=STATE_KEY)

    def _run(self, *arguments: str, death: Death | None = None) -> Ended:
        self._launcher.start(*arguments, cwd=self.repository.folder, env=self._env, death=death)
        ended = self._launcher.finish()
        assert "Internal error" not in ended.err, ended.err
        return ended

    def _apply(self, death: Death | None = None) -> int:
        code = self._run("apply", "--auto-approve", death=death).code
        self.repository.keep_lockfile()
        return code

    @rule()
    def apply(self) -> None:
        assert self._apply() in (0, 1, 3, 4)

    def _welcome(self, newcomers: int) -> None:
        self.repository.audience.add(newcomers)
        self.repository.write()

    @rule(death=deaths, newcomers=st.integers(0, 4))
    def die(self, death: Death, newcomers: int) -> None:
        self._welcome(newcomers)
        assert self._apply(death) in (0, 1, 3, 4, -signal.SIGKILL)

    @rule(faults=st.lists(st.sampled_from(SEND_FAULTS), min_size=1, max_size=4), newcomers=st.integers(1, 4))
    def err(self, faults: list[str], newcomers: int) -> None:
        self._welcome(newcomers)
        self.service.plan_faults(faults)
        assert self._apply() in (0, 1, 3, 4)

    @rule()
    def plan(self) -> None:
        before = self.repository.read_lockfile()
        assert self._run("plan", "--detailed-exitcode").code in (0, 2)
        assert self.repository.read_lockfile() == before

    @rule(seed=st.integers(0, 99))
    def edit(self, seed: int) -> None:
        self.repository.audience.edit(make_random(seed))
        self.repository.write()

    @rule()
    def lose_ledger(self) -> None:
        # One of the three records is always left: what was accepted is listed by then.
        self.service.come_to_rest()
        self.ledger.delete()

    @rule(version=st.integers(0, 9))
    def lose_lockfile(self, version: int) -> None:
        self.service.come_to_rest()
        versions = self.repository.lockfiles
        # What can be drawn may not depend on how far a process got: hypothesis draws the same again.
        self.repository.put_lockfile(versions[version % len(versions)])

    @invariant()
    def nobody_is_texted_twice(self) -> None:
        assert not [text for text, number in self.service.count_texts().items() if number > 1]

    @invariant()
    def the_lockfile_holds_accepted_launches_alone(self) -> None:
        assert set(self.repository.list_guids()) <= {launch.guid for launch in self.service.launches}

    def teardown(self) -> None:
        try:
            self.service.calm()
            self.service.come_to_rest()
            for _ in range(8):
                ended = self._run("apply", "--auto-approve")
                # An answer that was late once more leaves a person's next message to another run.
                if ended.code == 0 and "left for the next run" not in ended.out:
                    break
            assert ended.code == 0
            assert self._run("plan", "--detailed-exitcode").code == 0
            tally = Tally()
            due = Oracle(self.service, self.repository.audience).list_due()
            tally.judge(self.service, due, self.repository.list_guids())
            assert not tally.violations
        finally:
            self.service.door.close()


@pytest.mark.timeout(1800)
def test_every_sequence_ends_with_everyone_texted_once(tmp_path: Path) -> None:
    """Plan, apply, die, err, edit and lose records in any order: then everybody is texted once."""
    with Launcher(tmp_path) as launcher:
        numbers = count()
        run_state_machine_as_test(
            # A function will do: its type says less than it takes.
            lambda: DeliveryMachine(launcher, tmp_path / str(next(numbers))),  # type: ignore[arg-type]
            # Processes take their time: a sequence that fails is shown as it was found, not shrunk.
            settings=settings(
                max_examples=EXAMPLES, stateful_step_count=STEPS, phases=[Phase.generate], print_blob=False
            ),
        )
