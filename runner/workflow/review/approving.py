"""Approvals of plans and runs, by people or by the review of a merged pull request, and their record.

All attempts of a run share one list of its reviewers' decisions, without times. A plan of a later attempt
therefore keeps how often each of them had decided before, and only further decisions are about it.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from runner.errors import LimitError, RunnerError, UsageError
from runner.git.command import Git, GitError, hide_credentials
from runner.github.job import DEFAULT_API, NoJobError, read_github_job
from runner.github.job_summary import DENIED_VARIABLE, append_variables
from runner.github.pull_requests import (
    ENVIRONMENT,
    count_decisions,
    find_merged,
    find_waiting_run,
    has_reviewers,
    list_reviewers,
    list_said,
)
from runner.github.rest import RefusedError, UnavailableError
from runner.ledger.files.suppressions import Approval
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.model import format_moment
from runner.plan.approval import find_gap
from runner.wording import hide_phones, printable
from runner.workflow.approval_coverage import ApprovalStore, require_sealed
from runner.workflow.campaigns import load_valid_campaigns
from runner.workflow.observer import note
from runner.workflow.plans.saved import read_saved_plan
from runner.workflow.review.publishing import open_repository
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.github.pull_requests import MergedPullRequest, PlanNumbers
    from runner.github.rest import Repository
    from runner.ledger.files.suppressions import ApprovalRequest
    from runner.workflow.plans.saved import SavedPlan
    from runner.workflow.scope import Scope


_LONGEST_NAME = 100
_OTHERWISE = (
    f"let people approve the run: give the environment `{ENVIRONMENT}` required reviewers; where GitHub "
    "has none for this repository, take the merge of a reviewed pull request for the approval: --merge"
)
_BY_HAND = (
    f"give the environment `{ENVIRONMENT}` required reviewers; where GitHub has none for this repository, "
    "do it from a machine of your own: see `runner resolve --help` and `runner resume --help`"
)
_REVIEW_FIRST = (
    "have somebody who may push, and is not its author, approve the last commit of the pull request, which "
    "can be done after the merge, and run the job again"
)
_Result = TypeVar("_Result")
_RIGHTS = "give the job's token the permissions `actions: read`, `contents: read` and `pull-requests: read`"
_ANEW = "start a new run: *Run workflow* of `Campaigns send`, or re-run all jobs of this one"


class DeniedError(LimitError):
    """A plan that somebody denied, which is recorded."""


class _Asked(NamedTuple):
    """A campaign of the plan to approve, with its entry; `request` is None without a state key."""

    campaign: Campaign
    entry: dict[str, Any]
    request: ApprovalRequest | None


@dataclass(frozen=True, slots=True)
class PlanApproval:
    """An approval of a plan.

    `campaigns` names those not approved before; `is_kept` is False without a state key.
    """

    people: tuple[str, ...]
    campaigns: tuple[str, ...]
    digest: str
    is_kept: bool


def approve_run() -> tuple[str, ...]:
    """Return the approvers of this job's workflow run.

    Raises:
        LimitError: nobody approved, or the run was run again: GitHub doesn't say which attempt was approved.
        RunnerError: GitHub does not answer.
        UsageError: this is not a job.
    """
    names, denied_by = read_decisions(None, _BY_HAND)
    if not names:
        raise LimitError(f"{', '.join(denied_by)} denied it: nothing was recorded")
    return names


def approve_plan(
    plan_file: str, scope: Scope, expect_digest: str | None, names: tuple[str, ...], *, is_by_merge: bool
) -> PlanApproval | None:
    """Record the approval of a plan; return None if nothing in it needs one.

    Args:
        plan_file: the saved plan.
        scope: of the command; its campaigns are the plan's.
        expect_digest: the digest that the plan must have, if given.
        names: the approvers; empty to ask GitHub.
        is_by_merge: count the approving review of the merged pull request.

    Raises:
        DeniedError: somebody denied it.
        LimitError: nobody approved, or the merge is not sufficient.
        RunnerError: the plan cannot be read, or does not match.
    """
    saved = read_saved_plan(plan_file)
    if expect_digest is not None:
        saved.require_digest(expect_digest)
    scope = replace(scope, paths=tuple(saved.paths()))
    workspace = Workspace.open(scope)
    saved.require_target(workspace.target)
    store = ApprovalStore(workspace.target, workspace.state)
    asked = _list_asked(saved, scope, store)
    if not asked:
        return None
    denied_by: tuple[str, ...] = ()
    names = _clean(names)
    if is_by_merge:
        names = _trust_merge(asked, _read_merge_review(workspace.target.name))
    elif not names:
        names, denied_by = _ask_reviewers(saved)
    _record(saved, asked, names, denied_by, store)
    if denied_by:
        append_variables({DENIED_VARIABLE: ",".join(denied_by)})
        raise DeniedError(
            f"{', '.join(denied_by)} denied the plan {saved.digest}: nothing of it is sent, and "
            "nobody is asked again until it changes",
            hint="change it; or have it approved all the same: `runner plan --out FILE` and `runner ci "
            "approve --plan FILE --by NAME` in a clone, then `runner ci record`",
        )
    campaigns = tuple(one.campaign.name for one in asked)
    return PlanApproval(names, campaigns, saved.digest, store.key is not None)


def _clean(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise UsageError("--by takes a name of one line, of at most 100 characters")
    return tuple(sorted({name.strip() for name in names}))


def _list_asked(saved: SavedPlan, scope: Scope, store: ApprovalStore) -> list[_Asked]:
    """Return the campaigns of a plan with something not approved yet."""
    campaigns = {campaign.name: campaign for campaign in load_valid_campaigns(scope)}
    asked = []
    for entry in saved.campaigns:
        request = require_sealed(entry, saved, store)
        campaign = campaigns.get(entry["name"])
        if campaign is None:
            raise RunnerError(f"{entry['file']} is not the campaign {entry['name']} that was planned")
        if entry["refusals"]:
            continue
        if request is None or store.key is None:
            is_open = any(message["to_send"] for message in entry["messages"])
        else:
            approvals = store.list_approvals(store.find_file(campaign), store.key)
            is_open = find_gap(request, approvals, request.messages) is not None
        if is_open:
            asked.append(_Asked(campaign, entry, request))
    return asked


def _ask_reviewers(saved: SavedPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the people who approved a plan and, if nobody did, those who denied it."""
    if find_run() is None:
        raise UsageError(
            "nobody is named who approved it, and this is not a GitHub job, which could ask",
            hint="name them with --by; in a job, give the step GITHUB_TOKEN",
        )
    approved, denied = read_decisions(saved.earlier, _OTHERWISE)
    return approved, () if approved else denied


def _trust_merge(asked: Sequence[_Asked], review: MergeReview | None) -> tuple[str, ...]:
    """Return the reviewers of the merged pull request as approvers.

    Raises:
        LimitError: there is no pull request, no approval, or the plan has grown since.
    """
    if review is None:
        raise LimitError(
            "no pull request brought what is to be sent, so no merge approves it",
            hint="change campaigns by pull requests alone, or say who approved it with --by",
        )
    number = review.pull.number
    if not review.reviewers:
        raise LimitError(f"nobody approved the pull request #{number} as it was merged", hint=_REVIEW_FIRST)
    if not review.said:
        raise LimitError(
            f"the pull request #{number} has no comment with the numbers of its plan: what was reviewed is "
            "not known",
            hint="have `runner ci comment` run in the pull request's job, or say who approved it with --by",
        )
    growth = {}
    for one in asked:
        pending = {
            message["id"]: message["to_send"] + message["forecast"] for message in one.entry["messages"]
        }
        if more := review.find_growth(one.campaign, pending):
            growth[one.campaign.name] = more
    if growth:
        words = "; ".join(f"{name}: {text}" for name, text in growth.items())
        raise LimitError(
            f"the plan is larger than what was reviewed: {words}",
            hint="look at the plan, and say who approved it with --by; how much larger a plan may be is "
            "`policy.review_margin` of the campaign",
        )
    return review.reviewers


def _record(
    saved: SavedPlan,
    asked: Sequence[_Asked],
    names: tuple[str, ...],
    denied_by: tuple[str, ...],
    store: ApprovalStore,
) -> None:
    key = store.key
    if key is None:
        return
    run_url = hide_credentials(find_run_url(os.environ) or "") or None
    by_file: dict[Path, list[Approval]] = {}
    for one in asked:
        if one.request is not None:
            file = store.find_file(one.campaign)
            now = _find_moment(store.list_approvals(file, key))
            approval = Approval(one.request, saved.digest, now, names, run_url, denied_by)
            by_file.setdefault(file, []).append(approval)
    for file, approvals in by_file.items():
        store.record(file, approvals, key)


def _find_moment(approvals: Iterable[Approval]) -> str:
    """Return the time of a new approval: after all earlier ones, even if clocks were wrong."""
    known = (datetime.fromisoformat(one.at) + timedelta(seconds=1) for one in approvals)
    return format_moment(max([datetime.now(UTC), *known]))


@dataclass(frozen=True, slots=True)
class MergeReview:
    """A merged pull request, its approvers, and the plan's numbers in its comments."""

    pull: MergedPullRequest
    reviewers: tuple[str, ...]
    said: tuple[PlanNumbers, ...]

    def find_growth(self, campaign: Campaign, pending: Mapping[str, int]) -> str:
        """Return how a campaign's plan exceeds the comments' numbers; empty if it does not.

        `pending` has the recipients to send to now or later, by message.
        """
        name = hide_phones(campaign.name)
        # If several comments cover a campaign, each must allow enough.
        listed = [one.campaigns[name] for one in self.said if name in one.campaigns]
        gaps = []
        for message, count in pending.items():
            reviewed = min((numbers.get(hide_phones(message), 0) for numbers in listed), default=0)
            if count > reviewed + int(reviewed * campaign.policy.review_margin):
                gaps.append(
                    f"`{message}` may reach {count:,} more, and the comment on #{self.pull.number} "
                    f"said {reviewed:,}"
                )
        return "; ".join(gaps)


def _read_merge_review(target: str) -> MergeReview | None:
    """Return the review of the pull request that merged the current commit, or None."""
    commit, branch = _find_commit(), os.environ.get("GITHUB_REF_NAME", "")

    def read(repository: Repository) -> MergeReview | None:
        pull = find_merged(repository, commit, branch) if commit and branch else None
        if pull is None:
            return None
        reviewers = list_reviewers(repository, pull)
        return MergeReview(pull, reviewers, tuple(list_said(repository, pull, target)))

    return ask_github(read)


def _find_commit() -> str:
    """Return the current commit; a repeated old run has the branch's tip."""
    with suppress(GitError):
        return Git(Path.cwd()).ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}").output.strip()
    return ""


@dataclass(frozen=True, slots=True)
class Asking:
    """The answer to whether reviewers are asked about a plan.

    Attributes:
        state: `needed` if they are; `waiting` if another run waits for the approval of the same plan;
            `denied` if somebody denied it before.
        words: why they are not asked; empty if they are.
        denied_by: the people who denied it.
        earlier: decisions before this attempt of the run, for the saved plan; None in a first attempt.
    """

    state: Literal["needed", "waiting", "denied"]
    words: str = ""
    denied_by: tuple[str, ...] = ()
    earlier: dict[str, Any] | None = None


def find_run() -> str | None:
    """Return the id of this job's workflow run, if GitHub can be asked about it."""
    return os.environ.get("GITHUB_RUN_ID") if os.environ.get("GITHUB_TOKEN") else None


def _find_attempt() -> str:
    return os.environ.get("GITHUB_RUN_ATTEMPT") or "1"


def plan_asking(digest: str, denied_by: tuple[str, ...]) -> Asking:
    """Return whether this job's run asks its reviewers about a plan that needs an approval.

    `denied_by` names the people who denied the same plan before. GitHub that doesn't answer stops no plan.
    """
    if denied_by:
        words = f"{', '.join(denied_by)} denied the plan {digest}: nobody is asked again until it changes"
        return Asking("denied", words, denied_by)
    run = find_run()
    if run is None:
        return Asking("needed")
    earlier = None
    try:
        if _find_attempt() != "1":
            decided = sorted(ask_github(lambda github: count_decisions(github, run)).items())
            decisions = [[state, login, count] for (state, login), count in decided]
            earlier = _name_attempt(run) | {"decisions": decisions}
        page = ask_github(lambda github: find_waiting_run(github, digest, run))
    except RunnerError as error:
        note(f"Whether another run waits for this plan's approval is not known: {error.message}")
        page = None
    if page is not None:
        return Asking("waiting", f"the same plan waits for its approval already: {printable(page)}")
    return Asking("needed", earlier=earlier)


def _name_attempt(run: str) -> dict[str, Any]:
    return {"run": run, "attempt": _find_attempt()}


def read_decisions(
    earlier: Mapping[str, Any] | None, otherwise: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the people who approved and those who denied what this attempt of the job's run asks.

    `earlier` is what the saved plan tells of earlier attempts; `otherwise` is the advice where the
    environment has no reviewers.

    Raises:
        LimitError: nobody decided, there are no required reviewers, or earlier decisions are not known.
        RunnerError: GitHub does not answer.
        UsageError: this is not a job.
    """
    run = find_run()
    if run is None:
        raise UsageError(
            "this is not a GitHub job, which could ask who approved its run",
            hint="in a job, give the step GITHUB_TOKEN",
        )
    before: Counter[tuple[str, str]] = Counter()
    if _find_attempt() != "1":
        if earlier is None or {**earlier, **_name_attempt(run)} != earlier:
            raise LimitError(
                f"this is attempt {_find_attempt()} of the run, and approvals of earlier attempts do not "
                "count: nothing was recorded",
                hint=_ANEW,
            )
        before.update({(state, login): count for state, login, count in earlier["decisions"]})
    if not ask_github(has_reviewers):
        raise LimitError(
            f"the environment `{ENVIRONMENT}` has no required reviewers, so nobody was asked: nothing was "
            "recorded",
            hint=otherwise,
        )
    new = ask_github(lambda github: count_decisions(github, run)) - before
    if not new:
        raise LimitError("nobody approved this run: nothing was recorded", hint=otherwise)
    approved, denied = (
        tuple(sorted(login for said, login in new if said == state)) for state in ("approved", "rejected")
    )
    return approved, denied


def ask_github(work: Callable[[Repository], _Result]) -> _Result:
    """Ask GitHub with this job's token."""
    try:
        return work(open_repository(read_github_job(os.environ)))
    except NoJobError as error:
        raise RunnerError(f"who approved this is not known: {error}") from None
    except RefusedError as error:
        reason = f"{error.status}: {printable(error.reason)}"
        raise RunnerError(f"GitHub does not say who approved this ({reason})", hint=_RIGHTS) from None
    except UnavailableError as error:
        api_url = os.environ.get("GITHUB_API_URL") or DEFAULT_API
        raise RunnerError(
            f"who approved this is not known: {api_url} cannot be reached: {error}",
            hint="run the job again",
        ) from None
