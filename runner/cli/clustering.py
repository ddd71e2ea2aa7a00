"""Says on which cluster a command works, if on any, and what has to be there for that."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from runner.cli.folders import make_state_folder, state_folder
from runner.cluster.address import LEDGER, Address, parse_address
from runner.errors import ConfigurationError, LedgerError
from runner.service.target import list_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.cluster.engine import Cluster
    from runner.cluster.folder import SharedFolder

_LIBRARIES = ("distributed", "fsspec", "pyarrow")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What a command was told of its cluster.

    Attributes:
        address: where it is.
        scratch: `--scratch` or RUNNER_SCRATCH, if given: a folder for intermediate files.
    """

    address: Address
    scratch: str | None


def choose_cluster(scope: Scope, workspace: Workspace | None) -> ClusterSettings | None:
    """Return what a command was told of its cluster; None if it works in this one process.

    Option beats environment beats `targets.yaml`.

    Args:
        scope: the command's options.
        workspace: names target and ledger; None for a command that uses neither.

    Raises:
        UsageError: the address is none.
        ConfigurationError: what clusters need is not installed, or the address is an unsafe one.
        LedgerError: only this machine can reach the ledger.
    """
    text = scope.cluster or (workspace.target.cluster if workspace is not None else None)
    if text is None:
        return None
    address = parse_address(text, insecure=scope.insecure_cluster)
    if any(find_spec(library) is None for library in _LIBRARIES):
        raise ConfigurationError(
            "--cluster needs Dask, fsspec and PyArrow, which are not installed",
            hint="pip install 'sms-campaign-runner[cluster]'",
        )
    if workspace is not None:
        _require_shared(workspace.ledger_url)
    return ClusterSettings(address, scope.scratch)


@contextmanager
def open_chosen_cluster(
    settings: ClusterSettings, workspace: Workspace | None, secrets: Mapping[str, str] | None = None
) -> Iterator[tuple[Cluster, SharedFolder]]:
    """Connect to a cluster while the block lasts, with a new folder for intermediate files.

    Its workers have been seen to be of this version, to have the target's secrets and the ledger's URL in
    their environment, and to reach the folder. It is removed at the end; so are those that killed runs have
    left, where they can be told.

    Args:
        settings: by `choose_cluster`.
        workspace: names target and ledger; None for a command that uses neither.
        secrets: what is not in this process's environment: the credentials of the embedded sandbox.

    Raises:
        RunnerError: there is no such cluster, or one of its workers would not do as this process does.
    """
    # Imported here: only those who have a cluster pay for it, and have it installed.
    from runner.cluster.connection import open_cluster
    from runner.cluster.scratch import open_scratch
    from runner.cluster.worker_check import check_workers

    if settings.scratch is None:
        make_state_folder()
    scratch = settings.scratch or str(state_folder() / "cluster")
    environment = {**_list_needed(workspace), **(secrets or {})}
    given = {name: value for name, value in environment.items() if value is not None}
    with open_scratch(scratch) as folder, open_cluster(settings.address, given) as cluster:
        check_workers(cluster, folder, tuple(environment), given)
        yield cluster, folder


def _list_needed(workspace: Workspace | None) -> dict[str, str | None]:
    """Return what workers read from their environment, by variable; None for what is not set here."""
    if workspace is None:
        return {}
    names = list_variables(workspace.target.name, workspace.targets)
    return {LEDGER: workspace.ledger_url, **{name: os.environ.get(name) or None for name in names}}


def _require_shared(ledger_url: str) -> None:
    # Imported here: `validate` opens no ledger, and starts in half the time without.
    from runner.ledger.database import show_url
    from runner.ledger.engine import find_sqlite_file

    if find_sqlite_file(ledger_url) is not None:
        raise LedgerError(
            f"a cluster needs a ledger that all of its workers share, and {show_url(ledger_url)} is a file "
            "that only this machine can reach",
            hint="set RUNNER_LEDGER=postgresql://…, or leave out --cluster",
        )
