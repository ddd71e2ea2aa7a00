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

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
_STOPPING = "Stopping: waiting for the sends in flight. A second interrupt stops at once."


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, and a second one end the process.

    A process that ends at once loses nothing: an intent without an outcome counts as unknown.
    """
    with _handling_signals(_raise):
        yield


def _raise() -> None:
    raise KeyboardInterrupt


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGINT and SIGTERM set `stop`, and a second one end the process, as `raise_on_signals` does."""

    def act() -> None:
        stop.set()
        # Not through the stream: the signal may have come amid a write to it, which cannot be begun twice.
        os.write(_STDERR, f"{_STOPPING}\n".encode())

    with _handling_signals(act):
        yield


def end_on_signals(code: int) -> None:
    """Let SIGINT and SIGTERM end the process with the finished work's exit code while it shuts down."""
    for number in _NUMBERS:
        signal.signal(number, lambda _number, _frame: os._exit(code))


def show_interrupt() -> int:
    """Write to standard error that the command was interrupted, and return its exit code."""
    # A terminal has just shown ^C, and not ended its line.
    sys.stderr.write("\nInterrupted.\n" if sys.stderr.isatty() else "Interrupted.\n")
    return InterruptedRunError.exit_code


@contextmanager
def _handling_signals(act: Callable[[], None]) -> Iterator[None]:
    """Have the first signal act, and the second one end the process."""
    is_ending = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_ending:
            os._exit(InterruptedRunError.exit_code)
        is_ending = True
        act()

    before = {number: signal.signal(number, handle) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
