"""Descriptions of a message's timing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.conditions import describe_condition
from runner.campaign.message_model import AnswerCondition
from runner.source.quantity import write_duration
from runner.timing.window import DAYS, MINUTES_A_DAY, format_clock
from runner.timing.zone import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from runner.campaign.message_model import Message
    from runner.campaign.model import Campaign
    from runner.timing.window import WeeklyWindow

_WHOM = {"answered": ", to those who have answered", "unanswered": ", to those who have not answered"}


def describe_timing(campaign: Campaign, message: Message) -> list[str]:
    """Describe the conditions on a message's time; empty if it goes at once."""
    follow_up = describe_follow_up(message)
    return [*([follow_up] if follow_up else []), *_describe_schedule(campaign)]


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


def _describe_schedule(campaign: Campaign) -> Iterator[str]:
    schedule = campaign.schedule
    if schedule.not_before is not None:
        yield f"not before {_write_moment(schedule.not_before, schedule.timezone)}"
    if not schedule.window.is_whole_week():
        yield f"in each recipient's local time: {describe_window(schedule.window)}"
    if campaign.policy.quiet_hours == "legal":
        yield "within the legal hours of the recipient's place"
    if schedule.expires is not None:
        yield f"expires {_write_moment(schedule.expires, schedule.timezone)}"


def describe_window(window: WeeklyWindow) -> str:
    """Return a week's hours with equal days together: `mon-fri 09:00-20:00, sat 10:00-17:00`."""
    parts: list[tuple[int, int, str]] = []
    for day, spans in enumerate(window.days):
        hours = " ".join(f"{format_clock(start)}-{format_clock(end)}" for start, end in spans)
        hours = "all day" if spans == ((0, MINUTES_A_DAY),) else hours
        if parts and parts[-1][2] == hours and parts[-1][1] == day - 1:
            parts[-1] = (parts[-1][0], day, hours)
        elif hours:
            parts.append((day, day, hours))
    return ", ".join(
        f"{DAYS[first] if first == last else f'{DAYS[first]}-{DAYS[last]}'} {hours}"
        for first, last, hours in parts
    )


def _write_moment(moment: datetime, zone: str | None) -> str:
    return f"{moment.astimezone(load_zone(zone or 'UTC')):%Y-%m-%d %H:%M} {zone or 'UTC'}"
