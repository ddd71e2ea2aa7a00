"""The record of one campaign on one target, as values: its identity, and its deliveries or their counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import select

from runner.ledger.files.lockfile import lockfile_path
from runner.ledger.fingerprint import PeopleTally, digest_tallies, tally_texted
from runner.ledger.model import RecordedDeliveries
from runner.ledger.tables import deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from runner.ledger.fingerprint import TargetKey
_GROUP = 10_000


@dataclass(frozen=True, slots=True)
class Identity:
    """The campaign and target of a record.

    Attributes:
        name: the campaign's name.
        file: the campaign file.
        key: the key of the target's fingerprints.
        renamed_from: the campaign's former names.
        message_ids: current ids by current and former ones.
        keeps_counts: whether the lockfile holds counts only (`lockfile: counts`).
    """

    name: str
    file: Path
    key: TargetKey
    renamed_from: tuple[str, ...] = ()
    message_ids: Mapping[str, str] = field(default_factory=dict)
    keeps_counts: bool = False

    @property
    def target(self) -> str:
        """The target's name."""
        return self.key.target

    @property
    def lockfile(self) -> Path:
        """The path of the lockfile."""
        return lockfile_path(self.file, self.target)

    @property
    def names(self) -> tuple[str, ...]:
        """The campaign's names: the current one first."""
        return (self.name, *(name for name in self.renamed_from if name != self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """A record without its deliveries: enough to send, and to write the lockfile.

    `campaign_id` is None if the ledger lacks the campaign; `key`, if nothing is recorded.
    """

    campaign_id: int | None
    key: TargetKey | None

    def require_entered(self) -> tuple[int, TargetKey]:
        """Return the ledger's number and the key of a campaign that was entered.

        Raises:
            ValueError: it was only read.
        """
        if self.campaign_id is None or self.key is None:
            raise ValueError("this record was only read")
        return self.campaign_id, self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(CampaignRecord):
    """The recorded deliveries of a campaign.

    They are complete, or only counted if too large for memory: then the ledger is queried for some people at
    a time.
    """

    deliveries: RecordedDeliveries | RecordSummary

    @property
    def known(self) -> RecordedDeliveries:
        """All deliveries.

        Raises:
            ValueError: only the counts were read, and nobody must be taken for new by them.
        """
        if isinstance(self.deliveries, RecordedDeliveries):
            return self.deliveries
        raise ValueError("of this record only the counts were read")

    @property
    def digest(self) -> str:
        """The digest of the people that the campaign has texted, or may have; the same on every machine.

        Settled and unresolved deliveries count alike.
        """
        found = self.deliveries
        return digest_tallies(tally_texted(found)) if isinstance(found, RecordedDeliveries) else found.digest

    def is_empty(self) -> bool:
        """Return whether nobody is recorded as texted."""
        return self.deliveries.is_empty()

    def count_texted(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of people who got each message, and who may have, by message id."""
        return self.deliveries.count_texted()

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return any(unresolved for _, unresolved in self.count_texted().values())


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """The recipients of one message: certain (`sent`) and possible (`unresolved`) ones."""

    sent: PeopleTally = field(default_factory=PeopleTally)
    unresolved: PeopleTally = field(default_factory=PeopleTally)


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """A campaign's recorded deliveries by message id."""

    messages: Mapping[str, MessageSummary] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of all recipients, certain or possible: `digest_tallies` of `tally_texted`."""
        return digest_tallies({name: one.sent + one.unresolved for name, one in self.messages.items()})

    def is_empty(self) -> bool:
        """Return whether nobody is recorded as texted."""
        return not self.messages

    def count_texted(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of people who got each message, and who may have, by message id."""
        return {name: (one.sent.recipients, one.unresolved.recipients) for name, one in self.messages.items()}


def summarize_deliveries(
    connection: Connection,
    campaign_id: int,
    message_ids: Mapping[str, str] | None = None,
) -> RecordSummary:
    """Return the counts and digests of a campaign's deliveries, in constant memory.

    A person recorded under two ids of one message counts twice, until `rename_messages` has united them.
    """
    current = message_ids or {}
    found: dict[str, MessageSummary] = {}
    query = (
        select(deliveries.c.message, deliveries.c.fingerprint, launches.c.state)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(deliveries.c.campaign_id == campaign_id, deliveries.c.released.is_(False))
        .execution_options(yield_per=_GROUP)
    )
    for message, fingerprint, state in connection.execute(query):
        shelf = found.setdefault(current.get(message, message), MessageSummary())
        (shelf.sent if state == "sent" else shelf.unresolved).add(fingerprint)
    return RecordSummary(found)
