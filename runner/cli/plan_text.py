"""Writes plans for people: tables, and in sentences why somebody is not texted now."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, get_args

import click

from runner.campaign.substitute import advise
from runner.cli.campaigns import show_path
from runner.cli.coming_text import COLUMNS, comes_later, describe_people, list_coming
from runner.cli.console import count_words, markdown_table, print_table
from runner.cli.inert import inert
from runner.cli.job_summary import append_summary
from runner.cli.plan_notes import list_notes
from runner.cli.planning import PlannedHead, summary_line
from runner.plan.model import Disposition
from runner.service.destination import EMBEDDED, describe_destination
from runner.timing.histogram import count_due

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runner.plan.model import CampaignPlan, CostlyCharacter, MessagePlan
    from runner.service.target import Target

_ALWAYS = ("rows", "duplicates", "excluded", "already_sent", "unresolved", "over_limit", "to_send")
_SOMETIMES = ("invalid", *(name for name in get_args(Disposition) if name not in _ALWAYS))
"""Columns that are shown where there is something in them."""
_COST = ("launches", "segments")
_SHOWN_CHARACTERS = 6
_SHOWN_HOURS = 12
_BAR = 24
_UNENCRYPTED = "UNENCRYPTED: who is on the way reads phone numbers, texts and credentials"


def plan_markdown(planned: Sequence[PlannedHead], digest: str) -> str:
    """Return plans as Markdown for a pull request or a job's summary.

    Args:
        planned: the plans.
        digest: of them all.
    """
    text = f"## Plan\n\n{summary_line(planned)}\n\n{destination_line(planned[0].target)}\n"
    columns = choose_columns(planned)
    for item in planned:
        plan = item.plan
        text += f"\n### {plan.campaign.name} → {plan.target}\n\n"
        text += markdown_table(
            ("message", *map(column_words, columns)),
            [message_row(message, columns) for message in plan.messages],
        )
        text += "".join(f"\n- {click.unstyle(line)}" for line in list_remarks(plan)) + "\n"
        if comes_later(plan):
            text += f"\n{markdown_table(COLUMNS, list(list_coming(plan)))}\n{describe_people(plan)}\n"
    text += "".join(f"\n> {line}\n" for line in list_notes(planned))
    return f"{text}\nPlan digest: `{digest}`\n"


def destination_line(target: Target) -> str:
    """Return in Markdown where a plan is sent, and which variables have the credentials that go along."""
    where = describe_destination(target)
    if where["address"] == EMBEDDED:
        return f"Goes to **{EMBEDDED}**, which texts nobody."
    risk = ", **`insecure: true`**" if where["insecure"] else ""
    if where["insecure"] and where["address"].startswith("http:"):
        risk = f", **{_UNENCRYPTED}** (`insecure: true`)"
    names = f"{inert(where['username_env'])} and {inert(where['api_key_env'])}"
    return f"Goes to **{inert(where['address'])}**{risk}, with the credentials in {names}."


def _write_human(planned: Sequence[PlannedHead], _: str) -> None:
    columns = choose_columns(planned)
    for item in planned:
        plan = item.plan
        click.secho(f"{plan.campaign.name} → {plan.target}", bold=True, nl=False)
        click.echo(f"  ({show_path(plan.campaign.file)})")
        rows = [message_row(message, columns) for message in plan.messages]
        print_table(("message", *(column_words(column) for column in columns)), rows)
        for line in list_remarks(plan):
            click.echo(f"  {line}")
        for message in plan.messages:
            for line in _histogram(message):
                click.echo(f"  {line}")
        if comes_later(plan):
            click.echo()
            print_table(COLUMNS, list(list_coming(plan)))
            click.echo(f"  {describe_people(plan)}")
        click.echo()
    for line in list_notes(planned):
        click.echo(f"{line}\n")
    click.echo(summary_line(planned))


def choose_columns(planned: Sequence[PlannedHead]) -> tuple[str, ...]:
    """Return the counts that a table of these plans has: the usual ones, and those that are not all zero."""
    messages = [message for item in planned for message in item.plan.messages]
    shown = [column for column in _SOMETIMES if any(getattr(message, column) for message in messages)]
    return (*_ALWAYS[:-1], *shown, _ALWAYS[-1], *_COST)


def message_row(message: MessagePlan, columns: tuple[str, ...]) -> list[str | int]:
    """Return a message's row in a table: its id and its counts."""
    return [message.id, *(getattr(message, column) for column in columns)]


def column_words(column: str) -> str:
    """Return a count's name as a column's heading."""
    return column.replace("_", " ")


def list_remarks(plan: CampaignPlan) -> Iterator[str]:
    """Yield what there is to say about a plan beside its counts, a sentence each; styled for a terminal."""
    for message in plan.messages:
        for remark in _remark_on(plan, message):
            yield f"{message.id}: {remark}"
    if plan.pause is not None:
        words = plan.pause.describe()
        people = count_words(plan.on_hold, "text waits", "texts wait")
        yield f"{click.style('Paused', fg='yellow', bold=True)}: {words}; {people}, and reminders with them"
    for refusal in plan.refusals:
        yield f"{click.style('Stopped', fg='red', bold=True)}: {refusal}"


def _remark_on(plan: CampaignPlan, message: MessagePlan) -> Iterator[str]:
    if message.to_send:
        yield f"{_span(message.renders_min, message.renders_max)} renders"
    if message.arms:
        yield "arms: " + ", ".join(f"{arm} {count:,}" for arm, count in message.arms.items())
    yield from _advise(message.costly_characters)
    if message.next_due is not None:
        due = message.next_due.astimezone(UTC)
        people = count_words(message.deferred, "recipient is", "recipients are")
        yield f"{people} deferred, the first due at {due:%Y-%m-%d %H:%M} UTC"
    for reason, count in sorted(message.reasons.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count_words(count, 'recipient')}: {reason}"
    yield from _remark_on_held(plan, message)


def _remark_on_held(plan: CampaignPlan, message: MessagePlan) -> Iterator[str]:
    if message.awaiting:
        own = next(one for one in plan.campaign.messages if one.id == message.id)
        earlier = f"`{own.after.message}`" if own.after else "the message before"
        people = count_words(message.awaiting, "recipient waits", "recipients wait")
        answers = "" if own.to == "everyone" else " and `runner reconcile` has read their answers"
        yield f"{people} until {earlier} is sent to them{answers}"
    if message.opt_out_doubtful:
        people = count_words(message.opt_out_doubtful, "recipient", "recipients")
        yield f"{people} may have opted out, a person must decide: `runner optouts list`"
    if message.no_consent:
        yield f"{count_words(message.no_consent, 'recipient has', 'recipients have')} no consent on record"
    if message.capped:
        people = count_words(message.capped, "recipient has", "recipients have")
        yield f"{people} reached the frequency cap: a later run sends"


def _advise(characters: dict[str, CostlyCharacter]) -> Iterator[str]:
    ranked = sorted(characters.items(), key=lambda item: (-item[1].recipients, item[0]))
    for character, cost in ranked[:_SHOWN_CHARACTERS]:
        yield advise(character, *cost)
    if len(ranked) > _SHOWN_CHARACTERS:
        yield f"{len(ranked) - _SHOWN_CHARACTERS} more characters make texts UCS-2"


def _histogram(message: MessagePlan) -> Iterator[str]:
    hours = count_due(message.due)
    if not hours:
        return
    yield f"{message.id}: due, by the clocks of the recipients:"
    most = max(hour.recipients for hour in hours)
    for hour in hours[:_SHOWN_HOURS]:
        bar = "█" * max(1, round(_BAR * hour.recipients / most))
        yield f"  {hour.day:%a} {hour.day} {hour.hour:02}:00  {hour.recipients:>9,}  {bar}"
    if len(hours) > _SHOWN_HOURS:
        left = sum(hour.recipients for hour in hours[_SHOWN_HOURS:])
        yield f"  later{'':14}  {left:>9,}"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _write_markdown(planned: Sequence[PlannedHead], digest: str) -> None:
    click.echo(plan_markdown(planned, digest), nl=False)


def _write_github(planned: Sequence[PlannedHead], digest: str) -> None:
    _write_human(planned, digest)
    append_summary(plan_markdown(planned, digest))


WRITERS: dict[str, Callable[[Sequence[PlannedHead], str], None]] = {
    "human": _write_human,
    "markdown": _write_markdown,
    "github": _write_github,
}
