"""The status of campaigns as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.view.blocks import Column, Sentence, TableBlock
from runner.wording import count_words, show_time
from runner.workflow.status import COUNTS, LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.view.blocks import Block
    from runner.workflow.status import CampaignStatus, MessageStatus

_ESSENTIAL = {"planned", "sent", "answered"}
"""Columns that are shown even if they are empty."""
_HEADINGS = {"planned": "to send"}


def _choose_columns(statuses: Sequence[CampaignStatus]) -> tuple[str, ...]:
    """Return the counts to show in a table: the essential ones, and those that are not all zeros."""

    def is_worth_showing(column: str) -> bool:
        counts = [getattr(message, column) for status in statuses for message in status.messages]
        # What is not known is no zero.
        return column in _ESSENTIAL or any(counts) or (column in COUNTS and None in counts)

    return tuple(filter(is_worth_showing, (COUNTS[0], *LEFT_OUT, *COUNTS[1:])))


def show_status(statuses: Sequence[CampaignStatus]) -> Iterator[Block]:
    """Yield the counts of each message, and what is only partly known or does not add up."""
    columns = _choose_columns(statuses)
    names = {name: _HEADINGS.get(name, name.replace("_", " ")) for name in columns}
    rows = [
        [status.name, message.id, *(getattr(message, column) for column in columns)]
        for status in statuses
        for message in status.messages
    ]
    essential = frozenset({"campaign", "message", *(names.get(name, name) for name in _ESSENTIAL)})
    yield Sentence(f"Target: {statuses[0].target}", "strong")
    yield TableBlock(("campaign", Column("message", "text"), *names.values()), rows, essential=essential)
    yield from map(Sentence, _list_remarks(statuses))


def _list_remarks(statuses: Sequence[CampaignStatus]) -> Iterator[str]:
    """Yield lines about partly known launches and about counts that don't add up."""
    stale = []
    for status in statuses:
        if status.pause is not None:
            yield f"{status.name} is {status.pause.describe()}."
        if status.unread_replies is not None:
            yield f"{status.name} waits: {status.unread_replies.reason}."
        for message in status.messages:
            name = f"{status.name}/{message.id}"
            if message.next_due:
                yield f"{name}: the first of those deferred is due at {_write_minute(message.next_due)}."
            if message.launches and not message.reconciled_launches:
                stale.append(name)
            elif message.launches != message.reconciled_launches or message.partly_known:
                yield f"{name}: {_describe_part(message)}"
            if message.differing_launches:
                first = message.differences[0]
                yield (
                    f"{name}: the service contradicts itself about the answers to "
                    f"{count_words(message.differing_launches, 'launch', 'launches')}, since "
                    f"{_write_minute(first.since)}, first {first.project_launch_guid}; follow-ups "
                    "that go by answers wait. `runner reconcile` says more."
                )
    if stale:
        yield f"Not reconciled since the send: {', '.join(stale)}. `runner reconcile` reads what came in."


def _describe_part(message: MessageStatus) -> str:
    """Describe the part of a message's launches that is known: `reconciled at …, 60 of 61 launches`."""
    launches = f"{message.launches:,} launches"
    text = (
        f"reconciled at {_write_minute(message.reconciled_at)}, {message.reconciled_launches:,} of {launches}"
    )
    parts = [
        f"{part.name} {part.count:,} in {part.launches:,} of {launches}" for part in message.partly_known
    ]
    return f"{text}; {', '.join(parts)}." if parts else f"{text}."


def _write_minute(moment: str | None) -> str:
    return "not known" if moment is None else show_time(moment)
