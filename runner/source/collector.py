"""Python's collector of cycles, held back while much is built that lives on."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def pause_collector() -> Iterator[None]:
    """Hold the collector of cycles, for a `with` or as a decorator.

    While a large tree grows, the collector walks it again and again and finds nothing. Reference
    counting frees as ever; only cycles wait. The state from before comes back, whatever happens.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
