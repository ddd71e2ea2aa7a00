"""Differences between versions of record files, and the union of two versions. No key is needed.

A launch in either version was sent: branches and machines may have continued from the same record.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from runner.errors import SuppressionsError
from runner.ledger.files.lockfile import LOCKFILE, LOCKFILE_SUFFIX, parse_lockfile
from runner.ledger.files.sealed import dump_line, lay_out, parse_text
from runner.ledger.files.suppressions import OptOut, PauseLine, dump_book, parse_book, settle, weigh
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import APPROVALS_SUFFIX, SUPPRESSIONS_SUFFIX
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path, PurePath

    from runner.ledger.files.lockfile import Lockfile
    from runner.ledger.files.suppressions import Book
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


def name_target(file: PurePath) -> str:
    """Return the name of the target that a record file is of."""
    ending = next(ending for ending in RECORD_ENDINGS if file.name.endswith(ending))
    return file.name.removesuffix(ending).rpartition(".")[2]


def lacks_lines(file: Path, before: str, after: str, find_secret: Callable[[], str | None]) -> bool:
    """Return whether a version of a record file lacks something of another, and so is older than it seems.

    A record only grows. A version under the user's present secret, which `find_secret` returns, may be an
    older one whose people got new fingerprints: then they are compared by what else is known of them.

    Raises:
        RunnerError: one of them is damaged.
    """
    if not file.name.endswith(LOCKFILE_SUFFIX):
        return _lacks_decisions(parse_book(file, before), parse_book(file, after), find_secret)
    old, new = parse_lockfile(file, before).lockfile, parse_lockfile(file, after).lockfile
    is_same_key = old.key_fingerprint == new.key_fingerprint
    if not is_same_key and not _is_current(new.target, new.key_fingerprint, find_secret):
        return True
    counted, kept = (sum(one.launches for one in each.counts) for each in (old, new))
    dismissed, told = ({one.project_launch_guid for one in each.dismissed} for each in (old, new))
    return not (_list_guids(old) <= _list_guids(new) and dismissed <= told and counted <= kept)


def _lacks_decisions(old: Book, new: Book, find_secret: Callable[[], str | None]) -> bool:
    if old.key_fingerprint != new.key_fingerprint:
        is_moved = _is_current(new.target, new.key_fingerprint, find_secret)
        return not (is_moved and _count_decisions(old) <= _count_decisions(new))
    known = {one.identity: weigh(one) for one in settle([*old.entries, *new.entries])}
    told = {one.identity: weigh(one) for one in new.entries}
    return any(told.get(name) != weight for name, weight in known.items() if name[0] != "hold")


def _is_current(target: str, key_fingerprint: str, find_secret: Callable[[], str | None]) -> bool:
    secret = find_secret()
    return bool(secret) and TargetKey.of(target, secret).name == key_fingerprint


def _count_decisions(book: Book) -> Counter[tuple[str, ...]]:
    """Return the decisions of a file without its people."""
    said: Iterable[tuple[str, ...]] = (
        (one.source, one.evidence, one.state, one.at)
        if isinstance(one, OptOut)
        else (one.campaign, one.state, one.at)
        for one in book.entries
        if isinstance(one, OptOut | PauseLine)
    )
    return Counter(said)


def _list_guids(lockfile: Lockfile) -> set[str]:
    return {normalize_guid(launch.project_launch_guid) for launch in lockfile.launches}


def unite_files(file: Path, ours: str, theirs: str, find_secret: Callable[[], str | None]) -> str:
    """Return the union of two versions of a record file as text: the version that was moved, of two keys.

    Raises:
        RunnerError: one of them is damaged, or they contradict each other.
    """
    is_book = not file.name.endswith(LOCKFILE_SUFFIX)
    names = [_find_key_name(file, text, is_book=is_book) for text in (ours, theirs)]
    if names[0] != names[1]:
        for before, after in ((theirs, ours), (ours, theirs)):
            if not lacks_lines(file, before, after, find_secret):
                return after
        raise _moved_apart(file)
    return _unite_books(file, ours, theirs) if is_book else _unite_lockfiles(file, ours, theirs)


def _find_key_name(file: Path, text: str, *, is_book: bool) -> str:
    read = parse_book(file, text) if is_book else parse_lockfile(file, text).lockfile
    return read.key_fingerprint


def _moved_apart(file: Path) -> SuppressionsError:
    return SuppressionsError(
        f"{file} is there under two keys, and one version may have people that the other lacks",
        hint="was it moved by `runner key rotate`? Then keep that one (git checkout --ours or --theirs). If "
        "a machine with the old key wrote it since, enter its opt-outs again with `runner optouts add` or "
        "`import` first",
    )


def _unite_books(file: Path, ours: str, theirs: str) -> str:
    one, other = parse_book(file, ours), parse_book(file, theirs)
    lines = settle([*one.entries, *other.entries])
    return "".join(dump_book(one.target, one.key_fingerprint, lines))


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
    head = {
        "campaign": min(current),
        "key_fingerprint": one.key_fingerprint,
        "lockfile_version": one.lockfile_version,
        "target": one.target,
    }
    return "".join(lay_out({**head, **blocks}))


def _strip(line: SealedLine) -> str:
    return dump_line(msgspec.structs.replace(line, seal=""))
