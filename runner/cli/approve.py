"""`runner approve`: records who approved a plan, or makes sure that somebody has approved a run."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from runner.cli.console import note
from runner.cli.coverage import ApprovalShelf, require_sealed
from runner.cli.job_summary import append_variables
from runner.cli.merge_review import Sending, ask_forge, read_merge_review
from runner.cli.saved import check_plan_path, read_saved_plan
from runner.cli.scope import Scope, plan_scope
from runner.cli.workspace import Workspace
from runner.errors import LimitError, RunnerError, UsageError
from runner.forge.approvers import ENVIRONMENT, list_run_approvers
from runner.ledger.lock import find_run_url
from runner.ledger.moment import format_moment
from runner.plan.approval import Approval, find_gap
from runner.repository.git import hide_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.cli.merge_review import MergeReview
    from runner.cli.saved import SavedPlan
    from runner.plan.approval import ApprovalRequest

_LONGEST_NAME = 100
_OTHERWISE = (
    f"let people approve the run: give the environment `{ENVIRONMENT}` required reviewers; where the forge "
    "has none for this repository, take the merge of a reviewed pull request for the approval: --merge"
)
_BY_HAND = (
    f"give the environment `{ENVIRONMENT}` required reviewers; where the forge has none for this repository, "
    "do it from a machine of your own: see `runner resolve --help` and `runner resume --help`"
)
_REVIEW_FIRST = (
    "have somebody who may push, and is not its author, approve the last commit of the pull request, which "
    "can be done after the merge, and run the job again"
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A campaign of the plan that is to be approved.

    Attributes:
        campaign: the campaign.
        entry: what the plan says of it.
        request: what is asked; None without a state key.
    """

    campaign: Campaign
    entry: dict[str, Any]
    request: ApprovalRequest | None


@dataclass(frozen=True, slots=True)
class _Word:
    """Who approved.

    Attributes:
        names: of those who approved the plan.
        pull_request: the page of the one that brought it; None if there is none, or it is not known.
        reviewers: who approved that one.
    """

    names: tuple[str, ...]
    pull_request: str | None = None
    reviewers: tuple[str, ...] = ()


@click.command(
    epilog="\b\nExamples:\n  runner approve --plan plan.json\n  runner approve --plan plan.json --merge\n"
    "  runner approve --plan plan.json --by ada\n  runner approve --run"
)
@plan_scope
@click.option(
    "--plan",
    "plan_file",
    callback=check_plan_path,
    metavar="FILE",
    help="What was approved, as `runner plan --out FILE` saved it.",
)
@click.option(
    "--run",
    "is_of_run",
    is_flag=True,
    help="Instead, make sure that somebody has approved this run of a workflow, for what sends no plan.",
)
@click.option(
    "--expect-digest", metavar="DIGEST", help="Approve only the plan with this digest, which was shown."
)
@click.option("--by", "names", multiple=True, metavar="NAME", help="Who approved it; may be repeated.")
@click.option(
    "--merge",
    "is_by_merge",
    is_flag=True,
    help="Take the approving review of the pull request that was merged for the approval, unless the plan is "
    "larger than its comment said (`policy.review_margin`).",
)
def command(
    scope: Scope,
    plan_file: str | None,
    is_of_run: bool,
    expect_digest: str | None,
    names: tuple[str, ...],
    is_by_merge: bool,
) -> int:
    """Record who approved a plan, beside its campaigns: `runner record` commits that. Sends nothing.

    In a GitHub job the forge is asked who approved the run, in the environment campaigns-approval, and which
    pull request brought what is sent. An approval covers what the plan sends and forecasts, of these words
    to these people, and is believed with the RUNNER_STATE_KEY alone that it was recorded with.

    Exits with 5 if nobody approved, or if --merge does not do for it.
    """
    if names and is_by_merge:
        raise UsageError("--by says who approved, and --merge asks the forge: leave one of them out")
    if is_of_run:
        if plan_file is not None or expect_digest is not None or names or is_by_merge:
            raise UsageError("--run is about no plan: leave out the other options")
        people = _ask_for_run(_BY_HAND)
        _hand_over(_Word(people))
        click.echo(f"Approved by {', '.join(people)}.")
        return 0
    if plan_file is None:
        raise UsageError("what was approved is not said", hint="name the plan with --plan FILE")
    return _approve(plan_file, scope, expect_digest, names, is_by_merge=is_by_merge)


def _approve(
    plan_file: str, scope: Scope, expect_digest: str | None, names: tuple[str, ...], *, is_by_merge: bool
) -> int:
    saved = read_saved_plan(plan_file)
    if expect_digest is not None:
        saved.require_digest(expect_digest)
    scope = replace(scope, paths=tuple(saved.paths()))
    workspace = Workspace.open(scope, needs_credentials=False)
    saved.require_target(workspace.target)
    shelf = ApprovalShelf(workspace.target)
    asked = _list_asked(saved, scope, shelf)
    if not asked:
        click.echo("Nothing to approve: what the plan sends is approved, or it sends nothing.")
        return 0
    word = _find_word(asked, workspace.target.name, _clean(names), is_by_merge=is_by_merge)
    _hand_over(word)
    _record(saved, asked, word, shelf)
    people = ", ".join(word.names)
    click.echo(f"Approved by {people}: {', '.join(one.campaign.name for one in asked)}.")
    if shelf.key is None:
        note(
            "Without a RUNNER_STATE_KEY this is not kept: send exactly this plan now, with "
            f"`runner apply --plan {plan_file} --require-approval --expect-digest {saved.digest}`"
        )
    return 0


def _clean(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise UsageError("--by takes a name of one line, of at most 100 characters")
    return tuple(sorted({name.strip() for name in names}))


def _list_asked(saved: SavedPlan, scope: Scope, shelf: ApprovalShelf) -> list[_Asked]:
    """Return the campaigns of a plan with something that was not approved yet.

    Raises:
        RunnerError: the plan is not as it was made, or not with this key.
    """
    campaigns = {campaign.name: campaign for campaign in scope.load_valid_campaigns()}
    asked = []
    for entry in saved.campaigns:
        request = require_sealed(entry, saved, shelf)
        campaign = campaigns.get(entry["name"])
        if campaign is None:
            raise RunnerError(f"{entry['file']} is not the campaign {entry['name']} that was planned")
        if entry["refusals"]:
            continue
        if request is None or shelf.key is None:
            is_open = any(message["to_send"] for message in entry["messages"])
        else:
            approvals = shelf.list_approvals(shelf.find_file(campaign), shelf.key)
            is_open = find_gap(request, approvals, request.messages) is not None
        if is_open:
            asked.append(_Asked(campaign, entry, request))
    return asked


def _find_word(asked: Sequence[_Asked], target: str, names: tuple[str, ...], *, is_by_merge: bool) -> _Word:
    if is_by_merge:
        return _trust_merge(asked, ask_forge(lambda repository: read_merge_review(repository, target)))
    is_job = _find_run() is not None
    if not names and not is_job:
        raise UsageError(
            "who approved it is not said, and this is no job of GitHub that could ask",
            hint="name them with --by; in a job, hand the step GITHUB_TOKEN",
        )
    names = names or _ask_for_run(_OTHERWISE)
    try:
        review = ask_forge(lambda repository: read_merge_review(repository, target)) if is_job else None
    except RunnerError as error:
        note(f"Which pull request brought it is not recorded: {error.message}")
        review = None
    if review is None:
        return _Word(names)
    return _Word(names, review.pull.url or None, review.reviewers)


def _find_run() -> str | None:
    """Return the id of the run of a workflow that this is a job of, if the forge can be asked about it."""
    return os.environ.get("GITHUB_RUN_ID") if os.environ.get("GITHUB_TOKEN") else None


def _ask_for_run(otherwise: str) -> tuple[str, ...]:
    """Return who approved the run that this is a job of.

    Args:
        otherwise: what to do if nobody has.

    Raises:
        LimitError: nobody has.
        RunnerError: the forge doesn't tell.
        UsageError: this is no job.
    """
    run = _find_run()
    if run is None:
        raise UsageError(
            "this is no job of GitHub that could ask who approved its run",
            hint="in a job, hand the step GITHUB_TOKEN",
        )
    names = ask_forge(lambda repository: list_run_approvers(repository, run))
    if not names:
        raise LimitError("nobody approved this run: nothing was recorded", hint=otherwise)
    return names


def _trust_merge(asked: Sequence[_Asked], review: MergeReview | None) -> _Word:
    """Return the reviewers of the merged pull request as those who approved.

    Raises:
        LimitError: there is none, nobody approved it, or the plan is larger than it said.
    """
    if review is None:
        raise LimitError(
            "what is to be sent came without a pull request: no merge approves it",
            hint="change campaigns by pull requests alone, or say who approved it with --by",
        )
    number = review.pull.number
    if not review.reviewers:
        raise LimitError(f"nobody approved the pull request #{number} as it was merged", hint=_REVIEW_FIRST)
    if not review.said:
        raise LimitError(
            f"the pull request #{number} has no comment with the numbers of its plan: what was reviewed is "
            "not known",
            hint="have `runner comment` run in the pull request's job, or say who approved it with --by",
        )
    growth = review.find_growth([_describe(one) for one in asked])
    if growth:
        words = "; ".join(f"{name}: {text}" for name, text in growth.items())
        raise LimitError(
            f"the plan is larger than what was reviewed: {words}",
            hint="look at the plan, and say who approved it with --by; how much larger a plan may be is "
            "`policy.review_margin` of the campaign",
        )
    return _Word(review.reviewers, review.pull.url or None, review.reviewers)


def _describe(asked: _Asked) -> Sending:
    messages = asked.entry["messages"]
    return Sending(
        asked.campaign.name,
        asked.campaign.policy.review_margin,
        {one["id"]: one["to_send"] for one in messages},
        {one["id"]: one["to_send"] + one["forecast"] for one in messages},
    )


def _record(saved: SavedPlan, asked: Sequence[_Asked], word: _Word, shelf: ApprovalShelf) -> None:
    key = shelf.key
    if key is None:
        return
    run_url = hide_credentials(find_run_url(os.environ) or "") or None
    by_file: dict[Path, list[Approval]] = {}
    for one in asked:
        if one.request is not None:
            file = shelf.find_file(one.campaign)
            now = _find_moment(shelf.list_approvals(file, key))
            approval = Approval(
                one.request, saved.digest, now, word.names, run_url, word.pull_request, word.reviewers
            )
            by_file.setdefault(file, []).append(approval)
    for file, approvals in by_file.items():
        shelf.record(file, approvals, key)


def _find_moment(approvals: Iterable[Approval]) -> str:
    """Return when something is approved now: after all before it, however wrong the clocks were then."""
    known = (datetime.fromisoformat(one.approved_at) + timedelta(seconds=1) for one in approvals)
    return format_moment(max([datetime.now(UTC), *known]))


def _hand_over(word: _Word) -> None:
    """Tell the later steps of this job who approved: `runner record` writes it into the log of git."""
    append_variables(
        {
            "RUNNER_APPROVED_BY": ",".join(word.names),
            "RUNNER_PULL_REQUEST": word.pull_request or "",
            "RUNNER_REVIEWED_BY": ",".join(word.reviewers),
        }
    )
