"""Pausing and resuming of campaigns on a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from runner.campaign.load import read_names
from runner.document import Document, Moment, Part
from runner.errors import UsageError
from runner.ledger.people.suppressions import Pause, find_pause, read_pauses, set_pause
from runner.workflow.campaigns import DEFAULT_FOLDER, ENDINGS, find_campaign_files
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.ledger.database import Ledger
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope

LONGEST_REASON = 500


class PausedCampaign(Part, frozen=True):
    """A campaign that was to be paused or resumed.

    Attributes:
        name: the campaign's name.
        changed: whether the command has changed anything.
        paused: whether the campaign is paused now.
        at: since when it is paused, UTC; None if it isn't.
        reason: why, as it was given; None if it is not paused.
    """

    name: str
    changed: bool
    paused: bool
    at: Moment | None = None
    reason: str | None = None

    @classmethod
    def of(cls, name: str, pause: Pause | None, *, is_changed: bool) -> PausedCampaign:
        """Return a campaign with its pause, if there is one."""
        if pause is None:
            return cls(name, is_changed, paused=False)
        return cls(name, is_changed, paused=True, at=pause.at, reason=pause.reason)

    def describe(self) -> str:
        """Return what is true of it now, in words."""
        if self.at is None:
            return "goes on" if self.changed else "was not paused"
        return Pause(self.at, self.reason or "").describe()


class PauseChange(Document, frozen=True):
    """The document that `runner pause` and `runner resume` write with `--format json`.

    Attributes:
        target: the target's name.
        command: what was asked for.
        campaigns: one entry a campaign.
    """

    target: str
    command: Literal["pause", "resume"]
    campaigns: tuple[PausedCampaign, ...]


def change_pauses(scope: Scope, campaigns: Sequence[str], reason: str | None) -> PauseChange:
    """Pause campaigns, or resume them if `reason` is None; say how other machines learn of it.

    `campaigns` are names or files.
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
        workspace.files.share(ledger, is_told=any(changed))
    items = tuple(
        PausedCampaign.of(
            names[0], next((pauses[name] for name in names if name in pauses), None), is_changed=is_changed
        )
        for names, is_changed in zip(found, changed, strict=True)
    )
    return PauseChange(target.name, "resume" if reason is None else "pause", items)


def pause_broken(workspace: Workspace, ledger: Ledger, planned: Sequence[PlanResult]) -> Sequence[PlanResult]:
    """Record the pauses of campaigns with a broken guard; return the plans with these on record."""
    broken = [item for item in planned if item.plan.rollout and item.plan.rollout.state == "broken"]
    if not broken:
        return planned
    with ledger.writing() as connection:
        for item in broken:
            name, pause = item.campaign.name, item.plan.pause
            if pause is not None and find_pause(connection, workspace.target.name, [name]) is None:
                set_pause(connection, workspace.key, name, pause.reason, workspace.now_text())
    workspace.files.share(ledger)
    return [
        replace(item, plan=replace(item.plan, rollout=step.replace(state="paused")))
        if (step := item.plan.rollout) and step.state == "broken"
        else item
        for item in planned
    ]


def pause_stopped(scope: Scope, planned: Sequence[PlanResult]) -> None:
    """Record the pauses of campaigns with a broken guard: planning alone records nothing."""
    if any(item.plan.is_stopped for item in planned):
        workspace = Workspace.open(scope)
        with workspace.open_ledger(needs_shared=False) as ledger:
            pause_broken(workspace, ledger, planned)


def _is_file(campaign: str) -> bool:
    return Path(campaign).suffix.lower() in ENDINGS


def _find_names(campaign: str) -> tuple[str, ...]:
    """Return the name of a campaign, given by name or file, and its former names."""
    if _is_file(campaign):
        if not Path(campaign).is_file():
            raise UsageError(f"there is no file {campaign}")
        return read_names(Path(campaign), current=Path.cwd(), allowed=())
    found = (read_names(file, current=Path.cwd(), allowed=()) for file in find_campaign_files(()))
    known = {names[0]: names for names in found if names}
    if campaign in known:
        return known[campaign]
    hint = f"known: {', '.join(sorted(known)) or 'none'}"
    raise UsageError(f"there is no campaign {campaign!r} in {DEFAULT_FOLDER}", hint=hint)
