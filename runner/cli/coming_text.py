"""Writes what a plan brings, now and later: when, why, to how many people, and what it costs."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from runner.cli.console import count_words
from runner.cli.timing_words import describe_follow_up
from runner.ledger.moment import format_moment
from runner.plan.model import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.model import Message
    from runner.plan.model import CampaignPlan, Coming, MessagePlan

COLUMNS = ("when", "message", "why", "recipients", "launches", "segments", "renders")
ONCE_MORE = "Each reply that is none of the choices costs one render more, and the segments of its question."
"""The remark about questions with choices, which are asked again as often as the reply is none of these."""
_WHY = {
    "unresolved": "held: `runner resolve`",
    "opt_out_doubtful": "a person must decide: `runner optouts list`",
    "not_qualified": "if they answer",
    "open_session": "behind an open survey",
    "capped": "at the frequency cap",
    "on_hold": "paused",
}


def comes_later(plan: CampaignPlan) -> bool:
    """Return whether a plan brings anything later."""
    return any(message.coming for message in plan.messages)


def list_coming(plan: CampaignPlan, *, at_most: bool = False) -> Iterator[Sequence[str | int]]:
    """Yield the rows of a table of what a plan brings: now, and later.

    Args:
        plan: the plan.
        at_most: leave out what comes at least: some of these people may have it already.
    """
    for message in plan.messages:
        if message.to_send:
            segments = Span(message.segments_min, message.segments_max)
            renders = Span(message.renders_min, message.renders_max)
            recipients = Span(message.to_send, message.to_send)
            launches = Span(message.launches, message.launches)
            now = recipients, launches, segments, renders
            yield ("now", message.id, "", *(_write(span, at_most) for span in now))
    sent = {message.id: message for message in plan.campaign.messages}
    for message in plan.messages:
        for one in message.coming:
            spans = one.recipients, one.launches, one.segments, one.renders
            why = _describe(one, sent[message.id])
            yield (_describe_moments(one), message.id, why, *(_write(span, at_most) for span in spans))


def _describe(one: Coming, message: Message) -> str:
    arms = ", ".join(f"{arm} {count:,}" for arm, count in one.arms.items())
    why = describe_follow_up(message) if one.why == "awaiting" else _WHY.get(one.why, one.why)
    return f"{why} ({arms})" if arms else why


def _describe_moments(one: Coming) -> str:
    if one.first is None:
        return "not known"
    if one.last is None:
        return f"from {_write_minute(one.first)}"
    if one.first == one.last:
        return _write_minute(one.first)
    return f"{_write_minute(one.first)} to {_write_minute(one.last)}"


def _write_minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _write(span: Span | None, at_most: bool) -> str:
    if span is None:
        return "not known"
    return f"{span.most:,}" if at_most or span.least == span.most else f"{span.least:,} to {span.most:,}"


def sum_up_later(plans: Iterable[CampaignPlan]) -> str:
    """Return in a few words how much comes later, and from when on; nothing if nothing does."""
    found = list(plans)
    texts = sum(plan.texts_later.most for plan in found)
    if not texts:
        return ""
    groups = [one for plan in found for message in plan.messages for one in message.coming]
    due = min((one.first for one in groups if one.first is not None), default=None)
    others = sum(plan.recipients_later.most for plan in found)
    people = f" ({count_words(others, 'more person', 'more people')})" if others else ""
    moment = f", from {_write_minute(due)}" if due is not None else ""
    return f"later at most {count_words(texts, 'text')}{people}{moment}"


def describe_people(plan: CampaignPlan) -> str:
    """Return in words how many people a plan reaches, each counted once."""
    later = plan.recipients_later
    now = count_words(plan.recipients_to_send, "person", "people")
    text = f"Each person counted once: {now} now, {_write(later, at_most=False)} others later."
    return f"{text} {ONCE_MORE}" if asks_again(plan) else text


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
    """Return what a campaign brings in all, now and later."""
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
    """Return what comes later of one message, by why it does not come now."""
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
