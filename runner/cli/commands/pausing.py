"""`runner pause` and `runner resume`: a hold on a campaign until a person ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.options import format_option, ledger_scope
from runner.cli.output.screen import show
from runner.view.blocks import Sentence
from runner.workflow.records.pausing import change_pauses

if TYPE_CHECKING:
    from runner.workflow.records.pausing import PauseChange
    from runner.workflow.scope import Scope


_CAMPAIGNS = click.argument("campaigns", nargs=-1, required=True, metavar="CAMPAIGN...")


@click.command(cls=Command)
@_CAMPAIGNS
@ledger_scope
@format_option("human", "json")
@click.option(
    "--reason",
    default="",
    show_default=False,
    metavar="TEXT",
    help="The reason, which plan and status show; it is kept in git.",
)
def pause(scope: Scope, campaigns: tuple[str, ...], format_: str, reason: str) -> int:
    """Pause campaigns on a target: nothing is sent, not even reminders.

    CAMPAIGN is the name of a campaign, or its file. `runner plan` counts their texts as paused. `runner
    apply` sends the other campaigns, and exits with 7 if it held back something. `runner reconcile` still
    reads answers and opt-outs.

    Pauses are stored in campaigns/<target>.suppressions.json: commit it with `runner ci record`, so that
    other machines know. `runner resume` ends a pause.

    Examples:
        runner pause customer-pulse --reason "a wrong link in the text"
        runner pause campaigns/customer-pulse.yaml winter-hours --target live
    """
    return _show(change_pauses(scope, campaigns, reason), format_)


def _show(change: PauseChange, format_: str) -> int:
    """Write the effect of `pause` or `resume` on campaigns."""
    said = (f"{one.name} on {change.target}: {one.describe()}." for one in change.campaigns)
    show(change, format_, map(Sentence, said))
    return 0


@click.command(cls=Command)
@_CAMPAIGNS
@ledger_scope
@format_option("human", "json")
def resume(scope: Scope, campaigns: tuple[str, ...], format_: str) -> int:
    """Resume campaigns that are paused: the next `runner apply` sends what is due.

    CAMPAIGN is the name of a campaign, or its file. Commit the change with `runner ci record`, so that other
    machines know.

    Examples:
        runner resume customer-pulse
        runner resume campaigns/customer-pulse.yaml --target live && runner ci record
    """
    return _show(change_pauses(scope, campaigns, None), format_)
