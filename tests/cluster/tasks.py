"""Functions that tests have called on a cluster's workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from distributed import get_worker

from runner.errors import LimitError, RunLockedError

if TYPE_CHECKING:
    from collections.abc import Mapping


def find_nothing(_worker: str) -> None:
    """Find a worker to be fit."""


def square(number: int) -> int:
    return number * number


def say_process() -> int:
    return os.getpid()


def read_variable(name: str) -> str | None:
    return os.environ.get(name)


def set_variables(values: Mapping[str, str]) -> None:
    """Put variables into a worker's environment, as who runs the workers would have."""
    os.environ.update(values)


def refuse(message: str, hint: str | None) -> None:
    raise LimitError(message, hint=hint)


def divide_by_zero(phone: str) -> float:
    return len(phone) / 0


def say_name() -> str:
    """Return the name that Dask knows the call by."""
    return str(get_worker().get_current_task())


def write_nowhere(folder: str, number: int) -> int:
    """Write a file whose folder is missing on every worker, or, with a mark in it, on the first alone."""
    mark = Path(folder) / "mark"
    if number and mark.exists() and mark.read_text() != str(os.getpid()):
        return number
    mark.write_text(str(os.getpid()))
    Path(folder, "missing", "+14155550101").touch()
    return number


def hold(started: str, go_on: str) -> int:
    """Say that a call has begun, by a file of its own, and wait for another file."""
    mark = Path(started) / f"{os.getpid()}-{time.monotonic_ns()}"
    mark.touch()
    while not Path(go_on).exists():
        time.sleep(0.02)
    return os.getpid()


def die_first(mark: str, number: int) -> int:
    """Kill the worker on the first call of all, and answer on every other."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return number
    os.kill(os.getpid(), signal.SIGKILL)
    raise RunLockedError("never reached")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
