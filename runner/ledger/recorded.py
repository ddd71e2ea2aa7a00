"""What is on record of one campaign on one target, as values: no file and no table is read here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner.ledger.tally import digest_tallies, tally_texted

if TYPE_CHECKING:
    from pathlib import Path

    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.lockfiles import Stamps
    from runner.ledger.model import Known
    from runner.ledger.summary import RecordSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHead:
    """What is known of a record without its deliveries: enough to send by, and to write the lockfile.

    Attributes:
        campaign_id: the ledger's number of the campaign; None if the ledger doesn't know it.
        key: the key of the fingerprints; None if nothing is on record yet.
        merged: lockfiles that git has put together from two branches': they are to be written anew.
        stamps: tells the lockfiles that were read from others that may take their places.
    """

    campaign_id: int | None
    key: FingerprintKey | None
    merged: tuple[Path, ...] = ()
    stamps: Stamps = field(default_factory=dict)

    def require_entered(self) -> tuple[int, FingerprintKey]:
        """Return the ledger's number and the key of a campaign that was entered.

        Raises:
            ValueError: it was only read.
        """
        if self.campaign_id is None or self.key is None:
            raise ValueError("this record was only read")
        return self.campaign_id, self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(RecordHead):
    """What is on record, every delivery of it.

    Attributes:
        known: the deliveries.
    """

    known: Known

    @property
    def digest(self) -> str:
        """Tells whom the campaign has texted, or may have; the same on every machine.

        One that has settled what another one still holds for unresolved has texted the same people, and one
        that was told of forgotten people may still have launches to them.
        """
        return digest_tallies(tally_texted(self.known))

    def is_empty(self) -> bool:
        """Return whether nobody has been texted, or was forgotten, as far as is known."""
        return self.known.is_empty()

    def count_texted(self) -> dict[str, tuple[int, int]]:
        """Return how many got each message, and how many may have, by message id."""
        known = self.known
        return {
            name: (len(known.sent.get(name, ())), len(known.unresolved.get(name, ())))
            for name in known.messages
        }

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return any(self.known.unresolved.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedRecord(RecordHead):
    """What is on record, the deliveries as counts and digests: whose they are is asked of the ledger.

    Attributes:
        summary: the deliveries, without those of forgotten people.
        forgotten: the fingerprints of those who asked to be forgotten, whatever they got.
    """

    summary: RecordSummary
    forgotten: frozenset[str] = frozenset()

    @property
    def digest(self) -> str:
        """As that of a `Record`."""
        return self.summary.digest

    def is_empty(self) -> bool:
        """Return whether nobody has been texted, or was forgotten, as far as is known."""
        return self.summary.is_empty() and not self.forgotten

    def count_texted(self) -> dict[str, tuple[int, int]]:
        """Return how many got each message, and how many may have, by message id."""
        return {
            name: (one.sent.recipients, one.unresolved.recipients)
            for name, one in self.summary.messages.items()
        }

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return self.summary.is_unclear()
