"""Where a run keeps what belongs to this machine alone."""

from __future__ import annotations

from pathlib import Path

from runner.source.confine import repository_root


def state_folder() -> Path:
    """Return the `.runner` folder of the repository that the current folder is in.

    It holds the ledger and the sandbox's database. It may not exist yet.
    """
    return repository_root(Path.cwd()) / ".runner"


def sandbox_database() -> Path:
    """Return the database of the embedded sandbox."""
    return state_folder() / "sandbox" / "service.sqlite"
