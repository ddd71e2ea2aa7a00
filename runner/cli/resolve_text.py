"""Writes what `runner resolve` has found: for people, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.cli.console import count_words, print_json, print_table
from runner.deliver.match import is_same_text
from runner.deliver.settle import write_moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.deliver.match import Candidate, Verdict
    from runner.deliver.resolution import UnexplainedGroup

    Found = tuple[Campaign, Sequence[Verdict], Sequence[UnexplainedGroup]]

_SHOWN = 5
"""Launches of a group that are named."""


def list_candidates(verdict: Verdict) -> tuple[Candidate, ...]:
    """Return the service's launches that may be one of unknown outcome."""
    return (verdict.match, *verdict.doubtful) if verdict.match else verdict.doubtful


def describe_group(group: UnexplainedGroup) -> str:
    """Return in words how many launches a group has, and how many people they hold."""
    launches = count_words(len(group.launches), "launch", "launches")
    return f"{launches} under the tag {group.tag!r} ({count_words(len(group.people), 'recipient')})"


def _launch_json(campaign: Campaign, verdict: Verdict) -> dict[str, Any]:
    launch = verdict.launch
    return {
        "campaign": campaign.name,
        "key": launch.key,
        "message": launch.message,
        "tag": launch.tag,
        "recipients": len(launch.recipients),
        "intent_at": launch.intent_at,
        "detail": launch.detail or "the process ended before an answer came",
        "candidates": [
            {
                "project_launch_guid": candidate.stat.project_launch_guid,
                "project_launch_start": write_moment(candidate.stat.project_launch_start, "unknown"),
                "recipients": len(candidate.recipients),
                "recipients_in_common": len(candidate.recipients & launch.recipients),
                "same_definition": is_same_text(launch, candidate),
            }
            for candidate in list_candidates(verdict)
        ],
    }


def _group_json(campaign: Campaign, group: UnexplainedGroup) -> dict[str, Any]:
    return {
        "campaign": campaign.name,
        "tag": group.tag,
        "messages": list(group.messages),
        "recipients": len(group.people),
        "launches": [
            {
                "project_launch_guid": launch.project_launch_guid,
                "project_launch_start": launch.started_at,
                "recipients": len(launch.people),
                "is_survey": bool(launch.definition.get("questions")),
            }
            for launch in group.launches
        ],
    }


def _write_json(found: Sequence[Found]) -> None:
    print_json(
        {
            "launches": [_launch_json(campaign, one) for campaign, verdicts, _ in found for one in verdicts],
            "unexplained": [_group_json(campaign, one) for campaign, _, groups in found for one in groups],
        }
    )


def _write_human(found: Sequence[Found]) -> None:
    if not found:
        click.echo("Nothing is unresolved.")
    for campaign, verdicts, groups in found:
        for verdict in verdicts:
            _write_launch(campaign, verdict)
        for group in groups:
            _write_group(campaign, group)


def _write_launch(campaign: Campaign, verdict: Verdict) -> None:
    launch = _launch_json(campaign, verdict)
    people = count_words(launch["recipients"], "recipient")
    click.secho(f"{campaign.name}/{launch['message']}  launch {launch['key']}, {people}", bold=True)
    click.echo(f"  about to be sent {launch['intent_at']}; {launch['detail']}")
    if not verdict.doubtful and not verdict.match:
        click.echo("  the service lists nothing that may be it; `runner apply` settles it")
        return
    rows = [
        (
            c["project_launch_guid"],
            c["project_launch_start"],
            c["recipients"],
            c["recipients_in_common"],
            "the same" if c["same_definition"] else "another",
        )
        for c in launch["candidates"]
    ]
    print_table(("the service's launch", "started", "recipients", "of them ours", "text"), rows)


def _write_group(campaign: Campaign, group: UnexplainedGroup) -> None:
    launches = count_words(len(group.launches), "launch", "launches")
    people = count_words(len(group.people), "recipient")
    click.secho(
        f"{campaign.name}/{' or '.join(group.messages)}  {launches} that no record explains, {people} held",
        bold=True,
    )
    click.echo(
        f"  under the tag {group.tag!r}, with another text, or to other people, than this campaign plans"
    )
    rows = [
        (
            launch.project_launch_guid,
            launch.started_at,
            "survey" if launch.definition.get("questions") else "text",
            len(launch.people),
        )
        for launch in group.launches[:_SHOWN]
    ]
    print_table(("the service's launch", "started", "kind", "recipients held"), rows)
    if len(group.launches) > _SHOWN:
        click.echo(f"  and {len(group.launches) - _SHOWN:,} more (--format json lists all)")
    choice = " --message ID" if len(group.messages) > 1 else ""
    click.echo(
        f"  --adopt-all{choice}: a run whose record is lost sent them; these people are not texted again"
    )
    click.echo("  --not-sent-all: somebody else sent them; the next `runner apply` texts these people")


WRITERS = {"human": _write_human, "json": _write_json}
