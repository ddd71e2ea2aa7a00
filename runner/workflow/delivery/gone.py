"""Campaigns without files, whose launches are still settled, recorded and checked for opt-outs.

Their launches are in lockfiles, or after a killed job in this machine's ledger or the state remote. Nothing
of them is planned or sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.model import Campaign
from runner.ledger.people.replies import list_launched_campaigns
from runner.source.diagnostic import Position
from runner.workflow.campaigns import DEFAULT_FOLDER, find_campaign_file, show_path
from runner.workflow.observer import note, warn
from runner.workflow.workspace.workspace import default_ledger_url

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from runner.ledger.database import Ledger
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.workspace import Workspace


def find_gone(workspace: Workspace, scope: Scope, ledger: Ledger, claimed: Collection[str]) -> list[Campaign]:
    """Return campaigns with launches whose files are gone, without their content.

    Only folders are searched, since a campaign file stands for itself. `claimed` has all names, also former
    ones, of existing campaigns.
    """
    found: dict[str, Campaign] = {}
    target = workspace.target.name
    folders = [path.absolute() for path in scope.paths or (DEFAULT_FOLDER,) if path.is_dir()]
    for file, (_, error) in workspace.files.unread.items():
        if find_campaign_file(file, target) is None:
            warn(f"the campaign's file of a record is gone, and {error.message}")
    for file, name in sorted(workspace.files.campaigns.items()):
        is_below = any(file.absolute().is_relative_to(folder) for folder in folders)
        # A campaign file of another name in its place reports this itself.
        if is_below and name not in claimed and find_campaign_file(file, target) is None:
            stem = file.name.removesuffix(f".{target}.lock.json")
            found.setdefault(name, make_stand_in(name, file.with_name(f"{stem}.yaml")))
    if not scope.paths:
        for name in _iterate_recorded(workspace, ledger):
            if name not in claimed:
                found.setdefault(name, make_stand_in(name, DEFAULT_FOLDER / f"{name}.yaml"))
    return [found[name] for name in sorted(found)]


def say_gone(workspace: Workspace, gone: Collection[Campaign]) -> None:
    """Name campaigns whose files are gone."""
    for campaign in gone:
        lockfile = show_path(workspace.identify(campaign).lockfile)
        note(
            f"{campaign.name}: its file is gone. What it has sent is still recorded ({lockfile}), and read "
            "for opt-outs."
        )


def _iterate_recorded(workspace: Workspace, ledger: Ledger) -> Iterator[str]:
    """Yield the names of this repository's campaigns in records other than lockfiles."""
    if workspace.state is not None:
        yield from workspace.state.list_campaigns()
    # A ledger outside of the repository may have other repositories' campaigns.
    if workspace.ledger_url == default_ledger_url() and workspace.target.base_url:
        with ledger.reading() as connection:
            yield from list_launched_campaigns(connection, workspace.target.name)


def make_stand_in(name: str, file: Path) -> Campaign:
    """Return a campaign without content, for a record whose file is gone."""
    return Campaign(name, Position(file, 1, 1), file, file.parent, (), ())
