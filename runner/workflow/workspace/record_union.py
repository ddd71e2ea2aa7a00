"""Versions of any record file, compared and united: lockfiles, suppressions and approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.files.comparison import lacks_lines, unite_files
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.plan.approval import ENDING as APPROVALS_SUFFIX
from runner.plan.approval import lacks_approvals, unite_approvals
from runner.service.target import (
    STATE_KEY,
    TargetsProblemError,
    find_key_variable,
    read_state_key,
    read_targets,
)
from runner.workflow.campaigns import find_targets_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path, PurePath

RECORD_ENDINGS = (LOCKFILE_SUFFIX, SUPPRESSIONS_SUFFIX, APPROVALS_SUFFIX)
"""The endings of files that commands write."""


def name_target(file: PurePath) -> str:
    """Return the name of the target that a record file is of."""
    ending = next(ending for ending in RECORD_ENDINGS if file.name.endswith(ending))
    return file.name.removesuffix(ending).rpartition(".")[2]


def unite_records(file: Path, ours: str, theirs: str, find_secret: Callable[[], str | None]) -> str:
    """Return the union of two versions of a record file; `find_secret` returns the target's state key.

    Raises:
        RunnerError: one of them is damaged, or they contradict each other.
    """
    if file.name.endswith(APPROVALS_SUFFIX):
        return unite_approvals(file.name.removesuffix(APPROVALS_SUFFIX), ours, theirs)
    return unite_files(file, ours, theirs, find_secret)


def lacks_records(file: Path, before: str, after: str, find_secret: Callable[[], str | None]) -> bool:
    """Return whether one version of a record file, `after`, lacks something of another.

    Raises:
        RunnerError: one of them is damaged.
    """
    if file.name.endswith(APPROVALS_SUFFIX):
        return lacks_approvals(before, after)
    return lacks_lines(file, before, after, find_secret)


def secret_of(file: Path, environment: Mapping[str, str]) -> Callable[[], str | None]:
    """Return a function that returns the secret of a record file's target."""
    return lambda: find_secret(file, name_target(file), environment)


def find_secret(file: Path, target: str, environment: Mapping[str, str]) -> str | None:
    """Return the state key of a target, or None; campaigns near the file have the `targets.yaml`."""
    try:
        variable, _ = find_key_variable(target, read_targets(find_targets_file((file,)), environment))
    except TargetsProblemError:
        return None
    return read_state_key(environment, variable or STATE_KEY)
