"""Interrupts: the first one ends a run in order, the second one at once."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runner.cli.console import note
from runner.errors import InterruptedRunError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGINT and SIGTERM set `stop`, and a second one end the process.

    A process that ends at once loses nothing: what has an intent and no outcome counts as unknown.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(InterruptedRunError.exit_code)
        stop.set()
        note("Stopping: waiting for the sends in flight. Once more ends at once.")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
