"""Two versions of one lockfile as one: what either says was sent, was sent.

Branches and machines may each have gone on from the same record. The rules are those by which a lockfile
that git has merged is read (`merge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile import Lockfile, parse_lockfile
from runner.ledger.lockfile_writer import LockfileContents, dump_lockfile
from runner.ledger.merge import agree_on_head, refuse_mixture, unite_launches

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = ("campaign", "target", "key_fingerprint", "salt", "first_name")


def unite_lockfiles(file: Path, ours: str, theirs: str) -> str:
    """Return the text of a lockfile that says what two others say.

    Args:
        file: where it stands, for errors.
        ours: the text of one.
        theirs: the text of the other.

    Raises:
        LockfileError: one of them cannot be read, or they were made with keys of their own.
    """
    one = parse_lockfile(file, ours)
    if ours == theirs:
        return _write(one) if one.is_merged else ours
    return _write(_unite(file, one, parse_lockfile(file, theirs)))


def _unite(file: Path, one: Lockfile, other: Lockfile) -> Lockfile:
    is_summary = one.is_summary or other.is_summary
    refuse_mixture(file, is_summary=is_summary, has_launches=not (one.is_summary and other.is_summary))
    sides: dict[str, list[Any]] = {}
    for name in _HEAD:
        values = (getattr(side, name) for side in (one, other))
        if said := list(dict.fromkeys(value for value in values if value is not None)):
            sides[name] = said
    head = agree_on_head(file, sides)
    first_name = head.get("first_name", head["campaign"])
    return Lockfile(
        head["campaign"],
        head["target"],
        head["key_fingerprint"],
        head.get("salt"),
        head.get("first_name"),
        unite_launches(file, (*one.launches, *other.launches), first_name),
        one.forgotten | other.forgotten,
        tuple({run.id: run for run in (*one.runs, *other.runs)}.values()),
        # Of a message that both have sent, both lines: only the ledger can make one of them.
        lines=tuple(dict.fromkeys((*one.lines, *other.lines))),
        is_summary=is_summary,
        dismissed=one.dismissed | other.dismissed,
    )


def _write(lockfile: Lockfile) -> str:
    key = FingerprintKey.as_recorded(lockfile.salt, lockfile.key_fingerprint, lockfile.first_name)
    launches = sorted(lockfile.launches, key=lambda launch: (launch.message, launch.key))
    runs = sorted(lockfile.runs, key=lambda run: (run.started_at, run.id))
    lines = sorted(lockfile.lines) if lockfile.is_summary else None
    return dump_lockfile(
        LockfileContents(
            lockfile.campaign,
            lockfile.target,
            key,
            launches,
            lockfile.forgotten,
            runs,
            lines,
            lockfile.dismissed,
        )
    )
