"""Calls on each worker of a cluster, for tests that have to know or change a process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from runner.cluster.address import TaskOutcome, make_call, pack_call
from runner.cluster.dask_engine import LOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.cluster.dask_engine import Cluster

_PATIENCE_S = 100.0
_Result = TypeVar("_Result")


def ask_workers(cluster: Cluster, task: Callable[..., _Result], *arguments: Any) -> dict[str, _Result]:
    """Call a function once on each worker, and return the results by address; lost workers are asked anew."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        # Waits until there are workers.
        assert cluster._require_workers()  # noqa: SLF001  as below
        answers = cluster._client.run(make_call, pack_call(task, arguments), on_error="return")  # noqa: SLF001  tests alone ask so
        if not any(isinstance(answer, LOST) for answer in answers.values()):
            return {worker: _open(outcome) for worker, outcome in answers.items()}
        time.sleep(0.1)
    raise TimeoutError


def _open(outcome: TaskOutcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return outcome.value
