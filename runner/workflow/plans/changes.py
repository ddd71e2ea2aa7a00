"""Sent messages whose texts are others now."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from runner.ledger.model import RecordedDeliveries, on_occasion
from runner.ledger.record.deliveries import read_digests
from runner.plan.planner import iterate_offers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.workflow.plans.planning import PlanResult

_COMPARED = 200
_MOST_ROWS = 100_000


def list_changed(ledger: Ledger, key: TargetKey, planned: Iterable[PlanResult]) -> tuple[str, ...]:
    """Return the full names of sent messages whose texts are others now.

    Of each, the first people in the audience who got it are compared; large audiences are not read for it.
    """
    return tuple(
        f"{item.campaign.name}/{message}"
        for item in planned
        if any(one.already_sent and one.rows <= _MOST_ROWS for one in item.plan.messages)
        for message in _compare_campaign(ledger, key, item)
    )


def _compare_campaign(ledger: Ledger, key: TargetKey, item: PlanResult) -> list[str]:
    """Return the ids of a campaign's changed messages."""
    campaign, record = item.campaign, item.record
    if record.campaign_id is None:
        return []
    wanted = {one.id: min(_COMPARED, one.already_sent) for one in item.plan.messages}
    current: dict[str, dict[str, str]] = defaultdict(dict)
    people = set[str]()
    for phone, offers in iterate_offers(campaign, RecordedDeliveries({}, {}), None):
        fingerprint = key.fingerprint(phone)
        for offer in offers:
            delivery = on_occasion(fingerprint, key.name_occasion(offer.occasion))
            if delivery in record.known.sent.get(offer.message.id, ()):
                current[offer.message.id][delivery] = offer.payload.digest
                people.add(fingerprint)
        if all(len(current[message]) >= count for message, count in wanted.items()):
            break
    with ledger.reading() as connection:
        changed = {
            message
            for name, person, occasion, digest, state in read_digests(connection, record.campaign_id, people)
            for message in (campaign.message_ids.get(name, name),)
            if state == "sent" and current[message].get(on_occasion(person, occasion), digest) != digest
        }
    return [message.id for message in campaign.messages if message.id in changed]
