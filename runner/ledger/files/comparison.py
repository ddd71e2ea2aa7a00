"""Differences between versions of record files, and the union of two versions. No key is needed.

A launch in either version was sent: branches and machines may have continued from the same record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from runner.errors import SuppressionsError
from runner.ledger.files.lockfile import LOCKFILE, parse_lockfile
from runner.ledger.files.sealed import dump_line, lay_out, parse_text
from runner.ledger.files.suppressions import OptOut, PauseLine, dump_book, parse_book, settle, weigh
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import SUPPRESSIONS_SUFFIX
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from runner.ledger.files.lockfile import Lockfile
    from runner.ledger.files.suppressions import Book
    from runner.ledger.model import SealedLine

_ORDER = {
    "counts": ("launches",),
    "dismissed": ("project_launch_guid",),
    "former_names": ("name",),
    "launches": ("message", "key", "project_launch_guid"),
    "runs": ("started_at", "id"),
}


@dataclass(frozen=True, slots=True)
class LockfileDiff:
    """The launches that only one version of a lockfile has, and their recipients (`texts`), by message."""

    campaign: str
    target: str
    launches: dict[str, int]
    texts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Advance:
    """A lockfile and its earlier version, None if there was none."""

    lockfile: Lockfile
    earlier: Lockfile | None

    @classmethod
    def read(cls, file: Path, before: str | None, after: str) -> Advance:
        """Parse the two versions.

        Raises:
            LockfileError: one of them is damaged.
        """
        earlier = None if before is None else parse_lockfile(file, before).lockfile
        return cls(parse_lockfile(file, after).lockfile, earlier)

    def list_fresh(self) -> set[str]:
        """Return the guids of the launches that the earlier version lacks."""
        return _list_guids(self.lockfile) - (set() if self.earlier is None else _list_guids(self.earlier))

    def find_gain(self, known: AbstractSet[str]) -> LockfileDiff:
        """Return the launches that the later version adds, except known ones.

        `known` has guids, written as by `normalize_guid`, of launches in other files or deleted versions.
        """
        fresh = self.list_fresh() - known
        gain = LockfileDiff(self.lockfile.campaign, self.lockfile.target, {}, {})
        for launch in self.lockfile.launches:
            if normalize_guid(launch.project_launch_guid) in fresh:
                gain.launches[launch.message] = gain.launches.get(launch.message, 0) + 1
                gain.texts[launch.message] = gain.texts.get(launch.message, 0) + len(launch.recipients)
        return gain


@dataclass(frozen=True, slots=True)
class SuppressionGain:
    """The changes between two versions of a file of suppressions.

    `opted_out` includes doubtful opt-outs; `paused` and `resumed` have names of campaigns.
    """

    target: str
    opted_out: int
    let_in: int
    paused: tuple[str, ...]
    resumed: tuple[str, ...]


def find_suppression_gain(file: Path, before: str | None, after: str) -> SuppressionGain:
    """Return the changes between two versions of a file of suppressions.

    Raises:
        SuppressionsError: one of them is damaged.
    """
    book = parse_book(file, after)
    earlier = None if before is None else parse_book(file, before)
    barred, was_barred = _list_barred(book), set[str]() if earlier is None else _list_barred(earlier)
    if earlier is not None and earlier.key_fingerprint != book.key_fingerprint:
        # People cannot be matched under two keys: the smaller number counts as the same people.
        number = min(len(barred), len(was_barred))
        barred, was_barred = set(sorted(barred)[number:]), set(sorted(was_barred)[number:])
    paused, was_paused = _list_paused(book), set[str]() if earlier is None else _list_paused(earlier)
    return SuppressionGain(
        book.target,
        len(barred - was_barred),
        len(was_barred - barred),
        tuple(sorted(paused - was_paused)),
        tuple(sorted(was_paused - paused)),
    )


def _list_barred(book: Book) -> set[str]:
    return {one.fingerprint for one in book.list_opt_outs() if one.state != "dismissed"}


def _list_paused(book: Book) -> set[str]:
    return {one.campaign for one in book.list_pauses() if one.state == "paused"}


def lacks_lines(file: Path, before: str, after: str, find_secret: Callable[[], str | None]) -> bool:
    """Return whether a version of a record file lacks something of another, and so is older than it seems.

    A record only grows. A version under the user's present secret, which `find_secret` returns, may be an
    older one whose people got new fingerprints: then they are compared by what else is known of them.

    Raises:
        RunnerError: one of them is damaged.
    """
    if file.name.endswith(SUPPRESSIONS_SUFFIX):
        return _lacks_suppressions(parse_book(file, before), parse_book(file, after), find_secret)
    old, new = parse_lockfile(file, before).lockfile, parse_lockfile(file, after).lockfile
    is_same_key = old.key_fingerprint == new.key_fingerprint
    if not is_same_key and not _is_current(new.target, new.key_fingerprint, find_secret):
        return True
    counted, kept = (sum(one.launches for one in each.counts) for each in (old, new))
    dismissed, told = ({one.project_launch_guid for one in each.dismissed} for each in (old, new))
    return not (_list_guids(old) <= _list_guids(new) and dismissed <= told and counted <= kept)


def _lacks_suppressions(old: Book, new: Book, find_secret: Callable[[], str | None]) -> bool:
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
    is_book = file.name.endswith(SUPPRESSIONS_SUFFIX)
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
