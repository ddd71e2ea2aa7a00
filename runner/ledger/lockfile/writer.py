"""The writer of lockfiles, whole or not at all."""

from __future__ import annotations

import errno
import os
from dataclasses import asdict
from functools import partial
from io import StringIO
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from runner.errors import LockfileError
from runner.ledger.atomic_write import drafting, write_whole
from runner.ledger.lockfile.checkpoints import add_checkpoints, list_lines
from runner.ledger.lockfile.format import LAUNCH_FIELDS, OPTIONAL_FIELDS
from runner.ledger.lockfile.integrity import LineMacs
from runner.ledger.lockfile.merge import BLOCKS, dump_line
from runner.ledger.people.forgotten import iterate_remembered, read_forgotten
from runner.ledger.record.unexplained import read_dismissed
from runner.ledger.results.runs import read_runs, store_run
from runner.version import LOCKFILE_VERSION, SUMMARY_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import LaunchRecord, Run, SummaryLine
    from runner.ledger.record.recorded import CampaignRecord, Identity


_PROBE_SIZE = 4096


class LockfileContents(NamedTuple):
    """The contents of a lockfile to be written.

    `launches` are streamed, sorted by message and key; `lines` replace them in one that sums up. `runs` are
    sorted by time. `dismissed` has `project_launch_guid`s. `macs` signs each line; None without a state key.
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
    """Return the text of a lockfile, for storage elsewhere."""
    text = StringIO()
    _write_contents(text, contents)
    return text.getvalue()


def dump_data(data: Mapping[str, Any]) -> str:
    """Return the text of a lockfile's data, line by line, in their order."""
    text = StringIO()
    _write(text, data)
    return text.getvalue()


def write_lockfile(file: Path, contents: LockfileContents) -> bool:
    """Write a lockfile, and remove the drafts of killed runs beside it; return True if it changed.

    Raises:
        LockfileError: it cannot be written; the old file is untouched.
    """
    return _replace(file, partial(_write_contents, contents=contents))


def write_text(file: Path, text: str) -> bool:
    """Write the text of a lockfile with `write_lockfile`'s guarantees."""
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
    """Ensure, before anything is sent, that a lockfile can be written.

    Raises:
        LockfileError: its folder cannot be written to, or the disk is full.
    """
    try:
        with drafting(file) as (stream, _):
            stream.write(" " * _PROBE_SIZE)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        is_long = error.errno == errno.ENAMETOOLONG
        raise LockfileError(
            f"the lockfile {file} could not be written: {error.strerror}. Nothing was sent",
            hint="give the campaign's file a shorter name: its lockfile is named after it"
            if is_long
            else "make the folder writable, with some room on its disk, then run the same command again",
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
        "lockfile_version": SUMMARY_VERSION if is_summary else LOCKFILE_VERSION,
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
    """Return the line of a launch."""
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


def rewrite_lockfile(ledger: Ledger, identity: Identity, record: CampaignRecord) -> bool:
    """Write the lockfile under the campaign's lock, if anything was sent; return True if it changed.

    A lockfile that sums up gets a checkpoint in the ledger first.

    Raises:
        LockfileError: it cannot be written.
        LedgerError: the ledger cannot be written.
    """
    if identity.keeps_summary and record.campaign_id is not None:
        with ledger.writing() as connection:
            add_checkpoints(connection, record.campaign_id)
    with ledger.reading() as connection:
        return refresh_lockfile(connection, identity, record)


def refresh_lockfile(connection: Connection, identity: Identity, record: CampaignRecord) -> bool:
    """Write the lockfile from the ledger, if anything was sent; return True if it changed.

    Raises:
        LockfileError: it cannot be written.
    """
    contents = _gather_contents(connection, identity, record, keeps_empty=False)
    return contents is not None and write_lockfile(identity.lockfile, contents)


def compose_lockfile(
    connection: Connection, identity: Identity, record: CampaignRecord, *, is_needed: bool
) -> str | None:
    """Return the current text of the lockfile; None if nothing was sent, unless `is_needed` for its key."""
    contents = _gather_contents(connection, identity, record, keeps_empty=is_needed)
    return None if contents is None else dump_lockfile(contents)


def _gather_contents(
    connection: Connection, identity: Identity, record: CampaignRecord, *, keeps_empty: bool
) -> LockfileContents | None:
    if record.campaign_id is None or record.key is None:
        return None
    campaign_id, first_name = record.campaign_id, record.key.lasting_name(identity.name)
    launches: Iterator[LaunchRecord] = iter(())
    lines = None
    if identity.keeps_summary:
        lines = list_lines(connection, campaign_id)
    else:
        launches = iterate_remembered(connection, campaign_id, first_name)
    first, dismissed = next(launches, None), read_dismissed(connection, campaign_id)
    if not (first or lines or dismissed or keeps_empty):
        return None
    state_key, target = identity.state_key, identity.target
    return LockfileContents(
        identity.name,
        target,
        record.key,
        launches if first is None else chain([first], launches),
        read_forgotten(connection, campaign_id),
        read_runs(connection, campaign_id),
        lines,
        dismissed,
        macs=None if state_key is None else LineMacs(state_key, target, first_name),
    )
