"""Lockfiles: the sends of one campaign on one target, committed beside its file.

Each launch is a line with the recipients' fingerprints, so that a lost ledger is filled from it. For ledgers
on a server that hold very many launches it can hold their number and the last one instead
(`lockfile: counts`); a ledger that lacks that one is refused.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from runner.atomic_write import drafting
from runner.errors import LockfileError
from runner.ledger.files.sealed import FileKind, check_document, digest_text, parse_text
from runner.ledger.model import LaunchRecord, Reservation, ReservedLaunch, Run, SealedLine
from runner.version import LOCKFILE_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from runner.ledger.fingerprint import TargetKey

LOCKFILE_SUFFIX = ".lock.json"
RESTORE_HINT = "restore it with git; nothing is sent as long as it is unclear who was texted"
_PROBE_SIZE = 4096
_HEAD_CHARACTERS = 4096
# Keys are sorted, so only a bracket and conflict markers can stand before this one.
_KEY = re.compile(r'^  "key_fingerprint": "([0-9a-f]{16})"', re.MULTILINE)
_NAME = re.compile(r'"campaign": ("(?:[^"\\]|\\.)*")')


class DismissedLine(SealedLine, frozen=True):
    """A launch under the campaign's tags that a person has declared not to be the campaign's."""

    project_launch_guid: str


class FormerName(SealedLine, frozen=True):
    """A former name of the campaign, which an old checkout may still use."""

    name: str


class CountedLaunches(SealedLine, frozen=True):
    """The number of launches in the ledger, and the last one."""

    launches: int
    project_launch_guid: str


class Lockfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of a lockfile.

    Attributes:
        key_fingerprint: the name of the key of fingerprints and seals.
        launches: accepted launches, sorted by message and key.
        counts: in place of launches, with `lockfile: counts`.
        dismissed: launches that are not the campaign's.
        former_names: the campaign's.
        reserved: on a state remote, in place of the others: launches that a run was about to send.
        runs: the known runs that sent the launches.
    """

    campaign: str
    key_fingerprint: str
    lockfile_version: Literal[2]
    target: str
    launches: tuple[LaunchRecord, ...] = ()
    counts: tuple[CountedLaunches, ...] = ()
    dismissed: tuple[DismissedLine, ...] = ()
    former_names: tuple[FormerName, ...] = ()
    reserved: tuple[ReservedLaunch, ...] = ()
    runs: tuple[Run, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The campaign's names: the current one first."""
        return (self.campaign, *(one.name for one in self.former_names))


_LINES = {
    "counts": "the number of launches",
    "dismissed": "the dismissed launch {project_launch_guid}",
    "former_names": "the former name {name}",
    "launches": "the launch {project_launch_guid}",
    "reserved": "the reserved launch {key}",
    "runs": "the run {id}",
}


def _describe(block: str, line: Any) -> str:
    return _LINES[block].format(**msgspec.structs.asdict(line))


LOCKFILE = FileKind(
    "the lockfile ",
    Lockfile,
    ("lockfile_version", LOCKFILE_VERSION),
    LockfileError,
    RESTORE_HINT,
    "everyone would look new",
    "targets' names are for good, with a new one everyone would be texted again: put it back",
    {name: name for name in _LINES},
    _describe,
)


class ParsedLockfile(NamedTuple):
    """A lockfile that was read; if it `is_merged`, git has merged it, and it must be rewritten."""

    lockfile: Lockfile
    is_merged: bool


def lockfile_name(stem: str, target: str) -> str:
    """Return the name of the lockfile of a campaign file with some stem."""
    return f"{stem}.{target}{LOCKFILE_SUFFIX}"


def lockfile_path(campaign_file: Path, target: str) -> Path:
    """Return the path of the lockfile of a campaign and a target."""
    return campaign_file.with_name(lockfile_name(campaign_file.stem, target))


def read_campaign_name(text: str) -> str | None:
    """Return the campaign that a lockfile names, from the beginning of its text; None if it names none."""
    found = _NAME.search(text[:_HEAD_CHARACTERS])
    try:
        return None if found is None else msgspec.json.decode(found[1], type=str)
    except msgspec.DecodeError:
        return None


def read_key_name(text: str) -> str | None:
    """Return the name of the key that a record file was written with; None if it names none."""
    found = _KEY.search(text)
    return None if found is None else found[1]


def parse_lockfile(file: Path, text: str, key: TargetKey | None = None) -> ParsedLockfile:
    """Parse the text of a lockfile; one merged by git has the launches of both sides.

    Without `key`, seals are not checked, and target and key may be any.
    """
    lockfile, is_merged = parse_text(LOCKFILE, file, text)
    if key is not None:
        check_document(LOCKFILE, file, text, lockfile, key, lockfile.names)
    launches = _unite_launches(lockfile.launches)
    # The larger number is the later one: all machines that write it share the ledger.
    counts = tuple(sorted(lockfile.counts, key=lambda one: one.launches)[-1:])
    return ParsedLockfile(msgspec.structs.replace(lockfile, launches=launches, counts=counts), is_merged)


def _unite_launches(launches: Iterable[LaunchRecord]) -> tuple[LaunchRecord, ...]:
    """Return each launch once: git keeps a line twice that both sides have added.

    Where one side has renamed its message, it is under both ids: its people count as reached by either.
    """
    found: dict[tuple[str, str], LaunchRecord] = {}
    for launch in launches:
        identity = (launch.project_launch_guid, launch.message)
        twin = found.setdefault(identity, launch)
        if twin is launch:
            continue
        # Two machines may have recorded different recipients: all of them were reached. One that found the
        # launch at the service does not know its run.
        first = min(twin, launch, key=lambda side: (side.sent_at, side.key))
        found[identity] = msgspec.structs.replace(
            first,
            recipients=tuple(sorted({*twin.recipients, *launch.recipients})),
            run=min(filter(None, (twin.run, launch.run)), default=None),
            asks=twin.asks or launch.asks,
        )
    return tuple(found.values())


class LockfileContents(NamedTuple):
    """The contents of a lockfile to be written.

    `launches` are streamed, sorted by message and key; None with `counts` in their place.
    """

    campaign: str
    key: TargetKey
    launches: Iterable[LaunchRecord] | None
    counts: Sequence[CountedLaunches] = ()
    dismissed: Collection[str] = ()
    former_names: Collection[str] = ()
    runs: Sequence[Run] = ()


def dump_lockfile(contents: LockfileContents) -> Iterator[str]:
    """Yield the text of a lockfile in pieces, sealed."""
    lines: dict[str, Sequence[SealedLine]] = {
        "counts": contents.counts,
        "dismissed": [*map(DismissedLine, sorted(contents.dismissed))],
        "former_names": [*map(FormerName, sorted(contents.former_names))],
        "runs": contents.runs,
    }
    blocks: dict[str, Iterable[SealedLine]] = {name: block for name, block in lines.items() if block}
    if contents.launches is not None:
        blocks["launches"] = contents.launches
    return LOCKFILE.dump_sealed(contents.key, contents.campaign, blocks, campaign=contents.campaign)


def save_lockfile(file: Path, contents: LockfileContents) -> tuple[bool, str]:
    """Write a lockfile, whole or not at all; return whether it changed, and the digest of its text."""
    return LOCKFILE.save(file, dump_lockfile(contents))


def require_writable(file: Path) -> None:
    """Ensure, before anything is sent, that a lockfile can be written."""
    if file.is_dir():
        raise LOCKFILE.fail(
            file,
            "could not be written: it is a folder. Nothing was sent",
            hint="move the folder away, then run the same command again",
        )
    try:
        with drafting(file) as (stream, _):
            stream.write(" " * _PROBE_SIZE)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise LOCKFILE.fail(
            file,
            f"could not be written: {error.strerror}. Nothing was sent",
            hint="make the folder writable, with some room on its disk, and the name of the campaign's file "
            "no longer than the file system takes, then run the same command again",
        ) from None


def dump_reservation(
    key: TargetKey, campaign: str, launches: Sequence[ReservedLaunch], runs: Sequence[Run]
) -> str:
    """Return launches about to be sent as a lockfile of their own, for other machines."""
    blocks: dict[str, Sequence[SealedLine]] = {"reserved": launches, "runs": runs}
    given = {name: block for name, block in blocks.items() if block}
    return "".join(LOCKFILE.dump_sealed(key, campaign, given, campaign=campaign))


def parse_reservation(file: Path, text: str, campaign: str, key: TargetKey) -> Reservation:
    """Parse the text of a group of reserved launches of a campaign."""
    found: Lockfile = parse_text(LOCKFILE, file, text)[0]
    check_document(LOCKFILE, file, text, found, key, [campaign])
    return Reservation(digest_text(text), found.reserved, found.runs)
