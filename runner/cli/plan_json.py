"""Writes plans for programs: the contract's JSON."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from runner.campaign.phone import mask_phone
from runner.campaign.substitute import find_substitute
from runner.cli.campaigns import show_path
from runner.cli.coming_text import coming_json, message_coming_json
from runner.cli.plan_digest import describe_campaigns, name_key
from runner.cli.plan_notes import list_notes
from runner.ledger.moment import format_moment
from runner.plan.digest import plan_digest
from runner.plan.model import MessagePlan
from runner.timing.histogram import count_due

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from runner.cli.planning import Planned, PlannedHead

_COUNTS = [field.name for field in fields(MessagePlan) if field.type == "int"]


def plan_json(planned: Iterable[PlannedHead], *, now: str) -> dict[str, Any]:
    """Return plans as the contract's JSON, with the digests that `apply --plan` holds them to."""
    items = list(planned)
    described = describe_campaigns(items)
    campaigns = [_campaign_json(item, one) for item, one in zip(items, described, strict=True)]
    return {
        "now": now,
        "plan_digest": plan_digest(campaigns),
        "notes": list_notes(items),
        "campaigns": campaigns,
    }


def _campaign_json(item: PlannedHead, described: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": item.plan.campaign.name,
        "file": show_path(item.plan.campaign.file),
        "target": item.plan.target,
        "destination": described["destination"],
        "digests": described["digests"],
        "key_fingerprint": name_key(item),
        "pause": None if item.plan.pause is None else asdict(item.plan.pause),
        "unread_replies": _unread_json(item),
        "refusals": list(item.plan.refusals),
        "coming": coming_json(item.plan),
        "messages": [_message_json(message) for message in item.plan.messages],
    }


def _unread_json(item: PlannedHead) -> dict[str, str] | None:
    unread = item.plan.unread
    if unread is None or not item.plan.waiting_for_replies:
        return None
    return unread.as_json()


def add_launches(document: dict[str, Any], planned: Sequence[Planned]) -> dict[str, Any]:
    """Return plans as JSON with each launch and its payload, which are not for keeping.

    Args:
        document: as `plan_json` gives it.
        planned: the plans that it is of, in its order; none to leave it as it is.
    """
    for campaign, item in zip(document["campaigns"], planned, strict=bool(planned)):
        campaign["launches"] = list(_launches_json(item))
    return document


def _message_json(message: MessagePlan) -> dict[str, Any]:
    return {
        "id": message.id,
        "tag": message.tag,
        **{name: getattr(message, name) for name in _COUNTS},
        "arms": message.arms,
        "coming": message_coming_json(message),
        "next_due": format_moment(message.next_due) if message.next_due is not None else None,
        "due": [
            {"day": f"{hour.day}", "hour": hour.hour, "recipients": hour.recipients}
            for hour in count_due(message.due)
        ],
        "reasons": [
            {"reason": reason, "recipients": count} for reason, count in sorted(message.reasons.items())
        ],
        "costly_characters": [
            {"character": character, **cost._asdict(), "substitute": find_substitute(character)}
            for character, cost in sorted(message.costly_characters.items())
        ],
    }


def _launches_json(item: Planned) -> Iterator[dict[str, Any]]:
    for launch in item.planner.iterate_launches():
        yield {
            "message": launch.message.id,
            "arm": launch.arm,
            "payload_digest": launch.payload.digest,
            "payload": launch.payload.definition,
            "phones": [mask_phone(phone) for phone in launch.phones],
        }
