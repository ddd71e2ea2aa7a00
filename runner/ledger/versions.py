"""The versions of the ledger's tables: what each has added to those before."""

from __future__ import annotations

from runner.ledger.cluster_tables import cluster_runs, cluster_terms, partition_leases
from runner.ledger.open_launches import CLOSE_LAUNCHES
from runner.ledger.tables import (
    audiences,
    campaign_pauses,
    deliveries,
    dismissed_launches,
    first_names,
    forgotten_people,
    forgotten_results,
    launch_arms,
    launch_differences,
    launch_starts,
    launch_stats,
    launches,
    lockfile_marks,
    locks,
    message_names,
    opt_ins,
    opt_outs,
    reservations,
    reserved_launches,
    result_revisions,
    results,
    runs,
    service_plans,
    sessions,
    target_keys,
    told_holds,
)

SCHEMA_VERSION = 9

TABLES_SINCE = {
    2: (locks, first_names, message_names),
    3: (target_keys, opt_outs, forgotten_results, forgotten_people, launch_arms),
    4: (launch_starts, audiences, service_plans),
    5: (runs, reservations, reserved_launches, result_revisions),
    6: (lockfile_marks, cluster_runs, cluster_terms, partition_leases),
    7: (dismissed_launches, launch_differences),
    8: (campaign_pauses, told_holds, opt_ins),
    9: (sessions,),
}
"""The tables that a version of the schema has added."""

COLUMNS_SINCE = {
    4: (results.c.revision,),
    5: (launches.c.run,),
    6: (launches.c.mark,),
    9: (launches.c.is_open, deliveries.c.has_ended),
}
"""The columns that a version of the schema has added to tables that were there."""

RELAXED_SINCE = {7: (launch_stats,)}
"""The tables some of whose columns may be null since a version of the schema."""

FILLED_SINCE = {9: (CLOSE_LAUNCHES,)}
"""The statements that fill such columns of the rows that were there."""
