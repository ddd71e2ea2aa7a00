"""Writes lockfiles, whole or not at all."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from runner.errors import LockfileError
from runner.ledger.draft import drafting, write_whole
from runner.ledger.lockfile import FULL_VERSION, LAUNCH_FIELDS, OPTIONAL_FIELDS, SUMMARY_VERSION
from runner.ledger.merge import BLOCKS, dump_line
from runner.ledger.provenance import store_run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.line_macs import LineMacs
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
        macs: signs each line; None without a state key.
    """

    campaign: str
    target: str
    key: FingerprintKey
    launches: Iterable[LaunchRecord]
    forgotten: Collection[str] = ()
    runs: Iterable[Run] = ()
    lines: Sequence[SummaryLine] | None = None
    dismissed: Collection[str] = ()
    macs: LineMacs | None = None


def dump_lockfile(contents: LockfileContents) -> str:
    """Return the text of a lockfile, for another place than its own."""
    text = StringIO()
    _write_contents(text, contents)
    return text.getvalue()


def dump_data(data: Mapping[str, Any]) -> str:
    """Return the text of a lockfile that says what the data of one say, line by line, in their order."""
    text = StringIO()
    _write(text, data)
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
    macs: LineMacs | None = None,
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
        macs: as in `LockfileContents`.

    Returns:
        Whether it differs from what was there.

    Raises:
        LockfileError: it cannot be written. What was there is untouched.
    """
    contents = LockfileContents(campaign, target, key, launches, forgotten, runs, lines, dismissed, macs)
    return _replace(file, partial(_write_contents, contents=contents))


def write_text(file: Path, text: str) -> bool:
    """Write the text of a lockfile, as `write_lockfile` does."""
    return _replace(file, lambda stream: stream.write(text))


def _replace(file: Path, write: Callable[[IO[str]], object]) -> bool:
    try:
        return write_whole(file, write)
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


def _write_contents(stream: IO[str], contents: LockfileContents) -> None:
    is_summary = contents.lines is not None
    head = {
        "campaign": contents.campaign,
        "dismissed": sorted(contents.dismissed),
        "first_name": contents.key.first_name,
        "forgotten": sorted(contents.forgotten),
        "key_fingerprint": contents.key.name,
        "kind": "summary" if is_summary else None,
        "lockfile_version": SUMMARY_VERSION if is_summary else FULL_VERSION,
        "salt": contents.key.salt,
        "target": contents.target,
    }
    said = {name: value for name, value in head.items() if value is not None and value != []}
    blocks: dict[str, Iterable[dict[str, Any]]] = {}
    if contents.lines is None:
        blocks["launches"] = map(describe_launch, contents.launches)
    else:
        blocks["messages"] = map(asdict, contents.lines)
    if runs := [store_run(run) for run in contents.runs]:
        blocks["runs"] = runs
    if contents.macs is not None:
        said["macs"] = contents.macs.sign_head(said)
        blocks = {name: _sign(contents.macs, name, lines) for name, lines in blocks.items()}
    _write(stream, {**said, **blocks})


def _sign(macs: LineMacs, block: str, lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in lines:
        yield macs.sign_line(block, line)


def describe_launch(launch: LaunchRecord) -> dict[str, Any]:
    """Return what the line of a launch says."""
    item = {name: getattr(launch, name) for name in LAUNCH_FIELDS}
    return item | {name: value for name in OPTIONAL_FIELDS if (value := getattr(launch, name)) is not None}


def _write(stream: IO[str], data: Mapping[str, Any]) -> None:
    separator = "{\n"
    for name in sorted(data):
        stream.write(f'{separator}  "{name}": ')
        if name in BLOCKS:
            _write_items(stream, data[name])
        else:
            stream.write(dump_line(data[name]))
        separator = ",\n"
    stream.write("\n}\n")


def _write_items(stream: IO[str], items: Iterable[dict[str, Any]]) -> None:
    stream.write("[")
    separator = "\n"
    for item in items:
        stream.write(f"{separator}    {dump_line(item)}")
        separator = ",\n"
    stream.write("]" if separator == "\n" else "\n  ]")
