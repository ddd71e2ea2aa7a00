"""What the ledger knows of a campaign's deliveries, as counts and digests: read as a stream.

For campaigns whose fingerprints are too many to be held at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import select

from runner.ledger.tables import deliveries, launches
from runner.ledger.tally import PeopleTally, digest_tallies

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection

_GROUP = 10_000


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """Whom a message has reached, and whom it may have reached.

    Attributes:
        sent: those of accepted launches.
        unresolved: those of launches of unknown outcome.
    """

    sent: PeopleTally = field(default_factory=PeopleTally)
    unresolved: PeopleTally = field(default_factory=PeopleTally)


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """A campaign's deliveries on record, by message id; messages that nobody got are not there."""

    messages: Mapping[str, MessageSummary] = field(default_factory=dict)

    @property
    def sent(self) -> int:
        """Deliveries that were made."""
        return sum(one.sent.recipients for one in self.messages.values())

    @property
    def unresolved(self) -> int:
        """Deliveries that may or may not have been made."""
        return sum(one.unresolved.recipients for one in self.messages.values())

    @property
    def digest(self) -> str:
        """Tells who got what, or may have: as `digest_tallies` of `tally_texted` of the same record."""
        return digest_tallies({name: one.sent + one.unresolved for name, one in self.messages.items()})

    def is_empty(self) -> bool:
        """Return whether nobody has been texted, as far as is known."""
        return not self.messages

    def is_unclear(self) -> bool:
        """Return whether there are deliveries that may or may not have been made."""
        return self.unresolved > 0


def summarize_deliveries(
    connection: Connection,
    campaign_id: int,
    message_ids: Mapping[str, str] | None = None,
    left_out: Collection[str] = (),
) -> RecordSummary:
    """Return the counts and digests of a campaign's deliveries; in memory that doesn't grow with them.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before. Whoever is entered under
            two ids of one message counts twice, until `rename_messages` has made one of it.
        left_out: fingerprints of people who don't count: the forgotten.
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
        if fingerprint in left_out:
            continue
        shelf = found.setdefault(current.get(message, message), MessageSummary())
        (shelf.sent if state == "sent" else shelf.unresolved).add(fingerprint)
    return RecordSummary(found)
