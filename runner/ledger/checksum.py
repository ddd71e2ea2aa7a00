"""Launch keys as checksums: a launch whose message or recipients were edited by hand no longer fits its key.

Whoever is taken out of a lockfile would look new, and be texted again (design: delivery, "Identity").
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.fingerprint import launch_key
from runner.ledger.provenance import is_unedited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from runner.ledger.model import LaunchRecord, Run

RESTORE_HINT = "restore it with git; nothing is sent as long as it is unclear who was texted"
_NAMED = 3


def renew_key(record: LaunchRecord, name: str) -> LaunchRecord:
    """Return a launch with the key of what it holds.

    Args:
        record: the launch.
        name: the campaign's first name.
    """
    return replace(record, key=_compute_key(record, name))


def rename_message(record: LaunchRecord, message: str, name: str) -> LaunchRecord:
    """Return a launch under a message id, with a key that fits it.

    Args:
        record: the launch.
        message: the id that its message has now.
        name: the campaign's first name.
    """
    return record if record.message == message else renew_key(replace(record, message=message), name)


def leave_out(record: LaunchRecord, people: Collection[str], name: str) -> LaunchRecord:
    """Return a launch without some of its recipients, with a key that fits the others.

    Args:
        record: the launch.
        people: their fingerprints.
        name: the campaign's first name.
    """
    kept = tuple(one for one in record.recipients if one not in people)
    return (
        record if len(kept) == len(record.recipients) else renew_key(replace(record, recipients=kept), name)
    )


def require_unedited(file: Path, records: Sequence[LaunchRecord], names: Sequence[str]) -> None:
    """Make sure that launches are as they were written.

    Args:
        file: the lockfile, for the error.
        records: its launches.
        names: those that the campaign has had, the likeliest first: a key may have been made with any.

    Raises:
        LockfileError: some launches don't fit their keys.
    """
    wrong = [
        record.project_launch_guid
        for record in records
        if all(record.key != _compute_key(record, name) for name in names)
    ]
    if not wrong:
        return
    named = ", ".join(wrong[:_NAMED]) + (f" and {len(wrong) - _NAMED:,} more" if len(wrong) > _NAMED else "")
    launches = "a launch" if len(wrong) == 1 else f"{len(wrong):,} launches"
    raise LockfileError(
        f"the lockfile {file} was edited by hand: its keys say that {launches} had another message "
        f"or other recipients: {named}",
        hint=RESTORE_HINT,
    )


def require_known_runs(file: Path, runs: Collection[Run], records: Sequence[LaunchRecord]) -> None:
    """Make sure that runs are as they were written, and that those which launches name are there.

    Args:
        file: the lockfile, for the error.
        runs: its runs.
        records: its launches.

    Raises:
        LockfileError: some were changed, or taken out.
    """
    wrong = sorted({run.id for run in runs if not is_unedited(run)})
    gone = sorted({record.run for record in records if record.run is not None} - {run.id for run in runs})
    problems = [f"the run {one} was another one" for one in wrong[:_NAMED]]
    problems += [f"the run {one}, which launches name, is not there" for one in gone[:_NAMED]]
    if problems:
        raise LockfileError(
            f"the lockfile {file} was edited by hand: {'; '.join(problems)}", hint=RESTORE_HINT
        )


def require_times(file: Path, sent_at: Iterable[str], runs: Iterable[Run]) -> None:
    """Make sure that times are times: no checksum covers when a launch was sent, and much is counted by it.

    Args:
        file: the lockfile, for the error.
        sent_at: when its launches were sent.
        runs: its runs.

    Raises:
        LockfileError: one is no time, or of no time zone.
    """
    for time in chain(sent_at, (run.started_at for run in runs)):
        if not _is_time(time):
            raise LockfileError(
                f"the lockfile {file} was edited by hand: “{time}” is no time with a time zone",
                hint=RESTORE_HINT,
            )


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _compute_key(record: LaunchRecord, name: str) -> str:
    return launch_key(name, record.message, record.payload_digest, record.recipients)
