"""Other campaigns' lockfiles: they count for a frequency cap where the ledger does not know what they tell.

Where lockfiles are kept in git and each run starts on a new machine, only they tell who was texted lately.
They are counted and not entered: the campaign may have another name by now, and only its file says which.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.checksum import RESTORE_HINT
from runner.ledger.frequency import open_campaign_key
from runner.ledger.lockfile import Lockfile, parse_lockfile, read_lockfile
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import LaunchRecord

_UNCOUNTED = "the frequency cap cannot be counted"


@dataclass(frozen=True, slots=True)
class Sibling:
    """What the lockfile of another campaign tells of the time of a frequency cap.

    Attributes:
        file: the lockfile.
        first_name: with which the campaign's fingerprints are made.
        key_fingerprint: tells under which key.
        salt: that key itself; None if it is the user's secret.
        launches: those of the time.
    """

    file: Path
    first_name: str
    key_fingerprint: str
    salt: str | None
    launches: tuple[LaunchRecord, ...]

    def open_key(self, state_key: str | None) -> FingerprintKey:
        """Return the key of the fingerprints.

        Args:
            state_key: the user's secret; None if there is none.

        Raises:
            LockfileError: it is not at hand: whoever was texted would count as one who was not.
        """
        key = open_campaign_key(self.salt, self.key_fingerprint, state_key)
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


def read_siblings(
    files: Iterable[Path],
    target: str,
    names: Sequence[str],
    since: str,
    state_key: str | None,
    shared: Mapping[Path, str] | None = None,
    is_told: Callable[[Lockfile], bool] = lambda _: False,
) -> Iterator[Sibling]:
    """Yield what other campaigns' lockfiles tell; those with nothing to tell are left out.

    Args:
        files: the lockfiles.
        target: the target that they must be of.
        names: those of the campaigns whose lockfiles these are not, but which may have left old ones.
        since: UTC, ISO 8601; what was sent before is left out.
        state_key: the user's secret, which must have signed them; None if there is none.
        shared: texts of further lockfiles, which all machines share, by where they are kept.
        is_told: returns whether the ledger itself tells what a lockfile sums up.

    Raises:
        LockfileError: one cannot be read, or only sums up: nobody can tell whom it tells of.
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
            yield Sibling(file, first_name, lockfile.key_fingerprint, lockfile.salt, launches)


def list_told_guids(files: Iterable[Path], texts: Mapping[Path, str], state_key: str | None) -> set[str]:
    """Return the guids of all launches that lockfiles tell of, as `fold_guid` writes them.

    One that cannot be read tells of none: what it would explain is held then.

    Args:
        files: the lockfiles.
        texts: those of further ones, which all machines share, by where they are kept.
        state_key: as for `read_siblings`.
    """
    told: set[str] = set()
    for file, text in [*((file, None) for file in files), *texts.items()]:
        with suppress(LockfileError):
            lockfile = _parse(file, text, (), state_key)
            told.update(fold_guid(one.project_launch_guid) for one in (lockfile.launches if lockfile else ()))
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
