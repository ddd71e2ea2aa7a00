"""Finds the pull request that brought what a job sends (https://docs.github.com/rest/commits/commits)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.forge.connection import look_up
from runner.forge.repository import read_sha

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runner.forge.repository import Repository

MOST_COMMITS = 50
"""Commits whose pull request is asked for."""


@dataclass(frozen=True, slots=True)
class MergedPullRequest:
    """A pull request that was merged.

    Attributes:
        number: its number.
        merged_at: UTC, ISO 8601.
    """

    number: int
    merged_at: str


def find_merged(
    repository: Repository,
    commit: str,
    is_record: Callable[[str], bool],
    is_meant: Callable[[str], bool],
    aside: str,
) -> MergedPullRequest | None:
    """Return the last merged pull request before a commit that changed certain files; None if there is none.

    Args:
        repository: the repository.
        commit: the commit.
        is_record: returns whether a commit with a message is a record of what was sent, which is passed over.
        is_meant: returns whether a file is one of them.
        aside: the branch that records are merged from, which is passed over, too.

    Raises:
        RefusedError: the token has no right to read the commits.
        UnavailableError: the forge cannot be asked.
    """
    asked, seen = 0, set[int]()
    for data in repository.list_all(f"commits?sha={commit}"):
        sha = read_sha(look_up(data, "sha"))
        if not sha or is_record(str(look_up(data, "commit", "message") or "")):
            continue
        asked += 1
        if asked > MOST_COMMITS:
            return None
        for pull in sorted(_list_merged(repository, sha, aside), key=lambda one: one.merged_at, reverse=True):
            if pull.number not in seen and _changes(repository, pull, is_meant):
                return pull
            seen.add(pull.number)
    return None


def _list_merged(repository: Repository, sha: str, aside: str) -> Iterator[MergedPullRequest]:
    for data in repository.list_all(f"commits/{sha}/pulls"):
        number, merged_at = look_up(data, "number"), look_up(data, "merged_at")
        is_record = look_up(data, "head", "ref") == aside
        if isinstance(number, int) and isinstance(merged_at, str) and not is_record:
            yield MergedPullRequest(number, merged_at)


def _changes(repository: Repository, pull: MergedPullRequest, is_meant: Callable[[str], bool]) -> bool:
    files: Iterator[Any] = repository.list_all(f"pulls/{pull.number}/files")
    return any(is_meant(str(look_up(data, "filename") or "")) for data in files)
