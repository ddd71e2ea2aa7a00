"""The cluster of a command, and its requirements."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from runner.cluster.address import Address, parse_address
from runner.errors import ConfigurationError, UsageError, write_install_hint
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
    return ClusterSettings(address, scope.scratch)


@contextmanager
def open_chosen_cluster(
    settings: ClusterSettings, workspace: Workspace
) -> Iterator[tuple[Cluster, SharedFolder]]:
    """Connect to a cluster while the block lasts, with a new folder for intermediate files.

    Only workers with the same version and state key, and access to the folder, are used. It is removed at the
    end, like known folders of killed runs.
    """
    # Imported here: optional, and slow to import.
    from runner.cluster.dask_connection import check_workers, open_cluster
    from runner.cluster.folder import open_scratch

    scratch = settings.scratch or make_state_folder() / "cluster"
    # Workers plan: they need no credentials of the service, and no ledger.
    variable = list_variables(workspace.target.name, workspace.targets)[-1]
    secret = workspace.environ.get(variable)
    given = {variable: secret} if secret else {}
    with open_scratch(scratch) as folder, open_cluster(settings.address, given) as cluster:
        check_workers(cluster, folder, workspace.key, variable)
        yield cluster, folder
