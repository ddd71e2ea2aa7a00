"""A state ref as an earlier run leaves it: nobody has to wait until it may be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.git.state_ref import STATE_FILE, State, StateRef

if TYPE_CHECKING:
    from pathlib import Path


def leave_free_ref(clone: Path) -> None:
    """Put a ref on a clone's remote that nobody holds."""
    ref = StateRef.open(clone, "origin", "live")
    ref.swap(None, ref.compose({STATE_FILE: State().dump()}))
