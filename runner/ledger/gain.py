"""What the files of a record tell that earlier versions of them did not: for the log of the repository."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile import parse_lockfile
from runner.ledger.suppression_file import parse_book
from runner.ledger.target_key import TargetKey
from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from runner.ledger.lockfile import Lockfile
    from runner.ledger.suppression_file import Book


@dataclass(frozen=True, slots=True)
class Gain:
    """The launches that one version of a lockfile has and another has not.

    Attributes:
        campaign: its name.
        target: where it was sent.
        launches: how many of each message.
        texts: how many recipients they reached, of each message.
    """

    campaign: str
    target: str
    launches: dict[str, int]
    texts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Advance:
    """Two versions of a lockfile.

    Attributes:
        lockfile: the later one.
        earlier: the earlier one; None if there was none.
    """

    lockfile: Lockfile
    earlier: Lockfile | None

    @classmethod
    def read(cls, file: Path, before: str | None, after: str) -> Advance:
        """Return the versions that two texts say.

        Args:
            file: where it stands, for errors.
            before: the text of the earlier version; None if there was none.
            after: the text of the later one.

        Raises:
            LockfileError: one of them cannot be read.
        """
        earlier = None if before is None else parse_lockfile(file, before)
        return cls(parse_lockfile(file, after), earlier)

    @property
    def is_summary(self) -> bool:
        """Whether one of them sums up: then only counts can be compared."""
        return self.lockfile.is_summary or (self.earlier is not None and self.earlier.is_summary)

    def list_fresh(self) -> dict[str, str]:
        """Return the launches that the earlier version has not: when they were sent, by their guids."""
        known = set() if self.earlier is None or self.is_summary else _list_guids(self.earlier)
        launches = () if self.is_summary else self.lockfile.launches
        fresh = {fold_guid(one.project_launch_guid): one.sent_at for one in launches}
        return {guid: at for guid, at in fresh.items() if guid not in known}

    def find_since(self) -> str | None:
        """Return since when there can be versions that say more than the earlier one."""
        if self.earlier is not None and self.earlier.lines:
            return max(line.last_sent_at for line in self.earlier.lines)
        return min((line.first_sent_at for line in self.lockfile.lines), default=None)

    def is_of_same_record(self, text: str) -> bool:
        """Return whether a text is a lockfile of the same campaign, whatever it is called by now."""
        try:
            other = parse_lockfile(Path(), text)
        except LockfileError:
            return False
        names = {one.first_name or one.campaign for one in (self.lockfile, other)}
        return len(names) == 1 and other.target == self.lockfile.target

    def find_gain(self, told: Collection[str], others: Iterable[str] = ()) -> Gain:
        """Return what has been sent between the two.

        Args:
            told: guids, as `fold_guid` writes them, of launches that the repository was told of elsewhere, or
                in versions that are gone.
            others: texts of other lockfiles of the same record, and of former versions: where counts are all
                there is, the highest count.
        """
        if self.is_summary:
            former = [parse_lockfile(Path(), text) for text in others]
            return _compare_counts([*filter(None, [self.earlier]), *former], self.lockfile)
        fresh = self.list_fresh().keys() - told
        gain = Gain(self.lockfile.campaign, self.lockfile.target, {}, {})
        for launch in self.lockfile.launches:
            if fold_guid(launch.project_launch_guid) in fresh:
                gain.launches[launch.message] = gain.launches.get(launch.message, 0) + 1
                gain.texts[launch.message] = gain.texts.get(launch.message, 0) + len(launch.recipients)
        return gain


@dataclass(frozen=True, slots=True)
class SuppressionGain:
    """The decisions that one version of a file of suppressions has and another has not.

    Attributes:
        target: for which they hold.
        opted_out: people who have opted out, or may have, since.
        let_in: people who may be texted again.
        paused: names of campaigns that are on hold since.
        resumed: names of campaigns that go on.
    """

    target: str
    opted_out: int
    let_in: int
    paused: tuple[str, ...]
    resumed: tuple[str, ...]


def find_suppression_gain(file: Path, before: str | None, after: str) -> SuppressionGain:
    """Return what has been decided between two versions of a file of suppressions.

    Args:
        file: where it stands, for errors.
        before: the text of the earlier version; None if there was none.
        after: the text of the later one.

    Raises:
        SuppressionsError: one of them cannot be read.
    """
    book = parse_book(file, after)
    earlier = None if before is None else parse_book(file, before)
    barred, was_barred = _list_barred(book), set[str]() if earlier is None else _list_barred(earlier)
    if earlier is not None and earlier.key_fingerprint != book.key_fingerprint:
        # Nobody can tell who is who under two keys: the fewer ones are taken for the same people.
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


def _compare_counts(before: Iterable[Lockfile], after: Lockfile) -> Gain:
    gain = Gain(after.campaign, after.target, {}, {})
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
    """Return launches and recipients by message; of several lines of one message the most."""
    found: dict[str, tuple[int, int]] = {}
    for line in lockfile.lines:
        found[line.message] = max(found.get(line.message, (0, 0)), (line.launches, line.recipients))
    for launch in lockfile.launches:
        launches, texts = found.get(launch.message, (0, 0))
        found[launch.message] = (launches + 1, texts + len(launch.recipients))
    return found


def lacks_something(file: Path, before: str, after: str) -> bool:
    """Return whether a version of a lockfile lacks launches, or people to be left alone, of an earlier one.

    A record only grows: one that lacks something is older than it seems.

    Args:
        file: where it stands, for errors.
        before: the text of the earlier version.
        after: the text of the later one.

    Raises:
        LockfileError: one of them cannot be read.
    """
    old, new = parse_lockfile(file, before), parse_lockfile(file, after)
    if old.is_summary or new.is_summary:
        return _is_behind(old, new) or not old.forgotten <= new.forgotten
    return not (old.forgotten <= new.forgotten and _list_guids(old) <= _list_guids(new))


def is_lockfile_moved(file: Path, before: str, after: str, find_secret: Callable[[], str | None]) -> bool:
    """Return whether a version of a lockfile is an earlier one, moved to a user's secret.

    Fingerprints tell nothing then: all launches must be there, and no fewer people to be left alone.

    Args:
        file: where it stands, for errors.
        before: the text of the earlier version.
        after: the text of the later one.
        find_secret: returns the secret, or None; called only if the versions differ in keys.

    Raises:
        LockfileError: one of them cannot be read.
    """
    old, new = parse_lockfile(file, before), parse_lockfile(file, after)
    secret = None if old.key_fingerprint == new.key_fingerprint else find_secret()
    if not secret or FingerprintKey.from_secret(secret).name != new.key_fingerprint:
        return False
    if len(old.forgotten) > len(new.forgotten):
        return False
    if not (old.is_summary or new.is_summary):
        return _list_guids(old) <= _list_guids(new)
    # Recipients can be fewer by now: of people who were forgotten nothing is left.
    counts = _count(new)
    return all(counts.get(name, (0, 0))[0] >= launches for name, (launches, _) in _count(old).items())


def are_suppressions_moved(
    file: Path, before: str, after: str, find_secret: Callable[[], str | None]
) -> bool:
    """Return whether a version of a file of suppressions is an earlier one, moved to a user's secret.

    Fingerprints tell nothing then: every decision of the earlier one must be there, made at the same moment.
    One that was changed since, or went with a person who was forgotten, cannot be told from one that is
    missing.

    Args:
        file: where it stands, for errors.
        before: the text of the earlier version.
        after: the text of the later one.
        find_secret: returns the secret, or None; called only if the versions differ in keys.

    Raises:
        SuppressionsError: one of them cannot be read.
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
    """Return whether sums are lower than they were, or as high and of others; higher ones tell no more."""
    before, after = _count(old), _count(new)
    if any(after.get(name, (0, 0)) < count for name, count in before.items()):
        return True
    digests = {(line.message, line.digest) for line in new.lines}
    return bool(digests) and any(
        after[line.message] == before[line.message] and (line.message, line.digest) not in digests
        for line in old.lines
    )


def _list_guids(lockfile: Lockfile) -> set[str]:
    return {fold_guid(launch.project_launch_guid) for launch in lockfile.launches}
