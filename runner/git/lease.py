"""A lease on a ref, so that one run works at a time on any machine: taken as soon as it is free.

A run holds the ref from the push that enters it as the holder until `lease_s` after its last push *began*, by
its own clock that nobody sets and that counts sleep. It renews the lease well before the end, and before
every request checks that the lease lasts for `margin_s` more.

Another run takes over when the holder is known to have died, or when it has itself watched the ref unmoved
for a whole lease and a margin, by its own such clock: machines disagree about the time of day. The push is a
compare-and-swap, so that a returning holder finds that it has lost.

A missing ref proves nothing: it may have been deleted while a run holds it, which stops at its next push. So
a run makes a new ref only after it has watched the ref missing for as long as it would have watched a holder,
and for the settle window, after which the service lists everything that the ref no longer reserves.

One race remains: a run can be stopped between its last look at the clock and the request's way into the
network, for longer than the margin, and go on after another one has taken over. Even then nobody is texted
twice: the launch is reserved on the ref, and the other run doesn't send it before two full lists of the
service, a settle window apart, have both lacked it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from runner.errors import RunnerError, StateLockedError
from runner.git.command import GitError
from runner.git.state_ref import STATE_FILE, TRIES, Holder, RefMovedError, Snapshot, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.git.state_ref import StateRef


LEASE_S = 120.0
_SLACK_S = 30.0
"""Time to allow for asking the remote, beside the waiting, in seconds."""


@dataclass(frozen=True, slots=True)
class GitLeaseTerms:
    """The times of a lease, in seconds.

    It ends `lease_s` after the push that began or renewed it, is renewed at the age of `renew_s`, and must
    last for `margin_s` more if a request is to be sent. Every `poll_s` other runs look at it, and a failed
    renewal is repeated.
    """

    lease_s: float
    renew_s: float
    margin_s: float
    poll_s: float

    @classmethod
    def lasting(cls, lease_s: float) -> Self:
        """Return terms in proportion: two minutes are renewed every 30 s, with 20 s to spare."""
        return cls(lease_s, lease_s / 4, lease_s / 6, min(5.0, lease_s / 20))

    @property
    def watch_s(self) -> float:
        """The time for which another run watches the ref unmoved before it takes over, in seconds."""
        return self.lease_s + self.margin_s

    def advise_timeout(self) -> str:
        """Return a value for `--lock-timeout` that outlasts the lease of a run that may have died."""
        return f"{int((self.watch_s + _SLACK_S) // 60) + 1}m"


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of a lease.

    `steady` returns seconds on a clock that nobody sets, and that counts the machine's sleep; `sleep` waits
    for some seconds, and may raise to give up.
    """

    steady: Callable[[], float]
    sleep: Callable[[float], object]


@dataclass(frozen=True, slots=True)
class LeasePatience:
    """Longest waits for a ref, in seconds, and what observes them.

    Attributes:
        timeout_s: for another run that holds it.
        settle_s: until the service lists a launch: only its lists tell of the reservations of a deleted ref.
        has_died: returns whether the run of a holder has certainly died.
        observe_absence: gets the seconds of the watch, if there is no ref.
        observe_holder: gets each run that is waited for, in words, and the seconds after which it counts as
            dead if it does not move the ref.
        observe_failure: gets the error of a release: the lease runs out by itself.
    """

    timeout_s: float = 0
    settle_s: float = 0
    has_died: Callable[[str], bool] = lambda _: False
    observe_absence: Callable[[float], object] = lambda _: None
    observe_holder: Callable[[str, float], object] = lambda _who, _seconds: None
    observe_failure: Callable[[RunnerError], object] = lambda _: None


class Lease:
    """A hold on a ref, made by `hold_lease`.

    `snapshot` is the ref as this run knows it, and `texts` has its files once what is staged is written.
    `turn` keeps renewals out while files are composed from those that are there.
    """

    def __init__(
        self,
        ref: StateRef,
        holder: Holder,
        terms: GitLeaseTerms,
        clocks: Clocks,
        unite: Callable[[str, str | None, str], str | None],
    ) -> None:
        self.turn = threading.RLock()
        self._ref = ref
        self._holder = holder
        self._terms = terms
        self._clocks = clocks
        self._unite = unite
        self.snapshot = Snapshot()
        self.texts: Mapping[str, str] = {}
        self._moves = 0
        self._began_at = 0.0
        self._lost: RunnerError | None = None
        self._trouble: RunnerError | None = None

    def take(self, snapshot: Snapshot, state: State) -> None:
        """Become the holder of a ref that is free in this snapshot and state.

        Raises:
            RefMovedError: somebody was faster.
            GitError: the ref cannot be moved.
        """
        self.snapshot, self._moves = snapshot, state.moves
        self._move(snapshot.record)

    def write(self, texts: Mapping[str, str]) -> None:
        """Replace the ref's files, all at once, which renews the lease."""
        with self.turn:
            self._move_on(texts)

    def stage(self, texts: Mapping[str, str]) -> None:
        """Replace the ref's files with the next push: a renewal, a further write, or the release."""
        with self.turn:
            if self._lost is not None:
                raise self._lost
            self.texts = texts

    def release(self) -> None:
        """Free the ref if this run still holds it, without its history."""
        with self.turn:
            if self._lost is None:
                self._move_on(self.texts, is_held=False)

    def require_held(self) -> None:
        """Raise unless this run holds the ref for another margin; from any thread."""
        if self._lost is None and self._left_s() > self._terms.margin_s:
            return
        with self.turn:
            if self._lost is None and self._left_s() <= self._terms.margin_s:
                # A successful push proves that nobody else has held the ref meanwhile.
                self._renew()
            if self._lost is not None:
                raise self._lost
            if self._left_s() <= self._terms.margin_s:
                why = f": {self._trouble.message}" if self._trouble else ""
                raise GitError(
                    f"the hold on {self._ref} could not be renewed in time; nothing more is sent{why}",
                    hint="run the same command again when the remote can be reached",
                )

    def keep_renewing(self, ended: threading.Event) -> None:
        """Renew the lease until the event is set, in a thread of its own."""
        terms = self._terms
        wait_s = terms.renew_s
        while not ended.wait(wait_s) and self._lost is None:
            wait_s = self._began_at + terms.renew_s - self._clocks.steady()
            if wait_s <= 0:
                with self.turn:
                    is_renewed = ended.is_set() or self._renew()
                wait_s = terms.renew_s if is_renewed else terms.poll_s

    def _left_s(self) -> float:
        return self._began_at + self._terms.lease_s - self._clocks.steady()

    def _renew(self) -> bool:
        try:
            self._move_on(self.texts)
        except RunnerError as error:
            self._trouble = error
            return False
        return True

    def _move_on(self, texts: Mapping[str, str], *, is_held: bool = True) -> None:
        for _ in range(TRIES):
            if self._lost is not None:
                raise self._lost
            try:
                self._move(texts, is_held=is_held)
            except RefMovedError as error:
                texts = self._follow(error.found, texts)
            else:
                return
        raise GitError(f"{self._ref} moves all the time", hint="run the same command again")

    def _follow(self, commit: str | None, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Go on from the commit that the ref is at; return the files with what others have added there."""
        if commit is None:
            self._lost = GitError(
                f"{self._ref} was deleted while this run held it; nothing more is sent",
                hint="run the same command again: it waits until no other run can be sending, then makes the "
                "ref",
            )
            raise self._lost
        united, known = dict(texts), self.snapshot.record
        snapshot = self._ref.read_at(commit)
        if snapshot is None:
            return texts  # it has moved on: the next push finds where to
        self._require_own(self._ref.read_state(snapshot))
        for name, text in snapshot.record.items():
            if text != known.get(name):
                whole = self._unite(name, united.get(name), text)
                united |= {} if whole is None else {name: whole}
        self.snapshot, self.texts = snapshot, united
        return united

    def _require_own(self, state: State) -> None:
        if state.holder is None or state.holder.run != self._holder.run:
            self._lost = StateLockedError(
                f"this run has lost {self._ref} to another run; nothing more is sent",
                hint="let the other run end, then run the same command again",
            )
            raise self._lost
        self._moves = max(self._moves, state.moves)

    def _move(self, texts: Mapping[str, str], *, is_held: bool = True) -> None:
        began_at = self._clocks.steady()
        self._moves += 1
        state = State(self._holder if is_held else None, self._moves)
        whole = {**texts, STATE_FILE: state.dump()}
        # What was removed is not to stay in the history of a free ref.
        commit = self._ref.compose(whole, self.snapshot.commit if is_held else None)
        self._ref.swap(self.snapshot.commit, commit)
        self.snapshot, self._began_at = Snapshot(commit, whole), began_at
        self.texts = texts


@contextmanager
def hold_lease(
    ref: StateRef,
    holder: Holder,
    clocks: Clocks,
    patience: LeasePatience,
    *,
    terms: GitLeaseTerms | None = None,
    seen: Snapshot | None = None,
    unite: Callable[[str, str | None, str], str | None] = lambda _name, _ours, theirs: theirs,
) -> Iterator[Lease]:
    """Hold a ref while the block lasts; `terms` are None for those of the holder's lease.

    `seen` is the ref as it was known to be: if it was free, it is taken without another look. `unite` returns
    the text of a file, by name, given this run's text and that of others; None for no file.
    """
    terms = terms or GitLeaseTerms.lasting(holder.lease_s)
    lease = Lease(ref, holder, terms, clocks, unite)
    watch = _Watch(ref, terms, clocks, patience)
    while True:
        with suppress(RefMovedError):
            lease.take(*watch.wait(seen))
            break
        seen = None
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
            patience.observe_failure(error)


class _Watch:
    """A watch on a ref until nobody can hold it any more."""

    def __init__(self, ref: StateRef, terms: GitLeaseTerms, clocks: Clocks, patience: LeasePatience) -> None:
        self._ref = ref
        self._terms = terms
        self._clocks = clocks
        self._patience = patience
        self._deadline = clocks.steady() + patience.timeout_s
        # Neither a commit nor None, which stands for a missing ref.
        self._watched: str | None = ""
        self._since = 0.0
        self._seen_run: str | None = None

    def wait(self, seen: Snapshot | None = None) -> tuple[Snapshot, State]:
        """Return the ref's commit and state as soon as it may be taken; at once if it was `seen` free."""
        while True:
            is_fresh, snapshot = seen is None, seen or self._ref.read()
            seen, state = None, self._ref.read_state(snapshot)
            holder = state.holder
            if snapshot.commit is not None and (holder is None or self._patience.has_died(holder.run)):
                return snapshot, state
            if not is_fresh:
                continue
            left_s = self._find_left_s(snapshot.commit, holder)
            if left_s <= 0:
                return snapshot, state
            if holder is not None:
                left_s = min(left_s, self._find_patience_s(holder))
            self._clocks.sleep(min(self._terms.poll_s, left_s))

    def _find_left_s(self, commit: str | None, holder: Holder | None) -> float:
        """Return how many seconds a ref that is held, or missing, must still be watched."""
        lasting = self._terms if holder is None else GitLeaseTerms.lasting(holder.lease_s)
        whole_s = lasting.watch_s + (self._patience.settle_s if commit is None else 0)
        if commit != self._watched:
            # Taken after the read: the holder's lease counts from the begin of its push, which was earlier.
            self._watched, self._since = commit, self._clocks.steady()
            if commit is None:
                self._patience.observe_absence(whole_s)
        return whole_s - (self._clocks.steady() - self._since)

    def _find_patience_s(self, holder: Holder) -> float:
        terms, patience_s = GitLeaseTerms.lasting(holder.lease_s), self._deadline - self._clocks.steady()
        if patience_s <= 0:
            raise StateLockedError(
                f"{self._ref} is held by another run: {holder.who}",
                hint="wait until that run has ended, or have this one wait with --lock-timeout. If that run "
                f"has died, `runner apply --settle-only --lock-timeout {terms.advise_timeout()}` takes over, "
                f"once it has seen the ref unmoved for {terms.watch_s:g} s",
            )
        if holder.run != self._seen_run:
            self._seen_run = holder.run
            self._patience.observe_holder(holder.who, terms.watch_s)
        return patience_s
