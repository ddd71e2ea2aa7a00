"""Checks that find edits of lockfiles: keys of launches, and MACs of lines.

A launch key is a digest of message and recipients: people who are removed from a lockfile by hand would look
new, and be texted again.

With a state key each line has a MAC of the target, the campaign's first name, the kind of line and its text,
so that no line can be changed, forged, or brought from another campaign or target. Merging by lines still
needs no key. MACs don't reveal removed lines or an old file: the preflight finds such launches at the
service.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from runner.errors import LockfileError
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.results.runs import is_unedited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from runner.ledger.model import LaunchRecord, Run


RESTORE_HINT = "restore it with git; nothing is sent as long as it is unclear who was texted"
_NAMED = 3
_HEAD = ("campaign", "first_name", "key_fingerprint", "kind", "lockfile_version", "salt", "target")
_LINES = {
    "launches": "the launch {project_launch_guid}",
    "messages": "the message {message}",
    "runs": "the run {id}",
}
_NAMES = {"dismissed": "the dismissed launch {}", "forgotten": "the forgotten person {}"}
_OTHER_KEY = "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new"
_SIGN = (
    "restore it with git; if it is as it should be, since an older version of runner wrote it: `runner key "
    "rotate`, with RUNNER_OLD_STATE_KEY set to the same key, shows what has no MAC, asks, and signs it"
)


def renew_key(record: LaunchRecord, name: str) -> LaunchRecord:
    """Return a launch with the key of its content."""
    return replace(record, key=_compute_key(record, name))


def rename_message(record: LaunchRecord, message: str, name: str) -> LaunchRecord:
    """Return a launch under another message id, with a new key."""
    return record if record.message == message else renew_key(replace(record, message=message), name)


def leave_out(record: LaunchRecord, people: Collection[str], name: str) -> LaunchRecord:
    """Return a launch without some of its recipients, with a new key."""
    kept = tuple(one for one in record.recipients if one not in people)
    return (
        record if len(kept) == len(record.recipients) else renew_key(replace(record, recipients=kept), name)
    )


def require_unedited(file: Path, records: Sequence[LaunchRecord], names: Sequence[str]) -> None:
    """Ensure that launches match their keys, which may be made with any of the names, likeliest first.

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
    """Ensure that runs are unchanged, and that all runs of launches are there.

    Raises:
        LockfileError: some were changed or removed.
    """
    wrong = sorted({run.id for run in runs if not is_unedited(run)})
    gone = sorted({record.run for record in records if record.run is not None} - {run.id for run in runs})
    problems = [f"the run {one} was changed" for one in wrong[:_NAMED]]
    problems += [f"the run {one}, which launches name, is missing" for one in gone[:_NAMED]]
    if problems:
        raise LockfileError(
            f"the lockfile {file} was edited by hand: {'; '.join(problems)}", hint=RESTORE_HINT
        )


def require_times(file: Path, sent_at: Iterable[str], runs: Iterable[Run]) -> None:
    """Ensure that times are valid: launch keys don't cover them, and counts depend on them.

    Raises:
        LockfileError: one is invalid, or has no time zone.
    """
    for time in chain(sent_at, (run.started_at for run in runs)):
        if not _is_time(time):
            raise LockfileError(
                f"the lockfile {file} was edited by hand: “{time}” is not a time with a time zone",
                hint=RESTORE_HINT,
            )


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _compute_key(record: LaunchRecord, name: str) -> str:
    return launch_key(name, record.message, record.payload_digest, record.recipients)


class LineMacs:
    """The MACs of the lines of one campaign's record."""

    def __init__(self, state_key: str, target: str, first_name: str) -> None:
        self._key = FingerprintKey.from_secret(state_key).for_purpose("lockfile")
        self._place = (target, first_name)

    def make(self, kind: str, said: Any) -> str:
        """Return the MAC of a line of some kind."""
        # In ASCII: JSON can hold half a surrogate pair, and no digest can be made of one.
        return self._key.seal(json.dumps([*self._place, kind, said], sort_keys=True).encode())

    def sign_head(self, head: dict[str, Any]) -> list[str]:
        """Return the sorted MACs of everything outside the blocks of lines."""
        names = (self.make(name, one) for name in _NAMES for one in head.get(name, ()))
        return sorted({self.make("head", describe_head(head)), *names})

    def sign_line(self, block: str, line: dict[str, Any]) -> dict[str, Any]:
        """Return a line with its MAC."""
        return {**line, "mac": self.make(block, line)}


def describe_head(data: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a lockfile's data under one MAC: all but its lines and lists of names."""
    return {name: data[name] for name in _HEAD if name in data}


def without_mac(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line without its MAC."""
    return {name: value for name, value in line.items() if name != "mac"}


@dataclass(slots=True)
class Unsigned:
    """The lines of a lockfile without a MAC (`bare`), and with a wrong one."""

    bare: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def find_unsigned(data: dict[str, Any], state_key: str) -> Unsigned:
    """Return the lines of schema-valid data that a key has not signed in their present form."""
    macs = LineMacs(state_key, data["target"], data.get("first_name", data["campaign"]))
    told, found = frozenset(data.get("macs", ())), Unsigned()
    if macs.make("head", describe_head(data)) not in told:
        (found.wrong if told else found.bare).append("its head")
    for name, words in _NAMES.items():
        found.bare += [words.format(one) for one in data.get(name, ()) if macs.make(name, one) not in told]
    for block, words in _LINES.items():
        for line in data.get(block, ()):
            if "mac" not in line:
                found.bare.append(words.format(**line))
            elif line["mac"] != macs.make(block, without_mac(line)):
                found.wrong.append(words.format(**line))
    return found


def is_signed(data: dict[str, Any]) -> bool:
    """Return whether any line of a lockfile's data has a MAC, right or wrong."""
    return "macs" in data or any("mac" in line for block in _LINES for line in data.get(block, ()))


def require_signed(file: Path, data: dict[str, Any], state_key: str) -> None:
    """Ensure that a key has signed everything in a lockfile.

    Raises:
        LockfileError: it has not.
    """
    if "salt" in data and not is_signed(data):
        raise LockfileError(
            f"the lockfile {file} was written with a salt, and now there is a RUNNER_STATE_KEY",
            hint="`runner key rotate` moves the records to the key. Until then nothing is sent: anybody who "
            "can change the file could choose the salt, and so who seems to have been texted",
        )
    if "salt" not in data and data["key_fingerprint"] != FingerprintKey.from_secret(state_key).name:
        raise LockfileError(
            f"the lockfile {file} cannot be read: it was written with another RUNNER_STATE_KEY",
            hint=_OTHER_KEY,
        )
    found = find_unsigned(data, state_key)
    if found.wrong:
        raise LockfileError(
            f"the lockfile {file} was changed without the RUNNER_STATE_KEY: {_enumerate(found.wrong)} "
            f"{'does' if len(found.wrong) == 1 else 'do'} not fit the MAC",
            hint=RESTORE_HINT,
        )
    if found.bare:
        raise LockfileError(
            f"the lockfile {file} was written without the RUNNER_STATE_KEY: {_enumerate(found.bare)} "
            f"{'has' if len(found.bare) == 1 else 'have'} no MAC",
            hint=_SIGN,
        )


def _enumerate(lines: list[str]) -> str:
    rest = len(lines) - _NAMED
    return ", ".join(lines[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
