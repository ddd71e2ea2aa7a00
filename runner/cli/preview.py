"""`runner preview`: the conversation as a recipient will see it."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.campaign.audience import AudienceTally, Recipient, iterate_audience
from runner.campaign.conversation import Bubble, iterate_bubbles
from runner.campaign.include import include_folder
from runner.campaign.payload import MessageRenderer
from runner.campaign.phone import PhoneProblem, mask_phone, parse_phone
from runner.campaign.template import TextCompiler
from runner.cli.console import print_json
from runner.cli.diagnostics import printable, refuse_errors
from runner.cli.scope import Scope, format_option, single_scope
from runner.cli.validate import find_audience_problems
from runner.errors import RunnerError, UsageError
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from runner.campaign.model import Campaign

_WIDTH = 60


@click.command(
    epilog="\b\nExamples:\n  runner preview campaigns/customer-pulse.yaml\n"
    "  runner preview campaigns/customer-pulse.yaml --phone +14155550101"
)
@click.argument(
    "campaign_file", metavar="CAMPAIGN", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--phone", metavar="PHONE", help="Whose conversation. Default: the first recipient's.")
@single_scope
@format_option("human", "json")
def command(scope: Scope, campaign_file: Path, phone: str | None, format_: str) -> int:
    """Show the conversation as a recipient will see it, with the segments of every text.

    Nothing is sent. The whole audience is checked on the way.
    """
    (campaign,) = replace(scope, paths=(campaign_file,)).load_valid_campaigns()
    problems = Problems()
    find_audience_problems(campaign, problems)
    refuse_errors(problems, quiet=scope.quiet)
    compiler = TextCompiler(include_folder(campaign))
    renderers = [MessageRenderer(message, compiler) for message in campaign.messages]
    recipient = _find_recipient(campaign, renderers, phone)
    conversations = [(r, list(iterate_bubbles(r.render(recipient.vars).definition))) for r in renderers]
    if format_ == "json":
        print_json(_document(campaign, recipient, conversations))
    else:
        _write_human(campaign, recipient, conversations)
    return 0


def _find_recipient(campaign: Campaign, renderers: list[MessageRenderer], phone: str | None) -> Recipient:
    wanted = _parse(phone) if phone else None
    names = frozenset[str]().union(*(renderer.names for renderer in renderers))
    for recipient in iterate_audience(campaign, names, Problems(), AudienceTally()):
        if wanted in (None, recipient.phone):
            return recipient
    if phone:
        raise RunnerError(
            f"{mask_phone(phone)} is no recipient of {campaign.name}",
            hint="--phone takes one of its recipients",
        )
    raise RunnerError(f"{campaign.name} has no recipients")


def _parse(phone: str) -> str:
    parsed = parse_phone(phone, None)
    if isinstance(parsed, PhoneProblem):
        raise UsageError(
            f"--phone {phone}: {parsed.reason}", hint=parsed.hint or "write it as in +14155550101"
        )
    return parsed


def _document(
    campaign: Campaign, recipient: Recipient, conversations: list[tuple[MessageRenderer, list[Bubble]]]
) -> dict[str, Any]:
    return {
        "campaign": campaign.name,
        "phone": mask_phone(recipient.phone),
        "messages": [
            {
                "id": r.message.id,
                "tag": r.message.tag,
                "conversation": [_bubble_json(bubble) for bubble in bubbles],
            }
            for r, bubbles in conversations
        ],
    }


def _bubble_json(bubble: Bubble) -> dict[str, Any]:
    return {
        "part": bubble.part,
        "question_tag": bubble.question_tag,
        "text": bubble.text,
        "encoding": bubble.segments.encoding,
        "units": bubble.segments.units,
        "segments": bubble.segments.segments,
        "responses": list(bubble.responses),
        "conclude_on": bubble.conclude_on,
    }


def _write_human(
    campaign: Campaign, recipient: Recipient, conversations: list[tuple[MessageRenderer, list[Bubble]]]
) -> None:
    click.secho(f"{campaign.name}, as {mask_phone(recipient.phone)} will see it", bold=True)
    for renderer, bubbles in conversations:
        click.echo(f"\n{renderer.message.id} ({renderer.message.method}, tag {renderer.message.tag})")
        for bubble in bubbles:
            _write_bubble(bubble)


def _write_bubble(bubble: Bubble) -> None:
    count = bubble.segments
    badge = f"{count.segments} segment{'' if count.segments == 1 else 's'}, {count.units} in {count.encoding}"
    if count.costly is not None:
        badge += f" because of {count.costly!r}"
    title = f"{bubble.part} {bubble.question_tag}" if bubble.question_tag else bubble.part
    click.echo(f"\n  {click.style(title, fg='cyan')}  [{badge}]")
    for line in bubble.text.split("\n"):
        for part in textwrap.wrap(printable(line), _WIDTH) or [""]:
            click.echo(f"  │ {part}")
    if bubble.conclude_on:
        click.echo(f"    (the answer {printable(bubble.conclude_on)!r} skips to the conclusion)")
