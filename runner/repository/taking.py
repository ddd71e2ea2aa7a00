"""Takes a state ref as soon as nobody holds it any more, and lets it go in the end."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import RunnerError, StateLockedError
from runner.repository.holder import read_state
from runner.repository.lease import Lease, LeaseTerms
from runner.repository.state_ref import RefMovedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.repository.holder import Holder, State
    from runner.repository.lease import Clocks
    from runner.repository.state_ref import Snapshot, StateRef


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long to wait until nobody can hold a ref any more.

    Attributes:
        timeout_s: for another run that holds it, in seconds.
        settle_s: how long the service may take to list a launch, in seconds: what was reserved on a ref
            that is gone can only be learned there.
        observe_absence: is told that there is no ref, and for how many seconds that is watched.
    """

    timeout_s: float = 0
    settle_s: float = 0
    observe_absence: Callable[[float], object] = lambda _: None


_NO_PATIENCE = Patience()
_SLACK_S = 30.0
"""What asking the remote may take beside the waiting, in seconds."""


@contextmanager
def hold_lease(
    ref: StateRef,
    who: str,
    run: str,
    terms: LeaseTerms,
    clocks: Clocks,
    observe_failure: Callable[[RunnerError], None],
    *,
    has_died: Callable[[str], bool] = lambda _: False,
    patience: Patience = _NO_PATIENCE,
) -> Iterator[Lease]:
    """Hold a ref while the block lasts.

    Args:
        ref: the ref.
        who: this run, in words.
        run: tells this run from every other.
        terms: how long the lease lasts between its renewals.
        clocks: tell the time.
        observe_failure: is told why the ref could not be released in the end: the lease runs out by itself.
        has_died: returns whether the run of a holder is known for sure to have died.
        patience: for how long to wait.

    Raises:
        StateLockedError: another run still holds it.
        GitError: the ref cannot be read or moved.
    """
    lease = Lease(ref, who, run, terms, clocks)
    watch = _Watch(ref, terms, clocks, has_died, patience)
    is_taken = False
    while not is_taken:
        with suppress(RefMovedError):
            lease.take(*watch.wait())
            is_taken = True
    ended = threading.Event()
    thread = threading.Thread(target=lease.keep_renewing, args=(ended,), daemon=True, name="lease")
    thread.start()
    try:
        yield lease
    finally:
        ended.set()
        thread.join()
        try:
            lease.release()
        except RunnerError as error:
            observe_failure(error)


class _Watch:
    """Looks at a ref until nobody can hold it any more.

    Args:
        ref: the ref.
        terms: of the lease that is to begin.
        clocks: tell the time.
        has_died: returns whether the run of a holder is known for sure to have died.
        patience: for how long to wait.
    """

    def __init__(
        self,
        ref: StateRef,
        terms: LeaseTerms,
        clocks: Clocks,
        has_died: Callable[[str], bool],
        patience: Patience,
    ) -> None:
        self._ref = ref
        self._poll_s = terms.poll_s
        self._absence_s = terms.watch_s + patience.settle_s
        self._clocks = clocks
        self._has_died = has_died
        self._patience = patience
        self._deadline = clocks.steady() + patience.timeout_s
        # Neither a commit nor None, which stands for a ref that is not there.
        self._watched: str | None = ""
        self._since = 0.0

    def wait(self) -> tuple[Snapshot, State]:
        """Return where the ref is, and what it says, as soon as it may be taken."""
        while True:
            snapshot = self._ref.read()
            state = read_state(self._ref, snapshot)
            self._note_moves(snapshot.commit)
            left_s = self._find_left_s(state.holder)
            if left_s <= 0:
                return snapshot, state
            if state.holder is not None:
                left_s = min(left_s, self._find_patience_s(state.holder))
            self._clocks.sleep(min(self._poll_s, left_s))

    def _note_moves(self, commit: str | None) -> None:
        if commit == self._watched:
            return
        # After it was read: by then its holder had begun the push, from which the lease counts.
        self._watched, self._since = commit, self._clocks.steady()
        if commit is None:
            self._patience.observe_absence(self._absence_s)

    def _find_left_s(self, holder: Holder | None) -> float:
        """Return for how long the ref must still be watched."""
        watched_s = self._clocks.steady() - self._since
        if self._watched is None:
            return self._absence_s - watched_s
        if holder is None or self._has_died(holder.run):
            return 0
        return LeaseTerms.lasting(holder.lease_s).watch_s - watched_s

    def _find_patience_s(self, holder: Holder) -> float:
        patience_s = self._deadline - self._clocks.steady()
        if patience_s <= 0:
            raise _held(self._ref, holder)
        return patience_s


def _held(ref: StateRef, holder: Holder) -> StateLockedError:
    terms = LeaseTerms.lasting(holder.lease_s)
    return StateLockedError(
        f"{ref} is held by another run: {holder.who}",
        hint="wait until that run has ended, or have this one wait with --lock-timeout. If that run has "
        f"died, `runner apply --settle-only --lock-timeout {advise_timeout(terms)}` takes over, once it has "
        f"seen the ref unmoved for {terms.watch_s:g} s",
    )


def advise_timeout(terms: LeaseTerms) -> str:
    """Return for how long to wait for a run that may have died, as `--lock-timeout` takes it."""
    return f"{int((terms.watch_s + _SLACK_S) // 60) + 1}m"
