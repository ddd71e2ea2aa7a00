"""Pausing and resuming of campaigns on a target."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.load import read_names
from runner.errors import UsageError
from runner.ledger.people.suppressions import Pause, read_pauses, set_pause
from runner.workflow.campaigns import DEFAULT_FOLDER, ENDINGS, find_campaign_files
from runner.workflow.records.sharing import share_suppressions
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.workflow.scope import Scope

LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class PausedCampaign:
    """A campaign that was to be paused or resumed; `pause` is None if it is not paused."""

    name: str
    is_changed: bool
    pause: Pause | None


@dataclass(frozen=True, slots=True)
class PausedCampaigns:
    """A target's campaigns that were to be paused or resumed.

    `file` records the pauses for other machines.
    """

    target: str
    campaigns: Sequence[PausedCampaign]
    file: str


def change_pauses(scope: Scope, campaigns: Sequence[str], reason: str | None) -> PausedCampaigns:
    """Pause campaigns, or resume them if `reason` is None.

    `campaigns` are names or files.

    Raises:
        UsageError: there is no such campaign, or the reason is too long.
    """
    words = reason if reason is None else " ".join(reason.split())
    if len(words or "") > LONGEST_REASON:
        raise UsageError(f"--reason is longer than {LONGEST_REASON} characters")
    found = [_find_names(campaign) for campaign in dict.fromkeys(campaigns)]
    files = tuple(Path(campaign) for campaign in campaigns if _is_file(campaign))
    workspace = Workspace.open(replace(scope, paths=files))
    target = workspace.target
    with workspace.open_ledger(needs_shared=False) as ledger:
        with ledger.writing() as connection:
            changed, at = [], workspace.now_text()
            for names in found:
                # A renamed campaign may have been paused under a former name.
                meant = names[:1] if words is not None else names
                done = [set_pause(connection, workspace.key, name, words, at) for name in meant]
                changed.append(any(done))
            pauses = read_pauses(connection, target.name)
        share_suppressions(workspace, ledger)
    items = [
        PausedCampaign(names[0], is_changed, next((pauses[name] for name in names if name in pauses), None))
        for names, is_changed in zip(found, changed, strict=True)
    ]
    return PausedCampaigns(target.name, items, str(workspace.files.places[0]))


def _is_file(campaign: str) -> bool:
    return Path(campaign).suffix.lower() in ENDINGS


def _find_names(campaign: str) -> tuple[str, ...]:
    """Return the name of a campaign, given by name or file, and its former names."""
    if _is_file(campaign):
        if not Path(campaign).is_file():
            raise UsageError(f"there is no file {campaign}")
        return read_names(Path(campaign), current=Path.cwd(), allowed=())
    known = {names[0]: names for names in _iterate_names()}
    if campaign in known:
        return known[campaign]
    close = difflib.get_close_matches(campaign, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"
    raise UsageError(f"there is no campaign {campaign!r} in {DEFAULT_FOLDER}", hint=hint)


def _iterate_names() -> Iterator[tuple[str, ...]]:
    for file in find_campaign_files(()):
        names = read_names(file, current=Path.cwd(), allowed=())
        if names:
            yield names
