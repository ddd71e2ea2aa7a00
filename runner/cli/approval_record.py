"""The approvals that a commit of the record is about, for its message."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from runner.cli.campaigns import DEFAULT_FOLDER, find_targets_file
from runner.ledger.fingerprint import FingerprintKey
from runner.plan.approval import find_latest
from runner.plan.approval_book import ENDING, read_approvals
from runner.service.state_key import STATE_KEY, read_state_key
from runner.service.target import TargetsProblemError, find_key_variable, read_targets
from runner.source.confine import repository_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.ledger.gain import Gain
    from runner.plan.approval import Approval
    from runner.repository.recording import Change


def name_target(path: str) -> str:
    """Return the target's name of a file of approvals."""
    return PurePosixPath(path).name.removesuffix(ENDING)


def find_books(path: Path) -> list[Path]:
    """Return the files of approvals of campaigns: in the folder `campaigns` above them, else in their own.

    Args:
        path: a campaign file, or a folder of them.
    """
    own = (path if path.is_dir() else path.parent).absolute()
    root = repository_root(own)
    above = (folder for folder in (own, *own.parents) if folder.is_relative_to(root))
    home = next((folder for folder in above if folder.name == DEFAULT_FOLDER.name), own)
    return sorted(home.glob(f"*{ENDING}"))


def list_approvals(
    root: Path, changes: Sequence[Change], gains: Sequence[Gain], environment: Mapping[str, str]
) -> list[Approval]:
    """Return the approvals of what was sent, and those that are new.

    Only those that the state key has sealed: anybody can write a name into a file. Without it there are none.

    Args:
        root: the repository's top.
        changes: of the commit.
        gains: what its lockfiles have gained.
        environment: of the process: has the keys.
    """
    found: dict[str, Approval] = {}
    for change in changes:
        key = _find_key(root / change.path, name_target(change.path), environment)
        if change.path.endswith(ENDING) and key is not None:
            before = set(map(repr, read_approvals(change.before or "", key).approvals))
            new = (one for one in read_approvals(change.after, key).approvals if repr(one) not in before)
            found |= {repr(one): one for one in new}
    folders = {(root / change.path).parent for change in changes}
    for gain in gains:
        for folder in sorted(folders):
            found |= {repr(one): one for one in _find_covering(root, folder, gain, environment)}
    return list(found.values())


def _find_covering(
    root: Path, folder: Path, gain: Gain, environment: Mapping[str, str]
) -> Iterator[Approval]:
    """Yield the approvals of the texts of a lockfile below a folder."""
    for above in (folder, *folder.parents):
        file = above / f"{gain.target}{ENDING}"
        key = _find_key(file, gain.target, environment) if file.is_file() else None
        if key is not None:
            text = file.read_text(encoding="utf-8", errors="replace")
            latest = find_latest(gain.campaign, gain.target, read_approvals(text, key).approvals)
            yield from (latest[message] for message in gain.texts if message in latest)
        if above == root:
            return


def _find_key(file: Path, target: str, environment: Mapping[str, str]) -> FingerprintKey | None:
    secret = find_secret(file, target, environment)
    return FingerprintKey.from_secret(secret) if secret else None


def find_secret(file: Path, target: str, environment: Mapping[str, str]) -> str | None:
    """Return the state key of a target; None if there is none, or nobody can tell.

    Args:
        file: of the target's record: its campaigns have the file of targets.
        target: the target's name.
        environment: of the process.
    """
    try:
        variable, _ = find_key_variable(target, read_targets(find_targets_file((file,)), environment))
    except TargetsProblemError:
        return None
    return read_state_key(environment, variable or STATE_KEY)
