"""Writes lockfiles, whole or not at all."""

from __future__ import annotations

import os
from dataclasses import asdict
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from runner.errors import LockfileError
from runner.ledger.draft import drafting, write_whole
from runner.ledger.lockfile import FULL_VERSION, LAUNCH_FIELDS, OPTIONAL_FIELDS, SUMMARY_VERSION
from runner.ledger.merge import dump_line
from runner.ledger.provenance import store_run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import LaunchRecord, Run, SummaryLine

_PROBE_SIZE = 4096


class LockfileContents(NamedTuple):
    """What a lockfile says.

    Attributes:
        campaign: the campaign's name.
        target: the target's name.
        key: under which the fingerprints were made.
        launches: sorted by message and key; streamed.
        forgotten: the fingerprints of people who asked to be forgotten.
        runs: those that sent the launches, the earliest first.
        lines: of one that sums up: what it says of each message, in the place of launches; None of others.
        dismissed: the `project_launch_guid`s of launches under its tags that are not the campaign's.
    """

    campaign: str
    target: str
    key: FingerprintKey
    launches: Iterable[LaunchRecord]
    forgotten: Collection[str] = ()
    runs: Iterable[Run] = ()
    lines: Sequence[SummaryLine] | None = None
    dismissed: Collection[str] = ()


def dump_lockfile(contents: LockfileContents) -> str:
    """Return the text of a lockfile, for another place than its own."""
    text = StringIO()
    _write(text, contents)
    return text.getvalue()


def write_lockfile(
    file: Path,
    campaign: str,
    target: str,
    key: FingerprintKey,
    launches: Iterable[LaunchRecord],
    forgotten: Collection[str] = (),
    runs: Iterable[Run] = (),
    lines: Sequence[SummaryLine] | None = None,
    dismissed: Collection[str] = (),
) -> bool:
    """Write a lockfile, whole or not at all, and remove what killed runs have left beside it.

    Args:
        file: where it stands.
        campaign: the campaign's name.
        target: the target's name.
        key: under which the fingerprints were made.
        launches: sorted by message and key; streamed.
        forgotten: the fingerprints of people who asked to be forgotten.
        runs: those that sent the launches, the earliest first.
        lines: as in `LockfileContents`.
        dismissed: as in `LockfileContents`.

    Returns:
        Whether it differs from what was there.

    Raises:
        LockfileError: it cannot be written. What was there is untouched.
    """
    contents = LockfileContents(campaign, target, key, launches, forgotten, runs, lines, dismissed)
    try:
        return write_whole(file, lambda stream: _write(stream, contents))
    except OSError as error:
        raise LockfileError(
            f"the lockfile {file} cannot be written: {error.strerror}",
            hint="the ledger has everything: run `runner apply` again when this is mended",
        ) from None


def require_writable(file: Path) -> None:
    """Make sure, before anything is sent, that a lockfile can be written.

    Raises:
        LockfileError: its folder cannot be written to, or there is no room.
    """
    try:
        with drafting(file) as (stream, _):
            stream.write(" " * _PROBE_SIZE)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise LockfileError(
            f"the lockfile {file} could not be written: {error.strerror}. Nothing was sent",
            hint="make the folder writable, with some room on its disk, then run the same command again",
        ) from None


def _write(stream: IO[str], contents: LockfileContents) -> None:
    _write_head(stream, contents)
    if contents.lines is None:
        _write_launches(stream, contents.launches)
        stream.write(f'  "lockfile_version": {FULL_VERSION},\n')
    else:
        stream.write(f'  "kind": "summary",\n  "lockfile_version": {SUMMARY_VERSION},\n')
        _write_items(stream, "messages", map(asdict, contents.lines))
    _write_end(stream, contents.target, contents.key, contents.runs)


def _write_head(stream: IO[str], contents: LockfileContents) -> None:
    stream.write(f'{{\n  "campaign": {dump_line(contents.campaign)},\n')
    if contents.dismissed:
        stream.write(f'  "dismissed": {dump_line(sorted(contents.dismissed))},\n')
    if contents.key.first_name is not None:
        stream.write(f'  "first_name": {dump_line(contents.key.first_name)},\n')
    if contents.forgotten:
        stream.write(f'  "forgotten": {dump_line(sorted(contents.forgotten))},\n')
    stream.write(f'  "key_fingerprint": {dump_line(contents.key.name)},\n')


def _write_launches(stream: IO[str], launches: Iterable[LaunchRecord]) -> None:
    _write_items(stream, "launches", map(_describe_launch, launches))


def _describe_launch(launch: LaunchRecord) -> dict[str, Any]:
    item = {name: getattr(launch, name) for name in LAUNCH_FIELDS}
    return item | {name: value for name in OPTIONAL_FIELDS if (value := getattr(launch, name)) is not None}


def _write_items(stream: IO[str], name: str, items: Iterable[dict[str, Any]]) -> None:
    stream.write(f'  "{name}": [')
    separator = "\n"
    for item in items:
        stream.write(f"{separator}    {dump_line(item)}")
        separator = ",\n"
    end = "]" if separator == "\n" else "\n  ]"
    stream.write(f"{end},\n")


def _write_end(stream: IO[str], target: str, key: FingerprintKey, runs: Iterable[Run]) -> None:
    lines = ",\n".join(f"    {dump_line(store_run(run))}" for run in runs)
    if lines:
        stream.write(f'  "runs": [\n{lines}\n  ],\n')
    if key.salt is not None:
        stream.write(f'  "salt": {dump_line(key.salt)},\n')
    stream.write(f'  "target": {dump_line(target)}\n}}\n')
