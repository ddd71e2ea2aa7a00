"""The launches that a repository was told of already: in whatever file, and in versions that are gone.

A commit of the record counts what is new. That is what no lockfile has told before: not the one of the
campaign's former name or place, and not one that was deleted or put back meanwhile.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from runner.source.folding import fold_guid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.ledger.gain import Advance
    from runner.repository.clone import Clone

_ENDING = ".lock.json"
_GUID = '"project_launch_guid": "[^"]*"'
_SUMMARY = '"kind": "summary"'
_CLOCKS_APART = timedelta(days=1)
"""What a commit's time may be before that of what it tells: machines' clocks differ."""


class ToldRecord:
    """What some commits, and those before them, tell.

    Args:
        clone: has them.
        tips: the commits.
        remote: where more of their history can be had; None for nowhere.
    """

    def __init__(self, clone: Clone, tips: Sequence[str], remote: str | None) -> None:
        self._clone = clone
        self._tips = tips
        self._remote = remote

    def find_guids(self, sent: Mapping[str, str]) -> set[str]:
        """Return those of some launches that are told of.

        Args:
            sent: when they were sent, UTC and ISO 8601, by their guids as `fold_guid` writes them.
        """
        told: set[str] = set()
        for tip in self._tips if sent else ():
            told |= sent.keys() & _read_guids("\n".join(self._clone.search(tip, _GUID, _ENDING)))
        left = sent.keys() - told
        if not left:
            return told
        # What was committed before the first of them was sent cannot tell of them.
        since = _leave_room(min(sent[guid] for guid in left))
        for tip in self._tips:
            self._deepen(tip, since)
            told |= left & _read_guids(self._clone.read_patches(tip, since, _ENDING))
        return told

    def list_versions(self, path: str, advance: Advance) -> Iterator[str]:
        """Yield the texts of lockfiles of the same record, where only their counts can be compared.

        Args:
            path: the lockfile's, from the top.
            advance: its two versions.
        """
        first = advance.find_since() if advance.is_summary else None
        if first is None:
            return
        since = _leave_room(first)
        for tip in self._tips:
            self._deepen(tip, since)
            versions = [(commit, path) for commit in self._clone.list_commits(tip, since, path)]
            versions += [(tip, other) for other in self._clone.list_files(tip, (_ENDING,))]
            for commit, file in versions:
                text = self._clone.read(commit, file)
                if text is not None and _SUMMARY in text and advance.is_of_same_record(text):
                    yield text

    def _deepen(self, tip: str, since: str) -> None:
        if self._remote is not None:
            self._clone.deepen(self._remote, tip, since)


def _read_guids(text: str) -> set[str]:
    return {fold_guid(json.loads(found.partition(": ")[2])) for found in re.findall(_GUID, text)}


def _leave_room(at: str) -> str:
    return (datetime.fromisoformat(at) - _CLOCKS_APART).isoformat()
