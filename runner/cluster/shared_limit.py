"""A task's share of the requests that all tasks of a command may have in flight together."""

from __future__ import annotations

import contextlib
import secrets
import threading
from typing import TYPE_CHECKING, Self

from runner.delivery.pace import InFlightLimit
from runner.errors import RunnerError
from runner.ledger.locks.partition_lease import LeaseLostError, LeaseTerms
from runner.ledger.locks.request_shares import change_share, enter_share, leave_share, read_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.ledger.database import Ledger
    from runner.ledger.locks.request_shares import RequestBudget

_BEAT_S = 0.4


class SharedLimit(InFlightLimit):
    """A limit that follows this task's share of a budget in the ledger. Use it as a context manager.

    A share that shrinks lowers the limit first, and is given back as requests end. One that could not be
    renewed in time is none; with all requests ended, the task enters anew.

    Args:
        ledger: open; on PostgreSQL.
        clock: returns seconds that never go back, and count the machine's sleep.
    """

    def __init__(self, ledger: Ledger, budget: RequestBudget, clock: Callable[[], float]) -> None:
        super().__init__(budget.total, 0)
        self._ledger = ledger
        self._budget = budget
        self._clock = clock
        self._terms = LeaseTerms.lasting(budget.lapse_s)
        self._entered: tuple[str, float] | None = None
        self._granted = 0
        self._asked_at = clock()
        self._failure: RunnerError | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="share", daemon=True)

    @property
    def limit(self) -> int:
        """The most requests in flight now; 0 if the share may have lapsed."""
        return 0 if self._is_lapsed else self._limit

    @property
    def _is_lapsed(self) -> bool:
        return self._clock() >= self._asked_at + self._terms.lease_s - self._terms.margin_s

    def __enter__(self) -> Self:
        self.exchange()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._entered is not None and not self.set_limit(0):
            holder, _ = self._entered
            # A row that stays lapses.
            with contextlib.suppress(RunnerError), self._ledger.writing() as connection:
                leave_share(connection, self._budget, holder)

    def require_seen(self) -> None:
        """Ensure that requests that have entered may still leave.

        Raises:
            LeaseLostError: the share has lapsed, or could not be renewed in time.
        """
        if self._is_lapsed:
            raise LeaseLostError(
                "this task has lost its share of the requests in flight; it sends nothing more"
            )

    def wait(self, is_over: Callable[[], bool]) -> int:
        """Wait until the limit is above 0, and return it; return 0 if `is_over` says so first.

        Raises:
            RunnerError: the share has lapsed, and the ledger cannot be used.
        """
        return super().wait(lambda: self._has_failed() or is_over())

    def enter(self, is_over: Callable[[], bool]) -> bool:
        """Wait until one more request may be in flight; return False if `is_over` says so first.

        Raises:
            RunnerError: the share has lapsed, and the ledger cannot be used.
        """
        return super().enter(lambda: self._has_failed() or is_over())

    def _has_failed(self) -> bool:
        if (failure := self._failure) is not None:
            raise failure
        return False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Make one request within the block, as soon as it may be in flight.

        Raises:
            RunnerError: the share has lapsed, and the ledger cannot be used.
        """
        self.enter(lambda: False)
        try:
            yield
        finally:
            self.leave()

    def _beat(self) -> None:
        try:
            while not self._ended.wait(min(_BEAT_S, self._terms.renew_s / 2)):
                self.exchange()
        except BaseException as error:
            # Nobody is to wait for a share that nobody follows.
            self._failure = RunnerError(f"an error of this program: {type(error).__name__}")
            raise

    def exchange(self) -> None:
        """Follow the share, and renew it; to be called a few times a second."""
        try:
            self._exchange()
        except RunnerError as error:
            # The ledger cannot be reached: the share lapses by itself if that lasts.
            self._failure = error if self._is_lapsed else None
        else:
            self._failure = None

    def _exchange(self) -> None:
        if self._entered is None or self._is_lapsed:
            self._granted = 0
            # Requests of a lapsed share are counted with it.
            if self.set_limit(0):
                return
            self._enter()
        if self._entered is None:
            return
        with self._ledger.reading() as connection:
            shares = read_shares(connection, self._budget, *self._entered)
        fair = shares.find_fair(self.most)
        kept = self.set_limit(min(self._granted, fair))
        may_take = self._granted < fair and shares.others + self._granted < self.most
        is_due = self._clock() - self._asked_at >= self._terms.renew_s
        if may_take or kept < self._granted or is_due:
            self._change(self._entered, kept, fair)

    def _enter(self) -> None:
        asked_at, holder = self._clock(), secrets.token_hex(8)
        self._entered = None
        with self._ledger.writing() as connection:
            entered_at = enter_share(connection, self._budget, holder)
        self._entered, self._asked_at = (holder, entered_at), asked_at

    def _change(self, entered: tuple[str, float], kept: int, fair: int) -> None:
        asked_at = self._clock()
        # An error can come after the commit.
        self._granted = kept
        with self._ledger.writing() as connection:
            granted = change_share(connection, self._budget, *entered, kept)
        if granted is None:
            self._entered = None
            self.set_limit(0)
        else:
            self._granted, self._asked_at = granted, asked_at
            self.set_limit(min(granted, fair))
