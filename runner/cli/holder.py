"""Who this run is, for others that meet its lock."""

from __future__ import annotations

import os
import socket

from runner.ledger.lock import LockHolder, find_run_url


def describe_this_run(since: str) -> LockHolder:
    """Return host, process and, in CI, the address of the job's page.

    Args:
        since: when the lock was taken; UTC, ISO 8601.
    """
    return LockHolder(socket.gethostname(), os.getpid(), find_run_url(os.environ), since)
