"""Merged pull requests, the people who approved them or a run, and the numbers that their comments told.

A plan's numbers are in a hidden line of its comment. Reviewers have seen them; a later plan that sends more
was not reviewed. What asks GitHub raises the errors of `Repository.ask`.

https://docs.github.com/rest/commits/commits,
https://docs.github.com/rest/actions/workflow-runs#get-the-review-history-for-a-workflow-run,
https://docs.github.com/rest/deployments/environments#get-an-environment,
https://docs.github.com/rest/pulls/reviews,
https://docs.github.com/rest/collaborators/collaborators#get-repository-permissions-for-a-user.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any

from runner.github.comments import Count, convert, list_comments, read_hidden, write_hidden
from runner.github.rest import ACTIONS_BOT, RefusedError, look_up, read_sha

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.github.rest import Repository


LONGEST_LINE = 30_000
"""Most characters of the line; longer ones are left out."""
_NUMBERS = "runner-numbers"


@dataclass(frozen=True, slots=True)
class PlanNumbers:
    """The counts of a plan in a comment: people by message, now or later.

    `campaigns` has the counts by campaign name and message id; a message that is not listed has none.
    """

    target: str
    campaigns: dict[str, dict[str, Count]]


def write_numbers(numbers: PlanNumbers) -> str:
    """Return the line with the numbers, which belongs right below the comment's marker; empty if too long."""
    line = write_hidden(_NUMBERS, asdict(numbers))
    return line if len(line) <= LONGEST_LINE else ""


def read_numbers(body: str) -> PlanNumbers | None:
    """Return the numbers of a comment's Markdown; None if it has none that can be read."""
    data = read_hidden(_NUMBERS, body)
    return None if data is None else convert(data, PlanNumbers)


RECORD_TRAILER = "Campaigns-Commit"
"""What every commit of the record says, and no other."""
_IS_RECORD = re.compile(rf"^{RECORD_TRAILER}: [0-9a-f]{{7,64}}$", re.MULTILINE)
_MOST_RECORDS = 100
_MOST_OTHERS = 50


@dataclass(frozen=True, slots=True)
class MergedPullRequest:
    """A merged pull request.

    Attributes:
        url: its page.
        author: the author's login.
        head: the last commit of its branch.
        merged_at: UTC, ISO 8601.
    """

    number: int
    url: str
    author: str
    head: str
    branch: str
    merged_at: str


def find_merged(repository: Repository, commit: str, branch: str) -> MergedPullRequest | None:
    """Return the pull request whose merge last changed the campaigns at a commit of a branch, or None.

    None means that the last push had no pull request. Commits of the record are skipped.
    """
    for sha, is_record in islice(_list_commits(repository, commit), _MOST_RECORDS):
        merged = _find_merge(repository, sha, branch)
        if merged is not None:
            return merged
        # A commit with a pull request belongs to that, whatever its message.
        if not is_record:
            return None
    return None


def find_last_change(
    repository: Repository, commit: str, branch: str, is_meant: Callable[[str], bool]
) -> MergedPullRequest | None:
    """Return the last merged pull request that changed certain files; None if there is none.

    Later merges of other files, pushes without pull request, and merges of the record don't count.

    Args:
        repository: the campaigns'.
        commit: the job's.
        branch: the commit's.
        is_meant: returns whether a file is one of them.
    """
    others = (sha for sha, is_record in _list_commits(repository, commit) if not is_record)
    for sha in islice(others, _MOST_OTHERS):
        merged = _find_merge(repository, sha, branch)
        if merged is not None and _changes(repository, merged, is_meant):
            return merged
    return None


def _list_commits(repository: Repository, commit: str) -> Iterator[tuple[str, bool]]:
    """Yield a commit and the earlier ones, each with whether it belongs to the record."""
    for data in repository.list_all(f"commits?sha={commit}"):
        if sha := read_sha(look_up(data, "sha")):
            yield sha, _IS_RECORD.search(str(look_up(data, "commit", "message") or "")) is not None


def _find_merge(repository: Repository, sha: str, branch: str) -> MergedPullRequest | None:
    for pull in repository.list_all(f"commits/{sha}/pulls"):
        number, url, merged_at = (look_up(pull, name) for name in ("number", "html_url", "merged_at"))
        is_merge = isinstance(merged_at, str) and look_up(pull, "merge_commit_sha") == sha
        if is_merge and look_up(pull, "base", "ref") == branch and isinstance(number, int):
            return MergedPullRequest(
                number,
                str(url or ""),
                str(look_up(pull, "user", "login") or ""),
                read_sha(look_up(pull, "head", "sha")),
                str(look_up(pull, "head", "ref") or ""),
                merged_at,
            )
    return None


def _changes(repository: Repository, pull: MergedPullRequest, is_meant: Callable[[str], bool]) -> bool:
    files: Iterator[Any] = repository.list_all(f"pulls/{pull.number}/files")
    return any(is_meant(str(look_up(data, "filename") or "")) for data in files)


ENVIRONMENT = "campaigns-approval"
"""The environment whose required reviewers approve plans."""
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)
_DECIDES = {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}
"""States of a review that replace an earlier one; a comment doesn't."""
_MAY_PUSH = {"admin", "write"}


def has_reviewers(repository: Repository) -> bool:
    """Return whether the environment for approvals has required reviewers at this moment."""
    try:
        answer = repository.ask("GET", f"environments/{ENVIRONMENT}")
    except RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    rules = look_up(answer, "protection_rules")
    return isinstance(rules, list) and any(
        look_up(rule, "type") == "required_reviewers" and look_up(rule, "reviewers") for rule in rules
    )


def count_decisions(repository: Repository, run: str) -> Counter[tuple[str, str]]:
    """Return how often each person decided on a workflow run, by state and login.

    All attempts of a run share one list, and GitHub gives no times: only the counts tell new decisions from
    old ones.
    """
    decisions = repository.list_all(f"actions/runs/{run}/approvals")
    found = ((str(look_up(one, "state")), _read_person(one)) for one in decisions if _is_ours(one))
    return Counter((state, login) for state, login in found if login)


def find_waiting_run(repository: Repository, digest: str, own: str) -> str | None:
    """Return the page of another workflow run that waits for the approval of the same plan; None without one.

    Its job that waits has the plan's digest in its name.
    """
    runs = look_up(repository.ask("GET", "actions/runs?status=waiting&per_page=100"), "workflow_runs")
    for run in runs if isinstance(runs, list) else ():
        number = str(look_up(run, "id"))
        if number == own:
            continue
        jobs = look_up(repository.ask("GET", f"actions/runs/{number}/jobs?per_page=100"), "jobs")
        for job in jobs if isinstance(jobs, list) else ():
            if look_up(job, "status") == "waiting" and digest in str(look_up(job, "name")):
                return str(look_up(run, "html_url") or number)
    return None


def _is_ours(approval: Any) -> bool:
    environments = look_up(approval, "environments")
    return isinstance(environments, list) and any(look_up(one, "name") == ENVIRONMENT for one in environments)


def list_reviewers(repository: Repository, pull: MergedPullRequest) -> tuple[str, ...]:
    """Return the sorted logins of the people who approved a pull request.

    They have the right to push, are not its author, and their last review approves its last commit: commits
    after a review are not approved.
    """
    last: dict[str, Any] = {}
    for review in repository.list_all(f"pulls/{pull.number}/reviews"):
        if look_up(review, "state") in _DECIDES:
            last[_read_person(review)] = review
    approving = {
        login
        for login, review in last.items()
        if look_up(review, "state") == "APPROVED" and look_up(review, "commit_id") == pull.head
    }
    return tuple(login for login in sorted(approving - {"", pull.author}) if _may_push(repository, login))


def _may_push(repository: Repository, login: str) -> bool:
    answer = repository.ask("GET", f"collaborators/{login}/permission")
    return look_up(answer, "permission") in _MAY_PUSH


def _read_person(data: Any) -> str:
    """Return the login of the person in an answer; empty for an app, which approves nothing."""
    login, kind = look_up(data, "user", "login"), look_up(data, "user", "type")
    return login if isinstance(login, str) and kind == "User" and _LOGIN.fullmatch(login) else ""


def list_said(repository: Repository, pull: MergedPullRequest, target: str) -> Iterator[PlanNumbers]:
    """Yield the plan numbers in the comments on a pull request for a target.

    Only a job's comments count: a person's may say anything.
    """
    authors = {ACTIONS_BOT, repository.find_login()}
    for comment in list_comments(repository, pull.number):
        numbers = read_numbers(comment.body) if comment.author in authors else None
        if numbers is not None and numbers.target == target:
            yield numbers
