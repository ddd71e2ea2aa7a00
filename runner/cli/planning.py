"""Plans several campaigns at once, and writes plans for people and programs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from runner.campaign.phone import mask_phone
from runner.cli.campaigns import load_campaigns, show_path
from runner.cli.console import count_words, markdown_table, print_table, warn
from runner.cli.diagnostics import append_summary, refuse_errors
from runner.errors import UsageError
from runner.plan.model import CampaignPlan, MessagePlan, PlanOptions
from runner.plan.planner import Planner
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.ledger.record import Record

_COLUMNS = (
    "rows",
    "duplicates",
    "excluded",
    "already_sent",
    "unresolved",
    "over_limit",
    "to_send",
    "launches",
    "segments",
)
_SHOWN_CHARACTERS = 6
_COUNTS = [
    field.name for field in fields(MessagePlan) if field.name not in ("id", "tag", "costly_characters")
]


@dataclass(frozen=True, slots=True)
class Planned:
    """A campaign with its record and its plan."""

    campaign: Campaign
    record: Record
    planner: Planner
    plan: CampaignPlan


def plan_campaigns(
    workspace: Workspace,
    scope: Scope,
    options: PlanOptions,
    find_record: Callable[[Campaign], Record],
) -> list[Planned]:
    """Load and plan campaigns; show what is wrong with them.

    Args:
        workspace: names the target.
        scope: says which campaigns.
        options: what the user asks of the plan.
        find_record: returns what is on record of a campaign.

    Raises:
        InvalidCampaignError: there are errors, which have been shown.
        UsageError: no campaign has the message that was asked for.
    """
    problems = Problems()
    loaded = load_campaigns(scope.paths, scope.allowed, problems)
    if problems.error_count:
        _check_audiences(loaded.campaigns, problems)
        refuse_errors(problems, quiet=scope.quiet)
    _require_message(loaded.campaigns, options.only)
    planned = [
        plan_campaign(workspace, campaign, find_record(campaign), options, problems)
        for campaign in loaded.campaigns
    ]
    refuse_errors(problems, quiet=scope.quiet)
    found = [item for item in planned if item is not None]
    for item in found:
        _warn_of_lost_ids(item)
    return found


def _warn_of_lost_ids(item: Planned) -> None:
    """Warn of people that are on record for messages that the campaign no longer has."""
    known = item.record.known
    for message in sorted(known.messages - {message.id for message in item.campaign.messages}):
        sent, unresolved = len(known.sent.get(message, ())), len(known.unresolved.get(message, ()))
        people = count_words(sent + unresolved, "recipient is", "recipients are")
        how = " or ".join(["texted"] * bool(sent) + ["perhaps texted"] * bool(unresolved))
        warn(
            f"{item.campaign.name}: {people} on record as {how} by the message `{message}`, which "
            "the campaign no longer has: was it renamed? With a new id everyone would be texted again: "
            f"put the old id back, or add `renamed_from: [{message}]` to the new one"
        )


def plan_campaign(
    workspace: Workspace, campaign: Campaign, record: Record, options: PlanOptions, problems: Problems
) -> Planned | None:
    """Plan one campaign; None if there are errors.

    Args:
        workspace: names the target.
        campaign: what to plan.
        record: what is on record of it.
        options: what the user asks of the plan.
        problems: receives what is wrong.
    """
    planner = Planner(campaign, workspace.target.name, record.known, record.key, options)
    plan = planner.make_plan(problems)
    return None if plan is None else Planned(campaign, record, planner, plan)


def _check_audiences(campaigns: Iterable[Campaign], problems: Problems) -> None:
    # Some campaigns cannot be loaded: the others are checked all the same, so that all is said at once.
    from runner.cli.validate import find_audience_problems

    for campaign in campaigns:
        find_audience_problems(campaign, problems)


def _require_message(campaigns: Iterable[Campaign], only: str | None) -> None:
    known = sorted({message.id for campaign in campaigns for message in campaign.messages})
    if only is not None and only not in known:
        raise UsageError(f"no campaign has a message {only!r}", hint=f"known: {', '.join(known)}")


def count_to_send(planned: Iterable[Planned]) -> int:
    """Return the deliveries that plans would make now."""
    return sum(message.to_send for item in planned for message in item.plan.messages)


def plan_json(planned: Iterable[Planned], *, with_launches: bool, now: str) -> dict[str, Any]:
    """Return plans as the contract's JSON, with the digests that `apply --plan` holds them to."""
    return {
        "now": now,
        "campaigns": [
            {
                "name": item.plan.campaign.name,
                "file": show_path(item.plan.campaign.file),
                "target": item.plan.target,
                "digests": digests(item),
                "refusals": list(item.plan.refusals),
                "messages": [_message_json(message) for message in item.plan.messages],
                **({"launches": list(_launches_json(item))} if with_launches else {}),
            }
            for item in planned
        ],
    }


def _message_json(message: MessagePlan) -> dict[str, Any]:
    counts = {name: getattr(message, name) for name in _COUNTS}
    return {"id": message.id, "tag": message.tag, **counts}


def _launches_json(item: Planned) -> Iterator[dict[str, Any]]:
    for launch in item.planner.iterate_launches():
        yield {
            "message": launch.message.id,
            "payload_digest": launch.payload.digest,
            "payload": launch.payload.definition,
            "phones": [mask_phone(phone) for phone in launch.phones],
        }


def digests(item: Planned) -> dict[str, str]:
    """Return what a saved plan goes by: digests of the campaign file, of who gets what, and of the record."""
    known = item.record.known
    record = hashlib.blake2b(digest_size=16)
    for state, shelf in (("sent", known.sent), ("unresolved", known.unresolved)):
        for message, fingerprints in sorted(shelf.items()):
            record.update("\0".join((state, message, *sorted(fingerprints))).encode())
    return {
        "campaign": hashlib.blake2b(item.campaign.file.read_bytes(), digest_size=16).hexdigest(),
        "deliveries": item.plan.digest,
        "record": record.hexdigest(),
    }


def _write_human(planned: Sequence[Planned]) -> None:
    for item in planned:
        plan = item.plan
        click.secho(f"{plan.campaign.name} → {plan.target}", bold=True, nl=False)
        click.echo(f"  ({show_path(plan.campaign.file)})")
        print_table(("message", *(_words(c) for c in _COLUMNS)), [_row(message) for message in plan.messages])
        for line in _remarks(plan):
            click.echo(f"  {line}")
        click.echo()
    click.echo(summary_line(planned))


def _row(message: MessagePlan) -> list[str | int]:
    return [message.id, *(getattr(message, column) for column in _COLUMNS)]


def _words(column: str) -> str:
    return column.replace("_", " ")


def _remarks(plan: CampaignPlan) -> Iterator[str]:
    for message in plan.messages:
        if message.to_send:
            yield f"{message.id}: {_span(message.renders_min, message.renders_max)} renders"
        if message.costly_characters:
            yield f"{message.id}: {_costly_words(message.costly_characters)}"
    for refusal in plan.refusals:
        yield f"{click.style('Stopped', fg='red', bold=True)}: {refusal}"


def _costly_words(characters: dict[str, int]) -> str:
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{character!r} ({count:,})" for character, count in ranked[:_SHOWN_CHARACTERS])
    more = len(ranked) - _SHOWN_CHARACTERS
    people = count_words(sum(characters.values()), "recipient gets", "recipients get")
    return f"{people} shorter segments (UCS-2) because of {shown}{f' and {more} more' if more > 0 else ''}"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def summary_line(planned: Sequence[Planned]) -> str:
    """Return in one sentence what plans would do."""
    messages = [message for item in planned for message in item.plan.messages]
    people = sum(item.plan.recipients_to_send for item in planned)
    if not people:
        return "Nothing to send."
    launches = sum(message.launches for message in messages)
    segments = sum(message.segments for message in messages)
    target = planned[0].plan.target
    return (
        f"To send to {target}: {count_words(people, 'recipient')} "
        f"in {count_words(launches, 'launch', 'launches')}, "
        f"{count_words(segments, 'SMS segment')}."
    )


def plan_markdown(planned: Sequence[Planned]) -> str:
    """Return plans as Markdown for a pull request or a job's summary."""
    text = f"## Plan\n\n{summary_line(planned)}\n"
    for item in planned:
        plan = item.plan
        text += f"\n### {plan.campaign.name} → {plan.target}\n\n"
        text += markdown_table(
            ("message", *map(_words, _COLUMNS)), [_row(message) for message in plan.messages]
        )
        text += "".join(f"\n- {click.unstyle(line)}" for line in _remarks(plan)) + "\n"
    return text


def _write_markdown(planned: Sequence[Planned]) -> None:
    click.echo(plan_markdown(planned), nl=False)


def _write_github(planned: Sequence[Planned]) -> None:
    _write_human(planned)
    append_summary(plan_markdown(planned))


WRITERS: dict[str, Callable[[Sequence[Planned]], None]] = {
    "human": _write_human,
    "markdown": _write_markdown,
    "github": _write_github,
}
