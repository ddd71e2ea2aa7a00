"""The current CI job and its pull request.

https://docs.github.com/actions/reference/variables-reference, and for the event's file
https://docs.github.com/webhooks/webhook-events-and-payloads#pull_request.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.github.rest import is_safe_address, look_up, read_sha

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_API = "https://api.github.com"
DEFAULT_SERVER = "https://github.com"
_HELPER = '!f() { test "$1" = get && echo username=x-access-token && echo "password=$GITHUB_TOKEN"; }; f'
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class NoJobError(Exception):
    """No job of GitHub, or no access to it; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class GitHubJob:
    """A job with the right to ask GitHub.

    Attributes:
        api_url: of the REST API.
        repository: as in `owner/name`.
        token: never shown.
        commit: the job's; empty if unknown.
        number: of the job's pull request; 0 if there is none.
        head: the commit of the pull request that started the job; empty if unknown.
    """

    api_url: str
    repository: str
    token: str = field(repr=False)
    commit: str
    number: int
    head: str


def read_github_job(environment: Mapping[str, str]) -> GitHubJob:
    """Return the job and its access to GitHub, from environment variables.

    Raises:
        NoJobError: there is no job, or it has no token.
    """
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.fullmatch(repository):
        raise NoJobError("this is no job of GitHub")
    token = environment.get("GITHUB_TOKEN")
    if not token:
        raise NoJobError(
            "there is no GITHUB_TOKEN: hand it to the step with `env: {GITHUB_TOKEN: ${{ github.token }}}`"
        )
    api_url = environment.get("GITHUB_API_URL") or DEFAULT_API
    if not is_safe_address(api_url):
        raise NoJobError("GITHUB_API_URL would send the token unencrypted")
    request = _read_pull_request(environment)
    number, head = look_up(request, "number"), read_sha(look_up(request, "head", "sha"))
    commit = read_sha(environment.get("GITHUB_SHA"))
    return GitHubJob(api_url, repository, token, commit, number if type(number) is int else 0, head)


def is_of_pull_request(environment: Mapping[str, str]) -> bool:
    """Return whether a job runs for a pull request, or for a merge request of GitLab."""
    is_gitlab = bool(environment.get("CI_MERGE_REQUEST_IID"))
    return is_gitlab or isinstance(_read_pull_request(environment), dict)


def find_git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that give git the job's token for the job's own server alone.

    The token is in no file and on no command line: git's helper reads it from the environment. So fetching
    works in checkouts without credentials. Settings of git in the environment stay as they are.
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


def read_inputs(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what somebody has filled in to start a job by hand (`workflow_dispatch`); else nothing."""
    inputs = look_up(_read_event(environment), "inputs")
    return {name: value for name, value in inputs.items() if isinstance(value, str)} if inputs else {}


def _read_pull_request(environment: Mapping[str, str]) -> Any:
    """Return the pull request of the job's event as GitHub wrote it; None if there is none."""
    return look_up(_read_event(environment), "pull_request")


def _read_event(environment: Mapping[str, str]) -> Any:
    file = environment.get("GITHUB_EVENT_PATH")
    try:
        return json.loads(Path(file).read_text(encoding="utf-8")) if file else None
    except (OSError, ValueError):
        return None
