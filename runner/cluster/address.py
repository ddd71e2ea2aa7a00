"""Addresses of clusters, and calls of functions on other machines."""

from __future__ import annotations

import pickle
import re
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.errors import ConfigurationError, RunnerError, StorageError, UsageError
from runner.service.target import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable


_LOCAL = re.compile(r"local:([1-9]\d{0,2})")
_SCHEDULER = re.compile(
    r"(?P<scheme>tcp|tls)://(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s/@:\[\]]+)):(?P<port>\d{1,5})"
)
_MOST_PORTS = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a cluster.

    `workers` are processes to start on this machine, None for a scheduler.
    """

    text: str
    workers: int | None = None


def parse_address(text: str, *, insecure: bool = False) -> Address:
    """Return an address: `local:N`, or a scheduler's `tcp://host:port` or `tls://host:port`.

    Processes on this machine have certificates of their own.
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


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a call.

    Attributes:
        value: the result.
        error: the reason for a failure, else None.
    """

    value: Any = None
    error: RunnerError | None = None


def pack_call(task: Callable[..., object], arguments: tuple[Any, ...]) -> bytes:
    """Return a call as bytes that are opaque on the way."""
    return pickle.dumps((task, arguments))


def make_call(packed: bytes, *first: object) -> TaskOutcome:
    """Make a call from `pack_call`, which needs the same version of this program; `first` are more arguments.

    Failures are returned, since a library might log raised ones together with the arguments.
    """
    try:
        # Dask's trust model: callers can run any code.
        task, arguments = pickle.loads(packed)  # noqa: S301
        return TaskOutcome(task(*first, *arguments))
    except RunnerError as error:
        return TaskOutcome(error=error)
    except Exception as error:  # noqa: BLE001  the boundary at which errors of tasks become values
        return TaskOutcome(error=_describe_storage(error) or _describe_bug(error))


def _describe_storage(error: Exception) -> StorageError | None:
    """Return a failure of files as an error, in words that hold no data; None if it is something else."""
    if not isinstance(error, OSError):
        return None
    return StorageError(
        f"a file cannot be read or written: {error.strerror or type(error).__name__}",
        hint="check the disk, and the access to the scratch folder, of that worker",
    )


def _describe_bug(error: Exception) -> RunnerError:
    # Without the error's own words, which may hold personal data.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}"
    return RunnerError(
        f"a task failed on the cluster: {type(error).__name__} at {place}",
        hint="what was sent is recorded; if it fails again, please report it with this line",
    )
