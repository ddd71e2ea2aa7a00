"""The lease on a ref, on clocks that tests move."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from runner.errors import RunLockedError
from runner.repository.git import Git
from runner.repository.holder import STATE_FILE, Holder, State, dump_state, read_state
from runner.repository.lease import Clocks, LeaseTerms
from runner.repository.state_ref import StateRef, StateRefError
from runner.repository.taking import hold_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.errors import RunnerError
    from runner.repository.lease import Lease

TERMS = LeaseTerms.lasting(120)
START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass(slots=True)
class Clock:
    """A machine's clocks: the wall's may be off, and is moved with the other."""

    ahead_s: float = 0
    at: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.at - 1000 + self.ahead_s)

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.at, self.wall, self.sleep)


class Machines:
    """Clones that hold the ref one after the other."""

    def __init__(self, clone: Callable[..., Path], stack: ExitStack) -> None:
        self._clone = clone
        self._stack = stack
        self.failures: list[RunnerError] = []

    def ref(self, name: str) -> StateRef:
        return StateRef.open(self._clone(name), "origin", "live")

    def hold(self, name: str, clock: Clock, *, timeout_s: float = 0) -> Lease:
        """Hold the ref until the test ends."""
        who = f"process 7 on {name} since {START:%Y-%m-%dT%H:%M:%SZ}"
        held = hold_lease(
            self.ref(name), who, name, TERMS, clock.clocks(), self.failures.append, timeout_s=timeout_s
        )
        return self._stack.enter_context(held)


@pytest.fixture
def machines(clone: Callable[..., Path]) -> Iterator[Machines]:
    with ExitStack() as stack:
        yield Machines(clone, stack)


def test_a_held_ref_says_by_whom(machines: Machines) -> None:
    """Another run is told who holds it, since when, and until when at the latest."""
    machines.hold("first", Clock())
    with pytest.raises(RunLockedError) as caught:
        machines.hold("second", Clock())
    assert caught.value.message == (
        "refs/runner/live on origin is held by another run: process 7 on first since 2026-11-21T12:00:00Z; "
        "should that have died, until 2026-11-21 12:07:00 UTC at the latest"
    )
    assert caught.value.hint == (
        "wait until that run has ended, or have this one wait with --lock-timeout: a hold that is not "
        "renewed for 120 s is taken over"
    )


def test_a_released_ref_is_free_and_keeps_its_files(clone: Callable[..., Path]) -> None:
    """Whoever comes next finds what was left there."""
    first, second = (StateRef.open(clone(name), "origin", "live") for name in ("first", "second"))
    failures: list[RunnerError] = []
    with hold_lease(first, "one", "1", TERMS, Clock().clocks(), failures.append) as lease:
        lease.write({"file": first.store("kept")})
    assert read_state(second, second.read()).holder is None
    with hold_lease(second, "two", "2", TERMS, Clock().clocks(), failures.append) as lease:
        assert second.load(lease.files["file"]) == "kept"
    assert failures == []


def test_a_ref_that_nobody_moves_for_a_lease_is_taken_over(machines: Machines) -> None:
    """By a clock of one's own: what the holder wrote of the time doesn't matter."""
    machines.hold("first", Clock(ahead_s=100_000))
    clock = Clock()
    machines.hold("second", clock, timeout_s=600)
    assert 120 < sum(clock.slept) <= 126


@pytest.mark.parametrize(("ahead_s", "is_free"), [(419, False), (421, True)])
def test_a_lease_that_is_long_over_is_not_waited_for(
    machines: Machines, ahead_s: float, *, is_free: bool
) -> None:
    """Two minutes of lease and five by which clocks may be apart."""
    machines.hold("first", Clock())
    if is_free:
        machines.hold("second", Clock(ahead_s))
    else:
        with pytest.raises(RunLockedError):
            machines.hold("second", Clock(ahead_s))


def test_a_holder_that_was_away_goes_on_if_nobody_came(machines: Machines) -> None:
    """A machine that slept: its push proves that the ref was its own all the time."""
    clock = Clock()
    lease = machines.hold("first", clock)
    clock.at += 10_000
    lease.require_held()
    with pytest.raises(RunLockedError):
        machines.hold("second", Clock(10_000))


def test_a_holder_that_was_away_learns_that_it_has_lost(machines: Machines) -> None:
    """From then on nothing of it may leave, and nothing it says moves the ref."""
    clock = Clock()
    lease = machines.hold("first", clock)
    clock.at += 10_000
    second = machines.hold("second", Clock(10_000))
    for fail in (lease.require_held, lambda: lease.write({})):
        with pytest.raises(RunLockedError) as caught:
            fail()
        assert caught.value.message == (
            "this run has lost refs/runner/live on origin to another run; nothing more is sent"
        )
        assert caught.value.hint == "let the other run end, then run the same command again"
    second.require_held()


def test_a_lease_that_cannot_be_renewed_stops_before_its_end(machines: Machines, remote: Path) -> None:
    """With the margin to spare, in which a request can still be on its way."""
    clock = Clock()
    lease = machines.hold("first", clock)
    remote.rename(remote.with_name("elsewhere.git"))
    clock.at += TERMS.lease_s - TERMS.margin_s - 1
    lease.require_held()
    clock.at += 1
    with pytest.raises(StateRefError) as caught:
        lease.require_held()
    assert caught.value.message == (
        "the hold on refs/runner/live on origin could not be renewed in time; nothing more is sent: the git "
        f"remote origin cannot be used: fatal: '{remote}' does not appear to be a git repository; fatal: Could "
        "not read from remote repository."
    )
    assert caught.value.hint == "run the same command again when the remote can be reached"
    remote.with_name("elsewhere.git").rename(remote)
    # It comes back before anybody else has taken the ref.
    lease.require_held()


def test_the_lease_is_renewed_in_the_background(clone: Callable[..., Path]) -> None:
    """However long a run has nothing to say, the ref goes on moving."""
    ref = StateRef.open(clone("first"), "origin", "live")
    moved = threading.Event()
    terms = LeaseTerms(lease_s=60, renew_s=0.01, margin_s=1, poll_s=0.01)
    clock = Clock()
    with hold_lease(ref, "one", "1", terms, clock.clocks(), print):
        first = ref.find()
        for _ in range(1000):
            clock.at += 1
            if ref.find() != first:
                moved.set()
                break
    assert moved.is_set()


def test_no_history_piles_up(clone: Callable[..., Path], remote: Path) -> None:
    """A run that changes files leaves one commit; those that change nothing leave a few at most."""
    ref = StateRef.open(clone("first"), "origin", "live")
    terms = replace(TERMS, most_commits=6)

    def run(*texts: str) -> int:
        with hold_lease(ref, "one", "1", terms, Clock().clocks(), print) as lease:
            for text in texts:
                lease.write({**lease.files, "file": ref.store(text)})
        return int(Git(remote).run("rev-list", "--count", ref.name))

    assert run("one", "two", "three") == 1
    assert [run() for _ in range(4)] == [3, 5, 1, 3]
    assert run("four") == 1


def test_what_a_killed_run_had_removed_leaves_the_history(clone: Callable[..., Path], remote: Path) -> None:
    """Whoever takes over from it drops what was before, also if nothing else changes."""
    ref = StateRef.open(clone("first"), "origin", "live")
    files = {"file": ref.store("kept")}
    state = dump_state(State(Holder("somebody", "0", 120, START.isoformat()), 2))
    before = ref.compose({**files, "removed": ref.store("a person")})
    ref.swap(None, before)
    ref.swap(before, ref.compose({**files, STATE_FILE: ref.store(state)}, before))
    with hold_lease(ref, "one", "1", TERMS, Clock(10_000).clocks(), print):
        assert Git(remote).run("rev-list", "--count", ref.name) == "3"
    assert Git(remote).run("rev-list", "--count", ref.name) == "1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"state_version": 2, "holder": {"by": "somebody"}}',
            "refs/runner/live on origin was written by a newer version of runner",
        ),
        ("{", "refs/runner/live on origin is damaged: state.json in it cannot be read"),
        ("[]", "refs/runner/live on origin is damaged: state.json in it cannot be read"),
        (
            json.dumps(
                {
                    "state_version": 1,
                    "moves": 1,
                    "holder": {"who": "me", "run": "1", "lease_s": 1, "until": "noon"},
                }
            ),
            "refs/runner/live on origin is damaged: state.json in it cannot be read",
        ),
        (None, "refs/runner/live on origin is damaged: state.json in it cannot be read"),
    ],
)
def test_a_ref_that_cannot_be_read_stops(machines: Machines, text: str | None, message: str) -> None:
    """Nobody holds it then, and nothing is written over."""
    ref = machines.ref("first")
    commit = ref.compose({STATE_FILE if text is not None else "other": ref.store(text or "")})
    ref.swap(None, commit)
    with pytest.raises(StateRefError) as caught:
        machines.hold("second", Clock())
    assert caught.value.message == message
    assert ref.find() == commit
    assert caught.value.hint == (
        "update runner"
        if "newer" in message
        else "nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it "
        "(git push origin --delete refs/runner/live): `runner apply` asks the service for what they lack"
    )
