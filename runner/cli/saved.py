"""Saved plans: what `plan --out` wrote and `apply --plan` holds the present to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.cli.campaigns import show_path
from runner.cli.planning import Planned, digests
from runner.errors import PlanChangedError, RunnerError
from runner.source.schema import load_validator

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHANGES = {
    "campaign": "the campaign file has changed",
    "record": "something has been sent, or recorded, in the meantime",
    "deliveries": "audience, template, option or who may be texted changed: who gets what is not the same",
}


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A saved plan.

    Attributes:
        file: where it stands.
        campaigns: the plan's campaigns, as JSON.
        only: the option `--only` that it was made with.
        limit: the option `--limit` that it was made with.
        now: the moment for which it was made.
    """

    file: Path
    campaigns: tuple[dict[str, Any], ...]
    only: str | None
    limit: int | None
    now: datetime

    def paths(self) -> list[Path]:
        """Return the campaign files that the plan is about."""
        return [Path(campaign["file"]) for campaign in self.campaigns]

    def require_unchanged(self, planned: Sequence[Planned]) -> None:
        """Refuse the plan if anything that it describes has changed.

        Raises:
            PlanChangedError: says what, for each campaign.
        """
        saved = {campaign["file"]: campaign for campaign in self.campaigns}
        changes = []
        for item in planned:
            entry = saved[show_path(item.campaign.file)]
            if entry["target"] != item.plan.target:
                changes.append(f"{item.campaign.name}: it was planned for the target {entry['target']!r}")
                continue
            now = digests(item)
            # What follows from another change isn't said on its own.
            cause = next(
                (words for name, words in _CHANGES.items() if entry["digests"].get(name) != now[name]), None
            )
            if cause:
                changes.append(f"{item.campaign.name}: {cause}")
        if changes:
            raise PlanChangedError(
                f"the plan {self.file} is out of date: {'; '.join(changes)}",
                hint="nothing was sent; make a new plan with `runner plan --out`, and review that",
            )


def read_saved_plan(file: Path) -> SavedPlan:
    """Read a saved plan.

    Raises:
        RunnerError: it is not one, or names a campaign that is gone.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunnerError(f"the plan {file} cannot be read: {type(error).__name__}") from None
    problem = next(load_validator("plan").iter_errors(data), None)
    if problem is not None or "options" not in data:
        raise RunnerError(f"{file} is not a saved plan", hint="make one with `runner plan --out FILE`")
    plan = SavedPlan(
        file,
        tuple(data["campaigns"]),
        data["options"]["only"],
        data["options"]["limit"],
        _read_moment(file, data["now"]),
    )
    gone = [str(path) for path in plan.paths() if not path.is_file()]
    if gone:
        raise PlanChangedError(
            f"the plan {file} is about campaigns that are not there: {', '.join(gone)}",
            hint="run it from the folder in which the plan was made",
        )
    return plan


def _read_moment(file: Path, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise RunnerError(f"{file} is not a saved plan", hint="make one with `runner plan --out FILE`")
    return moment
