"""Differences between versions of lockfiles and files of suppressions, and the union of two versions.

A launch in either version was sent: branches and machines may have continued from the same record. The rules
of `merge` hold. Signed lines stay as they are, since the key is absent here: two such lines about one launch
both stay, and are united on reading.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile.format import load_data, parse_lockfile, read_launches
from runner.ledger.lockfile.integrity import without_mac
from runner.ledger.lockfile.merge import BLOCKS, agree_on_head, dump_line, refuse_mixture, unite_launches
from runner.ledger.lockfile.writer import describe_launch, dump_data
from runner.ledger.people.suppression_file import parse_book
from runner.ledger.target_key import TargetKey
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from runner.ledger.lockfile.format import Lockfile
    from runner.ledger.people.suppression_file import Book


_ORDER = {
    "launches": ("message", "key", "project_launch_guid"),
    "messages": ("message", "tags", "launches", "recipients"),
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
            LockfileError: one of them is invalid.
        """
        earlier = None if before is None else parse_lockfile(file, before)
        return cls(parse_lockfile(file, after), earlier)

    @property
    def is_summary(self) -> bool:
        """True if one of them sums up, so that only counts can be compared."""
        return self.lockfile.is_summary or (self.earlier is not None and self.earlier.is_summary)

    def list_fresh(self) -> dict[str, str]:
        """Return the times of the launches that the earlier version lacks, by their guids."""
        known = set() if self.earlier is None or self.is_summary else _list_guids(self.earlier)
        launches = () if self.is_summary else self.lockfile.launches
        fresh = {normalize_guid(one.project_launch_guid): one.sent_at for one in launches}
        return {guid: at for guid, at in fresh.items() if guid not in known}

    def find_since(self) -> str | None:
        """Return the moment after which launches can be missing from the earlier version."""
        if self.earlier is not None and self.earlier.lines:
            return max(line.last_sent_at for line in self.earlier.lines)
        return min((line.first_sent_at for line in self.lockfile.lines), default=None)

    def is_of_same_record(self, text: str) -> bool:
        """Return whether a text is a lockfile of the same campaign, under any of its names."""
        try:
            other = parse_lockfile(Path(), text)
        except LockfileError:
            return False
        names = {one.first_name or one.campaign for one in (self.lockfile, other)}
        return len(names) == 1 and other.target == self.lockfile.target

    def find_gain(self, told: Collection[str], others: Iterable[str] = ()) -> LockfileDiff:
        """Return the launches that the later version adds, except `told` ones.

        `told` has guids, written as by `normalize_guid`, of launches in other files or deleted versions.
        `others` has texts of other lockfiles of the record, and of former versions: of counts the highest is
        taken.
        """
        if self.is_summary:
            former = [parse_lockfile(Path(), text) for text in others]
            return _compare_counts([*filter(None, [self.earlier]), *former], self.lockfile)
        fresh = self.list_fresh().keys() - told
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
        SuppressionsError: one of them is invalid.
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
    return {one["fingerprint"] for one in book.list_kind("opt_out") if one["state"] != "dismissed"}


def _list_paused(book: Book) -> set[str]:
    return {one["campaign"] for one in book.list_kind("pause") if one["state"] == "paused"}


def _compare_counts(before: Iterable[Lockfile], after: Lockfile) -> LockfileDiff:
    gain = LockfileDiff(after.campaign, after.target, {}, {})
    old: dict[str, tuple[int, int]] = {}
    for one in before:
        for message, count in _count(one).items():
            old[message] = max(old.get(message, (0, 0)), count)
    for message, (launches, texts) in _count(after).items():
        known_launches, known_texts = old.get(message, (0, 0))
        if launches > known_launches:
            gain.launches[message] = launches - known_launches
            gain.texts[message] = max(0, texts - known_texts)
    return gain


def _count(lockfile: Lockfile) -> dict[str, tuple[int, int]]:
    """Return launches and recipients by message; of several lines of one message the highest counts."""
    found: dict[str, tuple[int, int]] = {}
    for line in lockfile.lines:
        found[line.message] = max(found.get(line.message, (0, 0)), (line.launches, line.recipients))
    for launch in lockfile.launches:
        launches, texts = found.get(launch.message, (0, 0))
        found[launch.message] = (launches + 1, texts + len(launch.recipients))
    return found


def lacks_something(file: Path, before: str, after: str) -> bool:
    """Return whether a lockfile lacks launches or forgotten people of an earlier version.

    A record only grows: one that lacks something is older than it seems.

    Raises:
        LockfileError: one of them is invalid.
    """
    old, new = parse_lockfile(file, before), parse_lockfile(file, after)
    if old.is_summary or new.is_summary:
        return _is_behind(old, new) or not old.forgotten <= new.forgotten
    return not (old.forgotten <= new.forgotten and _list_guids(old) <= _list_guids(new))


def is_lockfile_moved(file: Path, before: str, after: str, find_secret: Callable[[], str | None]) -> bool:
    """Return whether a lockfile is an earlier one, moved to a user's secret.

    Fingerprints cannot be compared then: all launches must be there, and as many forgotten people.
    `find_secret` is called only if the keys differ.

    Raises:
        LockfileError: one of them is invalid.
    """
    old, new = parse_lockfile(file, before), parse_lockfile(file, after)
    secret = None if old.key_fingerprint == new.key_fingerprint else find_secret()
    if not secret or FingerprintKey.from_secret(secret).name != new.key_fingerprint:
        return False
    if len(old.forgotten) > len(new.forgotten):
        return False
    if not (old.is_summary or new.is_summary):
        return _list_guids(old) <= _list_guids(new)
    # There can be fewer recipients: forgotten people leave no trace.
    counts = _count(new)
    return all(counts.get(name, (0, 0))[0] >= launches for name, (launches, _) in _count(old).items())


def are_suppressions_moved(
    file: Path, before: str, after: str, find_secret: Callable[[], str | None]
) -> bool:
    """Return whether a file of suppressions is an earlier one, moved to a user's secret.

    Fingerprints cannot be compared then: every earlier decision must be there, with its moment. A decision
    that was changed since, or removed with a forgotten person, counts as missing. `find_secret` is called
    only if the keys differ.

    Raises:
        SuppressionsError: one of them is invalid.
    """
    old, new = parse_book(file, before), parse_book(file, after)
    secret = None if old.key_fingerprint == new.key_fingerprint else find_secret()
    if not secret or TargetKey.from_secret(new.target, secret).name != new.key_fingerprint:
        return False
    return _count_decisions(old) <= _count_decisions(new)


def _count_decisions(book: Book) -> Counter[tuple[str, ...]]:
    opt_outs = (
        (entry["source"], entry["evidence"], entry["state"], entry["at"])
        for entry in book.list_kind("opt_out")
    )
    pauses = ((entry["campaign"], entry["state"], entry["at"]) for entry in book.list_kind("pause"))
    return Counter(chain(opt_outs, pauses))


def _is_behind(old: Lockfile, new: Lockfile) -> bool:
    """Return whether sums are lower than before, or equal with other people; higher ones prove nothing."""
    before, after = _count(old), _count(new)
    if any(after.get(name, (0, 0)) < count for name, count in before.items()):
        return True
    digests = {(line.message, line.digest) for line in new.lines}
    return bool(digests) and any(
        after[line.message] == before[line.message] and (line.message, line.digest) not in digests
        for line in old.lines
    )


def _list_guids(lockfile: Lockfile) -> set[str]:
    return {normalize_guid(launch.project_launch_guid) for launch in lockfile.launches}


def unite_lockfiles(file: Path, ours: str, theirs: str) -> str:
    """Return the union of two lockfiles as text.

    Raises:
        LockfileError: one of them is invalid, or their keys differ.
    """
    for text in dict.fromkeys((ours, theirs)):
        parse_lockfile(file, text)
    one, is_merged = load_data(file, ours)
    if ours == theirs and not is_merged:
        return ours
    return dump_data(_unite(file, one, load_data(file, theirs)[0]))


def _unite(file: Path, *sides: dict[str, Any]) -> dict[str, Any]:
    are_summaries = ["kind" in side for side in sides]
    refuse_mixture(file, is_summary=any(are_summaries), has_launches=not all(are_summaries))
    said: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for side in sides for name in side if name not in BLOCKS):
        said[name] = []
        for side in sides:
            if name in side and side[name] not in said[name]:
                said[name].append(side[name])
    united = agree_on_head(file, said)
    for block in BLOCKS:
        lines = _unite_lines([line for side in sides for line in side.get(block, ())])
        if block == "launches":
            lines = _unite_launches(file, lines, united.get("first_name", united["campaign"]))
        # Two lines of one message stay: only the ledger can add them up.
        if any(block in side for side in sides):
            united[block] = sorted(lines, key=itemgetter(*_ORDER[block]))
    return united


def _unite_lines(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each line once, with its MAC if either side has one."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        said = dump_line(without_mac(line))
        if said not in found or "mac" in line:
            found[said] = line
    return list(found.values())


def _unite_launches(file: Path, lines: list[dict[str, Any]], first_name: str) -> list[dict[str, Any]]:
    """Return signed lines of launches unchanged, and each launch without a MAC once."""
    united = unite_launches(file, read_launches(lines), first_name)
    signed = {line["project_launch_guid"] for line in lines if "mac" in line}
    kept = [line for line in lines if line["project_launch_guid"] in signed]
    return kept + [describe_launch(one) for one in united if one.project_launch_guid not in signed]
