"""SMS survey campaigns as code: validated, planned, sent exactly once, reconciled and reported.

From Python: `project = runner.open("campaigns")` (docs/python-api.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from runner.version import DOCUMENTATION_URL, __version__

if TYPE_CHECKING:
    from runner.api import Project, open  # noqa: A004  read as `runner.open`, like `gzip.open`

__all__ = ["DOCUMENTATION_URL", "Project", "__version__", "open"]


def __getattr__(name: str) -> Any:
    """Import the Python API when it is first used: a command that prints its help needs none of it."""
    if name in ("Project", "open"):
        return getattr(import_module("runner.api"), name)
    raise AttributeError(f"module 'runner' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the Python API before it is imported, so that notebooks complete its names."""
    return sorted({*globals(), *__all__})
