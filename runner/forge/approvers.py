"""Who approved what is about to be sent, as the forge tells: of a run, and of a pull request that was merged.

https://docs.github.com/rest/actions/workflow-runs#get-the-review-history-for-a-workflow-run,
https://docs.github.com/rest/pulls/reviews,
https://docs.github.com/rest/collaborators/collaborators#get-repository-permissions-for-a-user.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runner.forge.connection import look_up
from runner.forge.discussion import Discussion
from runner.forge.numbers import PlanNumbers, read_numbers
from runner.forge.repository import ACTIONS_BOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.forge.merged import MergedPullRequest
    from runner.forge.repository import Repository

ENVIRONMENT = "campaigns-approval"
"""The environment whose required reviewers approve plans."""
_LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)
_DECIDES = {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}
"""States of a review that take the place of an earlier one; a comment doesn't."""
_MAY_PUSH = {"admin", "write"}


def list_run_approvers(repository: Repository, run: str) -> tuple[str, ...]:
    """Return the logins of those who approved a workflow run, in order.

    Args:
        repository: where it runs.
        run: its id.

    Raises:
        RefusedError: the token may not know.
        UnavailableError: the forge cannot be asked.
    """
    approvals = repository.list_all(f"actions/runs/{run}/approvals")
    found = {_read_person(one) for one in approvals if look_up(one, "state") == "approved" and _is_ours(one)}
    return tuple(sorted(found - {""}))


def _is_ours(approval: Any) -> bool:
    environments = look_up(approval, "environments")
    return isinstance(environments, list) and any(look_up(one, "name") == ENVIRONMENT for one in environments)


def list_reviewers(repository: Repository, pull: MergedPullRequest) -> tuple[str, ...]:
    """Return the logins of those who approved what a pull request brought, in order.

    They are people with the right to push, none of them its author, whose last word is an approval of its
    last commit: what was pushed after a review, nobody has approved.

    Args:
        repository: of the pull request.
        pull: which one.

    Raises:
        RefusedError: the token may not know.
        UnavailableError: the forge cannot be asked.
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
    return look_up(answer.data, "permission") in _MAY_PUSH


def _read_person(data: Any) -> str:
    """Return the login of the person in an answer; empty if it is none: an app approves nothing."""
    login, kind = look_up(data, "user", "login"), look_up(data, "user", "type")
    return login if isinstance(login, str) and kind == "User" and _LOGIN.fullmatch(login) else ""


def list_said(repository: Repository, pull: MergedPullRequest, target: str) -> Iterator[PlanNumbers]:
    """Yield what the comments on a pull request say of the plan.

    Only comments that a job has made count: a person's may say anything.

    Args:
        repository: of the pull request.
        pull: which one.
        target: the target's name.

    Raises:
        RefusedError: the token may not know.
        UnavailableError: the forge cannot be asked.
    """
    authors = {ACTIONS_BOT, repository.find_login()}
    for comment in Discussion(repository, pull.number).list_comments():
        numbers = read_numbers(comment.body) if comment.author in authors else None
        if numbers is not None and numbers.target == target:
            yield numbers
