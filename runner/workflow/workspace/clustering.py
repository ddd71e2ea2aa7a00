"""The cluster of a command, and its requirements."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from runner.cluster.address import LEDGER, Address, parse_address
from runner.errors import ConfigurationError, LedgerError, UsageError, write_install_hint
from runner.service.target import list_variables
from runner.workflow.workspace.folders import make_state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.cluster.dask_engine import Cluster
    from runner.cluster.folder import SharedFolder
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.workspace import Workspace

_LIBRARIES = ("distributed", "fsspec")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The address of a command's cluster, and its folder for intermediate files, if given."""

    address: Address
    scratch: str | None


def choose_cluster(scope: Scope, workspace: Workspace, limit: int | None) -> ClusterSettings | None:
    """Return the cluster that plans, without a limit of recipients; None for a single process.

    Options override the environment, which overrides `targets.yaml`.
    """
    text = scope.cluster or workspace.target.cluster
    if text is None:
        return None
    address = parse_address(text, insecure=scope.insecure_cluster)
    if limit is not None:
        raise UsageError(
            "--limit goes by the order of the whole audience, which a cluster does not know",
            hint="leave out --limit, or plan in one process, without --cluster",
        )
    if any(find_spec(library) is None for library in _LIBRARIES):
        raise ConfigurationError(
            "--cluster needs Dask and fsspec, which are not installed",
            hint=write_install_hint("cluster"),
        )
    _require_shared(workspace.ledger_url)
    return ClusterSettings(address, scope.scratch)


@contextmanager
def open_chosen_cluster(
    settings: ClusterSettings, workspace: Workspace
) -> Iterator[tuple[Cluster, SharedFolder]]:
    """Connect to a cluster while the block lasts, with a new folder for intermediate files.

    Only workers with the same version, secrets and ledger URL, and access to the folder, are used. It is
    removed at the end, like known folders of killed runs.
    """
    # Imported here: optional, and slow to import.
    from runner.cluster.dask_connection import check_workers, open_cluster
    from runner.cluster.folder import open_scratch

    scratch = settings.scratch or make_state_folder() / "cluster"
    # Workers plan: they need no credentials of the service.
    state_key = list_variables(workspace.target.name, workspace.targets)[-1]
    given = {LEDGER: workspace.ledger_url}
    if secret := workspace.environ.get(state_key):
        given[state_key] = secret
    with open_scratch(scratch) as folder, open_cluster(settings.address, given) as cluster:
        check_workers(cluster, folder, (LEDGER, state_key), given)
        yield cluster, folder


def _require_shared(ledger_url: str) -> None:
    # Imported here: `validate` opens no ledger, and starts twice as fast without it.
    from runner.ledger.database import find_sqlite_file, show_url

    if find_sqlite_file(ledger_url) is not None:
        raise LedgerError(
            f"a cluster needs a ledger that all of its workers share, and {show_url(ledger_url)} is a file "
            "that only this machine can reach",
            hint="set RUNNER_LEDGER=postgresql://…, or leave out --cluster",
        )
