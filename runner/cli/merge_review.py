"""What a merged pull request says of a plan: its comment's numbers, and who approved it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.policy import DEFAULT_REVIEW_MARGIN
from runner.cli.console import note
from runner.cli.inert import hide_phones, printable
from runner.cli.publishing import open_repository, try_on_forge
from runner.errors import RunnerError
from runner.forge.approvers import list_reviewers, list_said
from runner.forge.connection import UnavailableError
from runner.forge.job import DEFAULT_API, NoJobError, read_forge_job
from runner.forge.merged import find_merged
from runner.forge.repository import RefusedError
from runner.repository.git import Git, GitError, find_work_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from typing import TypeVar

    from runner.cli.coverage import Coverage
    from runner.forge.merged import MergedPullRequest
    from runner.forge.numbers import MessageNumbers, PlanNumbers
    from runner.forge.repository import Repository

    _Result = TypeVar("_Result")

_RIGHTS = "give the job's token the permissions `actions: read`, `contents: read` and `pull-requests: read`"


@dataclass(frozen=True, slots=True)
class Sending:
    """What is to be sent of a campaign.

    Attributes:
        name: the campaign's.
        margin: how far it may go beyond what was reviewed.
        to_send: recipients to send to now, by message.
        pending: those, and who may get it later.
    """

    name: str
    margin: Fraction
    to_send: Mapping[str, int]
    pending: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class MergeReview:
    """A merged pull request, as far as it is asked about.

    Attributes:
        pull: which one.
        reviewers: who approved it.
        said: what its comments said of the plan.
    """

    pull: MergedPullRequest
    reviewers: tuple[str, ...]
    said: tuple[PlanNumbers, ...]

    def find_growth(self, sendings: Sequence[Sending]) -> dict[str, str]:
        """Return in words which campaigns go beyond what the comments said, by their names.

        Args:
            sendings: what is to be sent.
        """
        listed = [numbers.campaigns for numbers in self.said if numbers.campaigns is not None]
        found, unlisted = {}, []
        for one in sendings:
            # Of a campaign that several comments tell of, each has to have said enough.
            told = [campaigns[name] for campaigns in listed if (name := hide_phones(one.name)) in campaigns]
            if not told and len(listed) < len(self.said):
                unlisted.append(one)
            elif gaps := list(self._find_gaps(one, told)):
                found[one.name] = "; ".join(gaps)
        return found | self._compare_sums(unlisted)

    def _find_gaps(self, one: Sending, told: Sequence[Mapping[str, MessageNumbers]]) -> Iterator[str]:
        for message, pending in one.pending.items():
            numbers = (messages.get(hide_phones(message)) for messages in told)
            counts = (0 if said is None else said.to_send + said.later for said in numbers)
            reviewed = min(counts, default=0)
            if pending > reviewed + int(reviewed * one.margin):
                yield (
                    f"`{message}` may reach {pending:,} more, and the comment on #{self.pull.number} "
                    f"said {reviewed:,}"
                )

    def _compare_sums(self, sendings: Sequence[Sending]) -> dict[str, str]:
        # Of very many campaigns a comment has room for the sum alone.
        sums = [numbers for numbers in self.said if numbers.campaigns is None]
        reviewed = sum(numbers.to_send + numbers.later for numbers in sums)
        total = sum(sum(one.pending.values()) for one in sendings)
        if total <= reviewed + int(reviewed * DEFAULT_REVIEW_MARGIN):
            return {}
        words = (
            f"the plan may send {total:,} texts in the end, and the comment on #{self.pull.number} said "
            f"{reviewed:,}"
        )
        return {one.name: words for one in sendings}


def ask_forge(work: Callable[[Repository], _Result]) -> _Result:
    """Ask this job's forge something.

    Args:
        work: asks it.

    Raises:
        RunnerError: this is no job, or the forge doesn't tell.
    """
    try:
        repository = open_repository(read_forge_job(os.environ))
        return try_on_forge(lambda: work(repository))
    except NoJobError as error:
        raise RunnerError(f"who approved this is not known: {error}") from None
    except RefusedError as error:
        reason = f"{error.status}: {printable(error.reason)}"
        raise RunnerError(f"the forge does not tell who approved this ({reason})", hint=_RIGHTS) from None
    except UnavailableError as error:
        api_url = os.environ.get("GITHUB_API_URL") or DEFAULT_API
        raise RunnerError(
            f"who approved this is not known: {api_url} was asked in vain: {error.reason}",
            hint="run the job again",
        ) from None


def read_merge_review(repository: Repository, target: str) -> MergeReview | None:
    """Return what the forge has of the pull request that brought what is checked out; None without one.

    Args:
        repository: the campaigns'.
        target: the target's name.

    Raises:
        RefusedError: the token may not know.
        UnavailableError: the forge cannot be asked.
    """
    commit, branch = _find_commit(), os.environ.get("GITHUB_REF_NAME", "")
    pull = find_merged(repository, commit, branch) if commit and branch else None
    if pull is None:
        return None
    reviewers = list_reviewers(repository, pull)
    return MergeReview(pull, reviewers, tuple(list_said(repository, pull, target)))


def _find_commit() -> str:
    """Return the commit that is checked out: an old run that is run again has the tip of the branch."""
    try:
        root = find_work_tree(Path.cwd())
        answer = None if root is None else Git(root).ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitError:
        answer = None
    return answer.output.strip() if answer is not None and answer.status == 0 else ""


def add_growth(coverages: Sequence[Coverage]) -> list[Coverage]:
    """Return whether plans are covered, with a word on those that are larger than their pull request said.

    Whoever approves the plan has to know. In a job alone; a forge that does not tell stops no plan.

    Args:
        coverages: of the plans of one target.
    """
    needed = [coverage for coverage in coverages if coverage.status == "needed"]
    if not needed or not os.environ.get("GITHUB_TOKEN"):
        return list(coverages)
    target = needed[0].planned.target.name
    try:
        review = ask_forge(lambda repository: read_merge_review(repository, target))
    except RunnerError as error:
        note(f"The plan is not compared with its pull request's comment: {error.message}")
        review = None
    if review is None or not review.said:
        return list(coverages)
    growth = review.find_growth([describe_sending(coverage) for coverage in needed])
    return [_add(coverage, growth.get(coverage.planned.campaign.name)) for coverage in coverages]


def _add(coverage: Coverage, growth: str | None) -> Coverage:
    return coverage if growth is None else replace(coverage, gap=f"{coverage.gap}; {growth}")


def describe_sending(coverage: Coverage) -> Sending:
    """Return what a plan sends of a campaign."""
    item = coverage.planned
    return Sending(
        item.campaign.name,
        item.campaign.policy.review_margin,
        {message.id: message.to_send for message in item.plan.messages},
        {message.id: message.pending for message in item.plan.messages},
    )
