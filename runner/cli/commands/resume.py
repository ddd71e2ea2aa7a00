"""`runner resume`: the end of a campaign's pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.commands.pause import CAMPAIGNS, write_pauses
from runner.cli.console import show
from runner.cli.options import format_option, ledger_scope
from runner.workflow.records.pausing import change_pauses

if TYPE_CHECKING:
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@CAMPAIGNS
@ledger_scope
@format_option("human", "json")
def command(scope: Scope, campaigns: tuple[str, ...], format_: str) -> int:
    """Resume campaigns that are paused: the next `runner apply` sends what is due.

    CAMPAIGN is the name of a campaign, or its file. Commit the change with `runner ci record`, so that other
    machines know.

    Examples:
        runner resume customer-pulse
        runner resume campaigns/customer-pulse.yaml --target live && runner ci record
    """
    show(change_pauses(scope, campaigns, None), format_, {"human": write_pauses})
    return 0
