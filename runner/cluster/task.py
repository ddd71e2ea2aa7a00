"""A call that is made elsewhere: what goes there, and what comes back."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from runner.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_Result = TypeVar("_Result")


class Workers(Protocol):
    """Who calls functions: a cluster, as `runner.cluster.engine` has it."""

    @property
    def slots(self) -> int:
        """How many calls can be made at once."""
        ...

    def run(
        self, task: Callable[..., _Result], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, _Result]]:
        """Have a function called with each of several arguments, and yield what comes back as it comes."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call.

    Attributes:
        value: what it returned.
        error: why it failed; None if it did not.
    """

    value: Any = None
    error: RunnerError | None = None


def pack_call(task: Callable[..., object], arguments: tuple[Any, ...]) -> bytes:
    """Return a call as bytes that nobody on the way looks into."""
    return pickle.dumps((task, arguments))


def make_call(packed: bytes) -> Outcome:
    """Make a call. What fails is returned, so that no library logs it with all that it was about.

    Args:
        packed: by `pack_call`, on a machine with the same version of this program.
    """
    try:
        task, arguments = pickle.loads(packed)  # noqa: S301  Dask's own trust: whoever can call, can run code
        return Outcome(task(*arguments))
    except RunnerError as error:
        return Outcome(error=error)
    except Exception as error:  # noqa: BLE001  the boundary at which errors of tasks become values
        return Outcome(error=_describe_bug(error))


def _describe_bug(error: Exception) -> RunnerError:
    # Without the error's own words: its values could give away whom a task was about.
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno} in {frame.name}"
    return RunnerError(
        f"a task failed on the cluster: {type(error).__name__} at {place}",
        hint="what was sent is recorded; if it fails again, please report it with this line",
    )
