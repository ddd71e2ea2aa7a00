"""What recipients got: the launch of each delivery, and the definition that it was sent with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from runner.ledger.tables import deliveries, launches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy import Connection

    from runner.ledger.model import LaunchRecord


@dataclass(frozen=True, slots=True)
class SentTexts:
    """Which launch each recipient got a message by.

    Attributes:
        launches: numbers of launches, by message id and fingerprint. Those below 0 are of launches that the
            lockfile alone tells of: what they said is not on record here.
        digests: of the launches' payloads, by their numbers.
    """

    launches: dict[str, dict[str, int]] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)

    def add_recorded(self, records: Iterable[LaunchRecord]) -> None:
        """Add what a lockfile knows and the ledger doesn't.

        Args:
            records: its launches, under the ids that their messages have now.
        """
        for number, record in enumerate(records, start=1):
            people = self.launches.setdefault(record.message, {})
            for fingerprint in record.recipients:
                if fingerprint not in people:
                    people[fingerprint] = -number
                    self.digests[-number] = record.payload_digest


def read_sent_texts(connection: Connection, campaign_id: int, message_ids: Mapping[str, str]) -> SentTexts:
    """Return the launches that the service accepted, by their recipients.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    sent = SentTexts()
    theirs = (launches.c.campaign_id == campaign_id, launches.c.state == "sent")
    for row in connection.execute(select(launches.c.id, launches.c.payload_digest).where(*theirs)):
        sent.digests[row.id] = row.payload_digest
    people = (
        select(deliveries.c.message, deliveries.c.fingerprint, deliveries.c.launch_id)
        .join(launches, launches.c.id == deliveries.c.launch_id)
        .where(*theirs, deliveries.c.released.is_(False))
    )
    for message, fingerprint, launch_id in connection.execute(people):
        sent.launches.setdefault(message_ids.get(message, message), {})[fingerprint] = launch_id
    return sent


def read_definitions(connection: Connection, launch_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return what some launches were sent with; those that are not on record are left out.

    Args:
        connection: reads the ledger.
        launch_ids: the ledger's numbers of launches, some hundreds at most.
    """
    query = select(launches.c.id, launches.c.definition).where(
        launches.c.id.in_(launch_ids), launches.c.definition.is_not(None)
    )
    return {row.id: json.loads(row.definition) for row in connection.execute(query)}
