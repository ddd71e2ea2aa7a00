"""Says on which cluster a command works, if on any, and what has to be there for that."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from runner.cli.folders import state_folder
from runner.cluster.address import Address, parse_address
from runner.errors import ConfigurationError, LedgerError
from runner.ledger.database import show_url
from runner.ledger.engine import find_sqlite_file

if TYPE_CHECKING:
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace

_LIBRARIES = ("distributed", "fsspec", "pyarrow")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What a command was told of its cluster.

    Attributes:
        address: where it is.
        scratch: the folder for intermediate files, a path or an fsspec URL: all workers reach it.
    """

    address: Address
    scratch: str


def choose_cluster(scope: Scope, workspace: Workspace | None) -> ClusterSettings | None:
    """Return what a command was told of its cluster; None if it works in this one process.

    Option beats environment beats `targets.yaml`.

    Args:
        scope: the command's options.
        workspace: names target and ledger; None for a command that uses neither.

    Raises:
        UsageError: the address is none.
        ConfigurationError: what clusters need is not installed.
        LedgerError: only this machine can reach the ledger.
    """
    text = scope.cluster or (workspace.target.cluster if workspace is not None else None)
    if text is None:
        return None
    address = parse_address(text)
    if any(find_spec(library) is None for library in _LIBRARIES):
        raise ConfigurationError(
            "--cluster needs Dask, fsspec and PyArrow, which are not installed",
            hint="pip install 'sms-campaign-runner[cluster]'",
        )
    if workspace is not None:
        _require_shared(workspace.ledger_url)
    return ClusterSettings(address, scope.scratch or str(state_folder() / "cluster"))


def _require_shared(ledger_url: str) -> None:
    if find_sqlite_file(ledger_url) is not None:
        raise LedgerError(
            f"a cluster needs a ledger that all of its workers share, and {show_url(ledger_url)} is a file "
            "that only this machine can reach",
            hint="set RUNNER_LEDGER=postgresql://…, or leave out --cluster",
        )
