"""JSON documents of plans (`schemas/plan.schema.json`), and escaped HTML for notebooks."""

from __future__ import annotations

from dataclasses import asdict, fields
from html import escape
from typing import TYPE_CHECKING, Any

from runner.audience.phone import mask_phone
from runner.ledger.model import format_moment
from runner.plan.digest import plan_digest
from runner.plan.model import MessagePlan, Span
from runner.text.segment import find_substitute
from runner.timing.decision import count_due
from runner.workflow.campaigns import show_path
from runner.workflow.plans.saved import describe_campaigns, name_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.campaign.model import Message
    from runner.plan.model import CampaignPlan
    from runner.workflow.plans.planning import PlanResult


CARRIER_WORDS = ("STOP", "STOPALL", "UNSUBSCRIBE", "OPTOUT", "CANCEL", "END", "QUIT", "REVOKE")
"""Replies that opt out at the carriers (CTIA Messaging Principles and Best Practices 2023, 5.1.3)."""
_SHOWN = 5
_COUNTS = [field.name for field in fields(MessagePlan) if field.type == "int"]


def plan_json(planned: Iterable[PlanResult], *, now: str) -> dict[str, Any]:
    """Return plans as JSON, with the digests that `apply --plan` compares."""
    items = list(planned)
    described = describe_campaigns(items)
    campaigns = [_campaign_json(item, one) for item, one in zip(items, described, strict=True)]
    return {
        "now": now,
        "plan_digest": plan_digest(campaigns),
        "notes": list_notes(items),
        "campaigns": campaigns,
    }


def _campaign_json(item: PlanResult, described: Mapping[str, Any]) -> dict[str, Any]:
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


def _unread_json(item: PlanResult) -> dict[str, str] | None:
    unread = item.plan.unread
    if unread is None or not item.plan.waiting_for_replies:
        return None
    return unread.as_json()


def add_launches(document: dict[str, Any], planned: Sequence[PlanResult]) -> dict[str, Any]:
    """Return plans as JSON with each launch and its payload, for display only.

    `planned` are the document's plans in order; without them it is unchanged.
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


def _launches_json(item: PlanResult) -> Iterator[dict[str, Any]]:
    for launch in item.planner.iterate_launches():
        yield {
            "message": launch.message.id,
            "arm": launch.arm,
            "payload_digest": launch.payload.digest,
            "payload": launch.payload.definition,
            "phones": [mask_phone(phone) for phone in launch.phones],
        }


def asks_again(plan: CampaignPlan) -> bool:
    """Return whether a message of the plan has a question with choices."""
    planned = {message.id for message in plan.messages}
    sent = [
        one
        for message in plan.campaign.messages
        if message.id in planned
        for one in (message, *plan.campaign.list_arms(message.id).values())
    ]
    return any(question.responses for message in sent for question in message.questions)


def coming_json(plan: CampaignPlan) -> dict[str, Any]:
    """Return a campaign's total deliveries, now and later."""
    groups = [one for message in plan.messages for one in message.coming]
    return {
        "now": {
            "people": plan.recipients_to_send,
            "recipients": sum(message.to_send for message in plan.messages),
            "launches": sum(message.launches for message in plan.messages),
            "segments": _sum(Span(one.segments_min, one.segments_max) for one in plan.messages),
            "renders": _sum(Span(one.renders_min, one.renders_max) for one in plan.messages),
        },
        "later": {
            "people": plan.recipients_later._asdict(),
            "recipients": plan.texts_later._asdict(),
            "launches": _sum(one.launches for one in groups),
            "segments": _sum(one.segments for one in groups),
            "renders": _sum(one.renders for one in groups),
        },
        "asks_again": asks_again(plan),
    }


def _sum(spans: Iterable[Span | None]) -> dict[str, int] | None:
    found = list(spans)
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return Span(sum(one.least for one in known), sum(one.most for one in known))._asdict()


def message_coming_json(message: MessagePlan) -> list[dict[str, Any]]:
    """Return a message's later deliveries, by reason."""
    return [
        {
            "why": one.why,
            "first": None if one.first is None else format_moment(one.first),
            "last": None if one.last is None else format_moment(one.last),
            "recipients": one.recipients._asdict(),
            "launches": one.launches._asdict(),
            "segments": None if one.segments is None else one.segments._asdict(),
            "renders": one.renders._asdict(),
            "arms": one.arms,
        }
        for one in message.coming
    ]


def list_notes(planned: Sequence[PlanResult]) -> list[str]:
    """Return notes that are shown once for all plans, of a sentence or two each."""
    notes = []
    if any(_find_messages(planned, _is_plain_text)):
        words = f"{', '.join(CARRIER_WORDS[:-1])} and {CARRIER_WORDS[-1]}"
        notes.append(
            "Replies to a plain text, or after a survey's end, reach the service and the carriers alone. "
            f"They act on {words}, as the whole reply, and on no other words. "
            "`replies: recorded` makes replies to a text results, so that `runner reconcile` finds opt-outs."
        )
    recorded = list(_find_messages(planned, lambda message: message.replies == "recorded"))
    if recorded:
        more = f" and {len(recorded) - _SHOWN:,} more" if len(recorded) > _SHOWN else ""
        notes.append(
            f"Sent as an open question, since replies are recorded: {', '.join(recorded[:_SHOWN])}{more}. "
            "The session stays open until it is answered or expires: until then other messages to the same "
            "people wait (`open_session` in `policy`)."
        )
    return notes


def _find_messages(planned: Sequence[PlanResult], is_meant: Callable[[Message], bool]) -> Iterator[str]:
    """Yield the full names of selected messages that are sent now or later."""
    for item in planned:
        pending = {message.id for message in item.plan.messages if message.pending}
        for message in item.campaign.messages:
            ways = item.campaign.list_arms(message.id).values() or (message,)
            if message.id in pending and any(map(is_meant, ways)):
                yield f"{item.campaign.name}/{message.id}"


def _is_plain_text(message: Message) -> bool:
    return message.text is not None and message.method == "SMS"


_NOT_KNOWN = "not known"


def write_section(
    title: str,
    lines: Iterable[str],
    header: Sequence[str],
    rows: Sequence[Sequence[str | int | None]],
    remarks: Iterable[str] = (),
) -> str:
    """Return a title, paragraphs, a table and a list, without empty ones.

    `lines` are the paragraphs, `remarks` the list; None in a row is unknown.
    """
    text = f"<h3>{escape(title)}</h3>" + "".join(f"<p>{escape(line)}</p>" for line in lines)
    if rows:
        heads = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = "".join(f"<tr>{''.join(map(_write_cell, row))}</tr>" for row in rows)
        text += f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    items = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    return text + (f"<ul>{items}</ul>" if items else "")


def embed_page(page: str) -> str:
    """Return a whole HTML page in a frame, which isolates its styles and scripts."""
    style = "width: 100%; height: 40em; border: 0"
    return f'<iframe sandbox style="{style}" srcdoc="{escape(page)}"></iframe>'


def _write_cell(cell: str | int | None) -> str:
    if cell is None:
        return f"<td>{_NOT_KNOWN}</td>"
    if isinstance(cell, int):
        return f'<td style="text-align: right">{cell:,}</td>'
    return f"<td>{escape(cell)}</td>"
