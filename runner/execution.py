"""Calls of functions with many arguments: one after the other here, or several at a time elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Result = TypeVar("_Result")


class Executor(Protocol):
    """Calls functions: in this process, or on a cluster."""

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Call a function with each of several arguments, and yield places and results as they come."""
        ...


class LocalExecutor:
    """An executor in this process, which makes each call when its result is asked for."""

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Call a function with each of several arguments, in order."""
        for place, each in enumerate(arguments):
            yield place, task(*each)
