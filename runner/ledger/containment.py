"""Whether the ledger has everybody whom lockfiles that sum up tell of; with less, nothing is sent.

Such a lockfile cannot fill a ledger: whoever is missing in the ledger would look new, and be texted again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from runner.errors import LockfileError
from runner.ledger.deliveries import find_campaign
from runner.ledger.marks import last_tallies, read_marks, tally_marked
from runner.ledger.summary import summarize_deliveries
from runner.ledger.tally import PeopleTally

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.lockfile import Lockfile
    from runner.ledger.model import SummaryLine
    from runner.ledger.summary import RecordSummary

_HINT = (
    "the lockfile holds counts (`lockfile: summary`) and cannot fill a ledger: restore the newest copy of "
    "the ledger, or fill a new one with `runner ledger import`. If there is none, move the lockfile away: "
    "`runner apply` then asks the service for what the ledger lacks"
)


def has_summaries(lockfiles: Mapping[Path, Lockfile]) -> bool:
    """Return whether any lockfile sums up deliveries."""
    return any(line.recipients for lockfile in lockfiles.values() for line in lockfile.lines)


def require_contained(
    connection: Connection | None,
    campaign_id: int | None,
    lockfiles: Mapping[Path, Lockfile],
    message_ids: Mapping[str, str],
    forgotten: Collection[str],
) -> None:
    """Make sure that the ledger has everybody whom lockfiles sum up; to be called before any of it changes.

    Args:
        connection: reads the ledger; None if there is none.
        campaign_id: the ledger's number of the campaign; None if it has none.
        lockfiles: the campaign's.
        message_ids: the ids that messages have now, by those that they had before.
        forgotten: the fingerprints of those who asked to be forgotten, wherever that is known from.

    Raises:
        LockfileError: it lacks some, as far as can be told.
    """
    if not has_summaries(lockfiles):
        return
    held = _Held(connection, campaign_id, message_ids, forgotten)
    for file, lockfile in lockfiles.items():
        for line in lockfile.lines:
            if not held.contains(line):
                raise LockfileError(
                    f"the ledger is not the one that the lockfile {file} sums up: of the message "
                    f"{line.message!r} that has {line.recipients:,} recipients, the ledger "
                    f"{held.describe(line.message)}",
                    hint=_HINT,
                )


def is_told(connection: Connection, lockfile: Lockfile) -> bool:
    """Return whether the ledger once told a lockfile what it sums up.

    Enough to count by, and cheap; whether it still has everybody is what `require_contained` finds out.

    Args:
        connection: reads the ledger.
        lockfile: one of any campaign.
    """
    row = find_campaign(connection, lockfile.target, lockfile.campaign)
    tallies = [] if row is None else [mark.tally for mark in read_marks(connection, row.id)]
    return all(PeopleTally.read(line.recipients, line.digest) in tallies for line in lockfile.lines)


class _Held:
    """What a ledger has of a campaign's deliveries, by the ids that messages have now."""

    def __init__(
        self,
        connection: Connection | None,
        campaign_id: int | None,
        message_ids: Mapping[str, str],
        forgotten: Collection[str],
    ) -> None:
        self._told: dict[str, list[PeopleTally]] = {}
        self._altered: set[str] = set()
        self._sums: list[RecordSummary] | None = [] if connection is None or campaign_id is None else None
        if connection is None or campaign_id is None:
            return
        self._summarize = partial(summarize_deliveries, connection, campaign_id, message_ids)
        self._forgotten = forgotten
        marks, current = read_marks(connection, campaign_id), message_ids
        marked = tally_marked(connection, campaign_id) if marks else {}
        for message, tally in last_tallies(marks).items():
            if marked.get(message, PeopleTally()) != tally:
                self._altered.add(current.get(message, message))
        for mark in marks:
            self._told.setdefault(current.get(mark.message, mark.message), []).append(mark.tally)

    def contains(self, line: SummaryLine) -> bool:
        """Return whether nobody of those whom a line sums up is missing."""
        wanted = PeopleTally.read(line.recipients, line.digest)
        told = [] if line.message in self._altered else self._told.get(line.message, [])
        return not wanted or wanted in told or wanted in self._list_present(line.message)

    def describe(self, message: str) -> str:
        """Return how many recipients of a message there are, for an error."""
        count = max((tally.recipients for tally in self._list_present(message)), default=0)
        return f"has {count:,}, not all of them the same" if count else "has none"

    def _list_present(self, message: str) -> list[PeopleTally]:
        """Return who has got a message, with and without those forgotten whose deliveries still linger."""
        if self._sums is None:
            # Of everybody once more: it is only asked for if the marks don't say it.
            self._sums = [self._summarize()]
            self._sums += [self._summarize(self._forgotten)] if self._forgotten else []
        return [one.messages[message].sent for one in self._sums if message in one.messages]
