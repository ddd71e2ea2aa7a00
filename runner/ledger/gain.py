"""What the files of a record tell that earlier versions of them did not: for the log of the repository."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.lockfile import parse_lockfile
from runner.ledger.suppression_file import parse_book

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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


def find_gain(file: Path, before: str | None, after: str, others: Iterable[str] = ()) -> Gain:
    """Return what has been sent between two versions of a lockfile.

    Args:
        file: where it stands, for errors.
        before: the text of the earlier version; None if there was none.
        after: the text of the later one.
        others: the texts of lockfiles that a campaign may have had before it was renamed; those that cannot
            be read tell nothing.

    Raises:
        LockfileError: one of them cannot be read.
    """
    lockfile = parse_lockfile(file, after)
    earlier = None if before is None else parse_lockfile(file, before)
    if lockfile.is_summary or (earlier is not None and earlier.is_summary):
        return _compare_counts(earlier, lockfile)
    known = set() if earlier is None else _list_guids(earlier)
    if before is None and lockfile.first_name is not None:
        for text in others:
            with suppress(LockfileError):
                known |= _list_guids(parse_lockfile(file, text))
    gain = Gain(lockfile.campaign, lockfile.target, {}, {})
    for launch in lockfile.launches:
        if launch.project_launch_guid not in known:
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


def _compare_counts(before: Lockfile | None, after: Lockfile) -> Gain:
    gain = Gain(after.campaign, after.target, {}, {})
    old = {} if before is None else _count(before)
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
    return {launch.project_launch_guid for launch in lockfile.launches}
