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
from runner.ledger.files.lockfile import LOCKFILE, LOCKFILE_SUFFIX, Lockfile
from runner.ledger.files.sealed import check_document, dump_line, parse_text
from runner.ledger.files.suppressions import BOOK, HoldLine, OptOut, PauseLine, settle, weigh
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


class _Version(NamedTuple):
    """A version of a record file."""

    text: str
    document: Any


def unite_files(file: Path, ours: str, theirs: str, find_secrets: Callable[[], Secrets]) -> str:
    """Return the union of two versions of a record file as text: the version that was moved, of two keys."""
    secrets = find_secrets()
    return _unite(file, _parse(file, ours, secrets), _parse(file, theirs, secrets), secrets)


def complete_file(file: Path, known: str | None, text: str, find_secrets: Callable[[], Secrets]) -> str:
    """Return the version of a record file that has all of the other one, or their union.

    Of two that say the same it is the `known` one. Only what can be read is passed on. A record only grows: a
    version that lacks something of another is older than it seems. One under the present key may be one under
    the former key, moved: then people are compared by what else is known of them. A machine that still has
    the former key moves nothing back.
    """
    secrets = find_secrets()
    new = _parse(file, text, secrets)
    old = new if known is None or known == text else _parse(file, known, secrets)
    if not _lacks(new, old, secrets):
        return old.text
    return _unite(file, old, new, secrets) if _lacks(old, new, secrets) else text


def merge_files(
    file: Path, base: str | None, ours: str, theirs: str | None, find_secrets: Callable[[], Secrets]
) -> str:
    """Return the text of a record file that was changed here, and perhaps there as well; both were `base`."""
    if theirs is not None and ours in (base, theirs):
        return theirs
    secrets = find_secrets()
    one = _parse(file, ours, secrets)
    other = one if theirs is None else _parse(file, theirs, secrets)
    # Only we changed it. Ours is taken unless it was put back to an older text.
    if theirs == base and not _lacks(other, one, secrets):
        other = one
    return _unite(file, one, other, secrets)


def _parse(file: Path, text: str, secrets: Secrets) -> _Version:
    kind = LOCKFILE if file.name.endswith(LOCKFILE_SUFFIX) else BOOK
    document, _ = parse_text(kind, file, text)
    key = TargetKey.of(document.target, secrets.present)
    # Approvals without a seal count for nothing, wherever they are.
    if document.key_fingerprint == key.name and not file.name.endswith(APPROVALS_SUFFIX):
        campaigns = document.names if kind is LOCKFILE else ("",)
        check_document(kind, file, text, document, key, campaigns)
    return _Version(text, document)


def _lacks(before: _Version, after: _Version, secrets: Secrets) -> bool:
    old, new = before.document, after.document
    has_people = old.key_fingerprint == new.key_fingerprint
    if not has_people:
        names = tuple(TargetKey.of(new.target, secret).name for secret in secrets)
        if not secrets.present or (new.key_fingerprint, old.key_fingerprint) != names:
            return True
    if isinstance(old, Lockfile):
        return not _count_launches(old) <= _count_launches(new)
    kept = settle(new.entries)
    entries = settle([*old.entries, *kept] if has_people else old.entries)
    count = partial(_count_decisions, has_people=has_people)
    return not count(entries) <= count(kept)


def _count_launches(lockfile: Lockfile) -> Counter[Hashable]:
    known = (normalize_guid(launch.project_launch_guid) for launch in lockfile.launches)
    dismissed = (("dismissed", one.project_launch_guid) for one in lockfile.dismissed)
    found: Counter[Hashable] = Counter({*known, *dismissed})
    found["counted"] = max((one.launches for one in lockfile.counts), default=0)
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


def _unite(file: Path, one: _Version, other: _Version, secrets: Secrets) -> str:
    if one.document.key_fingerprint != other.document.key_fingerprint:
        for before, after in ((other, one), (one, other)):
            if not _lacks(before, after, secrets):
                return _unite(file, after, after, secrets)
        raise SuppressionsError(
            f"{file} is there under two keys, and one version may have people that the other lacks",
            hint="was it moved by `runner key rotate`? Then set RUNNER_STATE_KEY to the new key, and "
            "RUNNER_OLD_STATE_KEY to the old one. If a machine with the old key has written it since, enter "
            "its opt-outs again with `runner optouts add`, and keep the version that was moved",
        )
    if not isinstance(one.document, Lockfile):
        lines = settle([*one.document.entries, *other.document.entries])
        return "".join(BOOK.dump(one.document.target, one.document.key_fingerprint, {"entries": lines}))
    return _unite_lockfiles(file, one.document, other.document)


def _unite_lockfiles(file: Path, one: Lockfile, other: Lockfile) -> str:
    # With both lines of a launch whose lines differ: only a reader with the key can unite them.
    former = {line.name for side in (one, other) for line in side.former_names}
    names = {one.campaign, other.campaign}
    current = names - former or names
    if len(current) > 1 or one.target != other.target:
        raise LOCKFILE.fail(file, "was merged, and its sides don't agree on campaign")
    blocks: dict[str, list[SealedLine]] = {}
    for name, order in _ORDER.items():
        lines = [line for side in (one, other) for line in getattr(side, name)]
        found = {dump_line(msgspec.structs.replace(line, seal="")): line for line in lines}
        if found or (name == "launches" and not (one.counts or other.counts)):
            blocks[name] = sorted(found.values(), key=attrgetter(*order))
    return "".join(LOCKFILE.dump(one.target, one.key_fingerprint, blocks, campaign=min(current)))
