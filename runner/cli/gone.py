"""Campaigns whose files are gone: what they have sent is still settled, recorded and watched for opt-outs.

Their lockfiles say which launches they were; so do, of a job that was killed, this machine's ledger and the
state remote. Nothing of them is planned or sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.model import Campaign
from runner.campaign.position import Position
from runner.cli.campaigns import DEFAULT_FOLDER, show_path
from runner.cli.console import note
from runner.cli.workspace import default_ledger_url
from runner.errors import LockfileError
from runner.ledger.lockfile import read_lockfile
from runner.ledger.screening import list_recorded_campaigns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.ledger.database import Ledger
    from runner.ledger.lockfile import Lockfile

_ENDINGS = (".yaml", ".yml")


def find_gone(
    workspace: Workspace, scope: Scope, ledger: Ledger | None, claimed: Collection[str]
) -> list[Campaign]:
    """Return the campaigns that something was sent of and whose files are gone, without what was in them.

    Only folders are searched: who names a campaign's file means that one alone.

    Args:
        workspace: names target and records.
        scope: says which folders.
        ledger: open; None if there is none.
        claimed: the names, with their former ones, of the campaigns that there are.

    Raises:
        GitError: there is a state remote, and what it says cannot be read.
    """
    found: dict[str, Campaign] = {}
    for folder in [path for path in scope.paths or (DEFAULT_FOLDER,) if path.is_dir()]:
        for file, lockfile in _iterate_lockfiles(folder, workspace.target.name):
            name = lockfile.campaign
            if name not in claimed and name not in found:
                found[name] = _stand_in(name, _campaign_file(file, workspace.target.name), lockfile)
    if not scope.paths:
        for name in _iterate_recorded(workspace, ledger):
            if name not in claimed and name not in found:
                found[name] = _stand_in(name, DEFAULT_FOLDER / f"{name}.yaml", None)
    return [found[name] for name in sorted(found)]


def say_gone(workspace: Workspace, gone: Collection[Campaign], *, quiet: bool) -> None:
    """Name campaigns whose files are gone."""
    for campaign in gone if not quiet else ():
        lockfile = show_path(workspace.identify(campaign).lockfile)
        note(
            f"{campaign.name}: its file is gone. What it has sent is still recorded ({lockfile}), and read "
            "for opt-outs."
        )


def _iterate_lockfiles(folder: Path, target: str) -> Iterator[tuple[Path, Lockfile]]:
    """Yield the lockfiles of a target that stand alone; one that cannot be read says of no campaign."""
    for file in sorted(folder.rglob(f"*.{target}.lock.json")):
        is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        own = _campaign_file(file, target)
        # With a file of another name in its place it is for that one to complain of.
        if is_hidden or any(own.with_suffix(ending).is_file() for ending in _ENDINGS):
            continue
        try:
            lockfile = read_lockfile(file)
        except LockfileError as error:
            note(f"{show_path(file)}: its campaign's file is gone, and {error.message}")
            continue
        if lockfile is not None and lockfile.target == target:
            yield file, lockfile


def _campaign_file(lockfile: Path, target: str) -> Path:
    return lockfile.with_name(f"{lockfile.name.removesuffix(f'.{target}.lock.json')}.yaml")


def _iterate_recorded(workspace: Workspace, ledger: Ledger | None) -> Iterator[str]:
    """Yield the names of campaigns of this repository that other records than lockfiles know."""
    if workspace.state is not None:
        yield from workspace.state.list_campaigns()
    # Another ledger than the repository's own may know of other repositories' campaigns.
    if ledger is not None and workspace.ledger_url == default_ledger_url() and workspace.target.base_url:
        with ledger.reading() as connection:
            recorded = list_recorded_campaigns(connection)
        yield from (name for target, name in recorded if target == workspace.target.name)


def _stand_in(name: str, file: Path, lockfile: Lockfile | None) -> Campaign:
    is_summary = lockfile is not None and lockfile.is_summary
    return Campaign(
        name, Position(file, 1, 1), file, file.parent, (), (), lockfile="summary" if is_summary else "full"
    )
