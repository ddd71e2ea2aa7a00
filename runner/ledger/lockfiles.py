"""The lockfiles of one campaign on one target: its own, and those of the names and places it had before."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.checksum import RESTORE_HINT
from runner.ledger.lockfile import Lockfile, parse_lockfile, read_lockfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runner.ledger.identity import Identity
    from runner.ledger.model import LaunchRecord, Run
    from runner.ledger.shared import SharedRecord

Stamps = dict["Path", tuple[int, int, int]]
"""What tells files from others that take their places: inode, size, time of the last change."""


def read_lockfiles(identity: Identity) -> dict[Path, Lockfile]:
    """Return the campaign's lockfile, those of its old names and places, and those that are kept elsewhere.

    Raises:
        LockfileError: one cannot be read, or is of another campaign or target.
    """
    lockfiles = {}
    for file in _lockfile_places(identity):
        lockfile = read_lockfile(file, identity.names, identity.message_ids, identity.state_key)
        # A campaign file may have had an old name whose campaign never had it.
        if lockfile is not None and (file == identity.lockfile or lockfile.campaign in identity.names):
            _require_own(identity, file, lockfile)
            lockfiles[file] = lockfile
    if identity.shared is not None:
        lockfiles |= _parse_shared(identity, identity.shared)
    for file, text in identity.waiting.items():
        # The file of the same place in the work tree counts as well.
        place = file.with_name(f"{file.name} (waiting to be merged)")
        waiting = parse_lockfile(place, text, identity.names, identity.message_ids, identity.state_key)
        _require_own(identity, place, waiting)
        # One that was merged long ago, and has a key of that time, has nothing to add.
        if not _is_told(waiting, lockfiles.values()):
            lockfiles[place] = waiting
    return lockfiles


def _is_told(waiting: Lockfile, others: Iterable[Lockfile]) -> bool:
    told, forgotten, dismissed = set[str](), set[str](), set[str]()
    for one in others:
        told.update(launch.project_launch_guid for launch in one.launches)
        forgotten |= one.forgotten
        dismissed |= one.dismissed
        if one.is_summary and one.lines == waiting.lines:
            return True
    guids = {launch.project_launch_guid for launch in waiting.launches}
    return (
        not waiting.is_summary
        and guids <= told
        and waiting.forgotten <= forgotten
        and waiting.dismissed <= dismissed
    )


def _parse_shared(identity: Identity, shared: SharedRecord) -> dict[Path, Lockfile]:
    lockfiles = {}
    for place, text in shared.lockfiles.items():
        try:
            lockfile = parse_lockfile(place, text, identity.names, identity.message_ids, identity.state_key)
        except LockfileError as error:
            hint = shared.mending if error.hint == RESTORE_HINT else error.hint
            raise LockfileError(error.message, hint=hint) from None
        _require_own(identity, place, lockfile)
        lockfiles[place] = lockfile
    return lockfiles


def _lockfile_places(identity: Identity) -> list[Path]:
    own = identity.lockfile
    old = [own.with_name(f"{name}.{identity.target}.lock.json") for name in identity.names[1:]]
    return list(dict.fromkeys([own, *old, *identity.left_behind]))


def stamp_lockfiles(identity: Identity) -> Stamps:
    """Return what tells the lockfiles that stand there now from others in their places."""
    stamps = {}
    for file in _lockfile_places(identity):
        with suppress(FileNotFoundError):
            status = file.stat()
            stamps[file] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return stamps


def _require_own(identity: Identity, file: Path, lockfile: Lockfile) -> None:
    if lockfile.campaign not in identity.names:
        raise LockfileError(
            f"the lockfile {file} is of the campaign {lockfile.campaign!r}, not {identity.name!r}",
            hint="with a new name everyone would be texted again: put the old one back, or, if the campaign "
            f"was renamed, add `renamed_from: [{lockfile.campaign}]` to it",
        )
    if lockfile.target != identity.target:
        raise LockfileError(
            f"the lockfile {file} is of the target {lockfile.target!r}, not {identity.target!r}",
            hint="targets' names are for good, with a new one everyone would be texted again: put it back",
        )


def all_launches(lockfiles: dict[Path, Lockfile]) -> Iterator[LaunchRecord]:
    """Yield the launches of all lockfiles; one that several have comes several times."""
    return chain.from_iterable(lockfile.launches for lockfile in lockfiles.values())


def all_runs(lockfiles: dict[Path, Lockfile]) -> Iterator[Run]:
    """Yield the runs of all lockfiles; one that several have comes several times."""
    return chain.from_iterable(lockfile.runs for lockfile in lockfiles.values())


def all_forgotten(lockfiles: dict[Path, Lockfile]) -> set[str]:
    """Return the fingerprints of those whom any lockfile names as forgotten."""
    return {one for lockfile in lockfiles.values() for one in lockfile.forgotten}


def all_dismissed(lockfiles: dict[Path, Lockfile]) -> set[str]:
    """Return the `project_launch_guid`s of launches that any lockfile names as not the campaign's."""
    return {one for lockfile in lockfiles.values() for one in lockfile.dismissed}


def list_merged(lockfiles: dict[Path, Lockfile]) -> tuple[Path, ...]:
    """Return the lockfiles that git has put together from two branches'."""
    return tuple(file for file, lockfile in lockfiles.items() if lockfile.is_merged)
