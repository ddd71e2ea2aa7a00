"""One run at a time, wherever it runs: a lease on a ref that only one can move.

A run holds the ref from the push that enters it as the holder until `lease_s` after its last push *began*,
by a clock of its own that nobody sets and that counts sleep. It renews the lease well before, and looks at
that clock before every request; what it looks for is a lease that goes on for `margin_s`.

Another run takes over from a holder that cannot hold the ref any more: it knows that that one has died, or
has watched the ref unmoved for a whole lease by its own such clock, or the end of the lease, as the holder
wrote it, is past by more than clocks differ. Its push is a compare-and-swap, so that a holder that comes
back finds that it has lost.

The race that remains: a run can be stopped between its last look at the clock and the request's way into
the network, for longer than the margin, and go on when another one has taken over. No lock can close that
which the service doesn't know of. What keeps people from being texted twice even then is that the launch is
reserved on the ref (see `runner.cli.state_remote`): the other run takes it for one of unknown outcome, and
doesn't send it before two full lists of the service, a settle window apart, have both lacked it. To text
somebody twice a machine would have to stop in those few microseconds for longer than margin and window.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from runner.errors import RunLockedError, RunnerError
from runner.repository.state_ref import RefMovedError, Snapshot, StateRefError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.repository.state_ref import StateRef

STATE_FILE = "state.json"
STATE_VERSION = 1
LEASE_S = 120.0
_SKEW_S = 300.0
"""How far two machines' clocks may be apart."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a hold on a ref lasts; all in seconds.

    Attributes:
        lease_s: from the push that began it, or renewed it, to its end.
        renew_s: after which it is renewed.
        margin_s: how long it must go on for a request to leave.
        poll_s: how often another run looks whether it has ended, and a failed renewal is tried again.
    """

    lease_s: float
    renew_s: float
    margin_s: float
    poll_s: float

    @classmethod
    def lasting(cls, lease_s: float) -> Self:
        """Return terms in proportion: of two minutes, renewed every half, with 20 s to spare."""
        return cls(lease_s, lease_s / 4, lease_s / 6, min(5.0, lease_s / 20))


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a ref.

    Attributes:
        who: host, process, CI run and since when, in words.
        run: tells this run from every other.
        lease_s: how long it holds the ref from its last push on, in seconds.
        until: when that ends, by the holder's clock; UTC, ISO 8601.
    """

    who: str
    run: str
    lease_s: float
    until: str

    def ends_at(self) -> datetime:
        """Return when the lease is over, whatever the difference of clocks."""
        return datetime.fromisoformat(self.until) + timedelta(seconds=_SKEW_S)


@dataclass(frozen=True, slots=True)
class _State:
    """What `state.json` says.

    Attributes:
        holder: who holds the ref; None if nobody does.
        moves: how often the ref has moved: no two of its commits are the same.
    """

    holder: Holder | None = None
    moves: int = 0


def read_state(ref: StateRef, snapshot: Snapshot) -> _State:
    """Return who holds a ref, and how often it has moved.

    Raises:
        StateRefError: the ref is damaged, or a newer version of the program has written it.
    """
    if snapshot.commit is None:
        return _State()
    try:
        data = json.loads(ref.load(snapshot.files[STATE_FILE]))
        version, holder = int(data["state_version"]), data["holder"]
        if version == STATE_VERSION:
            state = _State(None if holder is None else _read_holder(holder), int(data["moves"]))
    except (ValueError, TypeError, LookupError, AttributeError):
        raise damaged(ref, STATE_FILE) from None
    if version != STATE_VERSION:
        raise StateRefError(f"{ref} was written by a newer version of runner", hint="update runner")
    return state


def _read_holder(data: dict[str, Any]) -> Holder:
    holder = Holder(str(data["who"]), str(data["run"]), float(data["lease_s"]), str(data["until"]))
    if holder.ends_at().tzinfo is None:
        raise ValueError(holder.until)
    return holder


def damaged(ref: StateRef, file: str) -> StateRefError:
    """Return the error for a ref that no version of this program has written."""
    return StateRefError(f"{ref} is damaged: {file} in it cannot be read", hint=advise_removal(ref))


def advise_removal(ref: StateRef) -> str:
    """Return what to do about a ref that cannot be read."""
    return (
        "nothing is sent as long as it is unclear who was texted. With the lockfiles at hand, remove it "
        f"(git push {ref.remote} --delete {ref.name}): `runner apply` asks the service for what they lack"
    )


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where a lease gets its time from.

    Attributes:
        steady: seconds on a clock that nobody sets, and that counts the machine's sleep.
        wall: the time of day, aware.
        sleep: waits for so many seconds; may raise to give up.
    """

    steady: Callable[[], float]
    wall: Callable[[], datetime]
    sleep: Callable[[float], object]


class Lease:
    """A hold on a ref. `hold_lease` makes it.

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
        self._tried: set[str] = set()
        self._began_at = 0.0
        self._lost: RunnerError | None = None
        self._trouble: RunnerError | None = None

    @property
    def files(self) -> Mapping[str, str]:
        """The blobs of the ref's files."""
        return self._snapshot.files

    def take(self, snapshot: Snapshot, moves: int) -> None:
        """Become the holder.

        Args:
            snapshot: where the ref is, which nobody holds.
            moves: how often it has moved.

        Raises:
            RefMovedError: somebody was faster.
            GitError: the ref cannot be moved.
        """
        self._snapshot, self._moves = snapshot, moves
        self._move(snapshot.files)

    def write(self, files: Mapping[str, str]) -> None:
        """Put other files on the ref, all at once, which renews the lease.

        Raises:
            RunLockedError: another run has taken over.
            GitError: the ref cannot be moved.
        """
        with self._turn:
            self._move_on(files)

    def release(self) -> None:
        """Let others have the ref, if this run still does.

        Raises:
            GitError: the ref cannot be moved; the lease ends all the same.
        """
        with self._turn:
            if self._lost is None:
                self._move_on(self.files, is_held=False)

    def require_held(self) -> None:
        """Make sure that no other run can have begun, nor will within the margin; from any thread.

        Raises:
            RunLockedError: another run has taken over.
            GitError: the lease could not be renewed in time.
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
                self._lost = self._taken_over()
                raise self._lost from None
            # A push of our own whose answer was lost: from there it goes on.
            self._snapshot = Snapshot(error.found, self.files)
            self._move(files, is_held=is_held)

    def _move(self, files: Mapping[str, str], *, is_held: bool = True) -> None:
        began_at, until = (
            self._clocks.steady(),
            self._clocks.wall() + timedelta(seconds=self._terms.lease_s),
        )
        holder = Holder(self._who, self._run, self._terms.lease_s, until.astimezone(UTC).isoformat())
        state = {
            "holder": asdict(holder) if is_held else None,
            "moves": self._moves + 1,
            "state_version": STATE_VERSION,
        }
        text = json.dumps(state, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        written = {**files, STATE_FILE: self.ref.store(text)}
        commit = self.ref.compose(written)
        self._tried.add(commit)
        self._moves += 1
        self.ref.swap(self._snapshot.commit, commit)
        self._snapshot, self._began_at = Snapshot(commit, written), began_at

    def _taken_over(self) -> RunnerError:
        return RunLockedError(
            f"this run has lost {self.ref} to another run; nothing more is sent",
            hint="let the other run end, then run the same command again",
        )

    def _expired(self) -> RunnerError:
        why = f": {self._trouble.message}" if self._trouble else ""
        return StateRefError(
            f"the hold on {self.ref} could not be renewed in time; nothing more is sent{why}",
            hint="run the same command again when the remote can be reached",
        )


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
                lease.take(snapshot, state.moves)
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
