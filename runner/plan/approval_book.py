"""The file of a target's approvals: `campaigns/<target>.approvals.json`.

One approval a line, sorted, so that two versions merge line by line, and each with a seal of the state key.
A line that is no approval, or that has no such seal, counts for nothing: nobody gains by damaging the file,
since what lacks an approval is asked for.
"""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING, NamedTuple

from runner.plan.approval import Approval, read_approval, seal_approval, write_canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.ledger.fingerprint import FingerprintKey

ENDING = ".approvals.json"
VERSION = 1
_SEAL = "seal"


class BelievedApprovals(NamedTuple):
    """What a file of approvals says.

    Attributes:
        approvals: those that the state key has sealed.
        doubtful: how many lines look like one, and have no seal of this key.
    """

    approvals: tuple[Approval, ...]
    doubtful: int


class _Entry(NamedTuple):
    """A line of a file: an approval, and what is to prove it."""

    approval: Approval
    seal: str

    def write(self) -> str:
        return write_canonical({**self.approval.as_json(), _SEAL: self.seal})


def read_approvals(text: str, key: FingerprintKey) -> BelievedApprovals:
    """Return the approvals of a file.

    Args:
        text: of the file; it may have been merged by git.
        key: the user's, for every purpose.
    """
    entries = list(_iterate_entries(text))
    believed = tuple(entry.approval for entry in entries if _is_sealed(entry, key))
    return BelievedApprovals(believed, len(entries) - len(believed))


def _is_sealed(entry: _Entry, key: FingerprintKey) -> bool:
    seal = entry.seal.encode("utf-8", "backslashreplace")
    return hmac.compare_digest(seal_approval(key, entry.approval).encode(), seal)


def add_approvals(text: str, target: str, key: FingerprintKey, approvals: Iterable[Approval]) -> str:
    """Return the text of a file with more approvals in it.

    Args:
        text: of the file; empty if there is none.
        target: the target's name.
        key: the user's, for every purpose.
        approvals: to be added.
    """
    added = [_Entry(one, seal_approval(key, one)) for one in approvals]
    return _write(target, [*_iterate_entries(text), *added])


def unite_approvals(target: str, ours: str, theirs: str) -> str:
    """Return the text of a file that says what two others say, without a key at hand.

    Args:
        target: the target's name.
        ours: the text of one.
        theirs: the text of the other.
    """
    return _write(target, [*_iterate_entries(ours), *_iterate_entries(theirs)])


def lacks_approvals(before: str, after: str) -> bool:
    """Return whether one version of a file lacks an approval of an earlier one.

    Args:
        before: the text of the earlier version.
        after: the text of the later one.
    """
    told = {entry.write() for entry in _iterate_entries(after)}
    return any(entry.write() not in told for entry in _iterate_entries(before))


def _iterate_entries(text: str) -> Iterator[_Entry]:
    for line in text.splitlines():
        try:
            data = json.loads(line.strip().removesuffix(","))
            entry = _Entry(read_approval(data), data[_SEAL])
        except (ValueError, TypeError, LookupError, RecursionError):
            continue
        if isinstance(entry.seal, str):
            yield entry


def _write(target: str, entries: Iterable[_Entry]) -> str:
    lines = sorted({(entry.approval.approved_at, entry.write()) for entry in entries})
    body = ",\n".join(f"    {line}" for _, line in lines)
    return (
        f'{{\n  "approvals": [\n{body}\n  ],\n  "approvals_version": {VERSION},\n'
        f'  "target": {json.dumps(target)}\n}}\n'
    )
