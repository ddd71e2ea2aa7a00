"""Plans in a sentence: people and segments now, texts later, rows left out."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from runner.plan.model import Span, sum_spans
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.plan.model import CampaignPlan
    from runner.workflow.plans.planning import PlanResult

STOPPED = "Stopped"


def list_verdicts(planned: Sequence[PlanResult]) -> Iterator[str]:
    """Yield the end of plans: what is to send, and the limits that stop the others."""
    sound = [item for item in planned if not item.plan.refusals]
    if sound:
        yield summary_line(sound)
    for item in planned:
        if item.plan.refusals:
            yield f"{STOPPED}: {item.campaign.name}: {'; '.join(item.plan.refusals)}. None of it is sent."


def summary_line(planned: Sequence[PlanResult]) -> str:
    """Return a one-sentence summary of plans without those over a limit, unless all are."""
    if all(item.plan.refusals for item in planned):
        return " ".join(list_verdicts(planned)) or "Nothing to send."
    planned = [item for item in planned if not item.plan.refusals]
    paused = ", ".join(item.campaign.name for item in planned if item.plan.pause is not None)
    return f"{_sum_up(planned)}{f' Paused: {paused}.' if paused else ''}"


def _sum_up(planned: Sequence[PlanResult]) -> str:
    plans = [item.plan for item in planned]
    people = sum(plan.recipients_to_send for plan in plans)
    messages = [message for plan in plans for message in plan.messages]
    # Of a paused campaign nothing is sent when it is due.
    later = sum_up_later(plan for plan in plans if plan.pause is None)
    held = sum(message.open_session for message in messages)
    if not people and not later and not held:
        return "Nothing to send."
    segments = write_span(sum_spans(Span(one.segments_min, one.segments_max) for one in messages))
    now = f"{count_words(people, 'person', 'people')} now, {segments} segment{'' if segments == '1' else 's'}"
    parts = [f"To send to {plans[0].target}: {now}" if people else "Nothing to send now"]
    parts += [later] if later else []
    parts += filter(None, [", ".join(_list_left_out(plans))])
    behind = f" Behind an open survey: {held:,}; `runner reconcile` reads which have ended."
    return f"{'; '.join(parts)}.{behind if held and not people else ''}"


def _list_left_out(plans: Sequence[CampaignPlan]) -> Iterator[str]:
    """Yield the numbers of rows that no message is for."""
    for name, one in {"excluded": "excluded", "duplicates": "duplicate", "invalid": "invalid row"}.items():
        count = sum(max((getattr(message, name) for message in plan.messages), default=0) for plan in plans)
        if count:
            yield f"{count:,} {one}" if name == "excluded" else count_words(count, one)


def sum_up_later(plans: Iterable[CampaignPlan]) -> str:
    """Return the number and the start of later texts in a few words; empty if there are none."""
    found = list(plans)
    texts = sum(plan.texts_later.most for plan in found)
    if not texts:
        return ""
    groups = [one for plan in found for message in plan.messages for one in message.coming]
    due = min((one.first for one in groups if one.first is not None), default=None)
    others = sum(plan.recipients_later.most for plan in found)
    people = f" ({count_words(others, 'more person', 'more people')})" if others else ""
    moment = f", from {write_minute(due)}" if due is not None else ""
    return f"up to {count_words(texts, 'text')} later{people}{moment}"


def write_minute(moment: datetime) -> str:
    """Return a moment in UTC to the minute, for people."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def write_span(span: Span | None, *, at_most: bool = False) -> str:
    """Return a range for people: `236 to 472`, or its most."""
    if span is None:
        return "not known"
    return f"{span.most:,}" if at_most or span.least == span.most else f"{span.least:,} to {span.most:,}"
