"""Differences between versions of record files, and the union of two versions.

Seals are checked where the user's key is the file's: a line that was edited replaces none that was not.

A launch in either version was sent: branches and machines may have continued from the same record.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runner.errors import SuppressionsError
from runner.ledger.files.lockfile import LOCKFILE, LOCKFILE_SUFFIX, Lockfile, parse_lockfile
from runner.ledger.files.sealed import dump_line, parse_text
from runner.ledger.files.suppressions import (
    BOOK,
    HoldLine,
    OptOut,
    PauseLine,
    parse_book,
    settle,
    weigh,
)
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import APPROVALS_SUFFIX, SUPPRESSIONS_SUFFIX
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path, PurePath

    from runner.ledger.files.suppressions import Entry
    from runner.ledger.model import SealedLine

RECORD_ENDINGS = (LOCKFILE_SUFFIX, SUPPRESSIONS_SUFFIX, APPROVALS_SUFFIX)
"""The endings of files that commands write."""
_ORDER = {
    "counts": ("launches",),
    "dismissed": ("project_launch_guid",),
    "former_names": ("name",),
    "launches": ("message", "key", "project_launch_guid"),
    "runs": ("started_at", "id"),
}


class Secrets(NamedTuple):
    """The key of a target, and that from which `runner key rotate` has moved records; None for none."""

    present: str | None
    former: str | None = None


def name_target(file: PurePath) -> str:
    """Return the name of the target that a record file is of."""
    ending = next(ending for ending in RECORD_ENDINGS if file.name.endswith(ending))
    return file.name.removesuffix(ending).rpartition(".")[2]


def lacks_lines(file: Path, before: str, after: str, find_secrets: Callable[[], Secrets]) -> bool:
    """Return whether a version of a record file lacks something of another, and so is older than it seems.

    A record only grows. A version under the present key may be one under the former key, moved: then people
    are compared by what else is known of them. A machine that still has the former key moves nothing back.

    Raises:
        LockfileError, SuppressionsError: a version is damaged, or was edited.
    """
    secrets = find_secrets()
    old, new = _parse(file, before, secrets), _parse(file, after, secrets)
    has_people = old.key_fingerprint == new.key_fingerprint
    if not has_people:
        names = tuple(TargetKey.of(new.target, secret).name for secret in secrets)
        if not secrets.present or (new.key_fingerprint, old.key_fingerprint) != names:
            return True
    if isinstance(old, Lockfile) and isinstance(new, Lockfile):
        return not _count_launches(old) <= _count_launches(new)
    entries = settle([*old.entries, *new.entries]) if has_people else old.entries
    count = partial(_count_decisions, has_people=has_people)
    return not count(entries) <= count(new.entries)


def _parse(file: Path, text: str, secrets: Secrets) -> Any:
    is_lockfile = file.name.endswith(LOCKFILE_SUFFIX)
    parsed = parse_lockfile(file, text).lockfile if is_lockfile else parse_book(file, text)
    key = TargetKey.of(parsed.target, secrets.present)
    # Approvals without a seal count for nothing, wherever they are.
    if parsed.key_fingerprint == key.name and not file.name.endswith(APPROVALS_SUFFIX):
        _ = parse_lockfile(file, text, key) if is_lockfile else parse_book(file, text, key)
    return parsed


def _count_launches(lockfile: Lockfile) -> Counter[Hashable]:
    known = (normalize_guid(launch.project_launch_guid) for launch in lockfile.launches)
    dismissed = (("dismissed", one.project_launch_guid) for one in lockfile.dismissed)
    found: Counter[Hashable] = Counter({*known, *dismissed})
    found["counted"] = sum(one.launches for one in lockfile.counts)
    return found


def _count_decisions(entries: Iterable[Entry], *, has_people: bool) -> Counter[Hashable]:
    """Return what must stay in a file of decisions, without people if these are under another key."""
    said: Iterable[Hashable]
    if has_people:
        said = ((one.identity, weigh(one)) for one in entries if not isinstance(one, HoldLine))
    else:
        said = (
            (one.source, one.evidence, one.state, one.at)
            if isinstance(one, OptOut)
            else (one.campaign, one.state, one.at)
            for one in entries
            if isinstance(one, OptOut | PauseLine)
        )
    return Counter(said)


def unite_files(file: Path, ours: str, theirs: str, find_secrets: Callable[[], Secrets]) -> str:
    """Return the union of two versions of a record file as text: the version that was moved, of two keys."""
    secrets = find_secrets()
    one, other = _parse(file, ours, secrets), _parse(file, theirs, secrets)
    if one.key_fingerprint != other.key_fingerprint:
        for before, after in ((theirs, ours), (ours, theirs)):
            if not lacks_lines(file, before, after, lambda: secrets):
                return after
        raise _moved_apart(file)
    if isinstance(one, Lockfile):
        return _unite_lockfiles(file, ours, theirs)
    lines = settle([*one.entries, *other.entries])
    return "".join(BOOK.dump(one.target, one.key_fingerprint, {"entries": lines}))


def _moved_apart(file: Path) -> SuppressionsError:
    return SuppressionsError(
        f"{file} is there under two keys, and one version may have people that the other lacks",
        hint="was it moved by `runner key rotate`? Then set RUNNER_STATE_KEY to the new key, and "
        "RUNNER_OLD_STATE_KEY to the old one. If a machine with the old key has written it since, enter its "
        "opt-outs again with `runner optouts add`, and keep the version that was moved",
    )


def _unite_lockfiles(file: Path, ours: str, theirs: str) -> str:
    # With both lines of a launch whose lines differ: only a reader with the key can unite them.
    one, is_merged = parse_text(LOCKFILE, file, ours)
    if ours == theirs and not is_merged:
        return ours
    other = parse_text(LOCKFILE, file, theirs)[0]
    former = {line.name for side in (one, other) for line in side.former_names}
    names = {one.campaign, other.campaign}
    current = names - former or names
    if len(current) > 1 or one.target != other.target:
        raise LOCKFILE.fail(file, "was merged, and its sides don't agree on campaign")
    blocks: dict[str, list[SealedLine]] = {}
    for name, order in _ORDER.items():
        found = {_strip(line): line for side in (one, other) for line in getattr(side, name)}
        if found or (name == "launches" and not (one.counts or other.counts)):
            blocks[name] = sorted(found.values(), key=attrgetter(*order))
    return "".join(LOCKFILE.dump(one.target, one.key_fingerprint, blocks, campaign=min(current)))


def _strip(line: SealedLine) -> str:
    return dump_line(msgspec.structs.replace(line, seal=""))
