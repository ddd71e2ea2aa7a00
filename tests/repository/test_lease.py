"""The lease on a ref, on clocks that tests move."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from runner.errors import RunLockedError
from runner.git.command import Git, GitError
from runner.git.lease import Clocks, GitLeaseTerms, LeasePatience, hold_lease
from runner.git.state_ref import STATE_FILE, Holder, State, StateRef
from tests.repository.free_ref import leave_free_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runner.errors import RunnerError
    from runner.git.lease import Lease

TERMS = GitLeaseTerms.lasting(120)
NO_PATIENCE = LeasePatience()
ONE, TWO = (Holder(who, run, TERMS.lease_s) for who, run in (("one", "1"), ("two", "2")))


@dataclass(slots=True)
class Clock:
    """A machine's clock, which is moved by sleeping."""

    at: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.at, self.sleep)


class Machines:
    """Clones that hold the ref one after the other."""

    def __init__(self, clone: Callable[..., Path], stack: ExitStack) -> None:
        self._clone = clone
        self._stack = stack
        self.failures: list[RunnerError] = []

    def ref(self, name: str) -> StateRef:
        return StateRef.open(self._clone(name), "origin", "live")

    def hold(self, name: str, clock: Clock, patience: LeasePatience = NO_PATIENCE) -> Lease:
        """Hold the ref until the test ends."""
        who = f"process 7 on {name} since 2026-11-21T12:00:00Z"
        patience = replace(patience, observe_failure=self.failures.append)
        held = hold_lease(self.ref(name), Holder(who, name, TERMS.lease_s), clock.clocks(), patience)
        return self._stack.enter_context(held)


@pytest.fixture
def new_remote(clone: Callable[..., Path]) -> Iterator[Machines]:
    """Machines whose remote has no ref yet."""
    with ExitStack() as stack:
        yield Machines(clone, stack)


@pytest.fixture
def machines(new_remote: Machines, clone: Callable[..., Path]) -> Machines:
    """Machines whose remote has a ref that nobody holds."""
    leave_free_ref(clone("earlier"))
    return new_remote


def test_a_held_ref_says_by_whom(machines: Machines) -> None:
    """Another run is told who holds it, since when, and what takes over if that has died."""
    machines.hold("first", Clock())
    with pytest.raises(RunLockedError) as caught:
        machines.hold("second", Clock())
    assert caught.value.message == (
        "refs/runner/live on origin is held by another run: process 7 on first since 2026-11-21T12:00:00Z"
    )
    assert caught.value.hint == (
        "wait until that run has ended, or have this one wait with --lock-timeout. If that run has died, "
        "`runner apply --settle-only --lock-timeout 3m` takes over, once it has seen the ref unmoved for 140 s"
    )


def test_a_released_ref_is_free_and_keeps_its_files(machines: Machines) -> None:
    """The next run takes it at once, and finds what was left there."""
    first, second = machines.ref("first"), machines.ref("second")
    patience = LeasePatience(observe_failure=machines.failures.append)
    with hold_lease(first, ONE, Clock().clocks(), patience) as lease:
        lease.write({"file": "kept"})
    assert second.read_state(second.read()).holder is None
    clock = Clock()
    with hold_lease(second, TWO, clock.clocks(), patience) as lease:
        assert lease.texts["file"] == "kept"
    assert machines.failures == []
    assert clock.slept == []


@pytest.mark.slow
def test_a_ref_that_nobody_moves_is_taken_over(machines: Machines) -> None:
    """After a lease and a margin on a clock of one's own; there is no other way."""
    machines.hold("first", Clock())
    clock = Clock(at=9_000_000)
    told: list[tuple[str, float]] = []
    patience = LeasePatience(timeout_s=600, observe_holder=lambda *about: told.append(about))
    machines.hold("second", clock, patience)
    assert sum(clock.slept) == pytest.approx(140)
    assert told == [("process 7 on first since 2026-11-21T12:00:00Z", 140)]


def test_a_holder_stops_long_before_it_is_taken_over(machines: Machines, remote: Path) -> None:
    """Cut off from the remote it counts from before its last push, the other one from after it saw that."""
    clock, other = Clock(), Clock()
    lease = machines.hold("first", clock)
    machines.ref("second")
    remote.rename(remote.with_name("elsewhere.git"))
    clock.at += TERMS.lease_s - TERMS.margin_s
    with pytest.raises(GitError):
        lease.require_held()
    remote.with_name("elsewhere.git").rename(remote)
    other.at = clock.at
    with pytest.raises(RunLockedError):
        machines.hold("third", other, LeasePatience(timeout_s=TERMS.watch_s - 1))
    assert sum(other.slept) == pytest.approx(TERMS.watch_s - 1)


@pytest.mark.slow
def test_a_holder_that_renews_while_it_is_watched_is_not_taken_over(machines: Machines) -> None:
    """Each move of the ref has the watch begin anew."""
    lease = machines.hold("first", Clock())
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.at == pytest.approx(1100):
            lease.write(lease.texts)

    held = hold_lease(
        machines.ref("second"),
        TWO,
        Clocks(lambda: clock.at, sleep),
        LeasePatience(timeout_s=600, observe_failure=machines.failures.append),
    )
    with held:
        assert sum(clock.slept) == pytest.approx(240)


def test_a_ref_that_is_not_there_is_made_after_a_lease(new_remote: Machines) -> None:
    """It may have been deleted while a run holds it, and the service may not list all that sent yet."""
    told: list[float] = []
    clock = Clock()
    lease = new_remote.hold("first", clock, LeasePatience(settle_s=60, observe_absence=told.append))
    assert sum(clock.slept) == pytest.approx(200)
    assert told == [200]
    lease.require_held()


def test_a_ref_that_is_made_meanwhile_is_its_makers(new_remote: Machines) -> None:
    """Of two that wait for a missing ref one gets it, and the other one is told."""
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if len(clock.slept) == 3:
            new_remote.hold("first", Clock())

    held = hold_lease(
        new_remote.ref("second"),
        TWO,
        Clocks(lambda: clock.at, sleep),
        LeasePatience(observe_failure=new_remote.failures.append),
    )
    with pytest.raises(RunLockedError, match="is held by another run: process 7 on first "), held:
        pytest.fail("taken")


def test_a_holder_learns_that_its_ref_was_deleted(machines: Machines, remote: Path) -> None:
    """With its next push, and it does not make another one."""
    lease = machines.hold("first", Clock())
    Git(remote).run("update-ref", "-d", "refs/runner/live")
    for content in ({}, {"file": "kept"}):
        with pytest.raises(GitError) as caught:
            lease.write(content)
        assert caught.value.message == (
            "refs/runner/live on origin was deleted while this run held it; nothing more is sent"
        )
        assert caught.value.hint == (
            "run the same command again: it waits until no other run can be sending, then makes the ref"
        )
    with pytest.raises(GitError):
        lease.require_held()
    assert Git(remote).ask("rev-parse", "--verify", "refs/runner/live").status


def test_a_holder_that_was_away_goes_on_if_nobody_came(machines: Machines) -> None:
    """A machine that slept: its push proves that the ref was its own all the time."""
    clock = Clock()
    lease = machines.hold("first", clock)
    clock.at += 10_000
    lease.require_held()
    with pytest.raises(RunLockedError):
        machines.hold("second", Clock())


def test_a_holder_that_was_away_learns_that_it_has_lost(machines: Machines) -> None:
    """From then on nothing of it may leave, and nothing it says moves the ref."""
    clock = Clock()
    lease = machines.hold("first", clock)
    clock.at += 10_000
    second = machines.hold("second", Clock(), LeasePatience(timeout_s=600))
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
    with pytest.raises(GitError) as caught:
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


def test_the_lease_is_renewed_in_the_background(machines: Machines) -> None:
    """However long a run has nothing to say, the ref goes on moving."""
    ref = machines.ref("first")
    terms = GitLeaseTerms(lease_s=60, renew_s=0.01, margin_s=1, poll_s=0.01)
    clock = Clock()
    with hold_lease(ref, ONE, clock.clocks(), NO_PATIENCE, terms=terms):
        first = ref.find()
        deadline = time.monotonic() + 60
        while ref.find() == first:
            assert time.monotonic() < deadline
            clock.at += 1


def test_no_history_piles_up(machines: Machines, remote: Path) -> None:
    """A run leaves one commit, whether it changes files or not."""
    ref = machines.ref("first")

    def run(*texts: str) -> int:
        with hold_lease(ref, ONE, Clock().clocks(), NO_PATIENCE) as lease:
            for text in texts:
                lease.write({**lease.texts, "file": text})
        return int(Git(remote).run("rev-list", "--count", ref.name))

    assert run("one", "two", "three") == 1
    assert run() == 1


def test_what_a_killed_run_had_removed_leaves_the_history(clone: Callable[..., Path], remote: Path) -> None:
    """Whoever takes over from it drops what was before, also if nothing else changes."""
    ref = StateRef.open(clone("first"), "origin", "live")
    files = {"file": "kept"}
    state = State(Holder("somebody", "0", 120), 2).dump()
    before = ref.compose({**files, "removed": "a person"})
    ref.swap(None, before)
    ref.swap(before, ref.compose({**files, STATE_FILE: state}, before))
    with hold_lease(ref, ONE, Clock().clocks(), LeasePatience(timeout_s=600)):
        assert Git(remote).run("rev-list", "--count", ref.name) == "3"
    assert Git(remote).run("rev-list", "--count", ref.name) == "1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"state_version": 3, "holder": {"by": "somebody"}}',
            "refs/runner/live on origin was written by another version of runner",
        ),
        ("{", "refs/runner/live on origin is damaged: state.json in it cannot be read"),
        ("[]", "refs/runner/live on origin is damaged: state.json in it cannot be read"),
        (
            json.dumps(
                {
                    "state_version": 2,
                    "moves": 1,
                    "holder": {"who": "me", "run": "1", "lease_s": "until noon"},
                }
            ),
            "refs/runner/live on origin is damaged: state.json in it cannot be read",
        ),
        (None, "refs/runner/live on origin is damaged: state.json in it cannot be read"),
    ],
)
def test_a_ref_that_cannot_be_read_stops(new_remote: Machines, text: str | None, message: str) -> None:
    """Nobody holds it then, and nothing is written over."""
    ref = new_remote.ref("first")
    commit = ref.compose({STATE_FILE if text is not None else "other": text or ""})
    ref.swap(None, commit)
    with pytest.raises(GitError) as caught:
        new_remote.hold("second", Clock())
    assert caught.value.message == message
    assert ref.find() == commit
    assert caught.value.hint == (
        "update runner"
        if "version" in message
        else "nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it "
        "(git push origin --delete refs/runner/live): `runner apply` asks the service for what they lack"
    )
