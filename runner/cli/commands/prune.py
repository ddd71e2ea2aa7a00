"""`runner prune`: texts and answers go once they are older than their campaign keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runner.cli.command import Command
from runner.cli.confirmation import APPROVAL, require_approval
from runner.cli.options import LOCK_TIMEOUT, format_option, target_scope
from runner.cli.output.screen import show
from runner.view.blocks import Items, Sentence
from runner.wording import count_words
from runner.workflow.failures import Failures
from runner.workflow.records import pruning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.view.blocks import Block
    from runner.workflow.records.pruning import PrunedCampaign, PrunedDocument
    from runner.workflow.scope import Scope


@click.command(cls=Command)
@target_scope
@format_option("human", "json")
@LOCK_TIMEOUT
@APPROVAL
def prune(scope: Scope, format_: str, lock_timeout_s: float, auto_approve: bool) -> int:
    """Delete the texts and answers of campaigns that are older than `policy.retention`.

    They go from the ledger, from the copies for reports, and from the embedded sandbox, once the last text of
    the campaign, or of its wave, is so old: the figures of a campaign belong together. Launches of unknown
    outcome, surveys that may be open, and replies that wait for a decision stay until that is settled.

    The report stays with its figures, and so does who was texted and who has opted out, as fingerprints:
    nobody is texted twice. Later reconciles bring nothing back, and follow-ups that go by answers are not
    sent any more.

    Examples:
        runner prune
        runner prune --auto-approve --target live
    """
    failures = Failures()

    def approve(due: tuple[PrunedCampaign, ...]) -> None:
        parts = "; ".join(f"{one.label}: {_count(one)}" for one in due)
        require_approval(f"Remove for good ({parts})?", is_approved=auto_approve)

    done = pruning.prune(scope, lock_timeout_s, approve, failures)
    show(done, format_, _describe(done))
    return failures.find_exit_code(0)


def _count(one: PrunedCampaign) -> str:
    launches = count_words(one.launches, "launch", "launches")
    return f"the texts of {launches} and {count_words(one.results, 'answer')}"


def _describe(done: PrunedDocument) -> Iterator[Block]:
    for one in done.pruned:
        yield Sentence(f"{one.label}: {_count(one)} removed; `runner report` shows the figures.")
    for one in done.kept:
        yield Sentence(f"{one.label}: {_count(one)} stay: {one.reason}.")
    if not done.pruned and not done.kept:
        yield Sentence("There is nothing to remove.")
    if done.unreached:
        yield Sentence("Out of reach:")
        yield Items(done.unreached)
