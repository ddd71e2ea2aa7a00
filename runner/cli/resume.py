"""`runner resume`: lets a campaign go on that was paused."""

from __future__ import annotations

import click

from runner.cli.pause import CAMPAIGNS, change_pauses
from runner.cli.scope import Scope, format_option, ledger_scope


@click.command(
    epilog="\b\nExamples:\n  runner resume customer-pulse\n"
    "  runner resume campaigns/customer-pulse.yaml --target live && runner record"
)
@CAMPAIGNS
@ledger_scope
@format_option("human", "json")
def command(scope: Scope, campaigns: tuple[str, ...], format_: str) -> int:
    """Let campaigns go on that `runner pause` has put on hold: the next `runner apply` sends what is due.

    CAMPAIGN is a campaign's name or its file. `runner record` commits the word, so that other machines know.
    """
    return change_pauses(scope, campaigns, None, format_)
