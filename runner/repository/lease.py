"""One run at a time, wherever it runs: a lease on a ref that only one can move.

A run holds the ref from the push that enters it as the holder until `lease_s` after its last push *began*,
by a clock of its own that nobody sets and that counts sleep. It renews the lease well before, and looks at
that clock before every request; what it looks for is a lease that goes on for `margin_s`.

Another run takes over from a holder that cannot hold the ref any more: it knows that that one has died, or
has itself watched the ref unmoved for a whole lease and a margin, by its own such clock. The time of day
plays no part: machines disagree about it. The push is a compare-and-swap, so that a holder that comes back
finds that it has lost.

A ref that is not there proves nothing: it may have been deleted while a run holds it. That run stops at its
next push, which is due before the lease ends. So a new ref is made only after a run has watched it missing
for as long as it would have watched a holder, and for the settle window, after which the service lists what
the other run has sent and the ref no longer reserves.

The race that remains: a run can be stopped between its last look at the clock and the request's way into
the network, for longer than the margin, and go on when another one has taken over. No lock can close that
which the service doesn't know of. What keeps people from being texted twice even then is that the launch is
reserved on the ref (see `runner.cli.state_remote`): the other run takes it for one of unknown outcome, and
doesn't send it before two full lists of the service, a settle window apart, have both lacked it. To text
somebody twice a machine would have to stop within those few microseconds, and for longer than the margin
and what the service's delay in listing leaves of the window.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from runner.errors import RunnerError, StateLockedError
from runner.repository.holder import STATE_FILE, Holder, State, dump_state
from runner.repository.state_ref import RefMovedError, Snapshot, StateRefError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runner.repository.state_ref import StateRef

LEASE_S = 120.0


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a hold on a ref lasts; in seconds.

    Attributes:
        lease_s: from the push that began it, or renewed it, to its end.
        renew_s: after which it is renewed.
        margin_s: how long it must go on for a request to leave.
        poll_s: how often another run looks whether it has ended, and a failed renewal is tried again.
        most_commits: how long the ref's history may get by runs that change nothing.
    """

    lease_s: float
    renew_s: float
    margin_s: float
    poll_s: float
    most_commits: int = 100

    @classmethod
    def lasting(cls, lease_s: float) -> Self:
        """Return terms in proportion: two minutes are renewed every 30 s, with 20 s to spare."""
        return cls(lease_s, lease_s / 4, lease_s / 6, min(5.0, lease_s / 20))

    @property
    def watch_s(self) -> float:
        """For how long another run watches the ref unmoved before it takes over."""
        return self.lease_s + self.margin_s


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where a lease gets its time from.

    Attributes:
        steady: seconds on a clock that nobody sets, and that counts the machine's sleep.
        sleep: waits for so many seconds; may raise to give up.
    """

    steady: Callable[[], float]
    sleep: Callable[[float], object]


class Lease:
    """A hold on a ref. `taking.hold_lease` makes it.

    Args:
        ref: the ref.
        who: this run, in words.
        run: tells this run from every other.
        terms: how long it lasts.
        clocks: tell the time.
    """

    def __init__(self, ref: StateRef, who: str, run: str, terms: LeaseTerms, clocks: Clocks) -> None:
        self.ref = ref
        self._who = who
        self._run = run
        self._terms = terms
        self._clocks = clocks
        self._turn = threading.RLock()
        self._snapshot = Snapshot()
        self._moves = 0
        self._found: Mapping[str, str] = {}
        self._tried: set[str] = set()
        self._began_at = 0.0
        self._lost: RunnerError | None = None
        self._trouble: RunnerError | None = None

    @property
    def files(self) -> Mapping[str, str]:
        """The blobs of the ref's files."""
        return self._snapshot.files

    def take(self, snapshot: Snapshot, state: State) -> None:
        """Become the holder.

        Args:
            snapshot: where the ref is, which nobody holds any more.
            state: what it says.

        Raises:
            RefMovedError: somebody was faster.
            GitError: the ref cannot be moved.
        """
        self._snapshot, self._moves = snapshot, state.moves
        # What a run has removed that died is still in the history.
        self._found = {} if state.holder is not None else _leave_out_state(snapshot.files)
        self._move(snapshot.files)

    def write(self, files: Mapping[str, str]) -> None:
        """Put other files on the ref, all at once, which renews the lease.

        Raises:
            StateLockedError: another run has taken over.
            GitError: the ref cannot be moved, or was deleted.
        """
        with self._turn:
            self._move_on(files)

    def release(self) -> None:
        """Let others have the ref, if this run still does. One that has changed files leaves no history.

        Raises:
            GitError: the ref cannot be moved; the lease ends all the same.
        """
        with self._turn:
            if self._lost is None:
                self._move_on(self.files, is_held=False)

    def require_held(self) -> None:
        """Make sure that no other run can have begun, nor will within the margin; from any thread.

        Raises:
            StateLockedError: another run has taken over.
            GitError: the lease could not be renewed in time, or the ref was deleted.
        """
        if self._lost is None and self._left_s() > self._terms.margin_s:
            return
        with self._turn:
            if self._lost is None and self._left_s() <= self._terms.margin_s:
                # If nobody has moved the ref meanwhile, nobody has held it: the push proves it.
                self._renew()
            if self._lost is not None:
                raise self._lost
            if self._left_s() <= self._terms.margin_s:
                raise self._expired()

    def keep_renewing(self, ended: threading.Event) -> None:
        """Renew the lease until the event is set; to be run by a thread of its own."""
        terms = self._terms
        wait_s = terms.renew_s
        while not ended.wait(wait_s) and self._lost is None:
            wait_s = self._began_at + terms.renew_s - self._clocks.steady()
            if wait_s <= 0:
                with self._turn:
                    is_renewed = ended.is_set() or self._renew()
                wait_s = terms.renew_s if is_renewed else terms.poll_s

    def _left_s(self) -> float:
        return self._began_at + self._terms.lease_s - self._clocks.steady()

    def _renew(self) -> bool:
        try:
            self._move_on(self.files)
        except RunnerError as error:
            self._trouble = error
            return False
        return True

    def _move_on(self, files: Mapping[str, str], *, is_held: bool = True) -> None:
        if self._lost is not None:
            raise self._lost
        try:
            self._move(files, is_held=is_held)
        except RefMovedError as error:
            if error.found not in self._tried:
                self._lost = self._taken_over() if error.found else self._deleted()
                raise self._lost from None
            # A push of our own whose answer was lost: from there it goes on.
            self._snapshot = Snapshot(error.found, self.files)
            self._move(files, is_held=is_held)

    def _choose_parent(self, *, is_held: bool) -> str | None:
        commit = self._snapshot.commit
        if is_held or commit is None:
            return commit
        is_changed = _leave_out_state(self.files) != self._found
        return None if is_changed or self.ref.count(commit) >= self._terms.most_commits else commit

    def _move(self, files: Mapping[str, str], *, is_held: bool = True) -> None:
        began_at = self._clocks.steady()
        holder = Holder(self._who, self._run, self._terms.lease_s)
        text = dump_state(State(holder if is_held else None, self._moves + 1))
        written = {**files, STATE_FILE: self.ref.store(text)}
        commit = self.ref.compose(written, self._choose_parent(is_held=is_held))
        self._tried.add(commit)
        self._moves += 1
        self.ref.swap(self._snapshot.commit, commit)
        self._snapshot, self._began_at = Snapshot(commit, written), began_at

    def _taken_over(self) -> RunnerError:
        return StateLockedError(
            f"this run has lost {self.ref} to another run; nothing more is sent",
            hint="let the other run end, then run the same command again",
        )

    def _deleted(self) -> RunnerError:
        return StateRefError(
            f"{self.ref} was deleted while this run held it; nothing more is sent",
            hint="run the same command again: it waits until no other run can be sending, then makes the ref",
        )

    def _expired(self) -> RunnerError:
        why = f": {self._trouble.message}" if self._trouble else ""
        return StateRefError(
            f"the hold on {self.ref} could not be renewed in time; nothing more is sent{why}",
            hint="run the same command again when the remote can be reached",
        )


def _leave_out_state(files: Mapping[str, str]) -> dict[str, str]:
    return {name: blob for name, blob in files.items() if name != STATE_FILE}
