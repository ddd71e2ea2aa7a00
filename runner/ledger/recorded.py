"""What is on record of one campaign on one target, as values: no file and no table is read here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
        uses_salt_despite_key: whether the record keeps its salt although the user has set a key.
        merged: lockfiles that git has put together from two branches': they are to be written anew.
        stamps: tells the lockfiles that were read from others that may take their places.
    """

    campaign_id: int | None
    key: FingerprintKey | None
    uses_salt_despite_key: bool = False
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

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return self.summary.is_unclear()
