"""`runner forget`: removal of a person's data, with a lasting block against texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.audience.phone import mask_phone
from runner.cli.command import Command
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.console import print_prose, show
from runner.cli.options import LOCK_TIMEOUT, format_option, region_option, target_scope
from runner.wording import count_words
from runner.workflow.records.forgetting import forget
from runner.workflow.records.phones import read_phones

if TYPE_CHECKING:
    from runner.workflow.records.forgetting import ForgottenPerson
    from runner.workflow.scope import Scope


@click.command(
    cls=Command,
    epilog="\b\nExamples:\n  runner forget +14155550101\n"
    "  runner forget +14155550101 campaigns/customer-pulse.yaml --target live",
)
@click.argument("phone", metavar="PHONE")
@target_scope
@region_option
@format_option("human", "json")
@LOCK_TIMEOUT
@APPROVAL
def command(
    scope: Scope, phone: str, region: str | None, format_: str, lock_timeout_s: float, auto_approve: bool
) -> int:
    """Delete a person's data from the ledger and the lockfiles, and never text them again.

    Deletes their deliveries, their answers, and texts that went to them alone, of all campaigns and targets
    in the ledger. The lockfiles of the campaigns at PATH, and their copies on a state remote, are rewritten
    without them. One keyed entry per target stays, in the ledger and in campaigns/<target>.suppressions.json,
    and one in each of these lockfiles: so no campaign on any machine texts them again, even if a file still
    lists them.

    Finished reports, git's history and the service are out of reach: the output ends with what to do about
    them. `runner optouts remove` lets the person in again, as a newcomer.
    """
    (person,) = read_phones(scope, [phone], region)
    done = forget(
        scope,
        person,
        lock_timeout_s,
        lambda: require_approval(
            f"Remove everything on record of {mask_phone(person)}, for good, and never text them again?",
            is_approved=auto_approve,
        ),
    )
    show(done, format_, {"human": _write_human})
    return int(done.is_behind)


def _write_human(done: ForgottenPerson) -> None:
    if not done.campaigns:
        print_prose(f"Nothing was on record of {done.phone} except perhaps opt-outs.")
    for one in done.campaigns:
        removed = (
            count_words(one.deliveries, "delivery", "deliveries"),
            count_words(one.results, "answer"),
        )
        print_prose(f"{one.campaign} on {one.target}: {' and '.join(removed)} removed.")
    for file in done.lockfiles:
        print_prose(f"{file}: rewritten; commit it.")
    print_prose(f"{done.phone} is never texted again on {', '.join(done.targets)}.")
    print_prose("Out of reach:")
    for sentence in done.unreached:
        print_prose(f"  - {sentence}")
