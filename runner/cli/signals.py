"""Interrupts: the first one ends a command in order, the second one at once."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.errors import InterruptedRunError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from types import FrameType

    Handler = Callable[[int, FrameType | None], None]

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
_STOPPING = b"Stopping: waiting for the sends in flight. Once more ends at once.\n"


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, and a second one end the process.

    A process that ends at once loses nothing: what has an intent and no outcome counts as unknown.
    """
    is_ending = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_ending:
            os._exit(InterruptedRunError.exit_code)
        is_ending = True
        raise KeyboardInterrupt

    with _handling_signals(handle):
        yield


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGINT and SIGTERM set `stop`, and a second one end the process, as `raise_on_signals` does."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(InterruptedRunError.exit_code)
        stop.set()
        # Past the stream: the signal may have come amid a write to it, which cannot be begun twice.
        os.write(_STDERR, _STOPPING)

    with _handling_signals(handle):
        yield


def end_on_signals(code: int) -> None:
    """Let SIGINT and SIGTERM end the process with the exit code of what is done, while it shuts down."""
    for number in _NUMBERS:
        signal.signal(number, lambda _number, _frame: os._exit(code))


def interrupt_run() -> InterruptedRunError:
    """Return what a run raises that was told to stop, once it has recorded what it sent."""
    return InterruptedRunError(
        "interrupted; everything that was sent is recorded",
        hint="run the same command again to send the rest",
    )


def show_interrupt() -> int:
    """Write to standard error that the command was interrupted, and return its exit code."""
    # A terminal has just shown ^C, and not ended its line.
    sys.stderr.write("\nInterrupted.\n" if sys.stderr.isatty() else "Interrupted.\n")
    return InterruptedRunError.exit_code


@contextmanager
def _handling_signals(handle: Handler) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
