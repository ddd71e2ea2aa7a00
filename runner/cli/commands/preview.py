"""`runner preview`: the conversations that recipients will see, worst cases first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from runner.cli.command import Command
from runner.cli.options import FILE, common_scope, format_option, region_option
from runner.cli.output.person import sum_up
from runner.cli.output.screen import show, show_blocks
from runner.workflow.preview import preview_campaign
from runner.workflow.who import find_person

if TYPE_CHECKING:
    from pathlib import Path

    from runner.workflow.scope import Scope


@click.command(cls=Command)
@click.argument("campaign_file", metavar="FILE", type=FILE)
@click.option(
    "--phone",
    metavar="PHONE",
    help="Show the conversation of this recipient. Default: the worst cases of all.",
)
@click.option("--message", metavar="MESSAGE", help="Show only this message.")
@click.option(
    "--language",
    metavar="LANGUAGE",
    help="Show only people of this language; with --phone, the texts in this language.",
)
@common_scope
@region_option
@format_option("human", "json", "markdown")
def preview(
    scope: Scope, campaign_file: Path, phone: str | None, region: str | None, format_: str, **wishes: Any
) -> int:
    """Show whole conversations as recipients will see them, worst cases first.

    For each message these are the one with the most segments, and the one with the longest text. With
    --phone it says what this person got and gets next, as `runner who` does. Nothing is sent. The whole
    audience is checked on the way.

    Examples:
        runner preview campaigns/customer-pulse.yaml
        runner preview campaigns/customer-pulse.yaml --phone +14155550101
        runner preview campaigns/customer-pulse.yaml --message ask
        runner preview campaigns/visit-feedback.yaml --language ar
    """
    preview = preview_campaign(scope, campaign_file, phone=phone, region=region, **wishes)
    show(preview, format_, preview.show())
    if phone is not None and format_ != "json":
        own = replace(scope, paths=(campaign_file,))
        show_blocks([sum_up(lambda: find_person(own, phone, region))], format_)
    return 0
