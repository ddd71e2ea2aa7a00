"""What a CI job says of the pull request that it runs for.

https://docs.github.com/actions/reference/variables-reference, and for the event's file
https://docs.github.com/webhooks/webhook-events-and-payloads#pull_request.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.forge.connection import is_safe_address, look_up

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_API = "https://api.github.com"
DEFAULT_SERVER = "https://github.com"
_HELPER = '!f() { test "$1" = get && echo username=x-access-token && echo "password=$GITHUB_TOKEN"; }; f'
_DEPENDABOT = "dependabot[bot]"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class NoPullRequestError(Exception):
    """There is no pull request to comment on, or no way to do so; says in words why."""


@dataclass(frozen=True, slots=True)
class PullRequestJob:
    """A job for a pull request, with the right to ask its forge.

    Attributes:
        api_url: of the REST API.
        repository: as in `owner/name`.
        number: of the pull request.
        head: the commit that the job was started for; empty if the event doesn't say.
        token: never shown.
    """

    api_url: str
    repository: str
    number: int
    head: str
    token: str = field(repr=False)


def read_pull_request_job(environment: Mapping[str, str]) -> PullRequestJob:
    """Return what GitHub tells a job of its pull request.

    Args:
        environment: the process's.

    Raises:
        NoPullRequestError: it is no such job, or it has no token.
    """
    event = _read_event(environment.get("GITHUB_EVENT_PATH"))
    request = event.get("pull_request")
    number = request.get("number") if isinstance(request, dict) else None
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not isinstance(number, int) or not _REPOSITORY.fullmatch(repository):
        raise NoPullRequestError("this is no job of a pull request")
    token = environment.get("GITHUB_TOKEN")
    if not token:
        raise NoPullRequestError(
            "there is no GITHUB_TOKEN: hand it to the step with `env: {GITHUB_TOKEN: ${{ github.token }}}`"
        )
    api_url = environment.get("GITHUB_API_URL") or DEFAULT_API
    if not is_safe_address(api_url):
        raise NoPullRequestError("GITHUB_API_URL would send the token unencrypted")
    return PullRequestJob(api_url, repository, number, _read_head(request), token)


def is_of_pull_request(environment: Mapping[str, str]) -> bool:
    """Return whether a job runs for a pull request."""
    return isinstance(_read_event(environment.get("GITHUB_EVENT_PATH")).get("pull_request"), dict)


def lacks_secrets(environment: Mapping[str, str]) -> bool:
    """Return whether a job runs for a pull request that gets no secrets: a fork's, or one of Dependabot's."""
    request = _read_event(environment.get("GITHUB_EVENT_PATH")).get("pull_request")
    repositories = [look_up(request, side, "repo", "full_name") for side in ("head", "base")]
    # A fork that was deleted meanwhile has no name any more.
    is_from_fork = request is not None and repositories[0] != repositories[1]
    return is_from_fork or environment.get("GITHUB_ACTOR") == _DEPENDABOT


def find_git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which git asks the job's own forge with the job's token, and nobody else.

    The token stands in no file and on no command line: git's helper reads it from the environment. Checkouts
    that keep no credentials can be fetched into in this way.

    Args:
        environment: the process's; settings of git that it has already stay alone.
    """
    server = environment.get("GITHUB_SERVER_URL") or DEFAULT_SERVER
    is_own = environment.get("GITHUB_ACTIONS") == "true" and environment.get("GITHUB_TOKEN")
    if not is_own or "GIT_CONFIG_COUNT" in environment or not is_safe_address(server):
        return {}
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"credential.{server.rstrip('/')}.helper",
        "GIT_CONFIG_VALUE_0": _HELPER,
    }


def _read_event(file: str | None) -> dict[str, Any]:
    try:
        event = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    except (OSError, ValueError):
        return {}
    return event if isinstance(event, dict) else {}


def _read_head(request: Any) -> str:
    head = look_up(request, "head", "sha")
    return head if isinstance(head, str) and re.fullmatch(r"[0-9a-f]{7,64}", head) else ""
