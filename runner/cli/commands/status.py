"""`runner status`: the known and unknown state of each campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.console import print_json, print_prose, print_table
from runner.cli.encoding import print_text
from runner.cli.options import format_option, target_scope
from runner.wording import count_words, escape_markdown, show_time, write_table
from runner.workflow.observer import note
from runner.workflow.status import COUNTS, LEFT_OUT, find_project_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.workflow.scope import Scope
    from runner.workflow.status import CampaignStatus, MessageStatus, StatusResult

_NOT_KNOWN = "not known"
_ESSENTIAL = {"planned", "sent", "answered"}
"""Columns that are shown even if they are empty."""
_HEADINGS = {"planned": "to send"}


@click.command(
    cls=Command,
    epilog="\b\nExamples:\n  runner status\n  runner status campaigns/customer-pulse.yaml --format json",
)
@target_scope
@format_option("human", "json", "markdown")
def command(scope: Scope, format_: str) -> int:
    """Show the state of each campaign and message: to send, sent, answered, unresolved and more.

    Reads only, and calls no service: sessions and answers are as of the last `runner reconcile`, and "not
    known" if a launch was not read. Whatever cannot be read or planned is also shown as not known, with the
    reason on standard error and exit code 1.
    """
    result = find_project_status(scope)
    if format_ == "json":
        print_json(result.document)
    elif result.statuses:
        {"human": _write_human, "markdown": _write_markdown}[format_](result.statuses)
    if not scope.quiet:
        _note_gaps(result)
    return int(result.has_failed)


def _note_gaps(result: StatusResult) -> None:
    """Note what is missing, and the command that brings it in."""
    if result.unfilled:
        unfilled = ", ".join(result.unfilled)
        note(f"The ledger lacks launches that a lockfile has: {unfilled}. `runner reconcile` brings them in.")
    if result.unread:
        unread = ", ".join(result.unread)
        note(
            f"A follow-up is due, and waits for answers to be read: {unread}. `runner reconcile` reads them."
        )


def _choose_columns(statuses: Sequence[CampaignStatus]) -> tuple[str, ...]:
    """Return the counts to show in a table: the essential ones, and those that are not all zeros."""

    def is_worth_showing(column: str) -> bool:
        counts = [getattr(message, column) for status in statuses for message in status.messages]
        # What is not known is no zero.
        return column in _ESSENTIAL or any(counts) or (column in COUNTS and None in counts)

    return tuple(filter(is_worth_showing, (COUNTS[0], *LEFT_OUT, *COUNTS[1:])))


def _name_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    return ("campaign", "message", *(_HEADINGS.get(name, name.replace("_", " ")) for name in columns))


def _rows(statuses: Sequence[CampaignStatus], columns: tuple[str, ...]) -> list[list[str | int]]:
    return [
        [status.name, message.id, *(_show(getattr(message, column)) for column in columns)]
        for status in statuses
        for message in status.messages
    ]


def _show(count: int | None) -> str | int:
    return _NOT_KNOWN if count is None else count


def _write_human(statuses: Sequence[CampaignStatus]) -> None:
    print_text(f"Target: {statuses[0].target}", bold=True)
    columns = _choose_columns(statuses)
    essential = set(_name_columns(tuple(_ESSENTIAL)))
    print_table(_name_columns(columns), _rows(statuses, columns), essential=essential, is_grouped=True)
    for status in statuses:
        for message in status.messages:
            if message.next_due:
                due = _write_minute(message.next_due)
                print_prose(f"{status.name}/{message.id}: the first of those deferred is due at {due}.")
    for line in _list_remarks(statuses):
        print_prose(line)


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
    return _NOT_KNOWN if moment is None else show_time(moment)


def _write_markdown(statuses: Sequence[CampaignStatus]) -> None:
    columns = _choose_columns(statuses)
    print_text(write_table(_name_columns(columns), _rows(statuses, columns)), nl=False)
    for line in _list_remarks(statuses):
        print_text(f"\n{escape_markdown(line)}")
