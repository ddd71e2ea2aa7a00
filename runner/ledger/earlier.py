"""Who got a message before, when, and who answered: what follow-ups go by."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, select

from runner.ledger.differences import read_answers, read_differences
from runner.ledger.tables import deliveries, launches, results

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from runner.ledger.model import LaunchRecord
    from runner.ledger.report_model import OpenDifferences


@dataclass(frozen=True, slots=True)
class EarlierLaunch:
    """A launch that the service accepted.

    Attributes:
        sent_at: when.
        reconciled_at: as of when everybody who had answered is known; None if it never was.
        differs: whether that is no later because the service contradicts itself, and nobody has accepted it.
    """

    sent_at: datetime
    reconciled_at: datetime | None
    differs: bool = False


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """What is known of a message that others come after.

    Attributes:
        launches: the launch by which a recipient got it, by fingerprint.
        answered: the fingerprints of those who have answered, as last reconciled.
        differences: how the service contradicts itself; None if it doesn't.
    """

    launches: dict[str, EarlierLaunch] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    differences: OpenDifferences | None = None


def read_earlier(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str], wanted: Collection[str]
) -> dict[str, EarlierMessage]:
    """Return what the ledger knows of some messages of a campaign.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
        wanted: ids of messages, as they are now.
    """
    found = find_differing(connection, campaign_id, message_ids, wanted)
    if not found:
        return found
    names = [name for name, current in message_ids.items() if current in found]
    is_theirs = and_(launches.c.campaign_id == campaign_id, launches.c.message.in_(names))
    by_id = {
        row.id: EarlierLaunch(
            datetime.fromisoformat(row.outcome_at), _read_moment(row.reconciled_at), bool(row.differs)
        )
        for row in connection.execute(_select_launches(connection).where(is_theirs))
    }
    people = select(deliveries.c.message, deliveries.c.fingerprint, deliveries.c.launch_id).where(
        deliveries.c.campaign_id == campaign_id,
        deliveries.c.message.in_(names),
        deliveries.c.released.is_(False),
    )
    for message, fingerprint, launch_id in connection.execute(people):
        launch = by_id.get(launch_id)
        if launch is not None:
            found[message_ids[message]].launches[fingerprint] = launch
    answers = (
        select(launches.c.message, results.c.participant)
        .join(launches, launches.c.id == results.c.launch_id)
        .where(is_theirs)
        .distinct()
    )
    for message, participant in connection.execute(answers):
        found[message_ids[message]].answered.add(participant)
    return found


def find_differing(
    connection: Connection, campaign_id: int, message_ids: Mapping[str, str], wanted: Collection[str]
) -> dict[str, EarlierMessage]:
    """Return some messages with the differences of their launches, and nobody yet who got them.

    Args:
        connection: reads one state of the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
        wanted: ids of messages, as they are now.
    """
    differences = read_differences(connection, campaign_id, message_ids) if wanted else {}
    return {message: EarlierMessage(differences=differences.get(message)) for message in wanted}


def _read_moment(written: str | None) -> datetime | None:
    return None if written is None else datetime.fromisoformat(written)


def _select_launches(connection: Connection) -> Any:
    read = read_answers(connection)
    return (
        select(launches.c.id, launches.c.outcome_at, read.at, read.differs)
        .select_from(read.join(launches))
        .where(launches.c.state == "sent", launches.c.outcome_at.is_not(None))
    )


def add_recorded(found: dict[str, EarlierMessage], records: Iterable[LaunchRecord]) -> None:
    """Add what lockfiles know and the ledger doesn't; whose answers nobody has read here.

    Args:
        found: as `read_earlier` returns it.
        records: the launches of lockfiles.
    """
    for record in records:
        message = found.get(record.message)
        if message is None:
            continue
        launch = EarlierLaunch(datetime.fromisoformat(record.sent_at), None)
        for fingerprint in record.recipients:
            message.launches.setdefault(fingerprint, launch)
