"""Two versions of one lockfile as one: what either says was sent, was sent.

Branches and machines may each have gone on from the same record. This is `merge` for texts that git has
not put together yet, and writes the result as `lockfile` would: whole, sorted, without markers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from runner.ledger.fingerprint import FingerprintKey
from runner.ledger.lockfile import Lockfile, parse_lockfile
from runner.ledger.lockfile_writer import write_lockfile


def unite_lockfiles(file: Path, ours: str, theirs: str) -> str:
    """Return the text of a lockfile that says what two others say.

    Args:
        file: where it stands, for errors.
        ours: the text of one.
        theirs: the text of the other.

    Raises:
        LockfileError: one of them cannot be read, or they were made with keys of their own.
    """
    if ours == theirs:
        lockfile = parse_lockfile(file, ours)
        return _write(lockfile) if lockfile.is_merged else ours
    # Each is written whole first: one that git has merged has markers of its own.
    sides = [_list_lines(_write(parse_lockfile(file, text))) for text in (ours, theirs)]
    lines = ["{", "<<<<<<< ours", *sides[0], "=======", *sides[1], ">>>>>>> theirs", "}", ""]
    return _write(parse_lockfile(file, "\n".join(lines)))


def _list_lines(text: str) -> list[str]:
    """Return the lines of a lockfile without the braces around them."""
    return text.splitlines()[1:-1]


def _write(lockfile: Lockfile) -> str:
    key = FingerprintKey.as_recorded(lockfile.salt, lockfile.key_fingerprint, lockfile.first_name)
    launches = sorted(lockfile.launches, key=lambda launch: (launch.message, launch.key))
    runs = sorted(lockfile.runs, key=lambda run: (run.started_at, run.id))
    with tempfile.TemporaryDirectory(prefix="runner-union-") as folder:
        draft = Path(folder) / "lock.json"
        write_lockfile(draft, lockfile.campaign, lockfile.target, key, launches, lockfile.forgotten, runs)
        return draft.read_text(encoding="utf-8")
