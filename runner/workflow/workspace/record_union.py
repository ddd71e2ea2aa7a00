"""Versions of any record file, compared and united: lockfiles, suppressions and approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.files.comparison import lacks_lines, unite_files
from runner.ledger.files.lockfile import LOCKFILE_SUFFIX
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.plan.approval import ENDING as APPROVALS_SUFFIX
from runner.plan.approval import lacks_approvals, unite_approvals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORD_ENDINGS = (LOCKFILE_SUFFIX, SUPPRESSIONS_SUFFIX, APPROVALS_SUFFIX)
"""The endings of files that commands write."""


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
