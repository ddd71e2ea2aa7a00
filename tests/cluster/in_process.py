"""Calls made in this process, by way of the bytes that would go to another one."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

from runner.cluster.address import make_call, pack_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Result = TypeVar("_Result")


class InProcess:
    """What a cluster does, without one."""

    slots = 2

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Call a function with each of several arguments, the last first."""
        waiting = list(enumerate(arguments))
        for place, each in reversed(waiting):
            outcome = pickle.loads(pickle.dumps(make_call(pack_call(task, each))))  # noqa: S301
            if outcome.error is not None:
                raise outcome.error
            yield place, outcome.value
