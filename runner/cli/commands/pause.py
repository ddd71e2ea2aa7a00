"""`runner pause`: a hold on a campaign until a person resumes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.cli.console import print_json, print_prose
from runner.cli.options import Command, format_option, ledger_scope
from runner.service.target import SANDBOX
from runner.workflow.observer import note
from runner.workflow.records.pausing import PausedCampaign, PausedCampaigns, change_pauses

if TYPE_CHECKING:
    from runner.workflow.scope import Scope

CAMPAIGNS = click.argument("campaigns", nargs=-1, required=True, metavar="CAMPAIGN...")


@click.command(
    cls=Command,
    epilog='\b\nExamples:\n  runner pause customer-pulse --reason "a wrong link in the text"\n'
    "  runner pause campaigns/customer-pulse.yaml winter-hours --target live",
)
@CAMPAIGNS
@ledger_scope
@format_option("human", "json")
@click.option(
    "--reason", default="", metavar="TEXT", help="The reason, which plan and status show; it is kept in git."
)
def command(scope: Scope, campaigns: tuple[str, ...], format_: str, reason: str) -> int:
    """Pause campaigns on a target: nothing is sent, not even reminders.

    CAMPAIGN is the name of a campaign, or its file. `runner plan` counts paused texts as on hold. `runner
    apply` sends the other campaigns, and exits with 7 if it held back something. `runner reconcile` still
    reads answers and opt-outs.

    Pauses are stored in campaigns/<target>.suppressions.json: commit it with `runner record`, so that other
    machines know. `runner resume` ends a pause.
    """
    write_pauses(change_pauses(scope, campaigns, reason), "pause", format_, quiet=scope.quiet)
    return 0


def write_pauses(paused: PausedCampaigns, command: str, format_: str, *, quiet: bool) -> None:
    """Write the effect of `pause` or `resume` on campaigns.

    `quiet` leaves out the note on telling other machines.
    """
    target = paused.target
    if format_ == "json":
        items = [_describe(one) for one in paused.campaigns]
        print_json({"target": target, "command": command, "campaigns": items})
        return
    for one in paused.campaigns:
        print_prose(_sentence(one, target))
    if any(one.is_changed for one in paused.campaigns) and target != SANDBOX and not quiet:
        note(f"`runner record` commits {paused.file}: other machines learn of it there.")


def _describe(one: PausedCampaign) -> dict[str, Any]:
    return {
        "name": one.name,
        "changed": one.is_changed,
        "paused": one.pause is not None,
        "at": None if one.pause is None else one.pause.at,
        "reason": None if one.pause is None else one.pause.reason,
    }


def _sentence(one: PausedCampaign, target: str) -> str:
    if one.pause is not None:
        return f"{one.name} on {target}: {one.pause.describe()}."
    return f"{one.name} on {target}: {'goes on' if one.is_changed else 'was not paused'}."
