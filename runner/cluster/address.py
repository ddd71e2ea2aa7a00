"""Where a cluster is: the address of a Dask scheduler, or how many worker processes to start here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.errors import UsageError

_LOCAL = re.compile(r"local:([1-9]\d{0,2})")
_SCHEDULER = re.compile(r"(?:tcp|tls)://(?:\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):(\d{1,5})")
_MOST_PORTS = 65_535
LEDGER = "RUNNER_LEDGER"
"""The environment variable in which workers find the ledger's URL, which may hold a password."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster is.

    Attributes:
        text: as it was written.
        workers: processes to start on this machine; None for a scheduler that runs somewhere.
    """

    text: str
    workers: int | None = None


def parse_address(text: str) -> Address:
    """Return an address in parts.

    Args:
        text: `local:N`, or a scheduler's address: `tcp://host:port` or `tls://host:port`.

    Raises:
        UsageError: it is neither.
    """
    if local := _LOCAL.fullmatch(text):
        return Address(text, int(local[1]))
    scheduler = _SCHEDULER.fullmatch(text)
    if scheduler is None or not 0 < int(scheduler[1]) <= _MOST_PORTS:
        raise UsageError(
            f"{text!r} is no address of a cluster",
            hint="local:4 for four worker processes on this machine, or a Dask scheduler's, as in "
            "tcp://10.0.0.5:8786; check --cluster and RUNNER_CLUSTER",
        )
    return Address(text)
