"""The lockfiles of a campaign, of its former names and places, and of other campaigns.

Other campaigns' lockfiles count for a frequency cap where the ledger lacks their launches: where each run
starts on a new machine, only they show recent texts. They are not entered: their campaign may have a new
name, known only to its file.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.format import Lockfile, parse_lockfile, read_lockfile
from runner.ledger.lockfile.integrity import RESTORE_HINT
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.ledger.model import LaunchRecord, Run
    from runner.ledger.record.recorded import Identity, SharedRecord, Stamps


_UNCOUNTED = "the frequency cap cannot be counted"


def read_lockfiles(identity: Identity) -> dict[Path, Lockfile]:
    """Return the campaign's lockfile, those of its old names and places, and those kept elsewhere.

    Raises:
        LockfileError: one is invalid, or of another campaign or target.
    """
    lockfiles = {}
    for file in _lockfile_places(identity):
        lockfile = read_lockfile(file, identity.names, identity.message_ids, identity.state_key)
        # A campaign file may have had an old name that its campaign never had.
        if lockfile is not None and (file == identity.lockfile or lockfile.campaign in identity.names):
            _require_own(identity, file, lockfile)
            lockfiles[file] = lockfile
    if identity.shared is not None:
        lockfiles |= _parse_shared(identity, identity.shared)
    for file, text in identity.waiting.items():
        # The file at the same path in the work tree counts as well.
        place = file.with_name(f"{file.name} (waiting to be merged)")
        waiting = parse_lockfile(place, text, identity.names, identity.message_ids, identity.state_key)
        _require_own(identity, place, waiting)
        # One that was merged long ago, perhaps with a former key, has nothing to add.
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
    """Return the stamps of the lockfiles as they are now."""
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
    """Yield the launches of all lockfiles, with duplicates."""
    return chain.from_iterable(lockfile.launches for lockfile in lockfiles.values())


def all_runs(lockfiles: dict[Path, Lockfile]) -> Iterator[Run]:
    """Yield the runs of all lockfiles, with duplicates."""
    return chain.from_iterable(lockfile.runs for lockfile in lockfiles.values())


def all_forgotten(lockfiles: dict[Path, Lockfile]) -> set[str]:
    """Return the fingerprints of forgotten people in all lockfiles."""
    return {one for lockfile in lockfiles.values() for one in lockfile.forgotten}


def all_dismissed(lockfiles: dict[Path, Lockfile]) -> set[str]:
    """Return the `project_launch_guid`s of dismissed launches in all lockfiles."""
    return {one for lockfile in lockfiles.values() for one in lockfile.dismissed}


def list_merged(lockfiles: dict[Path, Lockfile]) -> tuple[Path, ...]:
    """Return the lockfiles that git has merged from two branches."""
    return tuple(file for file, lockfile in lockfiles.items() if lockfile.is_merged)


@dataclass(frozen=True, slots=True)
class OtherLockfile:
    """The launches of another campaign's lockfile in the time of a frequency cap.

    `salt` is the key of the fingerprints; None if it is the user's secret.
    """

    file: Path
    first_name: str
    key_fingerprint: str
    salt: str | None
    launches: tuple[LaunchRecord, ...]

    def open_key(self, state_key: str | None) -> FingerprintKey:
        """Return the key of the fingerprints.

        Raises:
            LockfileError: it is missing: texted people would count as not texted.
        """
        key = FingerprintKey.reopen(self.salt, state_key, self.key_fingerprint)
        if key is not None:
            return key
        if self.salt is not None:
            raise LockfileError(
                f"{_UNCOUNTED}: the lockfile {self.file} has a damaged salt", hint=RESTORE_HINT
            )
        raise LockfileError(
            f"{_UNCOUNTED}: the lockfile {self.file} was written with another RUNNER_STATE_KEY, or with one "
            "that is not set",
            hint="set RUNNER_STATE_KEY to the key it was written with",
        )


def read_other_lockfiles(
    files: Iterable[Path],
    target: str,
    names: Sequence[str],
    since: str,
    state_key: str | None,
    shared: Mapping[Path, str] | None = None,
    is_told: Callable[[Lockfile], bool] = lambda _: False,
) -> Iterator[OtherLockfile]:
    """Yield other campaigns' lockfiles that have launches since a moment (UTC, ISO 8601).

    `names` are the own campaigns' names, since the files can be their old ones. Summed up ones that the
    ledger covers (`is_told`) are skipped. `state_key` must have signed all. `shared` has texts by place.

    Raises:
        LockfileError: one is invalid, or only sums up, so that its people are unknown.
    """
    texts: list[tuple[Path, str | None]] = [(file, None) for file in files]
    for file, text in [*texts, *(shared or {}).items()]:
        lockfile = _read(file, text, target, names, state_key)
        is_recent = lockfile is not None and any(line.last_sent_at >= since for line in lockfile.lines)
        if lockfile is not None and is_recent and not is_told(lockfile):
            raise LockfileError(
                f"{_UNCOUNTED}: the lockfile {file} holds counts only, and the ledger lacks what it counts",
                hint="use the ledger that it was written with (RUNNER_LEDGER), or restore that one",
            )
        launches = (
            tuple(launch for launch in lockfile.launches if launch.sent_at >= since) if lockfile else ()
        )
        if lockfile is not None and launches:
            first_name = lockfile.first_name or lockfile.campaign
            yield OtherLockfile(file, first_name, lockfile.key_fingerprint, lockfile.salt, launches)


def list_told_guids(files: Iterable[Path], texts: Mapping[Path, str], state_key: str | None) -> set[str]:
    """Return the guids of all launches in lockfiles, written as by `normalize_guid`.

    Invalid ones are skipped: launches that only they explain stay held. `texts` has those that all machines
    share, by place.
    """
    told: set[str] = set()
    for file, text in [*((file, None) for file in files), *texts.items()]:
        with suppress(LockfileError):
            lockfile = _parse(file, text, (), state_key)
            told.update(
                normalize_guid(one.project_launch_guid) for one in (lockfile.launches if lockfile else ())
            )
    return told


def _parse(file: Path, text: str | None, names: Sequence[str], state_key: str | None) -> Lockfile | None:
    if text is None:
        return read_lockfile(file, names, state_key=state_key)
    return parse_lockfile(file, text, names, state_key=state_key)


def _read(
    file: Path, text: str | None, target: str, names: Sequence[str], state_key: str | None
) -> Lockfile | None:
    try:
        lockfile = _parse(file, text, names, state_key)
    except LockfileError as error:
        raise LockfileError(f"{_UNCOUNTED}: {error.message}", hint=error.hint) from None
    if lockfile is not None and lockfile.target != target:
        raise LockfileError(
            f"{_UNCOUNTED}: the lockfile {file} is of the target {lockfile.target!r}, not {target!r}",
            hint="targets' names are for good: put it back",
        )
    return lockfile
