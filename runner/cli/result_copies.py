"""Where the copies of results are that reports are counted from."""

from __future__ import annotations

import shutil
from hashlib import blake2b
from typing import TYPE_CHECKING

from runner.errors import RunnerError

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = "results"


def find_copy(state_folder: Path, target: str, campaign: str) -> Path:
    """Return the folder of the copy of one campaign's results.

    Args:
        state_folder: the `.runner` folder.
        target: the target's name.
        campaign: the campaign's name.
    """
    name = blake2b(f"{target}\0{campaign}".encode(), digest_size=8).hexdigest()
    return state_folder / _FOLDER / name


def remove_copies(state_folder: Path) -> None:
    """Remove the copies of all campaigns' results: reports make them anew.

    Args:
        state_folder: the `.runner` folder.

    Raises:
        RunnerError: one cannot be removed.
    """
    folder = state_folder / _FOLDER
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise RunnerError(
            f"the copies of results in {folder} cannot be removed: {error.strerror}",
            hint="remove the folder: answers of people who were forgotten may stand in it",
        ) from None
