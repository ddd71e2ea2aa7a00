"""Descriptions of a message's timing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.conditions import describe_condition
from runner.campaign.message_model import AnswerCondition
from runner.source.quantity import write_duration
from runner.timing.zone import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from runner.campaign.message_model import Message
    from runner.campaign.model import Campaign

_WHOM = {"answered": ", to those who have answered", "unanswered": ", to those who have not answered"}


def describe_timing(campaign: Campaign, message: Message) -> list[str]:
    """Describe the conditions on a message's time; empty if it goes at once."""
    own = describe_follow_up(message), _describe_date(message)
    return [*filter(None, own), *_describe_schedule(campaign)]


def describe_follow_up(message: Message) -> str:
    """Describe a follow-up's earlier message, wait and recipients; empty for other messages."""
    if message.after is None:
        return ""
    wait = write_duration(message.after.wait)
    if isinstance(message.to, AnswerCondition):
        words = f"after they {describe_condition(message.to)}"
        return f"{wait} {words}" if wait else words
    words = f"after {message.after.message}{_WHOM.get(message.to, '')}"
    return f"{wait} {words}" if wait else words


def _describe_date(message: Message) -> str:
    if message.when is None:
        return ""
    rule, column = message.when.rule, message.when.column
    if rule.before is not None:
        return f"{write_duration(rule.before)} before the date in `{column}`"
    after = f"{write_duration(rule.after)} after" if rule.after else "at"
    return f"{after} the date in `{column}`"


def _describe_schedule(campaign: Campaign) -> Iterator[str]:
    schedule = campaign.schedule
    if schedule.not_before is not None:
        yield f"not before {_write_moment(schedule.not_before, schedule.timezone)}"
    if not schedule.window.is_whole_week():
        yield f"in each recipient's local time: {schedule.window.describe()}"
    if campaign.policy.quiet_hours == "legal":
        yield "within the legal hours of the recipient's place"
    if schedule.expires is not None:
        yield f"expires {_write_moment(schedule.expires, schedule.timezone)}"


def _write_moment(moment: datetime, zone: str | None) -> str:
    return f"{moment.astimezone(load_zone(zone or 'UTC')):%Y-%m-%d %H:%M} {zone or 'UTC'}"
