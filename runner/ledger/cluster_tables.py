"""The tables by which the processes of one `apply` on a cluster keep together; of use on PostgreSQL alone.

Their moments are seconds since 1970 on the database's clock: the one clock that all of them can ask.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, ForeignKey, Integer, Table

from runner.ledger.column_types import LedgerString, LedgerText
from runner.ledger.tables import metadata

# One campaign of an `apply` that is under way. `round` is the one whose tasks may take leases.
cluster_runs = Table(
    "cluster_runs",
    metadata,
    Column("id", LedgerString, primary_key=True),
    Column("round", Integer, nullable=False),
    Column("coordinator_until", Double, nullable=False),  # when the client's own lease ends
    Column("next_slot", Double, nullable=False),  # the first moment to send at that nobody has
    Column("paused_until", Double, nullable=False),
    Column("failures", Integer, nullable=False),  # in a row, over all tasks
    Column("stopped", Boolean, nullable=False),
    Column("final_status", Integer),
    Column("final_detail", LedgerText),  # of the answer that every further send would get, too
)

# Under which names, and in which terms, the client of a run holds the lock of its campaign (`locks`).
cluster_terms = Table(
    "cluster_terms",
    metadata,
    Column("run_id", LedgerString, ForeignKey("cluster_runs.id"), primary_key=True),
    Column("target", LedgerString, primary_key=True),
    Column("campaign", LedgerString, primary_key=True),
    Column("term", Integer, nullable=False),
)

# Who may send a partition of a run. `lease_term` numbers the holders; `holder` is null once it let go.
partition_leases = Table(
    "partition_leases",
    metadata,
    Column("run_id", LedgerString, ForeignKey("cluster_runs.id"), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("lease_term", Integer, nullable=False),
    Column("holder", LedgerText),
    Column("expires_at", Double, nullable=False),
    Column("recipients", Integer, nullable=False),  # that have an outcome: for progress alone
)
