"""Takes a state ref as soon as nobody holds it any more, and lets it go in the end."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from datetime import UTC
from typing import TYPE_CHECKING

from runner.errors import RunLockedError, RunnerError
from runner.repository.holder import read_state
from runner.repository.lease import Lease
from runner.repository.state_ref import RefMovedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.repository.holder import Holder
    from runner.repository.lease import Clocks, LeaseTerms
    from runner.repository.state_ref import StateRef


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
    timeout_s: float = 0,
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
        timeout_s: for how long to wait for another run, in seconds.

    Raises:
        RunLockedError: another run still holds it.
        GitError: the ref cannot be read or moved.
    """
    lease = Lease(ref, who, run, terms, clocks)
    _wait_and_take(lease, terms, clocks, has_died, clocks.steady() + timeout_s)
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


def _wait_and_take(
    lease: Lease, terms: LeaseTerms, clocks: Clocks, has_died: Callable[[str], bool], deadline: float
) -> None:
    ref = lease.ref
    watched, since = None, 0.0
    while True:
        snapshot = ref.read()
        if snapshot.commit != watched:
            watched, since = snapshot.commit, clocks.steady()
        state = read_state(ref, snapshot)
        holder = state.holder
        if holder is None or _is_over(holder, clocks, since) or has_died(holder.run):
            with suppress(RefMovedError):
                lease.take(snapshot, state)
                return
            continue
        left_s = deadline - clocks.steady()
        if left_s <= 0:
            raise _held(ref, holder)
        clocks.sleep(min(terms.poll_s, left_s))


def _is_over(holder: Holder, clocks: Clocks, since: float) -> bool:
    return clocks.steady() - since > holder.lease_s or clocks.wall() > holder.ends_at()


def _held(ref: StateRef, holder: Holder) -> RunLockedError:
    latest = f"{holder.ends_at().astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return RunLockedError(
        f"{ref} is held by another run: {holder.who}; should that have died, until {latest} at the latest",
        hint="wait until that run has ended, or have this one wait with --lock-timeout: a hold that is not "
        f"renewed for {holder.lease_s:g} s is taken over",
    )
