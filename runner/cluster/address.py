"""Where a cluster is: the address of a Dask scheduler, or how many worker processes to start here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.errors import ConfigurationError, UsageError
from runner.service.target import is_loopback

_LOCAL = re.compile(r"local:([1-9]\d{0,2})")
_SCHEDULER = re.compile(
    r"(?P<scheme>tcp|tls)://(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s/@:\[\]]+)):(?P<port>\d{1,5})"
)
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


def parse_address(text: str, *, insecure: bool = False) -> Address:
    """Return an address in parts.

    Args:
        text: `local:N`, or a scheduler's address: `tcp://host:port` or `tls://host:port`.
        insecure: whether `tcp://` may lead to another machine.

    Raises:
        UsageError: it is neither.
        ConfigurationError: it is another machine's, without TLS.
    """
    if local := _LOCAL.fullmatch(text):
        return Address(text, int(local[1]))
    scheduler = _SCHEDULER.fullmatch(text)
    if scheduler is None or not 0 < int(scheduler["port"]) <= _MOST_PORTS:
        raise UsageError(
            f"{text!r} is no address of a cluster",
            hint="local:4 for four worker processes on this machine, or a Dask scheduler's, as in "
            "tls://10.0.0.5:8786; check --cluster and RUNNER_CLUSTER",
        )
    is_plain = scheduler["scheme"] == "tcp"
    if is_plain and not insecure and not is_loopback(scheduler["ipv6"] or scheduler["host"]):
        raise ConfigurationError(
            f"the cluster {text} is on another machine and has no TLS: anybody who reaches its port can run "
            "code where the secrets are",
            hint="start scheduler and workers with TLS and say tls://…; or, on a network that is closed to "
            "all others, say --insecure-cluster or RUNNER_INSECURE_CLUSTER=1",
        )
    return Address(text)
