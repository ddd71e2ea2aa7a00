"""Shares of a budget of requests in flight, which follow tasks as they come and go. PostgreSQL only.

Each task of a command has a row with the requests that it may have in flight. It enters with none, takes
what is free up to its fair share, and gives back what is more than that, after its requests are fewer. So the
sum is never above the budget.

A share lapses unless it is renewed: its task may have died, or stand still. Its last request left before
that, and nobody waits for an answer longer than the timeouts: only then is the share free for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import delete, func, insert, select, tuple_, update

from runner.ledger.locks.cluster_run import SERVER_NOW, set_locally
from runner.ledger.tables import request_shares

if TYPE_CHECKING:
    from sqlalchemy import Connection

_IDLE_S = 2.0
"""The longest that a task which stands still can keep others from changing their shares, in seconds."""


@dataclass(frozen=True, slots=True)
class RequestBudget:
    """The most requests in flight of all tasks of one command.

    Attributes:
        name: a name that no other command has.
        total: the requests, at least 1.
        lapse_s: seconds after which a share that is not renewed has lapsed.
        patience_s: the longest that one request takes, in seconds.
    """

    name: str
    total: int
    lapse_s: float
    patience_s: float


class Shares(NamedTuple):
    """The shares of a budget as one of its tasks sees them.

    Attributes:
        tasks: tasks that want a share, with this one.
        before: those of them that have been there for longer.
        lost: requests that lapsed shares may still have in flight.
        others: requests that all other tasks may have in flight, with the lost ones.
    """

    tasks: int
    before: int
    lost: int
    others: int

    def find_fair(self, total: int) -> int:
        """Return this task's part of a budget; those who have been there longest get what is left over."""
        part, left = divmod(max(0, total - self.lost), max(1, self.tasks))
        return part + (self.before < left)

    def find_grant(self, total: int, kept: int) -> int:
        """Return the requests that this task may have in flight, if it needs `kept` of those that it had."""
        wanted, free = self.find_fair(total) - kept, total - self.others - kept
        return kept + max(0, min(wanted, free))


def enter_share(connection: Connection, budget: RequestBudget, holder: str) -> float:
    """Enter a task that has no requests in flight; return the time, which tells tasks' order.

    `holder` is a name that no other task of the budget has had. Rows of the past are removed.
    """
    columns = request_shares.c
    past = select(columns.budget, columns.holder).where(columns.busy_until < SERVER_NOW)
    removed = delete(request_shares).where(
        tuple_(columns.budget, columns.holder).in_(past.with_for_update(skip_locked=True))
    )
    connection.execute(removed)
    values = {"budget": budget.name, "holder": holder, "entered_at": SERVER_NOW, "granted": 0}
    entered = insert(request_shares).values(**values, **_renewed(budget))
    return float(connection.execute(entered.returning(columns.entered_at)).scalar_one())


def read_shares(connection: Connection, budget: RequestBudget, holder: str, entered_at: float) -> Shares:
    """Return the shares of a budget as a task sees them that entered at `entered_at`."""
    columns = request_shares.c
    is_wanted = columns.wanted_until > SERVER_NOW
    is_earlier = tuple_(columns.entered_at, columns.holder) < tuple_(entered_at, holder)
    is_busy = columns.busy_until > SERVER_NOW
    row = connection.execute(
        select(
            func.count().filter(is_wanted),
            func.count().filter(is_wanted & is_earlier),
            func.coalesce(func.sum(columns.granted).filter(~is_wanted & is_busy), 0),
            func.coalesce(func.sum(columns.granted).filter((columns.holder != holder) & is_busy), 0),
        ).where(columns.budget == budget.name)
    ).one()
    return Shares(*map(int, row))


def find_lost(connection: Connection, name: str) -> tuple[int, float]:
    """Return the requests that lapsed shares may have in flight, and seconds until all are free."""
    columns = request_shares.c
    is_lost = (columns.wanted_until <= SERVER_NOW) & (columns.busy_until > SERVER_NOW)
    count, left_s = connection.execute(
        select(
            func.coalesce(func.sum(columns.granted), 0),
            func.coalesce(func.max(columns.busy_until) - SERVER_NOW, 0),
        ).where(columns.budget == name, is_lost, columns.granted > 0)
    ).one()
    return int(count), float(left_s)


def change_share(
    connection: Connection, budget: RequestBudget, holder: str, entered_at: float, kept: int
) -> int | None:
    """Renew a share, and let a task have more up to its fair part, or less: at least `kept`.

    Returns the requests that it may have in flight; None if the share has lapsed. The caller has made sure
    that no more than `kept` are in flight, and are not before it has the answer.
    """
    # A task that stood still here would keep all others from it.
    set_locally(connection, "idle_in_transaction_session_timeout", str(round(_IDLE_S * 1000)))
    # Taking turns, without waiting for one: there is another chance at the next heartbeat.
    turn = func.pg_try_advisory_xact_lock(func.hashtextextended(budget.name, 0))
    granted = kept
    if connection.execute(select(turn)).scalar():
        granted = read_shares(connection, budget, holder, entered_at).find_grant(budget.total, kept)
    columns = request_shares.c
    own = (columns.budget == budget.name, columns.holder == holder, columns.wanted_until > SERVER_NOW)
    renewed = update(request_shares).where(*own).values(granted=granted, **_renewed(budget))
    return granted if connection.execute(renewed).rowcount == 1 else None


def leave_share(connection: Connection, budget: RequestBudget, holder: str) -> None:
    """Give back the share of a task that has nothing in flight, and ends."""
    columns = request_shares.c
    own = (columns.budget == budget.name, columns.holder == holder)
    connection.execute(delete(request_shares).where(*own))


def _renewed(budget: RequestBudget) -> dict[str, object]:
    return {
        "wanted_until": SERVER_NOW + budget.lapse_s,
        "busy_until": SERVER_NOW + budget.lapse_s + budget.patience_s,
    }
