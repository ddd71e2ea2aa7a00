"""What a plan says of texts that were changed after they were sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("is_ledger_lost", [False, True])
def test_a_plan_names_what_was_changed_since(folder: Path, run: Run, *, is_ledger_lost: bool) -> None:
    """A plan says which sent texts are others now, by the lockfile alone, too; nothing of those that are not."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    if is_ledger_lost:
        for file in (folder / ".runner").glob("ledger*"):
            file.unlink()
    assert "Changed since" not in run("plan", cwd=folder).stdout
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("Thank you!", "Bye"), encoding="utf-8")
    said = "Changed since it was sent: pulse/ask. Whoever has the earlier text does not get the new one.\n"
    assert said in run("plan", cwd=folder).stdout
