"""`runner reconcile`: counts and results, read into the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command, special_option
from runner.cli.console import print_next
from runner.cli.options import format_option, target_scope
from runner.cli.output.screen import show
from runner.view.blocks import Sentence
from runner.wording import count_words
from runner.workflow.results.reconcile import ReconcileOptions, reconcile_project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.workflow.results.reconcile import ReconcileResult
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@target_scope
@format_option("human", "json")
@click.option(
    "--full",
    is_flag=True,
    help="Read all results again, to find edited answers, which do not show in the service's counts.",
)
@special_option(
    "--accept-differences",
    "accept",
    is_flag=True,
    help="If the service counts more results than it lists, accept the list as complete: follow-ups no "
    "longer wait.",
)
@special_option(
    "--drop-unlisted",
    "drops",
    is_flag=True,
    help="Read all results again, and remove those that the service no longer lists from the ledger.",
)
def reconcile(scope: Scope, format_: str, full: bool, accept: bool, drops: bool) -> int:
    """Read counts and results of all launches into the ledger.

    Only new results are read, and stored ones are checked against the service's own counts. Exits with 3 if
    some launches could not be read, and with 1 if none could. Campaigns are independent: one that is invalid,
    or whose lists cannot be read, is left out, with exit code 3. If a campaign's file is gone, the campaign
    is named, and its launches are read like the others: its people may still opt out.

    If the service counts more results than it lists, somebody may have answered or opted out unseen: the exit
    code is 3, follow-ups that depend on answers wait, and replies count as unread. A lasting difference can
    be accepted with --accept-differences; a new one makes them wait again.

    Results that the service no longer lists stay in the ledger and in reports, and are named; the people who
    gave them count as having answered. --drop-unlisted removes these results. If the service lists a result
    under another guid, with the same participant, question, time and words, it counts once.

    Replies that opt out are recorded, and no campaign on the target texts their authors again. Replies that
    only sound like an opt-out wait for your decision, and their authors are not texted until then: see
    `runner optouts`. The account's newest results are read, too, whatever launches they belong to, and those
    of the last 30 days once a day.

    Examples:
        runner reconcile
        runner reconcile --full
        runner reconcile campaigns/customer-pulse.yaml --target live
    """
    result = reconcile_project(scope, ReconcileOptions(full, accept, drops))
    show(result, format_, describe_reconciled(result))
    print_next(result.next_step)
    return result.exit_code


def describe_reconciled(result: ReconcileResult) -> Iterator[Sentence]:
    """Yield a sentence on each campaign."""
    for one in result:
        sessions = ", ".join(
            f"{count:,} {state}" if count is not None else f"{state} not known"
            for state, count in one.sessions.items()
        )
        found = f"; {count_words(one.opted_out, 'opt-out')} found" if one.opted_out else ""
        yield Sentence(
            f"{one.name}: {count_words(one.launches, 'launch', 'launches')}; sessions: {sessions}; "
            f"{count_words(one.results, 'result')}, {one.new_results:,} of them new{found}."
        )
