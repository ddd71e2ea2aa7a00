"""The files that come with the program: schemas, example campaigns and workflows.

They stand at the top of the repository, and below `runner/shipped/` once installed from a wheel.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def shipped_folder(name: str) -> Path:
    """Return the folder `schemas`, `campaigns` or `.github/workflows`.

    Args:
        name: the folder's path from the top of the repository.
    """
    installed = _PACKAGE / "shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
