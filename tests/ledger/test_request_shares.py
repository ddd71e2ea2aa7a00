"""Shares of a budget of requests in flight: never more together than the budget, whatever becomes of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, select, update

from runner.cluster.shared_limit import SharedLimit
from runner.errors import LedgerError
from runner.ledger.database import Ledger
from runner.ledger.locks.partition_lease import LeaseLostError
from runner.ledger.locks.request_shares import RequestBudget, Shares
from runner.ledger.tables import request_shares

if TYPE_CHECKING:
    from collections.abc import Iterator

LAPSE_S, PATIENCE_S = 30.0, 60.0


@given(total=st.integers(1, 1024), tasks=st.integers(1, 600), lost=st.integers(0, 1100))
def test_fair_shares_are_the_whole_budget(total: int, tasks: int, lost: int) -> None:
    """Together they are what is not lost; no task has two more than another, and early ones have the most."""
    shares = [Shares(tasks, before, lost, 0).find_fair(total) for before in range(tasks)]
    assert sum(shares) == max(0, total - lost)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] <= 1


@given(
    total=st.integers(1, 64),
    tasks=st.integers(1, 9),
    before=st.integers(0, 8),
    lost=st.integers(0, 64),
    others=st.integers(0, 64),
    kept=st.integers(0, 64),
)
def test_a_grant_takes_only_what_is_free(
    total: int, tasks: int, before: int, lost: int, others: int, kept: int
) -> None:
    """A task keeps what it needs, gets more only up to its fair part, and only what nobody else has."""
    shares = Shares(tasks, before, lost, others)
    granted = shares.find_grant(total, kept)
    assert granted >= kept
    if granted > kept:
        assert granted <= shares.find_fair(total)
        assert granted + others <= total


class Clock:
    """Seconds of all tasks; the ledger's rows are moved in the place of its clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Task:
    """A task with its limit, and the requests that the service has of it.

    Attributes:
        sent_at: when each of them was sent.
        is_dead: whether it was killed; what it had sent may be open.
    """

    limit: SharedLimit
    sent_at: list[float] = field(default_factory=list)
    is_dead: bool = False


@dataclass(slots=True)
class Tasks:
    """Tasks of one budget that come and go."""

    ledger: Ledger
    total: int
    clock: Clock = field(default_factory=Clock)
    tasks: list[Task] = field(default_factory=list)

    def join(self) -> None:
        """Add a task that enters."""
        budget = RequestBudget("a run", self.total, LAPSE_S, PATIENCE_S)
        self.tasks.append(Task(SharedLimit(self.ledger, budget, self.clock)))
        self.tasks[-1].limit.exchange()

    def start(self, task: Task) -> None:
        """Have a task send as much as it may."""
        while task.limit.enter(lambda: True):
            task.sent_at.append(self.clock.now)

    def end(self, task: Task) -> None:
        """Answer one request."""
        if task.sent_at:
            task.limit.leave()
            task.sent_at.pop(0)

    def pass_time(self, seconds: float) -> None:
        """Let time pass for everyone."""
        self.clock.now += seconds
        columns = request_shares.c
        moved = {name: columns[name] - seconds for name in ("entered_at", "wanted_until", "busy_until")}
        with self.ledger.writing() as connection:
            connection.execute(update(request_shares).values(**moved))
        for task in self.tasks:
            # Nobody waits for an answer for longer.
            while task.sent_at and task.sent_at[0] <= self.clock.now - PATIENCE_S:
                self.end(task)

    def act(self, act: str, task: Task) -> None:
        """Do something with a task."""
        if act == "end":
            self.end(task)
        elif act == "kill":
            task.is_dead = True
        elif task.is_dead:
            return
        elif act == "send":
            self.start(task)
        else:
            task.limit.exchange()

    def settle(self) -> None:
        """Let all requests end, and all tasks look often enough."""
        for task in self.tasks:
            while task.sent_at:
                self.end(task)
        for task in (task for _ in range(2 + len(self.tasks)) for task in self.tasks if not task.is_dead):
            task.limit.exchange()

    def require_within(self) -> None:
        """Make sure that no more than the budget are in flight."""
        assert sum(len(task.sent_at) for task in self.tasks) <= self.total


@pytest.fixture
def shared(postgres_ledger: str) -> Iterator[Ledger]:
    """A ledger on a server."""
    with Ledger(postgres_ledger) as ledger:
        yield ledger


def begin(ledger: Ledger, total: int, count: int) -> Tasks:
    """Return tasks of a new budget."""
    with ledger.writing() as connection:
        connection.execute(delete(request_shares))
    tasks = Tasks(ledger, total)
    for _ in range(count):
        tasks.join()
    return tasks


ACTS = st.one_of(
    st.just(("join", 0)),
    st.tuples(st.just("pass"), st.sampled_from([8, 20, 31, 95])),
    st.tuples(st.sampled_from(["send", "send", "end", "look", "look", "kill"]), st.integers(0, 7)),
)


@pytest.mark.slow
@settings(max_examples=25)
@given(total=st.integers(1, 9), acts=st.lists(ACTS, max_size=40))
def test_no_more_are_in_flight_than_the_budget(
    shared: Ledger, total: int, acts: list[tuple[str, int]]
) -> None:
    """Tasks join, send, stand still, die and come back in any order; later the living have all of it."""
    tasks = begin(shared, total, 2)
    for act, value in acts:
        if act == "join":
            tasks.join()
        elif act == "pass":
            tasks.pass_time(value)
        else:
            tasks.act(act, tasks.tasks[value % len(tasks.tasks)])
        tasks.require_within()
    tasks.join()
    tasks.settle()
    tasks.pass_time(LAPSE_S + PATIENCE_S + 1)
    tasks.settle()
    living = [task.limit.limit for task in tasks.tasks if not task.is_dead]
    assert sum(living) == total
    assert max(living) - min(living) <= 1


def test_a_share_is_given_back_when_requests_have_ended(shared: Ledger) -> None:
    """A task that joins gets nothing of what is in flight; then it gets its half."""
    tasks = begin(shared, 8, 1)
    first = tasks.tasks[0]
    tasks.start(first)
    tasks.join()
    second = tasks.tasks[1]
    first.limit.exchange()
    second.limit.exchange()
    assert (first.limit.limit, second.limit.limit) == (4, 0)
    for _ in range(2):
        tasks.end(first)
    first.limit.exchange()
    second.limit.exchange()
    assert (first.limit.limit, second.limit.limit) == (4, 2)
    for _ in range(2):
        tasks.end(first)
    first.limit.exchange()
    second.limit.exchange()
    assert (first.limit.limit, second.limit.limit) == (4, 4)


def test_what_a_lost_task_had_is_free_after_its_last_answer(shared: Ledger) -> None:
    """Its share lapses, and then its requests may be open for as long as one can take."""
    tasks = begin(shared, 8, 2)
    first, second = tasks.tasks
    for task in (first, second, first):
        task.limit.exchange()
    tasks.start(second)
    found = []
    for seconds in (20.0, 20.0, 20.0, 20.0, 12.0):
        tasks.pass_time(seconds)
        first.limit.exchange()
        found.append(first.limit.limit)
    assert found == [4, 4, 4, 4, 8]
    assert second.limit.limit == 0
    with pytest.raises(LeaseLostError):
        second.limit.require_seen()


def test_nobody_waits_for_a_share_without_a_ledger(shared: Ledger) -> None:
    """When the share has lapsed, and the ledger cannot be asked, those who wait are told so."""
    tasks = begin(shared, 2, 1)
    limit = tasks.tasks[0].limit
    with shared.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE request_shares RENAME TO gone")
    limit.exchange()
    assert limit.wait(lambda: True) == 2
    tasks.clock.now += LAPSE_S
    limit.exchange()
    for wait in (limit.wait, limit.enter):
        with pytest.raises(LedgerError):
            wait(lambda: False)


def test_a_task_that_ends_leaves_nothing_behind(shared: Ledger) -> None:
    """Used as a context manager, it follows its share by itself, and gives it back."""
    budget = RequestBudget("a run", 3, LAPSE_S, PATIENCE_S)
    with SharedLimit(shared, budget, Clock()) as limit, limit.hold():
        assert limit.limit == 3
    with shared.reading() as connection:
        found: Any = connection.execute(select(func.count()).select_from(request_shares)).scalar()
    assert found == 0
