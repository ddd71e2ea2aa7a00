"""Begins a run: in this process, or on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.cli.clustering import choose_cluster
from runner.cli.delivery import DeliveryRun
from runner.cli.failures import Failures
from runner.errors import UsageError

if TYPE_CHECKING:
    from runner.cli.campaign_run import RunOptions
    from runner.cli.clustering import ClusterSettings
    from runner.cli.saved import SavedPlan
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.ledger.database import Ledger


def refuse_state_remote(scope: Scope) -> None:
    """Refuse two ways of sharing the record at once.

    Raises:
        UsageError: both are named.
    """
    if scope.cluster is not None and scope.state_remote:
        raise UsageError(
            "--state-remote doesn't go with --cluster: the ledger is what all machines share",
            hint="leave out --state-remote, and unset RUNNER_STATE_REMOTE",
        )


def choose_run_cluster(scope: Scope, workspace: Workspace, saved: SavedPlan | None) -> ClusterSettings | None:
    """Return the cluster that a run is to send with; None if it sends from this process.

    Args:
        scope: the command's options.
        workspace: where to send.
        saved: the plan to send, if one was named.

    Raises:
        UsageError: the plan, or the state remote, doesn't go with that.
        RunnerError: the cluster cannot be used.
    """
    cluster = choose_cluster(scope, workspace)
    if cluster is None and saved is not None and saved.plan_set is not None:
        raise UsageError(f"{saved.file} is a plan set: it is sent with --cluster")
    if cluster is not None:
        refuse_state_remote(replace(scope, cluster=cluster.address.text))
    return cluster


def start_run(
    workspace: Workspace,
    ledger: Ledger,
    options: RunOptions,
    cluster: ClusterSettings | None,
    lease_s: float,
    saved: SavedPlan | None,
) -> DeliveryRun:
    """Return a run, to be used as a context manager.

    Args:
        workspace: where to send.
        ledger: open for writing.
        options: how to go about it.
        cluster: what sends; None for this process.
        lease_s: how long a worker's hold on a partition lasts unless it is renewed, in seconds.
        saved: the plan to send, if one was named.
    """
    if cluster is None:
        return DeliveryRun(workspace, ledger, options, Failures())
    # Imported here: only those who use a cluster have, and pay for, what it takes.
    from runner.cli.cluster_delivery import ClusterDelivery, ClusterOptions

    own = ClusterOptions(cluster, lease_s, saved.plan_set if saved else None)
    return ClusterDelivery(workspace, ledger, options, Failures(), own)
